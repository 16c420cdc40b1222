#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# startup.sh - the programs where their caller left them little: a strict umask, descriptors 0 to 2 closed, hardly any
# descriptors. They serve, or a message says what to change, and nothing of theirs stays behind; what stayed of those that were
# killed is removed by the next start.
# shellcheck disable=SC2016 # what a check evaluates expands then, not before
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"
# shellcheck source=tests/own-brokerd.sh
. "$top_srcdir/tests/own-brokerd.sh"

run=${top_builddir:?}/broker/broker-run
client=$top_builddir/tests/integration/status-client

work=$(mktemp -d) || exit 1
name=startup-$$
status_file=/dev/shm/gpubroker.$name
cleanup() {
	[ -n "$broker" ] && kill -KILL "$broker"
	wait
	rm -rf "$work" "$status_file"*
} 2>/dev/null
trap cleanup EXIT
cd "$work" || exit 1
socket=$work/run/socket
export GPUBROKER=unix:$socket XDG_RUNTIME_DIR=$work
configure "drain_timeout = 10s"

# ---- umask ----

brokerd_mode() {
	start sh -c 'umask 077 && exec "$@"' - && stat -c %a "$status_file" >mode
	stops TERM 0 && [ "$(cat mode)" = 640 ]
}
run_mode() {
	(umask 077 && exec timeout -k 5 20 "$run" --device host --name "$name" -- stat -c %a "$status_file" >out 2>err </dev/null) &&
		[ "$(cat out)" = 640 ]
}
check "umask 077: brokerd's status file is its group's to read" brokerd_mode
check "umask 077: broker-run's is, too" run_mode

# ---- descriptors 0 to 2 ----

# Something else at 2 would get the log; at 1 the output.
null_at() {
	local pid=$1 stream
	shift
	for stream; do
		[ "$(readlink "/proc/$pid/fd/$stream")" = /dev/null ] || return 1
	done
}
# Each program waits in the end of --help for room in a pipe, where it can be looked at.
mkfifo full
exec 7<>full
dd if=/dev/zero of=full oflag=nonblock bs=4096 2>/dev/null
filled() {
	local pid code
	"$top_builddir/broker/$1" --help >&7 <&- 2>&- &
	pid=$!
	soon null_at $pid 0 2
	code=$?
	kill -KILL $pid
	wait $pid 2>/dev/null
	return $code
}
for program in broker-run brokerd broker-status broker-ctl; do
	check "$program has /dev/null where 0 and 2 were closed" filled $program
done
exec 7>&-

brokerd_closed() {
	launch sh -c 'exec "$@" <&- >&- 2>&-' -
	soon test -S "$socket"
	timeout -s KILL 20 "$client" create x 1 acquire x unlink x >out 2>err </dev/null && null_at "$broker" 0 1 2 && stops TERM 0
}
run_closed() {
	# a worker has them too
	timeout -k 5 20 "$run" --device host --name "$name" -- sh -c 'readlink "/proc/$PPID/fd/0" "/proc/$PPID/fd/1" "/proc/$PPID/fd/2" \
		/proc/self/fd/0 /proc/self/fd/2 >links' <&- >&- 2>&- && [ "$(uniq links)" = /dev/null ]
}
check "brokerd with all three closed serves" brokerd_closed
check "broker-run with all three closed serves" run_closed
check "output to what was closed still fails" eval '! "$run" --help >&- 2>err && grep -q "cannot be written" err'

# ---- few descriptors ----

# few COUNT CODE PROGRAM ARGS...: with so many it ends with CODE and a message of its own, and leaves nothing
few() {
	local limit=$1 wanted=$2 code
	shift 2
	(
		exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&- # what the caller has open there
		ulimit -n "$limit" && exec timeout -k 5 20 "$@"
	) >out 2>err </dev/null
	code=$?
	[ $code = "$wanted" ] && grep -q "^${1##*/}: .*Too many open files" err && ! grep -q '^\[' err && [ -z "$(find /dev/shm /tmp -maxdepth 1 -name "gpubroker?$name*")$(ls -A run)" ]
}
# One of these limits is where libevent cannot go on.
for limit in {4..16}; do
	check "broker-run with $limit descriptors: exit 125 and why" few "$limit" 125 "$run" --device host --name "$name" -- true
	cat err >>all-run
done
for limit in 4 5 6 7 8 9; do
	check "brokerd with $limit: exit 1 and why" few $limit 1 "$brokerd" -c brokerd.conf
	cat err >>all-brokerd
done
check "where libevent ends broker-run, it says what to change" grep -q '^broker-run: .*event loop.*ulimit -n' all-run
check "and brokerd" grep -q '^brokerd: .*event loop.*ulimit -n' all-brokerd

# ---- directories of killed ones ----

# In /tmp the next broker of any other test would remove it as well. Brokers look for it in XDG_RUNTIME_DIR, too.
check "a broker-run's directory has a socket and a lock" eval 'timeout -k 5 20 "$run" -q --device host --name "$name" -- sh -c \
	"ls \"\$(dirname \"\${GPUBROKER#unix:}\")\"" >out 2>err && [ "$(tr "\n" " " <out)" = "lock socket " ]'
left=$work/gpubroker-$name.killed
mkdir -m 700 "$left" && touch "$left/lock" "$left/socket"
mkdir "gpubroker-$name.others" && touch "gpubroker-$name.others/socket"
check "the next one of another name removes that of a killed one, and keeps its own while it lives" timeout -k 5 20 \
	"$run" --quiet --device host --name "$name-2" -- sh -c '! test -e "$1" && "$2" --quiet --device host --name "$3" -- true &&
		test -S "${GPUBROKER#unix:}"' - "$left" "$run" "$name-3"
check "a directory without a lock is no broker's" test -e "gpubroker-$name.others/socket"
rm -r "gpubroker-$name.others"

check "nothing is left" test -z "$(find /dev/shm /tmp "$work" -maxdepth 1 -name "gpubroker*$name*")"

plan

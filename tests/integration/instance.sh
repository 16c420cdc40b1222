#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# instance.sh - a broker is found by the name of its instance: by every command of broker-ctl, in GPUBROKER, and by the
# library, where its status file says that it listens, or at a default socket. What a status file claims is not trusted.
# shellcheck disable=SC2016,SC2034 # what a check evaluates expands then, not before
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

built=$(cd "${top_builddir:?}" && pwd)
ctl=$built/broker/broker-ctl
run=$built/broker/broker-run
show=$built/broker/broker-status
client=$built/tests/integration/status-client
name=inst-$$
job=job-$$
work=$(mktemp -d) || exit 1
socket=$work/gpubroker/socket
# shellcheck source=tests/own-brokerd.sh
. "$top_srcdir/tests/own-brokerd.sh"
worker=''
end_job() {
	touch "$work/end"
	[ -z "$worker" ] || wait "$worker"
	worker=''
}
cleanup() {
	end_job
	[ -z "$broker" ] || stops KILL 137
	rm -rf "$work" /dev/shm/gpubroker."$name"* /dev/shm/gpubroker."$job"* /dev/shm/gpubroker.false-$$
} 2>/dev/null
trap cleanup EXIT
cd "$work" && mkdir -m 0755 gpubroker none || exit 1
unset GPUBROKER NVIDIA_DRA_LOCAL_IPC_DIR
export XDG_RUNTIME_DIR=$work/none

# fails TEXT COMMAND...: it fails, and says that
fails() {
	! "${@:2}" >out 2>err </dev/null && grep -qE "$1" err
}

# ---- a broker-run, from another terminal ----

"$run" -q --device host --name "$job" -n 1 -b u=1M -b v=f32[16] -- sh -c 'echo "$GPUBROKER" >address.new; mv address.new address
	while [ ! -e end ]; do sleep 0.02; done' 2>run.err &
worker=$!
soon test -e address || echo "Bail out! no broker: $(cat run.err)"
address=$(cat address)

check "broker-status shows where it listens" eval '"$show" "$job" >out 2>err && grep -qxF "listens at $address" out'
check "so does its JSON" eval '"$show" --json "$job" >out 2>err && grep -qF "\"address\": \"$address\"," out'
check "so does the list, if asked" eval '"$show" --list --columns instance,address >out 2>err && grep -qE "^$job +$address" out'
# its memory is freed a moment later
freed() {
	"$ctl" --address "$job" list >out && ! grep -q "^u " out && grep -q "^v " out
}
check "unlink" eval '"$ctl" --address "$job" unlink u && soon freed'
# all WORDS...: each is a command with its arguments
all() {
	local words
	for words in "$@"; do
		# shellcheck disable=SC2086 # several words
		"$ctl" --address "$job" $words >out 2>err || return
	done
}
check "create, resize, chmod, seal, rename, drain" all "create w 64K --reserve 1M" "resize w 128K" "chmod 0640 w" "seal w" "rename w x" "drain x"
check "load and save" eval 'head -c 1000 /dev/urandom >written && "$ctl" --address "$job" -q load f written &&
	"$ctl" --address "$job" -q save f - >read && cmp written read'
check "stat, sessions, quota, ticket" all "stat v" sessions quota "ticket v"
check "doctor" eval '"$ctl" --address "$job" doctor >out 2>err; grep -q "^ok: the broker .$job. answers at ${address#unix:}" out'
check "events" eval '"$ctl" --address "$job" events >out 2>err && grep -q "unlinked .*u" out'
check "GPUBROKER names it, for every program" eval 'GPUBROKER=$job "$client" create y 1 acquire y unlink y && GPUBROKER=$job "$ctl" stat v >out 2>err'

# ---- names of none ----

# The list is cut where many brokers run.
listed="(.*$job|.{95})"
check "without any address: which ones run, and how to name one" fails \
	"no broker is known: these run here, .* GPUBROKER may name one: $listed" "$ctl" list
check "the same from the library" fails "no broker is known: these run here, of which GPUBROKER may name one: $listed" "$client" create z 1
check "a name that no broker has" fails "no broker is named 'nobody-$$' here; these run: $listed" "$ctl" --address "nobody-$$" list
check "what is neither an address nor a name" fails "'some/where' is no broker's address or name: write unix:PATH" "$ctl" --address some/where list

# ---- a status file that anybody wrote ----

# held COMMAND...: with a copy of the job's status file under another name, which has a lock as a living broker's has
held() {
	python3 - "/dev/shm/gpubroker.$job" "/dev/shm/gpubroker.false-$$" "$@" <<'P'
import fcntl, os, struct, subprocess, sys
fd = os.open("/dev/shm", os.O_TMPFILE | os.O_RDWR, 0o640)
fcntl.fcntl(fd, 37, struct.pack("hhqqi4x", 1, 0, 0, 0, 0))  # F_OFD_SETLK, F_WRLCK
os.write(fd, open(sys.argv[1], "rb").read())
os.link(f"/proc/self/fd/{fd}", sys.argv[2], src_dir_fd=os.open("/", os.O_PATH), follow_symlinks=True)
sys.exit(subprocess.call(sys.argv[3:], close_fds=True))
P
}
if command -v python3 >/dev/null; then
	check "another broker at that address is not the one that was named" fails \
		"no broker is named 'false-$$' here that this user can find: the one at $address is '$job'" \
		held "$ctl" --address false-$$ list
else
	skip "another broker at that address is not the one that was named" "no python3"
fi
end_job
check "a broker that has ended" fails "no broker is named '$job' here" "$ctl" --address "$job" list

# ---- a user who may not read the status file ----

configure ''
# shellcheck disable=SC2119 # it may be given a command
start || echo "Bail out! no broker: $(cat err)"
if [ "$(id -u)" = 0 ] && cp "$ctl" "$work/ctl" 2>/dev/null && chmod 711 "$work" && chmod 755 "$work/ctl" &&
	setpriv --reuid 65534 --regid 65534 --clear-groups "$work/ctl" --version >/dev/null 2>&1; then
	other() {
		setpriv --reuid 65534 --regid 65534 --clear-groups "$work/ctl" "$@"
	}
	check "another user, whom the status file refuses, finds it at the default socket" eval \
		'XDG_RUNTIME_DIR=$work other --address "$name" list >out 2>err'
	check "but not by another name" fails "the one at unix:$socket is '$name'" env XDG_RUNTIME_DIR="$work" \
		setpriv --reuid 65534 --regid 65534 --clear-groups "$work/ctl" --address nobody list
	check "without one it is told why" fails "the status file of the broker '$name' is not for this user" other --address "$name" list
else
	for text in "another user, whom the status file refuses, finds it at the default socket" "but not by another name" "without one it is told why"; do
		skip "$text" "needs root, and programs that others may run"
	done
fi
check "its own user finds it anywhere" eval '"$ctl" --address "$name" list >out 2>err'
stops TERM 0
plan

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run-ends.sh - what broker-run says of workers that fail and of memory that is not returned, word by word; the words behind a
# buffer's size.
# shellcheck disable=SC2016,SC2034 # what a check evaluates, and the workers' shells, expand then, not before
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

run=${top_builddir:?}/broker/broker-run
show=$top_builddir/broker/broker-status
client=$top_builddir/tests/integration/status-client
work=$(mktemp -d) || exit 1
trap 'touch "$work/end"; wait; rm -rf "$work"' EXIT
cd "$work" || exit 1
name=ends-$$
export CUDA_MPS_PIPE_DIRECTORY=$work/none client show name

# exits CODE ARGS...: leaves out and err
exits() {
	local code=$1
	shift
	timeout -k 5 30 "$run" --device host --name "$name" "$@" >out 2>err </dev/null
	[ $? = "$code" ]
}

said() {
	grep -qE -e "$1" err
}

# told LINE...: the whole of stderr, a pattern a line, without the first line and the account. Other tests' brokers die meanwhile.
told() {
	grep -v 'removed what the dead broker' err | sed '1d; $d; s/^broker-run: //' >lines
	[ "$(wc -l <lines)" = $# ] || return 1
	local line
	while read -r line; do
		[[ $line =~ ^$1$ ]] || { echo "# '$line' is not '$1'" && return 1; }
		shift
	done <lines
}

# ---- workers that fail ----

age='[0-9]+\.[0-9] s'
by_rank='case $GPUBROKER_RANK in'
check "a worker that fails: its rank, pid, status and age" eval 'exits 2 -- sh -c "exit 2" &&
	told "worker 0 \(pid [0-9]+\) ended with status 2 after $age"'
check "one that a signal kills: its name" eval '(ulimit -c 0; exits 139 -- sh -c "kill -SEGV \$\$") &&
	told "worker 0 \(pid [0-9]+\) was killed by SIGSEGV after $age"'
check "also of those that have none" eval 'exits 162 -- sh -c "kill -34 \$\$" &&
	told "worker 0 \(pid [0-9]+\) was killed by signal 34 after $age"'
check "SIGKILL: where to look if nobody sent it" eval 'exits 137 -- sh -c "kill -KILL \$\$" &&
	told "worker 0 \(pid [0-9]+\) was killed by SIGKILL after $age; if nobody sent that, the machine or its cgroup was out of memory: see dmesg\(1\)"'
# whether a core is dumped is the machine's choice
core() {
	(ulimit -c unlimited 2>/dev/null; exits 139 -- sh -c 'kill -SEGV $$') && said 'was killed by SIGSEGV( \(core dumped\))? after '
}
check "a core, where there is one, is named" core
check "its age is from its command's start" eval 'exits 1 -- sh -c "sleep 1.2; exit 1" && said "ended with status 1 after [1-9][0-9]*\.[0-9] s$"'
check "several: each its line, and at the end which was the first" eval 'exits 7 -n 3 -- sh -c "$by_rank
	0) until [ -e first ]; do sleep 0.01; done; sleep 0.3; exit 9 ;; 1) touch first; exit 7 ;; esac"
	told "worker 1 \(pid [0-9]+\) ended with status 7 after $age" "worker 0 \(pid [0-9]+\) ended with status 9 after $age" \
		"2 of 3 workers failed, the first of them: worker 1 \(pid [0-9]+\) ended with status 7 after $age"'
rm -f first
check "--kill-on-failure: who was first, and that the others ended by it" eval 'exits 3 -n 3 --kill-on-failure -- sh -c "$by_rank
	1) until [ -e 0 ] && [ -e 2 ]; do sleep 0.01; done; exit 3 ;; *) touch \$GPUBROKER_RANK; exec sleep 19 ;; esac"
	said "^broker-run: worker 1 \(pid [0-9]+\) ended with status 3 after $age$" &&
	said "^broker-run: worker 1 failed first: ending the other 2 \(--kill-on-failure\)$" &&
	said "^broker-run: worker 0 \(pid [0-9]+\) was ended by broker-run after $age$" &&
	said "^broker-run: worker 2 \(pid [0-9]+\) was ended by broker-run after $age$" && ! said "workers failed"'
rm -f 0 2
check "one that fails in its own way then is named as failed" eval 'exits 3 -n 2 --kill-on-failure -- sh -c "$by_rank
	0) until [ -e 1 ]; do sleep 0.01; done; exit 3 ;; *) trap \"exit 5\" TERM; touch 1; while :; do sleep 0.01; done ;; esac"
	said "worker 1 \(pid [0-9]+\) ended with status 5 after" && said "2 of 2 workers failed, the first of them: worker 0 "'
rm -f 1
check "the last one: nobody is ended" eval 'exits 3 --kill-on-failure -- sh -c "exit 3" && ! said ending'

# ---- the words behind a buffer's size ----

# property KEY VALUE BUFFER: what broker-status has of the buffer u
property() {
	exits 0 -b "$3" -- sh -c 'timeout 20 "$show" --json "$name"' && grep -q "\"$1\": $2" out
}
check "a buffer has no timeline" property timeline false u=1M
check "unless its declaration says so" property timeline true u=1M,timeline
check "and mode 0600" property mode $((0600)) u=1M
check "or another one" property mode $((0640)) u=1M@0,mode=0640
check "and with a reserve it may grow" eval 'property growable true u=1,reserve=4M && property growable false u=1'
check "and with dedicated its own allocation" property alone true u=1,dedicated
check "several words, in any order" eval 'property mode $((0444)) u=64K,mode=0444,dedicated,timeline && grep -q "\"timeline\": true" out'
for word in timelines mode mode=999 mode= reserve reserve= reserve=some '' TIMELINE 'timeline,' ',timeline' "mode=0600@1" "$(printf 't%.0s' {1..99})"; do
	check "-b u=1M,$word: exit 125" eval 'exits 125 -b "u=1M,$word" -- touch ran && [ ! -e ran ] && [ "$(wc -l <err)" = 1 ]'
done
check "a reserve below the size: exit 125, and why" eval 'exits 125 -b u=1M,reserve=1 -- touch ran && [ ! -e ran ] && [ "$(wc -l <err)" = 1 ] &&
	said "^broker-run: of the buffer .u. the reserve is less than the size: "'
check "an unknown word: which there are" eval 'exits 125 -b u=1M,timelin -- true &&
	said "^broker-run: '"'timelin'"' cannot stand behind a buffer.s size: write timeline, dedicated, same-address, mode=0640 or reserve=4G$"'

# ---- memory that is not returned ----

# holds OPTION...: a broker-run, $broker, whose worker ends when a client, $holder, that it did not start maps u, and v if it is
# there; the client ends when there is a file named end
holds() {
	rm -f address end held
	"$run" --device host --name "$name" "$@" -- sh -c \
		'echo "$GPUBROKER" >address.new; mv address.new address; until [ -e held ]; do sleep 0.02; done' >out 2>err </dev/null &
	broker=$!
	soon test -e address
	# shellcheck disable=SC2046 # words
	GPUBROKER=$(cat address) "$client" acquire u $([ $# = 2 ] || echo acquire v) mark held wait end >client.out 2>&1 </dev/null &
	holder=$!
	soon test -e held
}
holds -b u=64M -b v=1M
holds='still maps 2 buffers, '"'[uv]'"' among them \(65 MiB\)'
check "a process that holds memory is named, with how to end it" eval 'soon said "^broker-run: waiting for [0-9]+ s: pid $holder \(status-client, uid $(id -u)\) $holds: end it \(kill $holder\), or interrupt broker-run to leave its memory to the driver$"'
check "at first after two seconds" eval '[ "$(grep -m 1 -o "waiting for [0-9]* s" err)" = "waiting for 2 s" ]'
check "and again when the wait has doubled" soon said 'waiting for 4 s: '
check "not in between" eval '! said "waiting for 3 s"'
kill -STOP "$holder"
check "what changes is told before that: it is stopped" eval 'soon said "^broker-run: waiting for [0-9]+ s: pid $holder \(status-client, uid $(id -u)\) $holds, and is stopped by a signal: let it go on \(kill -CONT $holder\), or end it \(kill -KILL $holder\)$"'
kill -CONT "$holder"
touch end
wait $broker
status=$?
check "when it has ended the account is balanced" eval '[ $status = 0 ] && said "balanced$" && ! said "NOT"'
holds -b u=1M
soon said 'waiting for 2 s: '
check "one buffer is named alone" said "still maps 'u' \(1 MiB\): "
kill -TERM $broker
wait $broker
check "a signal ends the wait: exit 125" [ $? = 125 ]
touch end

check "on the host device: no hint about MPS" eval 'exits 0 -n 2 -- true && ! said hint'
check "nothing is left in shared memory" test -z "$(find /dev/shm -name "*$name*")"
plan

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# owner.sh - the two processes of a broker: the broker's own has no device and no device memory, the owner's has nothing else; how
# each ends with the other; and that the next broker of the name can start at once.
# shellcheck disable=SC2016,SC2034,SC2119 # what a check evaluates expands then, not before; configure takes lines or none
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"
# shellcheck source=tests/own-brokerd.sh
. "$top_srcdir/tests/own-brokerd.sh"

ctl=$(cd "${top_builddir:?}" && pwd)/broker/broker-ctl
run=${ctl%-ctl}-run
client=${ctl%/broker/*}/tests/integration/status-client
name=owner-$$
owner=''
own_folder
trap 'own_cleanup' EXIT

# opens PID: what its descriptors are of, one in a line
opens() {
	find /proc/"$1"/fd -type l -printf '%l\n'
}

# maps PID: the files that it maps
maps() {
	awk 'NF > 5 { print $6 }' /proc/"$1"/maps
}

is_gone() {
	[ ! -d /proc/"$1" ] || grep -q '^State:	Z' /proc/"$1"/status 2>/dev/null
}

holds() {
	"$client" acquire "$1" mark held wait end >/dev/null 2>&1 </dev/null &
	soon test -e held
}

# ---- who has what ----

# device_files: what memory of the host device and a GPU look like among descriptors and maps
device_files='/dev/nvidia|/dev/dri|memfd:gpubroker\.mem|/gpubroker\.[^/ ]*\.mem'

for export in ipc vmm; do
	GPUBROKER_EXPORT=$export configure
	export GPUBROKER_EXPORT=$export
	check "$export: a broker starts" start
	owner=$(owner_of "$broker")
	check "it has one child, its owner" eval '[ -n "$owner" ] && [ "$(cat /proc/"$broker"/task/*/children)" = "$owner " ]'
	timeout 30 "$ctl" create memory 64K >said 2>&1
	check "a client maps memory" holds memory
	check "the owner has the memory's objects" eval 'opens "$owner" | grep -qE "$device_files"'
	if [ "$export" = ipc ]; then
		check "the broker has no descriptor of them" eval '! opens "$broker" | grep -E "$device_files" >&2'
	else
		check "the broker has one descriptor of each, for its clients" eval '[ "$(opens "$broker" | grep "memfd:" | grep -vcE "gpubroker-(board|timeline)")" = 1 ]'
	fi
	check "and maps none" eval '! maps "$broker" | grep -E "$device_files" >&2'
	check "the owner has three sockets, all of the broker: for its end, for the device, for questions" eval '[ "$(opens "$owner" | grep -c "^socket:")" = 3 ]'
	check "and none of the broker's files" eval '! opens "$owner" | grep -vE "$device_files" |
		grep -vE "^(socket:.*|/dev/null)$" | grep -vF "$work/err" >&2'
	check "it blocks the signals that a terminal or a job manager sends to everybody" eval '
		kill -INT "$owner" && kill -TERM "$owner" && kill -HUP "$owner" && sleep 0.2 && ! is_gone "$owner"'
	touch end
	wait "$(jobs -p | tail -n 1)" 2>/dev/null
	rm -f held end
	check "and ends with a broker that stops" eval 'stops TERM 0 && is_gone "$owner"'
	check "which leaves nothing in /dev/shm" eval '! ls -d /dev/shm/gpubroker."$name"* 2>/dev/null'
done
unset GPUBROKER_EXPORT

# ---- system calls ----

# env_start SETTING COMMAND...: start COMMAND, with a variable of the environment
env_start() {
	start env "$@"
}

if command -v strace >/dev/null && strace -o /dev/null true 2>/dev/null; then
	# without -f: the calls of the broker's process alone; where it is built with sanitizers, one cannot work under strace
	check "a broker under strace starts" env_start "ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=0" strace -qq -y -e trace=openat,open,mmap,ioctl -o calls
	traced=$(cat /proc/"$broker"/task/*/children)
	timeout 30 "$ctl" create memory 64K >said 2>&1
	check "a client maps memory" holds memory
	touch end
	kill -TERM "${traced%% *}"
	check "it ends" ended 0
	rm -f held end
	check "it opened no device and no memory" eval '[ -s calls ] && ! grep -E "$device_files" calls | grep -v O_DIRECTORY >&2'
else
	skip "the broker's system calls" "no strace that may trace"
fi

# ---- the owner's exit ----

# freed_memory: the path of the descriptor by which the owner keeps an eye on memory that it has freed
freed_memory() {
	find /proc/"$owner"/fd -type l -printf '%p %l\n' | sed -n 's/^\([^ ]*\) .*\.mem\/.* (deleted)$/\1/p' | head -n 1
}
wrote_late() {
	GPUB_HOST_STRICT=1 start && owner=$(owner_of "$broker") || return 1
	timeout 30 "$ctl" create late 64K >said 2>&1 && timeout 30 "$ctl" drain late >said 2>&1 || return 1
	soon test -n "$(freed_memory)" || return 1
	printf x | dd of="$(freed_memory)" conv=notrunc status=none
}
if [ "$(id -u)" = 0 ]; then
	printf 'device = host\ninstance = "%s"\nsocket = "%s"\npool = 0\n' "$name" "$socket" >brokerd.conf
	check "somebody writes into freed memory" wrote_late
	check "the owner finds that at its end, and the broker's exit status tells" stops TERM 1
	check "with the reason" eval 'grep -q "late write\|after its release\|was released" err && grep -q "did not end as it should" err'
	configure
else
	skip "somebody writes into freed memory" "only root can open what has no mode bits"
fi

# ---- the broker is killed ----

# a dead broker's owner that is still ending has the lock of the memory's names: the next broker of the name waits for it
mkdir "/dev/shm/gpubroker.$name.mem"
flock "/dev/shm/gpubroker.$name.mem" sleep 1 &
soon eval '! flock -n "/dev/shm/gpubroker.$name.mem" true'
check "while an owner is ending, the next broker waits" start
stops TERM 0

again() {
	local round
	for ((round = 0; round < 20; round++)); do
		start || return 1
		owner=$(owner_of "$broker")
		timeout 30 "$ctl" create memory 64K >said 2>&1 || return 1
		kill -KILL "$broker"
		ended 137
	done
	soon is_gone "$owner"
} 2>/dev/null
check "a broker that is killed takes its owner along, and the next one starts at once, 20 times" again
rm -rf /dev/shm/gpubroker."$name"*

# ---- the owner is killed ----

start
owner=$(owner_of "$broker")
timeout 30 "$ctl" create memory 64K >said 2>&1
holds memory
kill -KILL "$owner"
check "a broker whose owner is killed ends with status 1" ended 1
check "and says why, and what to do" grep -q 'the process that owns the device memory has ended.*start brokerd again' err
check "the event is in its log" grep -q "the process that owns the device memory (pid $owner) has ended before the broker" err
touch end
wait
rm -f held end
check "the next one starts" start
stops TERM 0

# run_loses_owner COMMAND...: broker-run with two workers, whose owner is killed when each has made a file inside/ready-RANK
run_loses_owner() {
	rm -rf inside
	mkdir inside
	timeout -k 5 60 "$run" --device host --name "$name-run" -n 2 -b shared=64K -- "$@" >out 2>err </dev/null &
	runner=$!
	soon test -e inside/ready-0 -a -e inside/ready-1 || return 1
	kill -KILL "$(owner_of "$(parent "$(cat inside/ready-0)")")"
	wait "$runner"
	[ $? = 125 ] && grep -q "the process that owns the device memory has ended" err
}
export client
check "broker-run then ends its workers, and exits with 125" run_loses_owner \
	sh -c 'echo $$ >inside/ready-$GPUBROKER_RANK; exec sleep 50'
check "also workers that map memory" run_loses_owner \
	sh -c 'echo $$ >inside/ready.new-$GPUBROKER_RANK; "$client" acquire shared mark inside/held-$GPUBROKER_RANK wait end &
		while [ ! -e inside/held-$GPUBROKER_RANK ]; do sleep 0.05; done; mv inside/ready.new-$GPUBROKER_RANK inside/ready-$GPUBROKER_RANK; wait'
touch end
check "and waits for one that ends in its own time" run_loses_owner \
	sh -c 'trap "sleep 0.5; touch inside/late; exit 3" TERM; echo $$ >inside/ready-$GPUBROKER_RANK; while :; do sleep 0.1; done'
check "which had that time" test -e inside/late
plan

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# owner.sh - the two processes of a broker: the broker's own has no device and no device memory, the owner's has nothing else; what
# becomes of memory and workers when the owner is killed, and of the owner when the broker is; and that the next broker of the name
# can start at once.
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
	client_pid=$!
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
	served=$(broker_of "$broker")
	check "brokerd has two children, which have none: the broker and the owner" eval '[ -n "$owner" ] && [ -n "$served" ] &&
		[ "$(children "$broker" | wc -l)" = 2 ] && [ -z "$(children "$served")" ] && [ -z "$(children "$owner")" ]'
	timeout 30 "$ctl" create memory 64K >said 2>&1
	check "a client maps memory" holds memory
	check "the owner has the memory's objects" eval 'opens "$owner" | grep -qE "$device_files"'
	if [ "$export" = ipc ]; then
		check "broker and keeper have no descriptor of them" eval '! { opens "$served" && opens "$broker"; } | grep -E "$device_files" >&2'
	else
		check "the broker has one descriptor of each, for its clients" eval '[ "$(opens "$served" | grep -c "memfd:gpubroker.mem")" = 1 ]'
		check "and the keeper one, for the next broker" eval '[ "$(opens "$broker" | grep -c "memfd:gpubroker.mem")" = 1 ]'
	fi
	check "and map none" eval '! { maps "$served" && maps "$broker"; } | grep -E "$device_files" >&2'
	check "the owner has three sockets, all of the broker: for its end, for the device, for questions" eval '[ "$(opens "$owner" | grep -c "^socket:")" = 3 ]'
	check "and none of the broker's files" eval '! opens "$owner" | grep -vE "$device_files" |
		grep -vE "^(socket:.*|/dev/null)$" | grep -vF "$work/err" >&2'
	check "the owner maps none of the broker's" eval '! maps "$owner" | grep -E "(/dev/shm/|memfd:)gpubroker" | grep -vE "$device_files" >&2'
	check "it blocks the signals that a terminal or a job manager sends to everybody" eval '
		kill -INT "$owner" && kill -TERM "$owner" && kill -HUP "$owner" && sleep 0.2 && ! is_gone "$owner"'
	touch end
	wait "$client_pid" 2>/dev/null
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
	# where it is built with sanitizers, one cannot work under strace
	check "a broker under strace starts" env_start "ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=0" strace -qq -y -ff -e trace=openat,open,mmap,ioctl -o calls
	traced=$(children "$broker")
	served=$(broker_of "$traced")
	timeout 30 "$ctl" create memory 64K >said 2>&1
	check "a client maps memory" holds memory
	touch end
	kill -TERM "$traced"
	check "it ends" ended 0
	rm -f held end
	check "keeper and broker opened no device and no memory" eval '[ -s "calls.$traced" ] && [ -s "calls.$served" ] &&
		! grep -E "$device_files" "calls.$traced" "calls.$served" | grep -v O_DIRECTORY >&2'
	rm -f calls.*
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

# ---- the owner is killed, and another one starts ----

# starts_another: kills the owner; true when another one serves
starts_another() {
	local before=$owner
	kill -KILL "$owner"
	soon is_another "$before" && soon eval '[ "$(grep -c "owns the device memory now" err)" = '"$((${1:-1}))"' ]'
}
is_another() {
	owner=$(owner_of "$broker")
	[ -n "$owner" ] && [ "$owner" != "$1" ]
}
head -c 100000 /dev/urandom >data

export GPUBROKER_EXPORT=vmm
start
owner=$(owner_of "$broker")
served=$(broker_of "$broker")
timeout 30 "$ctl" load memory data >said 2>&1
timeout 30 "$ctl" load unmapped data >said 2>&1
holds memory
check "vmm: another owner starts" starts_another
check "the buffers have their names and bytes" eval 'for buffer in memory unmapped; do
	timeout 30 "$ctl" save $buffer saved && cmp saved data || return 1; done'
check "one can be created and drained" eval 'timeout 30 "$ctl" create new 64K && timeout 30 "$ctl" drain new'
check "one that was there can be drained" timeout 30 "$ctl" drain unmapped
check "the next owner is replaced, too" starts_another 2
twenty_more() {
	local before round
	before=$({ opens "$broker" && opens "$served"; } | wc -l)
	for ((round = 3; round < 23; round++)); do
		starts_another $round || return 1
	done
	[ "$({ opens "$broker" && opens "$served"; } | wc -l)" = "$before" ]
}
check "twenty more leave no descriptor in the broker" twenty_more
check "the new owner has the memory, the broker maps none" eval 'opens "$owner" | grep -qE "$device_files" && ! maps "$served" | grep -E "$device_files" >&2'
check "the new owner has nothing of the broker, and none of its mappings" eval '[ "$(opens "$owner" | grep -c "^socket:")" = 3 ] &&
	! maps "$owner" | grep -E "(/dev/shm/|memfd:)gpubroker" | grep -vE "$device_files" >&2'
touch end
wait "$client_pid" 2>/dev/null
rm -f held end
check "and all memory is freed" stops TERM 0

export GPUBROKER_EXPORT=ipc
start
owner=$(owner_of "$broker")
served=$(broker_of "$broker")
timeout 30 "$ctl" load memory data >said 2>&1
timeout 30 "$ctl" load --reserve 1M grows data >said 2>&1
"$client" acquire memory mark held wait end >held.out 2>&1 </dev/null &
holder=$!
soon test -e held
check "ipc: another owner starts" starts_another
check "memory of CUDA IPC has lost its name, with an event" eval '! timeout 30 "$ctl" save memory saved 2>said && grep -q "there is no buffer" said &&
	grep -q "'"'memory' was unlinked because the process that owned its memory has ended"'" err'
check "memory that may grow has not" eval 'timeout 30 "$ctl" save grows saved && cmp saved data'
check "whoever holds a buffer without a name is still served" eval 'timeout 30 "$ctl" create memory 4K && "$ctl" sessions | grep -q status-client'
touch end
wait "$holder" 2>/dev/null
rm -f held end
check "and all memory is freed, also what ended" stops TERM 0
unset GPUBROKER_EXPORT

# ---- no other owner starts ----

# lose_owner PID NAME: kills the owner of that brokerd or broker-run for good: when the broker, whose name this is, notices,
# somebody else has the name of the owner's memory
lose_owner() {
	local serves gone
	serves=$(broker_of "$1")
	gone=$(owner_of "$1")
	kill -STOP "$serves"
	kill -KILL "$gone"
	soon is_gone "$gone"
	rm -rf "/dev/shm/gpubroker.$2.mem"
	mkdir "/dev/shm/gpubroker.$2.mem"
	flock "/dev/shm/gpubroker.$2.mem" sleep 20 &
	locker=$!
	sleep 0.2
	kill -CONT "$serves"
}
# regain NAME: the name is free again
regain() {
	kill "$locker" 2>/dev/null
	rm -rf "/dev/shm/gpubroker.$1.mem"
}
no_other() {
	start || return 1
	lose_owner "$broker" "$name"
	ended 1
}
check "a broker that gets no other owner ends with status 1" no_other
regain "$name"
check "and says why, and what to do" grep -q 'the process that owns the device memory has ended.*start brokerd again' err
check "the next broker starts" start
stops TERM 0

# loses_owners COMMAND...: broker-run with two workers, whose owner and all later ones are gone when each has made a file
# inside/ready-RANK
loses_owners() {
	rm -rf inside
	mkdir inside
	timeout -k 5 60 "$run" --device host --name "$name-run" -n 2 -b shared=64K -- "$@" >out 2>err </dev/null &
	runner=$!
	soon test -e inside/ready-0 -a -e inside/ready-1 || return 1
	lose_owner "$(parent "$(cat inside/ready-0)")" "$name-run"
	wait "$runner"
	code=$?
	regain "$name-run"
	[ $code = 125 ] && grep -q "the process that owns the device memory has ended, and no other one starts" err
}
export client
check "broker-run then ends its workers, and exits with 125" loses_owners sh -c 'echo $$ >inside/ready-$GPUBROKER_RANK; exec sleep 50'
check "also workers that map memory" loses_owners \
	sh -c 'echo $$ >inside/ready.new-$GPUBROKER_RANK; "$client" acquire shared mark inside/held-$GPUBROKER_RANK wait end &
		while [ ! -e inside/held-$GPUBROKER_RANK ]; do sleep 0.05; done; mv inside/ready.new-$GPUBROKER_RANK inside/ready-$GPUBROKER_RANK; wait'
touch end
check "and waits for one that ends in its own time" loses_owners \
	sh -c 'trap "sleep 0.5; touch inside/late; exit 3" TERM; echo $$ >inside/ready-$GPUBROKER_RANK; while :; do sleep 0.1; done'
check "which had that time" test -e inside/late
plan

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# survives.sh - what a brokerd is, when its broker's process was killed and another one goes on: its configuration, its names in the
# file system, its owner, its answers to signals, and its end. That no call fails and no byte is lost: broker-kills.sh.
# shellcheck disable=SC2016,SC2034,SC2119,SC2120 # what a check evaluates expands then, not before; configure takes lines or none
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"
name=survives-$$
# shellcheck source=tests/own-brokerd.sh
. "$top_srcdir/tests/own-brokerd.sh"

built=$(cd "${top_builddir:?}" && pwd)
brokerd=$built/broker/brokerd
status=$built/broker/broker-status
ctl=$built/broker/broker-ctl
client=$built/tests/integration/status-client
own_folder
trap 'touch "$work/end"; own_cleanup' EXIT
export ctl

# replaced [SIGNAL]: the broker's process is ended by the signal, and another one serves
replaced() {
	local before
	before=$(broker_of "$broker")
	[ -n "$before" ] && kill -"${1:-KILL}" "$before" || return 1
	is_next() { [ -n "$(broker_of "$broker")" ] && [ "$(broker_of "$broker")" != "$before" ]; }
	soon is_next && timeout 30 "$ctl" list >listed 2>&1
}

# ---- a broker that is killed ----

configure
check "a brokerd starts" start
check "the status shows the broker's process" eval 'shown pid "$(broker_of "$broker")" && shown restarts 0'
"$client" create held 64K acquire held mark mapped wait end >client.out 2>&1 </dev/null &
holder=$!
soon test -e mapped
check "the broker is killed, and another one answers" replaced
check "with the buffer and its holder" eval 'timeout 30 "$ctl" stat held >said 2>&1 && grep -q "held" listed'
check "the status shows that, and how long it took" eval 'shown restarts 1 && shown ended "\"killed\"" && shown pid "$(broker_of "$broker")" && shown pause_us "[1-9][0-9]*"'
check "an event says so" event "broker-replaced +a broker was killed: process [0-9]+ goes on with its [0-9]+ objects, after [0-9.]+ ms"
check "the doctor warns" eval 'timeout 30 "$ctl" doctor >findings 2>&1; grep -q "^warn: 1 broker ended, the last at .*: it was killed; .* objects went on after" findings'
check "a broker that aborts is replaced, too" eval 'replaced ABRT && shown ended "\"crashed\"" && shown restarts 2'
owner=$(owner_of "$broker")
check "the owner is the one that there was" eval '[ -n "$owner" ] && timeout 30 "$status" "$name" | grep -q "^process $owner owns the device memory"'
check "the process gets signals from brokerd alone" eval 'before=$(broker_of "$broker") && kill -TERM "$before" && kill -INT "$before" &&
	kill -HUP "$before" && sleep 0.3 && [ "$(broker_of "$broker")" = "$before" ] && timeout 30 "$ctl" list >listed'

check "a simulation whose broker is killed ten times makes the same picture" env DEVICE="${TEST_DEVICE:-host}" timeout 120 \
	"$top_srcdir/examples/survive.sh" "$built"

# ---- a death in the gap ----

# releases: while no broker serves, the writer of a timeline is killed and ends, and so does the broker; whoever waits for the writer is
# released
releases() {
	local ms
	"$client" signal awaited 1 mark signalled wait end >client.out 2>&1 </dev/null &
	writer=$!
	soon test -e signalled || return 1
	timeout 30 "$client" reach awaited 5 >reached 2>&1 </dev/null &
	reader=$!
	sleep 0.2
	kill -STOP "$(broker_of "$broker")" && kill -KILL "$writer"
	wait "$writer"
	ms=${EPOCHREALTIME/./}
	kill -KILL "$(broker_of "$broker")" || return 1
	wait "$reader"
	[ $? != 124 ] || return 1
	echo "# released $(((${EPOCHREALTIME/./} - ms) / 1000)) ms after the kill of the broker"
	grep -q "the process that wrote this timeline died at 1" reached
}
check "a writer that dies while no broker serves releases who waits for it" releases

# others_start: while no broker serves, another one of the name is refused, and one of another name removes nothing of it
others_start() {
	local served before refused
	served=$(broker_of "$broker")
	before=$(ls -d /dev/shm/gpubroker."$name"* "$socket"*)
	kill -STOP "$broker" && kill -KILL "$served" || return 1
	timeout 20 "$brokerd" -c brokerd.conf >out2 2>err2 </dev/null
	refused=$?
	timeout 20 "${brokerd%d}-run" -q --device host -- true >out2 2>>err2 </dev/null
	[ "$before" = "$(ls -d /dev/shm/gpubroker."$name"* "$socket"*)" ] && [ $refused = 1 ]
}
check "while no broker serves, another one's start is refused, and removes nothing" others_start
kill -CONT "$broker"
check "then the next one serves, with the buffer" soon eval 'timeout 30 "$ctl" stat held >said 2>&1'

# ---- names in the file system ----

rm -f "/dev/shm/gpubroker.$name" "$socket"
is_named() {
	[ -S "$socket" ] && [ -e "/dev/shm/gpubroker.$name" ]
}
check "a status file and a socket that were removed are made again" soon is_named
check "the next broker has both" eval 'replaced && shown restarts 5'
rm -f "/dev/shm/gpubroker.$name" "$socket"
replaced >/dev/null
check "one that begins when they were removed makes them again" soon is_named

# ---- owner and broker ----

check "owner and broker are killed together: others take over" eval 'kill -KILL "$owner" && replaced &&
	soon eval "[ -n \"\$(owner_of \"\$broker\")\" ]" && timeout 30 "$ctl" create later 64K && timeout 30 "$ctl" drain later'
check "what the owner had exported by CUDA IPC has lost its name" event "unlink-orphan +'held' was unlinked"
touch end
wait "$holder"
check "its holder had it until its end" test $? = 0
rm -f end

# ---- the configuration ----

printf 'quota "default" { buffers = "7" }\nquota "root" { buffers = "7" }\n' >>brokerd.conf
kill -HUP "$broker"
check "a reload limits buffers" soon event 'reload .*its quotas apply from now on'
of_quota() {
	local n
	for n in 1 2 3 4 5 6 7; do timeout 30 "$ctl" create "b$n" 1K || return 1; done >/dev/null 2>&1
	! timeout 30 "$ctl" create b8 1K >said 2>&1 && grep -q "may hold 7" said
}
check "which the broker keeps to" of_quota
echo 'this is no configuration' >brokerd.conf
check "the next one keeps to it, too, though the file cannot be read any more" eval \
	'replaced && ! timeout 30 "$ctl" create b8 1K >said 2>&1 && grep -q "may hold 7" said'
check "and the one after it" eval 'replaced && ! timeout 30 "$ctl" create b8 1K >said 2>&1 && grep -q "may hold 7" said'

# reloads: of a broker that is killed when it was asked to reload, and before it has
reloads() {
	configure 'quota "default" { buffers = "9" }' 'quota "root" { buffers = "9" }'
	kill -STOP "$(broker_of "$broker")" && kill -HUP "$broker" && sleep 0.2 && replaced && soon timeout 30 "$ctl" create b8 1K
}
check "a reload that a broker was asked for is the next one's, if the first is killed before" reloads

# crashes_at_it: a broker crashes while it reads the configuration again, from a pipe that nobody writes
crashes_at_it() {
	rm brokerd.conf && mkfifo brokerd.conf || return 1
	kill -HUP "$broker"
	sleep 0.5
	replaced ABRT && soon event "reload-refused .*a broker crashed while it read the configuration again" &&
		rm brokerd.conf && configure
}
check "a configuration at which a broker crashes is refused, and not read again" crashes_at_it

# ---- the end ----

check "brokerd ends, with all accounts balanced" eval 'stops TERM 0 && grep -q "balanced$" err'
check "and leaves nothing" eval '! ls -d /dev/shm/gpubroker."$name"* "$socket"* 2>/dev/null'
configure
start
is_draining() { "$status" "$name" | grep -q "^u .*draining"; }
check "a broker is killed while brokerd is asked to end: the next one waits for the memory" eval '"$client" create u 64K acquire u mark mapped2 wait end >client.out 2>&1 </dev/null &
	holder=$!; soon test -e mapped2 && kill -TERM "$broker" && soon is_draining && process=$(broker_of "$broker") && kill -KILL "$process" && sleep 0.3 && is_draining'
touch end
check "whose holder ends as ever" wait "$holder"
check "and ends, with all accounts balanced" eval 'ended 0 && grep -q "balanced$" err'
rm -f end mapped2
start
check "one that crashes then is the end" eval '"$client" create u 64K acquire u mark mapped2 wait end >client.out 2>&1 </dev/null &
	holder=$!; soon test -e mapped2 && kill -TERM "$broker" && soon is_draining && kill -ABRT "$(broker_of "$broker")" && ended 134'
touch end
wait "$holder"
rm -f end
start
processes="$(broker_of "$broker") $(owner_of "$broker")"
are_gone() {
	local pid
	for pid in $processes; do [ ! -d "/proc/$pid" ] || grep -q '^State:	Z' "/proc/$pid/status" || return 1; done
} 2>/dev/null
check "where brokerd itself is killed, broker and owner end" eval 'kill -KILL "$broker"; ended 137 && soon are_gone'
check "and the next brokerd removes what they left" eval 'start && stops TERM 0 && ! ls -d /dev/shm/gpubroker."$name"* 2>/dev/null'
# at_once: while the broker's process of the one that was killed may not be gone yet
at_once() {
	local n
	for n in 1 2 3 4 5 6 7 8; do
		start && kill -KILL "$broker"
		wait "$broker"
		broker=''
	done 2>/dev/null
	start
}
check "also one that starts at once" at_once
stops TERM 0
plan

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run-survives.sh - broker-run's workers, when its broker's process was killed and another one goes on: at the start, while they work,
# when they end, and what becomes of all of it when broker-run itself is killed. That no byte is lost: broker-kills.sh.
# shellcheck disable=SC2016,SC2034 # what a check evaluates, and the workers' shells, expand then, not before
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"
name=run-survives-$$
# shellcheck source=tests/own-brokerd.sh
. "$top_srcdir/tests/own-brokerd.sh"

built=$(cd "${top_builddir:?}" && pwd)
run=$built/broker/broker-run
status=$built/broker/broker-status
ctl=$built/broker/broker-ctl
client=$built/tests/integration/status-client
own_folder
unset GPUBROKER
trap 'touch "$work/end" "$work/go"; own_cleanup' EXIT
export client CUDA_MPS_PIPE_DIRECTORY=$work/none

# begins OPTION... -- COMMAND...: a broker-run, whose pid is $broker
begins() {
	rm -f go end held-* ./*.status
	"$run" --device host --name "$name" "$@" >out 2>err </dev/null &
	broker=$!
}

# ends_with CODE
ends_with() {
	touch go end
	ended "$1"
}

# replaced [TIMES]: the broker's process is killed so often, and each time another one serves
replaced() {
	local before n
	for ((n = 0; n < ${1:-1}; n++)); do
		before=$(broker_of "$broker")
		[ -n "$before" ] && kill -KILL "$before" || return 1
		soon eval '[ -n "$(broker_of "$broker")" ] && [ "$(broker_of "$broker")" != '"$before"' ]' || return 1
		soon "$status" "$name" >shown 2>&1 || return 1
	done
}

# shows PATTERN: the status of the broker does
shows() {
	timeout 30 "$status" "$name" >shown 2>&1 && grep -qE "$1" shown
}

# ---- while the workers work ----

works='"$client" acquire shared mark held-$GPUBROKER_RANK wait go create own-$GPUBROKER_RANK 64K acquire own-$GPUBROKER_RANK unlink own-$GPUBROKER_RANK'
begins -n 3 -b shared=64K -- sh -c "$works"
check "three workers hold a declared buffer" soon test -e held-0 -a -e held-1 -a -e held-2
owner=$(owner_of "$broker")
check "the broker is killed five times, and another one answers" replaced 5
check "with the buffer, its holders, and the owner that there was" eval 'shows "^shared .* 3 " && [ "$(owner_of "$broker")" = "$owner" ]'
check "the workers go on and end well" ends_with 0
check "the account is balanced, and nothing else was said but that the broker was ended" eval 'grep -q "balanced$" err &&
	[ "$(grep -c "the broker (pid [0-9]*) was ended by signal 9: the next one starts$" err)" = 5 ]'
check "and nothing is left" test -z "$(find /dev/shm /tmp -maxdepth 1 -name "gpubroker?$name*")"

begins -n 2 -b shared=64K -- sh -c 'echo "$GPUBROKER" >address-$GPUBROKER_RANK; '"$works"' && [ $GPUBROKER_RANK = 0 ] || exit 7'
soon test -e held-0 -a -e held-1
address=$(cat address-0)
rm -r "$(dirname "${address#unix:}")"
check "a socket that was removed is made again" soon test -S "${address#unix:}"
check "and the next broker serves at it" eval 'replaced && GPUBROKER=$address timeout 30 "$ctl" create later 4K'
rm -r "$(dirname "${address#unix:}")"
check "which makes it again, too" soon test -S "${address#unix:}"
check "a worker's exit status is the one of broker-run" ends_with 7
check "and nothing is left of the socket that was made again" test -z "$(find /dev/shm /tmp -maxdepth 1 -name "gpubroker?$name*")"

# ---- at the start ----

declared=()
for n in $(seq 60); do declared+=(-b "declared-$n=4K"); done
# starts: brokers are killed as soon as they are there, and the workers find all that is declared
starts() {
	local n last='' now
	begins -n 2 "${declared[@]}" -- sh -c 'for n in 1 30 60; do "$client" acquire declared-$n || exit 1; done; "$client" mark held-$GPUBROKER_RANK wait go'
	for ((n = 0; n < 5; n++)); do
		soon eval 'now=$(broker_of "$broker"); [ -n "$now" ] && [ "$now" != "$last" ]' || return 1
		sleep "0.00$((RANDOM % 10))"
		kill -KILL "$now"
		last=$now
	done
	soon test -e held-0 -a -e held-1 && soon shows "^declared-60 " && ends_with 0 && grep -q "balanced$" err
}
all_start() {
	local round
	for ((round = 0; round < 8; round++)); do starts || return 1; done
}
check "brokers that are killed at the start: the workers find all declared buffers, eight times" all_start
begins -n 1 -b u=64K@7 -- touch held-0
check "what cannot be declared is said, and no worker runs" eval 'ends_with 125 && [ ! -e held-0 ] && grep -q "there is no device 7" err'

# ---- at the end ----

begins -n 1 -b shared=64K -- sh -c 'echo "$GPUBROKER" >address-0; "$client" mark held-0 wait go'
soon test -e held-0
GPUBROKER=$(cat address-0) "$client" acquire shared mark held-1 wait later >client.out 2>&1 </dev/null &
holder=$!
soon test -e held-1
touch go
check "a process that is no worker holds memory when the workers have ended" soon grep -q "still maps 'shared'" err
check "the broker is killed then: the next one waits for it" eval 'replaced && sleep 0.3 && ! gone'
touch later
wait "$holder"
check "and broker-run ends well" eval 'ended 0 && grep -q "balanced$" err'

begins -n 1 -b shared=64K -- sh -c 'echo "$GPUBROKER" >address-0; "$client" mark held-0 wait go'
soon test -e held-0
rm -f held-1 later
GPUBROKER=$(cat address-0) "$client" acquire shared mark held-1 wait later >client.out 2>&1 </dev/null &
holder=$!
soon test -e held-1
touch go
soon grep -q "still maps 'shared'" err
check "one that crashes then is the end" eval 'kill -ABRT "$(broker_of "$broker")" && ended 125 &&
	grep -q "the broker (pid [0-9]*) was ended by signal 6: no other one starts" err'
touch later
wait "$holder"

# ---- signals ----

# merged: a SIGTERM of somebody else is pending at the broker's process when broker-run asks it to end
merged() {
	local served
	begins -n 1 -- sh -c 'touch held-0; while [ ! -e go ]; do sleep 0.05; done'
	soon test -e held-0
	served=$(broker_of "$broker")
	kill -STOP "$served" && kill -TERM "$served" && touch go && soon eval '[ "$(children "$broker" | wc -l)" = 3 ]' && sleep 0.2 &&
		kill -CONT "$served" && ended 0
}
check "a SIGTERM that everybody gets does not swallow the one by which the broker is asked to end" merged
begins -n 1 -- sh -c 'trap "echo >>asked" TERM; echo $$ >worker; "$client" mark held-0; while :; do sleep 0.1; done'
soon test -e held-0
kill -TERM "$(broker_of "$broker")"
kill -INT "$(broker_of "$broker")"
check "the broker takes no signal that broker-run does not send" eval 'sleep 0.3; shows "^broker $name: running"'
has_asked() {
	[ -e asked ] && [ "$(wc -l <asked)" = "$1" ]
}
kill -TRAP "$(broker_of "$broker")"
check "a broker that ends for good: the workers are asked to end" soon has_asked 1
kill -TERM "$broker"
check "those that do not still get what is sent to broker-run" soon has_asked 2
kill -TERM "$broker"
check "and a second signal ends broker-run without them" ended 125
kill -KILL "$(cat worker)"

# ---- broker-run is killed ----

begins -n 1 -b shared=64K -- "$client" acquire shared mark held-0 wait go create more 4K
soon test -e held-0
processes="$(broker_of "$broker") $(owner_of "$broker")"
are_gone() {
	local pid
	for pid in $processes; do [ ! -d "/proc/$pid" ] || grep -q '^State:	Z' "/proc/$pid/status" || return 1; done
} 2>/dev/null
kill -KILL "$broker"
check "where broker-run is killed, broker and owner end" eval 'ended 137 && soon are_gone'
touch go
check "and the next one removes what they left" eval '"$run" -q --device host -- true && [ -z "$(find /dev/shm /tmp -maxdepth 1 -name "gpubroker?$name*")" ]'

# ---- what the broker has ----

begins -n 2 -- sh -c '"$client" mark held-$GPUBROKER_RANK wait go'
soon test -e held-0 -a -e held-1
# pipes_of PID: the pipes that it has a descriptor of
pipes_of() {
	find "/proc/$1/fd" -lname "pipe:*" -printf '%l\n'
}
check "the next broker has neither the pipes of the witness of signals nor the workers' environment" eval 'replaced && served=$(broker_of "$broker") &&
	pipes_of "$(child_named signal-witness "$broker")" >pipes && [ "$(wc -l <pipes)" = 2 ] && ! pipes_of "$served" | grep -qFxf pipes && [ "$(grep -c "zero (deleted)$" "/proc/$served/maps")" -lt "$(grep -c "zero (deleted)$" "/proc/$broker/maps")" ]'
check "and the workers end well" ends_with 0
plan

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# signals.sh - no signal that a terminal, a shell or a job manager sends to everybody ends a broker. broker-run passes on to its workers
# what means something to them: each worker has a signal once, however it was sent.
# shellcheck disable=SC2016,SC2034 # what a check evaluates, and the workers' shells, expand then, not before
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

built=$(cd "${top_builddir:?}" && pwd)
run=$built/broker/broker-run
work=$(mktemp -d) || exit 1
trap 'touch "$work/go"; wait; rm -rf "$work"' EXIT
cd "$work" || exit 1
unset "${!OMPI_COMM@}" "${!PMIX_@}" "${!SLURM_@}" "${!MPI_@}"
name=signals-$$

for_workers='USR1 USR2 ALRM VTALRM PROF XCPU XFSZ IO PWR STKFLT RTMIN RTMIN+5 RTMAX-1'
stops='HUP INT QUIT TERM'
export signals="$for_workers $stops RTMAX"

# A worker writes each signal that it gets into got.RANK, until there is a file "go".
cat >worker <<'END'
rank=${OMPI_COMM_WORLD_RANK:-${GPUBROKER_RANK:-0}}
for signal in $signals; do
	trap "echo $signal >>got.$rank" "$signal"
done
echo $$ >ready.$rank
until [ -e go ]; do
	sleep 0.02
done
exit 0
END

# begin COMMAND...: a broker-run with two workers, in a session and a process group of its own, whose leader is $broker
begin() {
	rm -f go got.* ready.*
	marks=0
	# a shell's background jobs ignore these two
	setsid env --default-signal=INT,QUIT "$@" >out 2>err </dev/null &
	broker=$!
	soon eval '[ -s ready.0 ] && [ -s ready.1 ]' && touch got.0 got.1
}
ends() { # STATUS
	touch go
	wait "$broker"
	[ $? = "$1" ]
}
count_of() { # SIGNAL RANK
	grep -cx -- "$1" "got.$2"
}
has() { # SIGNAL COUNT: each worker has it so often
	[ "$(count_of "$1" 0)" = "$2" ] && [ "$(count_of "$1" 1)" = "$2" ]
}
# decided: broker-run has passed on all that came before, since it does so in order, and this one is passed on last
decided() {
	marks=$((marks + 1))
	kill -s RTMAX "$broker" && soon has RTMAX $marks
}

# ---- to broker-run alone ----

begin "$run" --device host --name "$name" -n 2 -- bash worker
for signal in $for_workers $stops; do
	kill -s "$signal" "$broker"
	decided
	check "SIG$signal to broker-run alone: each worker has it once" has "$signal" 1
done
for _ in 1 2 3; do
	kill -s USR1 "$broker"
	decided
done
check "another one: it is passed on as well" has USR1 4
check "broker-run lives on, and the account is balanced" eval 'ends 0 && grep -q "balanced$" err'

# ---- to the whole group, as Open MPI, timeout(1) and a shell's kill do ----

begin "$run" --device host --name "$name" -n 2 -- bash worker
for signal in $for_workers $stops; do
	kill -s "$signal" -- "-$broker"
	decided
	check "SIG$signal to the group: each worker has it once" has "$signal" 1
done
check "broker-run lives on" ends 0

begin "$run" --device host --name "$name" -n 2 -- setsid bash worker
kill -s USR1 -- "-$broker"
decided
check "workers in a session of their own have what the group was sent" has USR1 1
check "and end" ends 0

begin "$run" --device host --name "$name" -n 2 -- bash worker
read -ra children <"/proc/$broker/task/$broker/children"
for pid in "${children[@]}"; do
	[ "$(cat "/proc/$pid/comm")" != signal-witness ] || kill -KILL "$pid"
done
kill -s USR2 "$broker"
decided
check "without its witness broker-run passes signals on" has USR2 1
check "and ends as always" ends 0

# ---- stop and continue ----

state_of() { # PID
	sed 's/.*) //; s/ .*//' "/proc/$1/stat"
}
all_are() { # STATES: of one of these letters
	local pid
	for pid in "$broker" "$(cat ready.0)" "$(cat ready.1)"; do
		[[ $1 = *$(state_of "$pid")* ]] || return
	done
}
begin "$run" --device host --name "$name" -n 2 -- bash worker
kill -STOP -- "-$broker"
check "a group that is stopped stops with its broker" soon all_are T
kill -CONT -- "-$broker"
check "and goes on" soon all_are SR
decided
check "its end is as always" ends 0

# ---- one job of several broker-runs ----

# forwarded: how often mpirun says that it forwarded $signal
forwarded() {
	grep -c "Forwarding signal $(kill -l "$signal") " err
}
# mpirun_forwards: sends $signal to mpirun; true if mpirun says within a second that it forwards the signal
mpirun_forwards() {
	kill -s "$signal" "$broker"
	for _ in {1..20}; do
		[ "$(forwarded)" = 0 ] || return 0
		sleep 0.05
	done
	return 1
}

if command -v mpirun >/dev/null && mpirun --version 2>/dev/null | grep -q 'Open MPI'; then
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
	begin mpirun --oversubscribe -n 2 "$run" --join --device host -- bash worker
	# Open MPI 4.1.6 forwards no USR1 before it has forwarded another signal.
	for signal in USR2 USR1; do
		soon mpirun_forwards
		check "mpirun passes on SIG$signal: each worker has it" soon eval '[ "$(forwarded)" != 0 ] && has "$signal" "$(forwarded)"'
	done
	kill -s RTMIN "$(sed -n 's/^PPid:\s*//p' "/proc/$(cat ready.0)/status")"
	check "the first one's broker-run passes signals on to its own worker" soon eval '[ "$(count_of RTMIN 0)" = 1 ]'
	check "each has each as often as it was sent" eval 'has USR1 "$(forwarded)" && has USR2 "$(signal=USR2 forwarded)" && [ "$(count_of RTMIN 1)" = 0 ]'
	check "the job ends as always" ends 0
else
	skip "mpirun passes on SIGUSR1" "no Open MPI"
fi

# waits: process 1 of 2 of a job whose first one does not start; sets joiner
waits() {
	OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_NAMESPACE=$name "$run" --join --device host -- touch joined 2>join.err &
	joiner=$!
}
blocks_usr1() {
	local blocked
	blocked=$(sed -n 's/^SigBlk:\s*//p' "/proc/$joiner/status")
	[ $((0x${blocked:-0} & 0x200)) != 0 ]
}
waits
soon blocks_usr1
kill -s USR1 "$joiner"
kill -s RTMIN "$joiner"
OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_NAMESPACE=$name "$run" --join -q --device host -- true 2>err
wait "$joiner"
status=$?
check "a process that waits to join outlives what is meant for its worker" eval '[ $status = 0 ] && [ -e joined ]'
waits
soon blocks_usr1
kill -TERM "$joiner"
wait "$joiner"
check "and ends by SIGTERM" [ $? = 143 ]

# ---- brokerd ----

mkdir daemon
cat >conf <<END
device = "host"
instance = "$name"
socket = "$work/daemon/socket"
END
start() {
	env --default-signal=INT,QUIT "$built/broker/brokerd" -c conf 2>err &
	broker=$!
	soon test -S daemon/socket && soon grep -q ' serves ' err
}
answers() {
	GPUBROKER=unix:$work/daemon/socket "$built/broker/broker-ctl" create "$1" 4K 2>>err
}
start
for signal in $for_workers RTMAX; do
	kill -s "$signal" "$broker"
	check "SIG$signal does not end brokerd" answers "${signal/+/.}"
done
kill -HUP "$broker"
check "SIGHUP has it read its configuration" soon grep -q 'conf is read again' err
kill -TERM "$broker"
wait "$broker"
check "SIGTERM ends it in order" [ $? = 0 ]
for signal in INT QUIT; do
	start
	kill -s $signal "$broker"
	wait "$broker"
	check "so does SIG$signal" [ $? = 0 ]
done
plan

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# heat.sh - heat --mpi over 1, 2 and 3 machines gives the bits of one worker, and whatever dies on one of them ends the job on all.
# shellcheck disable=SC2034,SC2016 # expanded by what a check evaluates, and by the workers' shells
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"
# shellcheck source=tests/scale/machines.sh
. "$top_srcdir/tests/scale/machines.sh"

built=$(cd "${top_builddir:?}" && pwd)
run=$built/broker/broker-run
heat=$built/examples/heat/heat
if "$heat" --mpi --size 1 --steps 0 2>&1 </dev/null | grep -q 'built without MPI'; then
	echo "1..0 # SKIP heat was built without MPI (Debian: libopenmpi-dev)"
	exit 0
fi
need_machines
work=$(mktemp -d) || exit 1
trap 'machines_down; rm -rf "$work"' EXIT
machines_up 3 || exit 1
cd "$work" || exit 1
export GPUBROKER_MODULE_PATH=$built/kernels
export ASAN_OPTIONS=detect_leaks=0:${ASAN_OPTIONS-} # Open MPI frees little at its end

# job COUNTS OPTION...: heat on them; leaves out and err
job() {
	mpi "$1" "$run" --join --device "$device" -- "$heat" --mpi "${@:2}" >out 2>err
}
same() { # COUNTS OPTION...: the bits of one worker
	rm -f one many
	"$run" -q --device host -- "$heat" "${@:2}" --dump one >out 2>err && job "$1" "${@:2}" --dump many && cmp one many >>err
}

# ---- the same bits ----

device=host
for counts in 1 4 1:1 2:2 3:1 1:4 1:1:1 2:1:3 4:4:4; do
	check "machines with $counts workers give the bits of one worker" same "$counts" --size 37x53 --steps 60
done
check "the report names the machines" grep -q '^machines:      3 (MPI)$' out
check "each machine had a broker, and all that was granted was returned" \
	eval '[ "$(grep -c "4 workers, 1 host device" err)" = 3 ] && [ "$(grep -c balanced err)" = 3 ]'
check "workers of one row each" same 1:3:2 --size 6x11 --steps 30
check "no step at all" same 2:2 --size 16x9 --steps 0
check "one step" same 2:1 --size 16x9 --steps 1
device=host:2
check "shares of more than one message" same 1:1 --size 1100x2000 --steps 2
check "several devices a machine" same 3:2 --size 32x40 --steps 50
export GPUB_HOST_SEED=7 CUDA_DEVICE_MAX_CONNECTIONS=1
check "streams that overtake each other, and share one connection" same 2:2:1 --size 32x40 --steps 50
unset GPUB_HOST_SEED CUDA_DEVICE_MAX_CONNECTIONS
device=host

# ---- what cannot be ----

refused() { # PATTERN COMMAND...
	! timeout -k 5 30 "${@:2}" >out 2>err </dev/null && grep -q "$1" err
}
check "more workers than MPI has: the right command is in the message" \
	refused "start them with mpirun -n 8 broker-run --join" "$run" --device host -n 2 -- "$heat" --mpi --size 8
check "fewer rows than workers of all machines" eval '! job 2:2 --size 3 && grep -q "a grid of 3 rows cannot be spread over 4 workers" err'

# ---- ends ----

# begin COUNTS COUNT: a job of so many workers that does not end by itself; the pids of broker-run, heat, and of the mpirun or its daemon
# that started them are in run.R, heat.R and parent.R, R is MPI's rank
begin() {
	rm -f run.* heat.* parent.* status
	{
		mpi "$1" sh -c 'echo $$ >run.$OMPI_COMM_WORLD_RANK; echo $PPID >parent.$OMPI_COMM_WORLD_RANK; exec "$@"' - "$run" --join --device host --join-timeout 5 -- \
			sh -c 'echo "$GPUBROKER" >address.$OMPI_COMM_WORLD_RANK; echo $$ >heat.new.$OMPI_COMM_WORLD_RANK && mv heat.new.$OMPI_COMM_WORLD_RANK heat.$OMPI_COMM_WORLD_RANK; exec "$@"' - \
			"$heat" --mpi --size 64 --steps 1000000000 --timeout 4 >out 2>err
		echo $? >status
	} &
	soon all_there "$2" && all_step "$2"
}
all_there() { # COUNT
	[ "$(cat heat.[0-9]* 2>/dev/null | wc -l)" = "$1" ]
}
all_step() { # COUNT: each of so many workers has done twenty steps
	local rank
	for ((rank = 0; rank < $1; rank++)); do
		GPUBROKER=$(cat "address.$rank") timeout 60 "$built/tests/integration/status-client" reach "heat/$rank/0" 20 || return
	done
}
all_gone() {
	local pid
	while read -r pid; do
		! kill -0 "$pid" 2>/dev/null || return
	done < <(cat run.[0-9]* heat.[0-9]*)
}
ended() { # the job failed, in time, and nobody is left
	local began=$SECONDS
	wait
	[ "$(cat status)" -ne 0 ] && [ "$(cat status)" -ne 124 ] && [ $((SECONDS - began)) -lt 30 ] && soon all_gone
}

begin 2:2 4
kill -KILL "$(cat heat.3)"
check "a worker is killed: the job ends on both machines" ended
check "and one of those left says why" grep -q 'heat\[[0-9]*\]: worker [0-9] died\|peer process has unexpectedly disconnected' err
begin 2:2 4
kill -KILL "$(cat run.2)"
check "the broker of one machine is killed: the job ends on both" ended
check "and a worker of that machine says so, or mpirun" grep -q 'heat\[[23]\]: .*broker\|process rank 2 .* exited on signal 9' err
begin 1:1 2
kill -KILL "$(cat run.1)"
check "the only worker's broker of a machine: the job ends on both" ended
# mpirun does not notice, and neither does its daemon over there, whose messages do not come through.
begin 2:2 4
ip -n "${machine_prefix}s" link set port2 down
check "the network is cut: the workers and brokers of both machines end" eval 'soon all_gone || soon all_gone'
check "and a worker at the cut says so" soon grep -q 'heat\[1\]: .*nothing came from another machine for 4 s' err
kill -KILL "$(cat parent.0)" "$(cat parent.2)"
ip -n "${machine_prefix}s" link set port2 up
wait

# What mpirun kills cannot clean up; the next broker does.
check "nothing is left" soon eval '"$run" -q --device host -- true && none_dead'
plan

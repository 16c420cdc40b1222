#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# join.sh - broker-run --join: the processes that a launcher starts on a machine share one broker, whoever starts or ends first, and each
# that cannot says why. Most points play the launcher, by its variables; those of mpirun need Open MPI.
# shellcheck disable=SC2016,SC2034 # what a check evaluates, and the workers' shells, expand then, not before
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

built=$(cd "${top_builddir:?}" && pwd)
run=$built/broker/broker-run
client=$built/tests/integration/status-client
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
# what a launcher would say; how mpirun is set up here stays
unset "${!OMPI_COMM@}" "${!PMIX_SERVER@}" "${!SLURM_@}" "${!MPI_@}"
export client PMIX_NAMESPACE=job-$$
device=host

# rank RANK SIZE OPTION... -- COMMAND...: one process of the job, in the background; leaves RANK.out and RANK.err, and RANK.status
rank() {
	{
		OMPI_COMM_WORLD_LOCAL_RANK=$1 OMPI_COMM_WORLD_LOCAL_SIZE=$2 timeout -k 5 40 "$run" --join --device "$device" --name "together-$$" \
			"${@:3}" >"$1.out" 2>"$1.err" </dev/null
		echo $? >"$1.status"
	} &
}
fresh() {
	wait
	rm -f -- *.out *.err *.status here.* go
}
all_end() { # STATUS...: with these
	local wanted="$*"
	wait
	cat -- *.err >err
	[ "$(cat -- *.status | tr '\n' ' ')" = "$wanted " ]
}
# the directories where the processes of this job meet begin with this
hash=$(printf 'Open MPI\n%s\n' "$PMIX_NAMESPACE" | b2sum -l 128)
place=/tmp/gpubroker-join-${hash:0:18}
nothing_left() {
	[ -z "$(find /tmp -maxdepth 1 \( -path "$place.*" -o -name "gpubroker-together-$$.*" \))" ]
}

# ---- one broker for all ----

for r in 2 0 1; do rank $r 3 -b u=1M -- sh -c 'echo "$GPUBROKER_RANK of $GPUBROKER_SIZE, $GPUBROKER" && "$client" acquire u'; done
check "three processes: all succeed" all_end 0 0 0
check "they have local ranks, and one broker" \
	eval '[ "$(sed "s/,.*//" ?.out | tr "\n" " ")" = "0 of 3 1 of 3 2 of 3 " ] && [ "$(sed "s/.*, //" ?.out | sort -u | wc -l)" = 1 ]'
check "only the first one speaks, and all that was granted was returned" \
	eval '[ "$(cat 1.err 2.err)" = "" ] && grep -q "3 workers, 1 host device" 0.err && grep -q "mappings 3 given, 3 returned, 0 ended by death; balanced" 0.err'
check "nothing is left" nothing_left

fresh
device=host:2
for r in 0 1 2 3; do rank $r 4 --map block --connections 7 -- sh -c 'echo "$GPUBROKER_DEVICE $CUDA_DEVICE_MAX_CONNECTIONS"'; done
check "what the first one is told holds for all" eval 'all_end 0 0 0 0 && [ "$(cat ?.out | tr "\n" " ")" = "0 7 0 7 1 7 1 7 " ]'
device=host

fresh
rank 1 2 -- "$client" create u 1
sleep 1
rank 0 2 -- true
check "the first one may start late" all_end 0 0
fresh
rank 0 2 -- true
sleep 1
rank 1 2 -- "$client" create u 1 acquire u
check "so may the others: the broker waits for them" eval 'all_end 0 0 && grep -q "mappings 1 given, 1 returned" err'
fresh
rank 0 1 -- "$client" create u 1
check "a job of one process" all_end 0

# ---- ends ----

# what a worker of the first process does: its parent is the broker
led='echo $PPID >leader; exec "$client" mark here.0 wait go'

fresh
rank 0 2 -- true
rank 1 2 -- "$client" create u 1 acquire u mark here.1 wait go
soon test -e here.1
check "the broker lives as long as the last of them" eval '[ -e here.1 ] && [ ! -e 0.status ] && touch go && all_end 0 0 && grep -q balanced err'
fresh
rank 0 2 -- true
rank 1 2 -- sh -c 'echo $$ >here.1; exec "$client" create u 1 acquire u mark here.2 wait go'
soon test -e here.2
kill -KILL "$(cat here.1)"
check "one that is killed ends it, too" eval 'all_end 0 137 && grep -q "1 ended by death; balanced" err'
fresh
rank 0 2 -- sh -c "$led"
rank 1 2 -- sh -c '"$client" create u 1 acquire u mark here.1 wait go; "$client" acquire u'
soon eval '[ -e here.0 ] && [ -e here.1 ]'
leader=$(cat leader)
kill -KILL "$leader"
touch go
wait
check "SIGKILL of the broker: the others' calls fail" eval 'grep -q "status-client: " 1.err'
"$run" -q --device host -- true
check "and the next broker removes what it left" nothing_left

fresh
rank 0 3 -- sh -c "$led"
soon test -e here.0
leader=$(cat leader)
kill -STOP "$leader"
rank 1 3 -- touch here.1
sleep 0.5
kill -KILL "$leader"
soon test -e 1.status
check "one that waits for an answer when the broker is killed says so" \
	eval '[ "$(cat 1.status)" = 125 ] && [ ! -e here.1 ] && grep -q "first process (local rank 0) died, or failed" 1.err'
touch go

# ---- what cannot be ----

fresh
rank 1 2 -- touch here.1
rank 0 2 -b u=1M@7 -- true
check "a broker that fails: the others end, and say so" \
	eval 'all_end 125 125 && [ ! -e here.1 ] && grep -q "the broker of this machine.s first process (local rank 0) failed" 1.err'
fresh
rank 1 2 --join-timeout 1 -- touch here.1
check "a first one that never starts" \
	eval 'all_end 125 && [ ! -e here.1 ] && grep -q "first process (local rank 0) did not start within 1 s" err'
fresh
rank 0 3 --join-timeout 1 -- true
rank 1 3 --join-timeout 1 -- true
check "another one that never starts" eval 'all_end 0 0 && grep -q "1 of 3 processes of this job on this machine did not join within 1 s, local rank 2" 0.err'
fresh
rank 0 2 -- "$client" mark here.0 wait go
soon test -e here.0
OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=2 "$run" --join --device host -- true >out 2>err
status=$?
check "a second first one" eval '[ $status = 125 ] && grep -q "another broker-run --join is the first process" err'
OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=3 "$run" --join --device host -- true >out 2>err
status=$?
check "one that counts otherwise" eval '[ $status = 125 ] && grep -q "do not agree how many they are" err'
PMIX_NAMESPACE=other OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2 "$run" --join --join-timeout 1 --device host -- true >out 2>err
status=$?
check "one of another job" eval '[ $status = 125 ] && grep -q "did not start within 1 s" err'
check "the place is known" test -S "$(echo "$place".*/join)"
rank 1 2 -- true
touch go
check "meanwhile the job goes on" all_end 0 0

# ---- what is in the way ----

fresh
rank 0 2 -- true
there() {
	[ -S "$(echo "$place".*/join)" ]
}
soon there
rm -r "$place".*
rank 1 2 -- true
check "a place that was removed is there again for those who come later" all_end 0 0

fresh
mkdir -m 755 "$place.enter1"
rank 0 2 -- true
rank 1 2 -- true
check "a directory of that name where others may enter is passed over" all_end 0 0
rmdir "$place.enter1"
# dead: as one looks that a killed first process left, with a socket at which nobody listens
rank 0 1 -- sh -c 'kill -KILL $PPID'
fresh
rank 1 2 -- true
rank 0 2 -- true
check "so is one of a first process that was killed" all_end 0 0
# squat: another user makes what it can under the names of this job, the one that was used once among them
squat() {
	setpriv --reuid=65534 --regid=65534 --clear-groups bash -c 'mkdir -m 700 "$1.$2" && mkdir "$1."{10000..10499} && ln -s / "$1.linked" &&
		: >"$1.a-file" && mkfifo "$1.a-pipe"' - "$place" "${hash:18:6}"
}
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
	fresh
	check "another user takes the names of a job" squat
	rank 1 3 -- true
	rank 0 3 -- true
	rank 2 3 -- true
	check "the job runs all the same" all_end 0 0 0
	check "and leaves what is not its own" test -d "$place.${hash:18:6}" -a -p "$place.a-pipe"
	rm -rf "$place".*
else
	skip "another user takes the names of a job" "root alone can be two users"
fi

refused() { # PATTERN VARIABLE=VALUE... -- OPTION...
	local pattern=$1 setting=()
	shift
	while [ "$1" != -- ]; do
		setting+=("$1")
		shift
	done
	shift
	env "${setting[@]}" "$run" --device host "$@" -- true >out 2>err </dev/null
	[ $? = 125 ] && grep -q "^broker-run: .*$pattern" err
}
check "no launcher" refused "for processes that mpirun or srun started" NONE= -- --join
check "-n as well" refused "leave -n out" OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=1 -- --join -n 2
check "a rank beyond the size" refused "there are 2 processes on this machine" OMPI_COMM_WORLD_LOCAL_RANK=2 OMPI_COMM_WORLD_LOCAL_SIZE=2 -- --join
check "a size that is none" refused "does not say how many" OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=many -- --join

# ---- other launchers ----

# of TASKS NODE: as many as Slurm says are on that machine; the first one alone says so
of() {
	SLURM_JOB_ID=$$ SLURM_STEP_ID=0 SLURM_NODEID=$2 SLURM_LOCALID=0 SLURM_STEP_TASKS_PER_NODE=$1 \
		"$run" --join --join-timeout 1 -q --device host -- sh -c 'echo $GPUBROKER_SIZE' 2>err
}
check "Slurm: the first machine of 2(x3),4,1" [ "$(of '2(x3),4,1' 0)" = 2 ]
check "Slurm: the third" [ "$(of '2(x3),4,1' 2)" = 2 ]
check "Slurm: the fourth" [ "$(of '2(x3),4,1' 3)" = 4 ]
check "Slurm: the last" [ "$(of '2(x3),4,1' 4)" = 1 ]
# One machine may be several nodes of Slurm, and has two first processes of one job then.
SLURM_JOB_ID=$$ SLURM_STEP_ID=0 SLURM_NODEID=0 SLURM_LOCALID=0 SLURM_STEP_TASKS_PER_NODE='2(x2)' \
	"$run" --join --join-timeout 1 -q --device host -- "$client" mark here.first wait go 2>first.err &
soon test -e here.first
check "Slurm: two nodes on one machine have a broker each" eval '[ "$(of "2(x2)" 1)" = 2 ] && touch go && wait $! && rm go'
job_of() { # VARIABLE=VALUE...: the line of broker-status that names the job
	env -u SLURM_JOB_ID -u PMIX_NAMESPACE "$@" "$run" -q --device host --name "job-$$" -- "$built/broker/broker-status" "job-$$" 2>err | sed -n "/^job /p"
}
check "broker-status has the job of Slurm" [ "$(job_of SLURM_JOB_ID=42 PMIX_NAMESPACE=prterun-host-7@1)" = "job 42 of Slurm" ]
check "where there is none of Slurm, it is that of PMIx" [ "$(job_of PMIX_NAMESPACE=prterun-host-7@1)" = "job prterun-host-7@1 of PMIx" ]
check "without a launcher there is none" [ -z "$(job_of NONE=)" ]
check "a name that is too long is none" [ -z "$(job_of SLURM_JOB_ID="$(printf '%064d' 1)")" ]
check "nor is an empty one" [ -z "$(job_of SLURM_JOB_ID=)" ]
check "nor one that is not printable" [ -z "$(job_of SLURM_JOB_ID=$'4\n2' PMIX_NAMESPACE=$'\e[31m')" ]
check "Slurm: one that is not in the list" refused "does not say how many" SLURM_LOCALID=0 SLURM_NODEID=5 'SLURM_STEP_TASKS_PER_NODE=2(x3),4,1' -- --join
mpich() {
	local r
	for r in 1 0; do MPI_LOCALRANKID=$r MPI_LOCALNRANKS=2 "$run" --join -q --device host -b u=1M -- "$client" acquire u & done
	wait -n && wait -n
}
check "MPICH: processes of one parent" mpich

if command -v mpirun >/dev/null && mpirun --version 2>/dev/null | grep -q 'Open MPI'; then
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 GPUBROKER_MODULE_PATH=$built/kernels
	mpi() {
		env -u PMIX_NAMESPACE timeout -k 5 60 mpirun --oversubscribe -n "$1" "$run" --join "${@:2}" >out 2>err </dev/null
	}
	for round in 1 2 3; do
		check "mpirun, round $round: heat in four processes is right" \
			eval 'mpi 4 --device host:2 -- "$built/examples/heat/heat" --size 64 --steps 50 && grep -q "largest error" out && grep -q balanced err'
	done
	check "mpirun: a process that fails ends the job" eval '! mpi 3 --device host -- sh -c "[ \$GPUBROKER_RANK != 1 ] || exit 3; sleep 30"'
	# mpirun does not always give the first one the time to end in order
	"$run" -q --device host -- true 2>err
	check "nothing is left" nothing_left
else
	skip "mpirun: heat in four processes is right" "no Open MPI (Debian: openmpi-bin)"
fi
plan

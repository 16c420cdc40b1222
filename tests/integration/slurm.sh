#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# slurm.sh - contrib/slurm under a real Slurm of two nodes on this machine: the tasks of a node share one broker, broker-status knows
# the job, and the epilog leaves nothing of it. All daemons are this script's own, in a network namespace that has only loopback.
# shellcheck disable=SC2016,SC2034 # what a check evaluates, and the tasks' shells, expand then, not before
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

built=$(cd "${top_builddir:?}" && pwd)
recipe=$(cd "$top_srcdir" && pwd)/contrib/slurm
run=$built/broker/broker-run
show=$built/broker/broker-status
export client=$built/tests/integration/status-client

# The jobs are a user's that Slurm finds in the system's list, and not root's: the epilog has to become that user.
as_user=(setpriv --reuid=nobody --regid=nogroup --clear-groups)
need() { # REASON COMMAND...: skips the script where the command fails
	"${@:2}" >/dev/null 2>&1 && return
	echo "1..0 # SKIP $1"
	exit 0
}
need "needs root" [ "$(id -u)" = 0 ]
for tool in slurmctld:slurmctld slurmd:slurmd sbatch:slurm-client munged:munge ip:iproute2; do
	need "there is no ${tool%:*} (Debian: ${tool#*:})" command -v "${tool%:*}"
done
need "needs a build that everybody can read" "${as_user[@]}" test -x "$run" -a -x "$client" -a -r "$recipe/gpubroker.sbatch"
if [ -z "${GPUB_SLURM_NAMESPACE-}" ]; then
	need "this user may not make namespaces" unshare -n -u true
	GPUB_SLURM_NAMESPACE=yes exec unshare -n -u bash "$0"
fi
ip link set lo up
# glibc looks up no IPv4 address where the machine has only 127.0.0.1: so it gets one of those that are reserved for examples
ip addr add 192.0.2.1/32 dev lo
hostname localhost

work=$(mktemp -d /run/gpub-slurm-XXXXXX) || exit 1
bystanders=()
# started: the pids of all that runs in this script's network namespace, as Slurm detaches what it starts
started() {
	local own process
	own=$(readlink /proc/$$/ns/net)
	for process in /proc/[1-9]*; do
		[ "$(readlink "$process/ns/net")" != "$own" ] || [ "${process#/proc/}" = $$ ] || echo "${process#/proc/}"
	done
}
cleanup() {
	[ ${#bystanders[@]} = 0 ] || { kill "${bystanders[@]}" && wait "${bystanders[@]}"; }
	for pid in $(started); do
		kill -KILL "$pid"
	done
	wait
	rm -rf "$work"
} 2>/dev/null
trap cleanup EXIT
cd "$work" || exit 1
chmod 755 .
mkdir -m 700 munge state

# ---- the cluster ----

for hook in prolog epilog; do
	cat >$hook <<-END
		#!/bin/bash
		export PATH=$built/broker:\$PATH
		$recipe/$hook.sh 2>>$work/$hook.\$SLURMD_NODENAME
	END
	chmod 755 $hook
done
export SLURM_CONF=$work/slurm.conf
cat >slurm.conf <<-END
	ClusterName=gpubroker
	SlurmctldHost=localhost(127.0.0.1)
	SlurmUser=root
	AuthType=auth/munge
	AuthInfo=socket=$work/munge/socket
	CredType=cred/munge
	StateSaveLocation=$work/state
	SlurmdSpoolDir=$work/spool.%n
	SlurmctldPidFile=$work/slurmctld.pid
	SlurmdPidFile=$work/slurmd.%n.pid
	ProctrackType=proctrack/linuxproc
	TaskPlugin=task/none
	JobAcctGatherType=jobacct_gather/none
	SelectType=select/linear
	SchedulerType=sched/builtin
	SchedulerParameters=sched_min_interval=1
	SlurmdParameters=config_overrides
	MailProg=/bin/true
	MpiDefault=none
	FirstJobId=$((10000 + $$ % 50000))
	KillWait=2
	Prolog=$work/prolog
	Epilog=$work/epilog
	NodeName=node1 NodeHostname=localhost NodeAddr=127.0.0.1 Port=17001 CPUs=2
	NodeName=node2 NodeHostname=localhost NodeAddr=127.0.0.1 Port=17002 CPUs=2
	PartitionName=all Nodes=node1,node2 Default=YES
END
daemon() { # NAME COMMAND...
	"${@:2}" >"$1.log" 2>&1 </dev/null &
}
both_idle() {
	[ "$(timeout 5 sinfo -h -N -o '%N %t' 2>err | sort | tr '\n' ' ')" = "node1 idle node2 idle " ]
}
starts() {
	head -c 128 /dev/urandom >munge/key && chmod 400 munge/key && chmod 711 munge
	daemon munged munged --foreground --force --key-file="$work/munge/key" --socket="$work/munge/socket" --pid-file="$work/munge/pid" \
		--seed-file="$work/munge/seed" --num-threads=2
	soon test -S munge/socket || return
	daemon slurmctld slurmctld -D -c
	daemon node1 slurmd -D -N node1
	daemon node2 slurmd -D -N node2
	soon both_idle
}
if ! starts; then
	cat -- *.log | sed 's/^/# /'
	echo "Bail out! Slurm does not start"
	exit 1
fi

# ---- a job ----

cat >worker <<'END'
#!/bin/sh
# One task; where there is a file "strays", another process stays behind each task that has local rank 1.
echo "$SLURMD_NODENAME $GPUBROKER_RANK/$GPUBROKER_SIZE $SLURM_PROCID" >told.$SLURM_PROCID
if [ -e strays ] && [ "$GPUBROKER_RANK" = 1 ] && [ "$SLURMD_NODENAME" = node1 ]; then
	setsid -f broker-run -q --device host -- "$client" mark stray.node1 wait never <&- >daemon.log 2>&1
elif [ -e strays ] && [ "$GPUBROKER_RANK" = 1 ]; then
	setsid -f sh -c 'echo $$ >pid.stray; : >stray.node2; exec sleep 900' <&- >daemon.log 2>&1
fi
echo $$ >pid.$SLURM_PROCID
exec "$client" acquire u mark here.$SLURM_PROCID wait go
END
chmod 755 worker

# submit: two tasks on each node; sets job. They wait for the file job/go.
submit() {
	rm -rf job
	mkdir -m 777 job
	[ "${1-}" != strays ] || : >job/strays
	job=$(cd job && "${as_user[@]}" env PATH="$built/broker:$PATH" sbatch --parsable --nodes=2 --ntasks-per-node=2 \
		"$recipe/gpubroker.sbatch" --device host -b u=1M -- "$work/worker") 2>err
}
# brokers: "INSTANCE PID" of those of the job
brokers() {
	"$show" --list -o job,instance,pid 2>err | awk -v job="$job" '$1 == job { print $2, $3 }'
}
runs() {
	[ -e job/here.0 ] && [ -e job/here.1 ] && [ -e job/here.2 ] && [ -e job/here.3 ] &&
		{ [ ! -e job/strays ] || { [ -e job/stray.node1 ] && [ -e job/stray.node2 ]; }; }
}
# remember: the processes and files of the job that are there now
remember() {
	local instance pid
	cat job/pid.* >pids 2>/dev/null
	: >files
	while read -r instance pid; do
		echo "$pid" >>pids
		echo "/dev/shm/gpubroker.$instance" >>files
		readlink "/proc/$pid"/fd/* | sed -n 's|/lock$||p' | sort -u >>files
	done < <(brokers)
	cat files pids >out
}
all_remembered() { # BROKERS PROCESSES: and of each of those brokers a status file, and its directory
	[ "$(wc -l <pids)" = $(($1 + $2)) ] && [ "$(grep -c ^/dev/shm/ files)" = "$1" ] && [ "$(grep -c '^/tmp/gpubroker-run-' files)" = "$1" ] &&
		[ "$(grep -c '^/tmp/gpubroker-join-' files)" = 2 ] && [ "$(xargs ls -d <files | wc -l)" = "$(wc -l <files)" ]
}
# Slurm names a job as long as an epilog of it runs.
has_ended() {
	[ -z "$(squeue -h -j "$job" 2>/dev/null)" ]
}
nothing_left() {
	local pid file
	{ cat job/*.out epilog.node? prolog.node? && scontrol show job "$job"; } >out 2>&1
	while read -r pid; do
		[ ! -e "/proc/$pid" ] || { echo "pid $pid is left" >>out && return 1; }
	done <pids
	while read -r file; do
		[ ! -e "$file" ] || { echo "$file is left" >>out && return 1; }
	done <files
	[ -s pids ] && [ -s files ]
}
ended_as() { # STATE
	scontrol show job "$job" >out && grep -q "JobState=$1 " out
}

submit
check "a job of two tasks on each of two nodes runs" soon runs
check "each node has local ranks of its own" eval '[ "$(cat job/told.* | sort | tr "\n" ";")" = "node1 0/2 0;node1 1/2 1;node2 0/2 2;node2 1/2 3;" ]'
brokers >out
check "and one broker" [ "$(wc -l <out)" = 2 ]
job_is_told() {
	local instance
	[ "$(brokers | wc -l)" = 2 ] || return
	while read -r instance _; do
		"$show" "$instance" >out && sed -n 4p out | grep -qx "job $job of Slurm" && "$show" --json "$instance" >out &&
			grep -A1 '"launcher": "Slurm"' out | grep -q "\"id\": \"$job\"" || return
	done < <(brokers)
}
check "broker-status has the job" job_is_told
remember
check "all that the job has is known: two brokers, two directories of each" all_remembered 2 4
: >job/go
check "the job ends, and its epilog" soon has_ended
check "all tasks succeeded, and each broker's account is balanced" eval 'ended_as COMPLETED && [ "$(grep -c "mappings 2 given, 2 returned, 0 ended by death; balanced" job/*.out)" = 2 ]'
check "nothing is left" nothing_left

# ---- jobs that do not end in order ----

# as if they were of another job, and of the same job on another node: no epilog here may end them
bystander() { # JOB NODE
	"${as_user[@]}" env SLURM_JOB_ID="$1" SLURMD_NODENAME="$2" "$run" -q --device host -- "$client" mark "$work/job/bystander.$2" wait never 2>err &
	bystanders+=("$!")
	soon test -e "job/bystander.$2"
}

submit strays
check "another job runs, which starts processes that Slurm does not find" soon runs
bystander "$job" node3
bystander $((job + 1)) node1
remember
check "three brokers are of that job, and one as if it were" eval '[ "$(brokers | wc -l)" = 4 ]'
sed -i "/^${bystanders[0]}\$/d" pids
sed -i "/^\/dev\/shm\/gpubroker\.run-${bystanders[0]}\$/d; /^\/tmp\/gpubroker-run-${bystanders[0]}\./d" files
check "all of it is known" all_remembered 3 5
scancel "$job"
check "it is cancelled, and its epilogs end" soon has_ended
check "so Slurm says" ended_as CANCELLED
check "the epilogs ended what Slurm did not" eval 'cat epilog.node1 epilog.node2 >out; [ "$(grep -c "job $job left pids .*: ending them" out)" = 2 ]'
check "nothing is left of it" nothing_left
check "the processes of another job, and of another node, run" eval 'readlink "/proc/${bystanders[0]}/exe" >out && readlink "/proc/${bystanders[1]}/exe" >out'
kill "${bystanders[@]}"
wait "${bystanders[@]}" 2>/dev/null
bystanders=()

submit
check "a third job runs" soon runs
remember
check "all that it has is known" all_remembered 2 4
kill -KILL "$(brokers | awk 'NR == 1 { print $2 }')"
check "a broker that is killed ends the job" soon has_ended
check "so Slurm says" ended_as FAILED
check "nothing is left of that either" nothing_left
check "Slurm uses both nodes as before" soon both_idle
plan

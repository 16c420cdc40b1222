#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# epilog.sh - for Slurm's Epilog, on each node: ends what a job left of broker-run, and removes what its dead brokers left.
#
# Which processes: of the user of the job (SLURM_JOB_UID), with the job's number (SLURM_JOB_ID) and this node's name
# (SLURMD_NODENAME) in their environment, that are broker-run itself or that it started: a worker, a daemon of MPS. They get
# SIGTERM, then SIGKILL. Which files: status files, host memory and directories of sockets of that user, and only those that no
# living broker has locked: broker-run removes them as it starts. All of it is done as that user, so that a process or a file of
# another one is never touched. Other jobs of the user go on.
#
# 0: nothing is left, or there is nothing to do. 1: a process does not die; Slurm drains the node then.
set -u
PATH=${PATH:+$PATH:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
patience=5 # seconds after SIGTERM
limit=15   # and after SIGKILL

job=${SLURM_JOB_ID-}
uid=${SLURM_JOB_UID-}
node=${SLURMD_NODENAME-}

say() {
	echo "${0##*/}: $*" >&2
}

# as_user COMMAND...: with nothing of Slurm's environment, and none of its files open. Other processes of that user can stop it, but
# not the timeout that ends it.
as_user() {
	local as=()
	[ "$(id -u)" != 0 ] || as=(setpriv --reuid "$uid" --regid "$gid" --clear-groups)
	timeout -s KILL 40 "${as[@]}" env -i PATH="$PATH" "$@" </dev/null >"$said" 2>&1
}

# has PID VARIABLE: a whole "NAME=VALUE", as a regular expression
has() {
	grep -qzxE -- "$2" "/proc/$1/environ"
} 2>/dev/null

# is_ours PID: this job's, on this node, and broker-run or started by it
is_ours() {
	has "$1" "SLURM_JOB_ID=$job" || return
	[ -z "$node" ] || has "$1" "SLURMD_NODENAME=$node" || return
	case $(readlink "/proc/$1/exe") in
	*/broker-run | */broker-run' (deleted)') return 0 ;;
	esac
	has "$1" '(GPUBROKER=unix:|CUDA_MPS_PIPE_DIRECTORY=)/.*/gpubroker-[^/]+\.[A-Za-z0-9]{6}/(socket|mps)'
}

# ours: the pids
ours() {
	local pid
	find /proc -maxdepth 1 -name '[1-9]*' -user "$uid" -printf '%f\n' 2>/dev/null | while read -r pid; do
		is_ours "$pid" && echo "$pid"
	done
}

# signal NAME: to all of them
signal() {
	local pids
	mapfile -t pids < <(ours)
	# shellcheck disable=SC2016 # the inner shell's words
	[ ${#pids[@]} = 0 ] || as_user bash -c 'kill -s "$@"' bash "$1" "${pids[@]}"
}

# gone SECONDS: soon there is none
gone() {
	local end=$((SECONDS + $1))
	while [ -n "$(ours)" ]; do
		[ $SECONDS -le $end ] || return
		sleep 0.1
	done
}

end_processes() {
	local pids
	pids=$(ours)
	[ -n "$pids" ] || return 0
	say "job $job left pids ${pids//$'\n'/, }: ending them"
	signal TERM
	gone $patience && return
	signal KILL
	gone $limit && return
	pids=$(ours)
	say "job $job: pids ${pids//$'\n'/, } did not end within $limit s of SIGKILL: see in /proc/PID/stack what they wait for, or restart the node"
	return 1
}

# A broker that starts removes what this user's dead ones left; this one serves nobody. It looks for sockets in /tmp and in
# XDG_RUNTIME_DIR, where they are if /tmp cannot be written.
remove_files() {
	as_user timeout 30 env XDG_RUNTIME_DIR="/run/user/$uid" broker-run --quiet --device host -- true ||
		say "what dead brokers of user $uid left in /tmp, /run/user/$uid and /dev/shm stays: $(head -c 500 "$said")"
}

if [[ ! $job =~ ^[0-9]+$ || ! $uid =~ ^[0-9]+$ || $node = *[!A-Za-z0-9._-]* ]]; then
	say "SLURM_JOB_ID and SLURM_JOB_UID are not set as Slurm sets them: name this script as Epilog in slurm.conf"
	exit 1
fi
node=${node//./\\.}
gid=${SLURM_JOB_GID-}
[[ $gid =~ ^[0-9]+$ ]] || gid=$(id -g "$uid") || exit 1
cd / || exit 1
said=$(mktemp) || exit 1
trap 'rm -f "$said"' EXIT
end_processes
status=$?
remove_files
exit $status

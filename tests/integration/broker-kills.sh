#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# broker-kills.sh - processes do everything of the public interface with one brokerd and check every result and byte (broker-kills.c),
# with each kind of export, while processes of the broker may be killed.
#
# BROKER_SECONDS (7) or BROKER_STEPS: how long, for each kind of export. BROKER_SEED (1). BROKER_KILLS (70): how often the broker's own
# process is killed meanwhile, which its keeper replaces. BROKER_UPGRADES (15): how often brokerd goes on as another image of the same
# program, beside the kills. BROKER_OWNER_KILLS: how often the owner
# of the memory is killed (0), with memory that comes by descriptors alone. The kills are spread over the seconds.
# BROKER_EXPORTS: the kinds of export. BROKER_DEVICE: host. BROKER_SAME_ADDRESS: 0 for no buffers with GPUB_SAME_ADDRESS, which several
# clients of a process must not acquire for reading first and then for writing on CUDA (docs/facts.md, "VMM").
# shellcheck disable=SC2016,SC2034,SC2119 # what a check evaluates expands then, not before; configure takes lines or none
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"
# shellcheck source=tests/own-brokerd.sh
. "$top_srcdir/tests/own-brokerd.sh"

TEST_DEVICE=${BROKER_DEVICE:-host}
top=$(cd "${top_builddir:?}" && pwd)
brokerd=$top/broker/brokerd
status=$top/broker/broker-status
program=$top/tests/integration/broker-kills
kills=${BROKER_KILLS:-70}
upgrades=${BROKER_UPGRADES:-15}
owner_kills=${BROKER_OWNER_KILLS:-0}
name=broker-kills-$$
load=''
own_folder
trap 'own_cleanup $load' EXIT
export BROKER_CTL=$top/broker/broker-ctl
export GPUB_HOST_MEMORY=${GPUB_HOST_MEMORY:-1G} BROKER_SEED=${BROKER_SEED:-1} BROKER_SECONDS=${BROKER_SECONDS:-7} BROKER_STEPS=${BROKER_STEPS:-0}

# processes PID: it and all that it started
processes() {
	local child
	echo "$1"
	for child in $(children "$1"); do processes "$child"; done
}

# weighs: names, resident KiB and descriptors of the broker's processes, each process a line
weighs() {
	local pid
	for pid in $(processes "$broker"); do
		echo "# $(cat "/proc/$pid/comm"): $(sed -n 's/^VmRSS:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$pid/status") KiB," \
			"$(find "/proc/$pid/fd" -type l | wc -l) descriptors"
	done
} 2>/dev/null

# random_below SECONDS
random_below() {
	awk -v below="$1" -v seed="$RANDOM" 'BEGIN { srand(seed); printf "%.3f", rand() * below }'
}

# strike HOW PID: kills the process, or has brokerd upgrade itself
strike() {
	case $1 in
	kill) "$program" file kill "$2" ;;
	upgrade) "$program" file kill "$broker" USR2 ;;
	esac
}

# strikes HOW COUNT COMMAND...: strikes the process that the command names, so often, while the load runs. True if a tenth of that was
# possible, since a slow machine may not start others so fast.
strikes() {
	local n=0 pid last='' pause
	pause=$(awk -v s="$BROKER_SECONDS" -v n="$2" 'BEGIN { print n ? s / n : 0 }')
	while [ "$n" -lt "$2" ] && kill -0 "$load"; do
		pid=$("${@:3}")
		if [ -n "$pid" ] && [ "$pid" != "$last" ] && strike "$1" "$pid"; then
			last=$pid n=$((n + 1))
		fi
		sleep "$(random_below "$pause")"
	done
	[ $((n * 10)) -ge "$2" ]
} 2>/dev/null

# works: the load runs to its end, and finds nothing wrong
works() {
	local good=0 killer upgrader upgraded
	"$program" file >verdict 2>out </dev/null &
	load=$!
	soon test -s file
	strikes kill "$kills" broker_of "$broker" &
	killer=$!
	strikes upgrade "$upgrades" broker_of "$broker" &
	upgrader=$!
	{ [ "$export" != vmm ] || strikes kill "$owner_kills" owner_of "$broker"; } || good=1
	wait "$killer" || good=1
	wait "$upgrader" || good=1
	upgraded=$(grep -c "made way for gpubroker" err)
	echo "# $upgraded upgrades"
	[ $((upgraded * 10)) -ge "$upgrades" ] || good=1
	wait "$load" || good=1
	load=''
	sed 's/^/# /' verdict
	return $good
}

# is_empty: nothing of the load is left in the broker
is_empty() {
	timeout 30 "$status" --json "$name" >out 2>&1
	grep -q '"buffers": \[\]' out && grep -q '"sessions": \[\]' out
}

for export in ${BROKER_EXPORTS:-ipc vmm}; do
	export GPUBROKER_EXPORT=$export
	configure
	check "$export: a brokerd starts" start
	weighs
	check "$export: all that clients do has the one right result, and all bytes are right" works
	weighs
	check "$export: no buffer and no session is left" soon is_empty
	check "$export: the broker ends, and all that was allocated is freed" eval 'stops TERM 0 && grep -q "; balanced" err'
	check "$export: nothing is left in /dev/shm" eval '! ls -d /dev/shm/gpubroker."$name"* 2>/dev/null'
done
plan

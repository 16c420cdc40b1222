#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# survive.sh - heat runs with four workers in buffers of a brokerd, once undisturbed and once while the broker's process is killed ten
# times; no worker notices, and both pictures are the same.
#
# usage: examples/survive.sh [BUILD]     BUILD: where gpubroker is built, build/ unless given
#
# DEVICE (auto): the broker's devices; STEPS (6000): the time steps. Prints the time of each run, the pause of the last kill, and where
# the pictures are. Exit status: 0 if both are the same.
set -u
build=$(realpath "${1:-$(dirname "$0")/../build}")
workers=4 kills=10
work=$(mktemp -d /tmp/survive-XXXXXX)
export GPUBROKER=unix:$work/socket GPUBROKER_MODULE_PATH=$build/kernels GPUBROKER_SIZE=$workers
printf 'socket = "%s"\ninstance = "survive-%s"\ndevice = "%s"\n' "$work/socket" $$ "${DEVICE:-auto}" >"$work/brokerd.conf"
"$build/broker/brokerd" --config "$work/brokerd.conf" 2>"$work/log" &
brokerd=$!
trap 'kill $brokerd 2>/dev/null' EXIT

for _ in $(seq 600); do
	grep -q ' serves ' "$work/log" && break
	kill -0 $brokerd 2>/dev/null || break
	sleep 0.1
done

# heat PNG: starts the workers, whose pids are in pids
heat() {
	pids=()
	for ((rank = 0; rank < workers; rank++)); do
		GPUBROKER_RANK=$rank "$build/examples/heat/heat" --size 512 --steps "${STEPS:-6000}" --mode 1,2 --png "$1" >"$work/out-$rank" 2>&1 &
		pids+=($!)
	done
}

# ends: waits for the workers. True if all ended well
ends() {
	local pid good=0
	for pid in "${pids[@]}"; do wait "$pid" || good=1; done
	[ $good = 0 ] || cat "$work"/out-*
	return $good
}

# the_broker: the process that serves
the_broker() {
	local pid
	tr " " "\n" <"/proc/$brokerd/task/$brokerd/children" | while read -r pid; do
		! grep -qx gpubroker-serve "/proc/$pid/comm" || echo "$pid"
	done
} 2>/dev/null

began=$EPOCHREALTIME
heat "$work/undisturbed.png"
ends || exit 1
seconds=$(awk -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.2f", b - a }')
echo "undisturbed: $seconds s"

began=$EPOCHREALTIME
heat "$work/killed.png"
for ((n = 0; n < kills; n++)); do
	sleep "$(awk -v s="$seconds" -v n=$kills 'BEGIN { print 0.8 * s / n }')"
	kill -KILL "$(the_broker)"
done
ends || exit 1
echo "killed $kills times: $(awk -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.2f", b - a }') s"
sed -n 's/.*: a broker was killed: /  /p' "$work/log" | tail -n 1
ls "$work"/*.png
cmp "$work/undisturbed.png" "$work/killed.png" && echo "the pictures are the same"

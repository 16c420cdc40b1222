#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# survive.sh - heat runs with four workers under broker-run, once undisturbed and once while the broker's process is killed ten times;
# no worker notices, and both pictures are the same.
#
# usage: examples/survive.sh [BUILD]     BUILD: where gpubroker is built, build/ unless given
#
# DEVICE (auto): the broker's devices; STEPS (6000): the time steps. Prints the time of each run, the pause of the last kill, and where
# the pictures are. Exit status: 0 if both are the same.
set -u
build=$(realpath "${1:-$(dirname "$0")/../build}")
kills=10
work=$(mktemp -d /tmp/survive-XXXXXX)
export GPUBROKER_MODULE_PATH=$build/kernels

# heat NAME: starts a simulation, whose picture is NAME.png and whose broker-run is $!
heat() {
	"$build/broker/broker-run" --device "${DEVICE:-auto}" --name "survive-$$" -n 4 -- \
		"$build/examples/heat/heat" --size 512 --steps "${STEPS:-6000}" --mode 1,2 --png "$work/$1.png" >"$work/$1.log" 2>&1 &
}

# ends NAME: waits for it. True if it ended well
ends() {
	wait $! || { cat "$work/$1.log" && return 1; }
}

# the_broker: the process of $! that serves
the_broker() {
	tr " " "\n" <"/proc/$!/task/$!/children" | while read -r pid; do
		! grep -qx gpubroker-serve "/proc/$pid/comm" || echo "$pid"
	done
} 2>/dev/null

began=$EPOCHREALTIME
heat undisturbed
ends undisturbed || exit 1
seconds=$(awk -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.2f", b - a }')
echo "undisturbed: $seconds s"

began=$EPOCHREALTIME
heat killed
for ((n = 0; n < kills; n++)); do
	sleep "$(awk -v s="$seconds" -v n=$kills 'BEGIN { print 0.8 * s / n }')"
	kill -KILL "$(the_broker)"
done
ends killed || exit 1
echo "killed $kills times: $(awk -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.2f", b - a }') s"
sed -n 's/.*: a broker was killed: /  /p' "$work/killed.log" | tail -n 1
ls "$work"/*.png
cmp "$work/undisturbed.png" "$work/killed.png" && echo "the pictures are the same"

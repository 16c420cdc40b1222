#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh - runs the workloads in the build folder and hands their lines to bench/report; make bench-workloads calls it.
#
# usage: run.sh RESULTS [WORKLOAD ...]       WORKLOAD: attach, publish, killed, solver, ring (all)
#
# GPU_PYTHON is a Python with torch, transformers, safetensors, CuPy and Warp (python3). GPUBROKER_PACKAGE names the folder that the
# package gpubroker is in, such as an unpacked wheel; without it, make python has built it. The ring runs a second time under an MPS
# daemon that is started for it. What is left out is said, and what fails, too.
set -u
source=$(cd "$(dirname "$0")" && pwd)
results=$1
shift
[ $# -gt 0 ] || set -- attach publish killed solver ring
python=${GPU_PYTHON:-python3}
lines=$PWD/bench/workloads.jsonl
package=${GPUBROKER_PACKAGE:-$PWD/python/lib}
failed=0

if ! [ -e "$package/gpubroker/_core.abi3.so" ]; then
	echo "bench-workloads: there is no package gpubroker in $package: make python, or set GPUBROKER_PACKAGE" >&2
	exit 1
fi
mkdir -p bench
printf '{"run":{"date":"%s","commit":"%s","load":"%s"}}\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" \
	"$(git -C "$source" describe --always --dirty 2>/dev/null || echo release)" "$(cut -d' ' -f1-3 /proc/loadavg)" >"$lines"

run() {
	echo "bench-workloads: $1" >&2
	PYTHONPATH=$package PYTHONDONTWRITEBYTECODE=1 timeout -k 5 400 \
		./broker/broker-run --quiet --pool 16G --device cuda -n 1 -- "$python" "$source/$1.py" >>"$lines" </dev/null
	case $? in
	0) ;;
	77) echo "bench-workloads: $1 is left out" >&2 ;;
	*) echo "bench-workloads: $1 failed" >&2; failed=1 ;;
	esac
}

# The daemon has no processes but ours, and ends with them.
run_under_mps() {
	local folder
	if ! command -v nvidia-cuda-mps-control >/dev/null || ! folder=$(mktemp -d); then
		echo "bench-workloads: $1 under MPS is left out: there is no nvidia-cuda-mps-control" >&2
		return
	fi
	export CUDA_MPS_PIPE_DIRECTORY=$folder CUDA_MPS_LOG_DIRECTORY=$folder
	if nvidia-cuda-mps-control -d; then
		run "$1"
	else
		echo "bench-workloads: the MPS daemon does not start" >&2
		failed=1
	fi
	echo quit | nvidia-cuda-mps-control
	unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
	rm -rf "$folder"
}

for workload; do
	run "$workload"
	[ "$workload" != ring ] || run_under_mps ring
done
[ "$(wc -l <"$lines")" = 1 ] || "$python" "$source/../report" "$lines" "$results" || failed=1
exit $failed

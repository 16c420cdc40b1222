#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh - runs the workloads in the build folder and hands their lines to bench/report; make bench-workloads calls it.
#
# usage: run.sh RESULTS [WORKLOAD ...]       WORKLOAD: attach, publish, killed (all)
#
# GPU_PYTHON is a Python with torch, transformers and safetensors (python3). GPUBROKER_PACKAGE names the folder that the package
# gpubroker is in, such as an unpacked wheel; without it, make python has built it. What is left out is said, and what fails, too.
set -u
source=$(cd "$(dirname "$0")" && pwd)
results=$1
shift
[ $# -gt 0 ] || set -- attach publish killed
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
for workload; do
	echo "bench-workloads: $workload" >&2
	PYTHONPATH=$package PYTHONDONTWRITEBYTECODE=1 timeout -k 5 400 \
		./broker/broker-run --quiet --pool 16G --device cuda -n 1 -- "$python" "$source/$workload.py" >>"$lines" </dev/null
	case $? in
	0) ;;
	77) echo "bench-workloads: $workload is left out" >&2 ;;
	*) echo "bench-workloads: $workload failed" >&2; failed=1 ;;
	esac
done
[ "$(wc -l <"$lines")" = 1 ] || "$python" "$source/../report" "$lines" "$results" || failed=1
exit $failed

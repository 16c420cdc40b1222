#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# heat-py.sh - examples/heat.py with CuPy: the closed form, and the same field for every number of workers, on one GPU and on all.
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

need_cuda
need_gpu_package
if ! "$python" -c 'import cupy, numpy' >/dev/null 2>&1; then
	echo "1..0 # SKIP $python has no CuPy"
	exit 0
fi
run=$(cd "$top_builddir" && pwd)/broker/broker-run
example=$(cd "$top_srcdir" && pwd)/examples/heat.py || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
package=$(cd "$OLDPWD" && cd "$package" && pwd)
export PYTHONPATH=$package PYTHONDONTWRITEBYTECODE=1

# solves WORKERS: leaves WORKERS.npy
solves() {
	timeout -k 5 100 "$run" --device cuda -n "$1" -- "$python" "$example" --size 511x300 --steps 200 --save "$1.npy" >out 2>err </dev/null &&
		grep -q "ranks: $1, machines: 1$" out && grep -q 'balanced$' err && ! grep -q 'NOT BALANCED' err
}
check "one worker agrees with the closed form" solves 1
for workers in 2 $((cuda_devices > 1 ? cuda_devices + 1 : 3)); do
	check "so do $workers on $cuda_devices GPU$([ "$cuda_devices" = 1 ] || echo s)" solves "$workers"
	check "and their field is the same to the bit" cmp 1.npy "$workers.npy"
done
plan

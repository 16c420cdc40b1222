#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# fake-cuda.sh - programs of tests/integration on the cuda device without a GPU: its code runs on the fake driver, as far as that goes.
# Left out is what waits in stream order, launches kernels or is several users. All of them on a GPU: tests/gpu/integration.sh.
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

fake=${top_builddir:?}/tests/fake-cuda/.libs
if [ ! -e "$fake/libcuda.so.1" ]; then
	echo "1..0 # SKIP built without CUDA"
	exit 0
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# passes PROGRAM: each of its points, and its plan
passes() {
	(
		export LD_LIBRARY_PATH=$fake${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} FAKE_CUDA=devices=1 TEST_DEVICE=cuda
		timeout -s KILL 130 "$top_builddir/tests/integration/$1" >"$work/out" 2>"$work/err" </dev/null
	) && ! grep -q '^not ok' "$work/out" && grep -q '^1\.\.[1-9]' "$work/out"
}

for kind in ipc vmm; do
	export GPUBROKER_EXPORT=$kind
	for program in cache leases many trace; do
		check "$program, on the fake driver, --export $kind" passes "$program"
		[ -s "$work/err" ] && sed "s/^/# $program: /" "$work/err"
		sed -n "s/^not ok/# $program: not ok/p" "$work/out"
	done
done
plan

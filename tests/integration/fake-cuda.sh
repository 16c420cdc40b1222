#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# fake-cuda.sh - programs of tests/integration on the cuda device without a GPU: its code runs on the fake driver, as far as that goes.
# Left out is what waits in stream order, launches kernels or is several users. All of them on a GPU: tests/gpu/integration.sh.
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

if [ ! -e "${top_builddir:?}/tests/fake-cuda/.libs/libcuda.so.1" ]; then
	echo "1..0 # SKIP built without CUDA"
	exit 0
fi
built=$(cd "$top_builddir" && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export LD_LIBRARY_PATH=$built/tests/fake-cuda/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

for kind in ipc vmm; do
	for program in cache leases many trace; do
		run_points "$program, --export $kind" \
			env FAKE_CUDA=devices=1 TEST_DEVICE=cuda GPUBROKER_EXPORT=$kind "$built/tests/integration/$program"
	done
done
plan

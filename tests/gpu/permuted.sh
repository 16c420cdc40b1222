#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# permuted.sh - tests/integration/permuted.sh on two GPUs, which CUDA_VISIBLE_DEVICES numbers otherwise for every other
# worker.
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"
unset CUDA_VISIBLE_DEVICES
need_cuda
use_gpus 2
if [ "${cuda_devices:?}" -lt 2 ]; then
	echo "1..0 # SKIP fewer than two CUDA devices"
	exit 0
fi
PERMUTED_DEVICE=cuda PERMUTED_VARIABLE=CUDA_VISIBLE_DEVICES exec bash "${top_srcdir:?}/tests/integration/permuted.sh"

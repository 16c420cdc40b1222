#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# python.sh - PyTorch, CuPy, numba, Warp and JAX, whichever this machine's Python has, share leases on its GPU:
# bindings/python/tests/test_gpu.py prints the points.
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

need_cuda
use_gpus 2
need_gpu_package
GPUBROKER_RUN=$top_builddir/broker/broker-run PYTHONPATH=$package PYTHONDONTWRITEBYTECODE=1 \
	"$python" "$top_srcdir/bindings/python/tests/test_gpu.py"

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# loading-facts.sh - what is taken for granted of the CUDA driver about loading and the legacy stream, by experiment: see
# test-loading-facts.c.
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"
need_cuda
use_gpus 2
exec "${top_builddir:?}/tests/gpu/test-loading-facts" "$top_builddir/kernels/kernels.fatbin"

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# kernels.sh - the module of kernels on a CUDA device: the bits of plain C, and so of the host twins. See
# tests/integration/kernels.c.
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"
need_cuda
use_gpus 2
exec "$top_builddir/broker/broker-run" --quiet -n 1 --device cuda -- "$top_builddir/tests/integration/kernels"

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# orders.sh - tests/integration/orders on CUDA devices: 100,000 rounds (ORDERS_ROUNDS) over one GPU, or over two where there
# are two. With ORDERS_BREAK=1 each order must fail.
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"
need_cuda
use_gpus 2
TEST_DEVICE=cuda exec "${top_builddir:?}/tests/integration/orders"

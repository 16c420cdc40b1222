#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lifetime.sh - tests/integration/lifetime.sh on CUDA devices: two where there are. Fills the first one for a while.
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"
need_cuda
use_gpus 2
LIFETIME_DEVICE=cuda LIFETIME_DEVICES=cuda LIFETIME_ROUNDS=2 exec bash "${top_srcdir:?}/tests/integration/lifetime.sh"

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parked.sh - tests/integration/parked.sh on a CUDA device.
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"
need_cuda
use_gpus 2
PARKED_DEVICE=cuda exec bash "${top_srcdir:?}/tests/integration/parked.sh"

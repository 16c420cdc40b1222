#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# survives.sh - tests/integration/survives.sh on a CUDA device: among others, a writer that dies while no broker serves.
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"
need_cuda
TEST_DEVICE=cuda exec bash "${top_srcdir:?}/tests/integration/survives.sh"

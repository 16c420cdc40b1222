#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# containers.sh - tests/integration/containers.sh on a CUDA device: what the driver does across namespaces is in facts-namespaces.c.
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"
need_cuda
use_gpus 2
TEST_DEVICE=cuda exec bash "$top_srcdir/tests/integration/containers.sh"

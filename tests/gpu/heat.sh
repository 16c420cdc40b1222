#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# heat.sh - tests/integration/heat.sh on CUDA devices: on the first, and where it spreads workers on as many as there are.
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"
need_cuda
first=${CUDA_VISIBLE_DEVICES:-0}
HEAT_VISIBLE=${first%%,*} HEAT_DEVICE=cuda HEAT_DEVICES=cuda HEAT_SHORT=37x53 HEAT_STARTED=3 exec bash "${top_srcdir:?}/tests/integration/heat.sh"

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# survives.sh - tests/integration/survives.sh and upgrade.sh on a CUDA device: among others, a writer that dies while no broker serves, and
# a brokerd that goes on as another program with the owner and its context.
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"
need_cuda
for script in survives upgrade; do
	run_points "$script" env TEST_DEVICE=cuda bash "$top_srcdir/tests/integration/$script.sh"
done
plan

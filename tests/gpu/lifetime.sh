#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lifetime.sh - tests/integration/lifetime.sh on CUDA devices: as many as there are. Fills the first one for a while.
set -u
if [ ! -e "${top_builddir:?}/kernels/kernels.fatbin" ] ||
	! "$top_builddir/broker/broker-run" --quiet --device cuda -- true 2>/dev/null; then
	echo "1..0 # SKIP no CUDA device"
	exit 0
fi
# one test at a time has the devices: lifetime.sh fills one
exec 9>"$top_builddir/tests/gpu.lock" && flock 9
LIFETIME_DEVICE=cuda LIFETIME_DEVICES=cuda LIFETIME_ROUNDS=2 exec bash "${top_srcdir:?}/tests/integration/lifetime.sh"

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# heat.sh - tests/integration/heat.sh on CUDA devices: as many as there are.
set -u
if [ ! -e "${top_builddir:?}/kernels/kernels.fatbin" ] || [ ! -e /dev/nvidiactl ]; then
	echo "1..0 # SKIP no CUDA device"
	exit 0
fi
# one test at a time has the devices: lifetime.sh fills one
exec 9>"$top_builddir/tests/gpu.lock" && flock 9
HEAT_DEVICE=cuda HEAT_DEVICES=cuda HEAT_SHORT=37x53 exec bash "${top_srcdir:?}/tests/integration/heat.sh"

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# kernels.sh - the module of kernels on a CUDA device: the bits of plain C, and so of the host twins. See
# tests/integration/kernels.c.
set -u
if [ ! -e "${top_builddir:?}/kernels/kernels.fatbin" ] || [ ! -e /dev/nvidiactl ]; then
	echo "1..0 # SKIP no CUDA device"
	exit 0
fi
# one test at a time has the devices: lifetime.sh fills one
exec 9>"$top_builddir/tests/gpu.lock" && flock 9
exec "$top_builddir/broker/broker-run" --quiet -n 1 --device cuda -- "$top_builddir/tests/integration/kernels"

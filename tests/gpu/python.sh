#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# python.sh - PyTorch, CuPy, numba, Warp and JAX, whichever this machine's Python has, share leases on its GPU:
# bindings/python/tests/test_gpu.py prints the points.
#
# GPU_PYTHON is that Python (python3). GPUBROKER_PACKAGE names an unpacked wheel, for a machine that cannot build the package.
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

need_cuda
package=${GPUBROKER_PACKAGE:-${top_builddir:?}/python/lib}
if [ -x "$top_builddir/venv/bin/python" ] && [ -z "${GPUBROKER_PACKAGE-}" ]; then
	env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS "${MAKE:-make}" -s -C "$top_builddir" python >/dev/null || exit 1
fi
if ! [ -e "$package/gpubroker/_core.abi3.so" ]; then
	echo "1..0 # SKIP the Python package is not built: GPUBROKER_PACKAGE may name an unpacked wheel"
	exit 0
fi
GPUBROKER_RUN=$top_builddir/broker/broker-run PYTHONPATH=$package PYTHONDONTWRITEBYTECODE=1 \
	"${GPU_PYTHON:-python3}" "$top_srcdir/bindings/python/tests/test_gpu.py"

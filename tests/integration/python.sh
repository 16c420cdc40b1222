#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# python.sh - the Python package, built from this tree, passes its own tests: bindings/python/tests, by pytest, each a point.
#
# It needs the virtual environment that ./bootstrap check makes where there is Python 3.11, and an index to install pytest from.
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

need_venv
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
sources=$(cd "$top_srcdir" && pwd) || exit 1
cd "$work" || exit 1
need_package

# Python itself is not built with the sanitizers, which must be loaded first; it frees little at its end.
if grep -q __asan_init "$top_builddir/libbroker/.libs/libgpubroker.so"; then
	LD_PRELOAD="$(${CC:-cc} -print-file-name=libasan.so) $(${CC:-cc} -print-file-name=libubsan.so)"
	ASAN_OPTIONS=detect_leaks=0:${ASAN_OPTIONS-}
	export LD_PRELOAD ASAN_OPTIONS
fi
# The tests are in the sources, which may be read-only: nothing is written there.
GPUBROKER_RUN=$top_builddir/broker/broker-run PYTHONPATH=$top_builddir/python/lib:$sources/bindings/python/tests \
	PYTHONDONTWRITEBYTECODE=1 MYPY_CACHE_DIR=$top_builddir/python/mypy HYPOTHESIS_STORAGE_DIRECTORY=$work/hypothesis \
	"$python" -m pytest -q -p no:cacheprovider -p tap --tap "$work/points" --rootdir "$sources/bindings/python" \
	"$sources/bindings/python/tests" >out 2>&1
status=$?
cat points
[ $status = 0 ] || sed 's/^/# /' out

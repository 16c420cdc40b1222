#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# installed.sh - make installcheck: what is installed can be used, through pkg-config, as C and as C++.
set -eu

source=${srcdir:?}/tests/install

# Both are empty unless the files were installed under a DESTDIR.
export PKG_CONFIG_SYSROOT_DIR=$DESTDIR
export PKG_CONFIG_PATH=$DESTDIR${pkgconfigdir:?}${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
export LD_LIBRARY_PATH=$DESTDIR${libdir:?}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# use_installed LANGUAGE COMPILER...: compiles program.c against the installed files and runs it.
use_installed() {
	local language=$1
	shift
	# pkg-config prints lists of flags.
	# shellcheck disable=SC2046
	"$@" $($PKG_CONFIG --cflags gpubroker) -x "$language" "$source/program.c" -x none \
		-o "$work/program" $($PKG_CONFIG --libs gpubroker)
	echo "installed, as $language: $("$work/program")"
}

# CC and CXX may be a compiler and its flags.
# shellcheck disable=SC2086
use_installed c $CC
# shellcheck disable=SC2086
use_installed c++ $CXX

# The Fortran module, where it was built.
if [ -n "$FC" ] && $PKG_CONFIG --exists gpubroker-fortran; then
	# FC may be a compiler and its flags, and pkg-config prints lists of them.
	# shellcheck disable=SC2086,SC2046
	$FC -o "$work/program" "$source/program.f90" $($PKG_CONFIG --cflags --libs gpubroker-fortran)
	echo "installed, as Fortran: $("$work/program")"
fi

# pkg-config puts the sysroot before paths in flags, but not before plain variables.
bash "$source/headers.sh" "$DESTDIR$($PKG_CONFIG --variable=includedir gpubroker)" | tee "$work/headers"
if grep -q '^not ok' "$work/headers"; then
	exit 1
fi

# A host kernel module lies where gpub_module_open() looks for one without a path.
test -f "$DESTDIR$($PKG_CONFIG --variable=moduledir gpubroker)/kernels.so"

# Neither the library nor what a program is linked with asks for the CUDA runtime or, at its start, for the driver.
if $PKG_CONFIG --libs --static gpubroker | grep -q cuda ||
	${READELF:-readelf} -d "$DESTDIR$libdir/libgpubroker.so" | grep -q 'NEEDED.*libcuda'; then
	echo "the installed library needs CUDA's libraries to start" >&2
	exit 1
fi

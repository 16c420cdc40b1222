#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# cpp.sh - gpubroker.hpp as C++11 and as C++20 beside a real broker: see cpp/cpp.cc. Where the standard library has no <mdspan>, that of
# cpp/ stands in for it.
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

source=$top_srcdir/tests/integration/cpp
library=${top_builddir:?}/libbroker/.libs
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

flags=(-O1 -Wall -Wextra -Werror -I "$top_srcdir/libbroker" -L "$library" "-Wl,-rpath,$library" -lgpubroker)
# the library's sanitizers, which its programs need too
if grep -q __asan_init "$library/libgpubroker.so"; then
	flags+=(-fsanitize=address -fsanitize=undefined)
elif grep -q __tsan_init "$library/libgpubroker.so"; then
	flags+=(-fsanitize=thread)
fi

# compiles FLAG...: CXX may be a compiler and its flags
compiles() {
	# shellcheck disable=SC2086
	$CXX -o program "$@" "$source/cpp.cc" "${flags[@]}" >out 2>err
}

has_mdspan() {
	# shellcheck disable=SC2086
	printf '#include <version>\n#ifndef __cpp_lib_mdspan\n#error none\n#endif\n' | $CXX -std=c++23 -x c++ -fsyntax-only - 2>/dev/null
}

# points AS: the program's, with the standard's name before each
points() {
	local status
	timeout -k 5 60 "$top_builddir/broker/broker-run" --quiet --device host -b 'u=f32[2,3]' -b 'b=bool[5]' -b 'z=c64[4]' -b 'long=u8[300]' \
		-b raw=24 -- ./program >points 2>err </dev/null
	status=$?
	points_of "$1" points
	check "$1: the program and the broker end well" [ "$status/$planned" = "0/$seen" ]
}

# runs AS FLAG...
runs() {
	local as=$1
	shift
	check "$as: it compiles" compiles "$@" && [ -x program ] && points "$as"
	rm -f program
}

runs C++11 -std=c++11
if has_mdspan; then
	runs C++23 -std=c++23
else
	runs C++20 -std=c++20 -I "$source" -D__cpp_lib_mdspan=202207L
fi
plan

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# examples.sh - the whole programs in the man pages compile without a warning, run under broker-run on the host device, and print
# what their page shows.
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

library=${top_builddir:?}/libbroker/.libs
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

# listing PAGE: its first program, from #include to the end of the display, with mdoc's escapes undone
listing() {
	sed -n '/^#include/,/^\.Ed/p' "$top_srcdir/man/$1" | sed '/^\.Ed/,$d; s/\\e/\\/g; s/\\-/-/g; s/\\(dq/"/g; s/\\&//g'
}

# The library's sanitizers, which its programs need too.
flags=(-Wall -Wextra -Werror -std=c11 -I "$top_srcdir/libbroker" -L "$library" "-Wl,-rpath,$library" -lgpubroker)
if grep -q __asan_init "$library/libgpubroker.so"; then
	flags+=(-fsanitize=address -fsanitize=undefined)
elif grep -q __tsan_init "$library/libgpubroker.so"; then
	flags+=(-fsanitize=thread)
fi

# compiles PAGE
compiles() {
	listing "$1" >program.c
	# CC may be a compiler and its flags.
	# shellcheck disable=SC2086
	grep -q 'int main' program.c && $CC -o program program.c "${flags[@]}" >out 2>err
}

# prints LINE COUNT OPTION...: what the program prints under broker-run with these options
prints() {
	local line=$1 times=$2
	shift 2
	"$top_builddir/broker/broker-run" --device host "$@" -- ./program >out 2>err </dev/null &&
		[ "$(grep -cx "$line" out)" = "$times" ]
}

check "gpubroker(7)'s program compiles" compiles gpubroker.7
check "two workers print what the page shows" prints 42 2 -n 2 -b u=64K
check "gpubroker(3)'s program compiles" compiles gpubroker.3
check "and it prints what its kernel wrote" prints 42 1 -n 1 -b u=64M
plan

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# examples.sh - the whole programs in the man pages, examples/hello.c, examples/pipeline and examples/tree compile without a warning as a newcomer compiles them, run
# under broker-run on the host device, and print what their page shows.
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
sanitizers=()
if grep -q __asan_init "$library/libgpubroker.so"; then
	sanitizers=(-fsanitize=address -fsanitize=undefined)
elif grep -q __tsan_init "$library/libgpubroker.so"; then
	sanitizers=(-fsanitize=thread)
fi
flags+=("${sanitizers[@]}")

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

# pipeline_is COUNT ITEMS [OPTION...]: so many workers pass so many items, in order, at streams that overtake each other
pipeline_is() {
	local workers=$1 items=$2 seed
	shift 2
	for seed in 1 2 3 4; do
		GPUB_HOST_SEED=$seed timeout -k 5 60 "$top_builddir/broker/broker-run" --device host -n "$workers" "$@" -- ./program "$items" \
			>out 2>err </dev/null || return 1
		grep -qx "producer: $items items through 3 buffers to $((workers - 1)) consumers" out &&
			[ "$(grep -cx "consumer [0-9]*: $items items, 0 of them wrong" out)" = $((workers - 1)) ] &&
			grep -q "balanced$" err || return 1
	done
}

check "gpubroker(7)'s program compiles" compiles gpubroker.7
check "two workers print what the page shows" prints 42 2 -n 2 -b u=64K
check "gpubroker(3)'s program compiles" compiles gpubroker.3
check "and it prints what its kernel wrote" prints 42 1 -n 1 -b u=64M
check "gpub_signal_on(3)'s program compiles" compiles gpub_signal_on.3
check "the number goes round a ring of four" prints "back: 42" 1 -n 4
# A worker that fails ends without a disconnect: worker 1 is to say that, not to take 0 for the number.
ring_breaks() {
	# shellcheck disable=SC2016 # the worker's shell expands
	! timeout -k 5 60 "$top_builddir/broker/broker-run" --device host -n 3 -- sh -c \
		'[ "$GPUBROKER_RANK" != 0 ] || export GPUB_HOST_FAIL=copy:1:EIO; exec ./program' >out 2>err </dev/null &&
		grep -q "^worker 0: " err && grep -q "^worker 1: .*died" err && ! grep -q "^back" out
}
check "and a worker that fails is noticed by the next" ring_breaks
# fortran_compiles: gpubroker_fortran(3)'s program, against the build tree
fortran_compiles() {
	sed -n '/^program double/,/^end program/p' "$top_srcdir/man/gpubroker_fortran.3" >program.f90
	# FC may be a compiler and its flags.
	# shellcheck disable=SC2086
	$FC -o program program.f90 "-I$fortran" "-L$fortran/.libs" "-L$library" "-Wl,-rpath,$fortran/.libs:$library" \
		"${sanitizers[@]}" -lgpubroker_fortran -lgpubroker >out 2>err
}
fortran=$top_builddir/bindings/fortran
if [ -e "$fortran/libgpubroker_fortran.la" ]; then
	check "gpubroker_fortran(3)'s program compiles" fortran_compiles
	check "and it prints the shape and the sum" prints ' *8 *2 *16\.0* *' 1 -n 1 -b 'u=f32[2,8]'
else
	skip "gpubroker_fortran(3)'s program" "there is no Fortran compiler (Debian: gfortran)"
fi
cp "$top_srcdir/examples/hello.c" program.c
# shellcheck disable=SC2086 # CC may be a compiler and its flags
check "examples/hello.c compiles" $CC -o program program.c "${flags[@]}"
check "and both workers print the number" prints "worker [01]: 42" 2 -n 2 -b u=64K,timeline
# The writer fails in its signal, and ends. The wait of the reader ends with it, at a number that is there all the same.
hello_breaks() {
	# shellcheck disable=SC2016 # the worker's shell expands
	! timeout -k 5 60 "$top_builddir/broker/broker-run" --device host -n 2 -b u=64K,timeline -- sh -c \
		'[ "$GPUBROKER_RANK" != 0 ] || export GPUB_HOST_FAIL=write:1:EIO; exec ./program' >out 2>err </dev/null &&
		! grep -q "^worker 1" out && grep -q "timeline.*died" err
}
check "a reader whose writer failed prints no number" hello_breaks
cp "$top_srcdir/examples/tree/tree.c" program.c
# shellcheck disable=SC2086
check "examples/tree compiles" $CC -o program program.c -I "$top_srcdir" "${flags[@]}"

# tree_is WORKERS NODES OPTION...: each finds all of it, at one address
tree_is() {
	local workers=$1 nodes=$2
	shift 2
	timeout -k 5 60 "$top_builddir/broker/broker-run" --device host -n "$workers" "$@" -- ./program "$nodes" >out 2>err </dev/null &&
		[ "$(grep -cE "^worker [0-9]: $nodes of $nodes keys found, their values are right, the tree is at 0x[0-9a-f]+$" out)" = "$workers" ] &&
		[ "$(sed 's/.* at //' out | sort -u | wc -l)" = 1 ] && grep -q "balanced$" err
}
check "four workers follow one worker's pointers" tree_is 4 5000
check "whatever is exported" tree_is 2 1 --export vmm
check "and on two devices" tree_is 2 777 --device host:2

cp "$top_srcdir/examples/pipeline/pipeline.c" program.c
# shellcheck disable=SC2086 # CC may be a compiler and its flags
check "examples/pipeline compiles" $CC -o program program.c "${flags[@]}"
check "a producer and three consumers pass items" pipeline_is 4 200
check "also fewer than there are buffers" pipeline_is 4 2
check "and to one consumer" pipeline_is 2 200
# shellcheck disable=SC2016 # what a check evaluates expands then, not before
check "without a consumer it says how it is started" eval \
	'! "$top_builddir/broker/broker-run" --device host -- ./program >out 2>err && grep -q "^usage: broker-run -n 2 to 64 -- pipeline" err'
# Its timeline ends with it, so the producer's stream is done, and the producer looks why.
leaves() {
	# shellcheck disable=SC2016 # the worker's shell expands
	! timeout -k 5 60 "$top_builddir/broker/broker-run" --device host -n 3 -- sh -c \
		'items=100; [ "$GPUBROKER_RANK" != 2 ] || items=5; exec ./program $items' >out 2>err </dev/null &&
		grep -qx "pipeline: worker 0: a consumer ended at item 5 of 100" err
}
check "a consumer that leaves early is noticed" leaves
plan

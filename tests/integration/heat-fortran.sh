#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# heat-fortran.sh - the heat example in Fortran under broker-run on the host device: the closed form for every number of workers, at
# streams that overtake each other; a wrong grid is refused; and an end instead of a hang when a worker ends early.
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

heat=${top_builddir:?}/examples/heat-fortran/heat-fortran
[ -x "$heat" ] || { echo "1..0 # SKIP there is no Fortran compiler (Debian: gfortran)" && exit 0; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

# solve WORKERS ARGUMENT...: leaves out and err
solve() {
	local workers=$1
	shift
	timeout -k 5 60 "$top_builddir/broker/broker-run" --device host -n "$workers" -- "$heat" "$@" >out 2>err </dev/null
}

# The error is there, it is a number, and it is small.
small_error() {
	awk '/^largest error:/ { seen = $3 ~ /^[0-9]/ && $3 + 0 <= 1e-13 } END { exit !seen }' out && grep -q 'balanced$' err
}

# right WORKERS ARGUMENT...: with each seed
right() {
	local seed
	for seed in 1 2 3; do
		GPUB_HOST_SEED=$seed solve "$@" && small_error || return 1
	done
}

# refused PATTERN WORKERS ARGUMENT...
refused() {
	local pattern=$1
	shift
	! solve "$@" && grep -q -e "$pattern" err
}

for workers in 1 2 3 8; do
	check "$workers workers agree with the closed form" right "$workers" 24 33 60
done
check "no step leaves the initial field" right 4 24 33 0
check "one step is right" right 4 24 33 1
check "one row for each worker is enough" right 3 3 5 40
check "a grid without a row for each worker is refused" refused 'each worker needs a row' 3 2 5 40
check "what is no number is refused" refused "'many' is no number" 1 24 33 many

# ends_with_worker: the last of three workers is done after five steps, which the others learn in place of its sixth
ends_with_worker() {
	# shellcheck disable=SC2016 # the worker's own
	! timeout -k 5 60 "$top_builddir/broker/broker-run" --device host -n 3 -- \
		bash -c 'exec "$0" 30 30 $((GPUBROKER_RANK == 2 ? 5 : 1000000))' "$heat" >out 2>err </dev/null &&
		grep -q 'ended before its last step' err && ! grep -q '^largest error' out
}
check "all end when a worker ends before its last step" ends_with_worker
plan

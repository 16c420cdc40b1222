#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# fortran.sh - the points of fortran.f90, under broker-run on the host device; and a program that ends where an error has no stat.
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

program=${top_builddir:?}/tests/integration/fortran
[ -x "$program" ] || { echo "1..0 # SKIP there is no Fortran compiler (Debian: gfortran)" && exit 0; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

# run ARGUMENT...: leaves out and err
run() {
	timeout -k 5 60 "$top_builddir/broker/broker-run" --device host -n 1 -- "$program" "$@" >out 2>err </dev/null
}

# stops: with the library's error message, and without going on
stops() {
	! run stop && grep -q "'absent'" err && ! grep -q 'it went on' out
}

# Those of the program come first, under its numbers; its plan is replaced.
run
status=$?
grep -v '^1\.\.' out
count=$(grep -c -e '^ok ' -e '^not ok ' out)
check "the program ends in good order" [ "$status$(grep -c '^1\.\.' out)" = 01 ]
check "all memory is accounted for" grep -q 'balanced$' err
check "an error without stat ends the program with its message" stops
plan

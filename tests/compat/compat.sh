#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# compat.sh - library and broker of different releases work together: the commits of commits.txt are built, and their programs
# of tests/integration run with today's broker, and today's programs with theirs. Each point has the commit, the side that is
# old, and its program's name before it.
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"
source=$(cd "$top_srcdir" && pwd)
today=$(cd "${top_builddir:?}" && pwd)
programs=(cache leases list manage orders publish resize tickets timelines vmm)
commits=$(sed 's/#.*//' "$source/tests/compat/commits.txt")
for commit in $commits; do
	{ [ -e "$source/.git" ] && git -C "$source" cat-file -e "$commit^{commit}" 2>/dev/null; } ||
		{ echo "1..0 # SKIP this is no clone of the repository with its history: git has no commit $commit"; exit 0; }
done
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

# build COMMIT: builds its broker and programs in ./COMMIT/build, without CUDA. What its programs look for in the processes of a
# broker (objects.c) they look for as today's do: that is no promise between releases.
build() {
	mkdir "$1" && git -C "$source" archive "$1" | tar -x -C "$1" &&
		cp "$source/tests/integration/objects.c" "$1/tests/integration/" || return
	(
		unset MAKEFLAGS MFLAGS MAKELEVEL # of the make that runs this script
		cd "$1" && autoreconf -i && mkdir -p build && cd build &&
			../configure -q --with-cuda=no CFLAGS=-O1 &&
			make -s -j "$(nproc)" broker/broker-run broker/brokerd kernels/kernels.so "${programs[@]/#/tests/integration/}"
	) >"$1.log" 2>&1 || { tail -n 20 "$1.log" >out; return 1; }
}

# points TEXT PROGRAMS BROKER: the programs of one build, with its kernels, and the broker of another
points() {
	local program
	for program in "${programs[@]}"; do
		GPUBROKER_MODULE_PATH=$2/kernels top_builddir=$3 run_points "$1: $program" "$2/tests/integration/$program"
	done
}

for commit in $commits; do
	built=
	build "$commit" && built=yes
	check "${commit:0:7} builds" [ -n "$built" ]
	[ -n "$built" ] || continue
	points "${commit:0:7}, an old library" "$work/$commit/build" "$today"
	points "${commit:0:7}, an old broker" "$today" "$work/$commit/build"
	rm -rf "${work:?}/$commit"
done
plan

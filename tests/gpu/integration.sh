#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# integration.sh - programs of tests/integration on a CUDA device, one after the other: each point has its program's name
# before it. What stands on features of the host device alone is left out by its name: see on_cuda() in harness.h.
# INTEGRATION chooses some of the programs.
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"
need_cuda
use_gpus 2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT


for program in ${INTEGRATION:-cache death drain fork gone killed leases many publish reset resize retire slabs timeline-ends timeline-pages timelines timelines-many threads trace users vmm}; do
	began=$SECONDS
	TEST_DEVICE=cuda timeout -s KILL 130 "${top_builddir:?}/tests/integration/$program" \
		</dev/null >"$work/out" 2>"$work/err"
	status=$?
	points_of "$program" "$work/out"
	echo "# $program: $((SECONDS - began)) s"
	check "$program runs to its end" [ "$planned" = "$seen" ]
	[ "$status" = 0 ] || sed "s/^/# $program: /" "$work/err"
done
plan

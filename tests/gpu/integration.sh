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
built=$(cd "${top_builddir:?}" && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

for program in ${INTEGRATION:-cache death drain fork gone killed leases many publish reset resize retire slabs timeline-ends timeline-pages timelines timelines-many threads trace users vmm}; do
	began=$SECONDS
	run_points "$program" env TEST_DEVICE=cuda "$built/tests/integration/$program"
	echo "# $program: $((SECONDS - began)) s"
done
plan

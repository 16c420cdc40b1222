#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# other-exports.sh - a kind of export works by its row of traits alone: programs of tests/integration run once more, they and
# their broker-run with the table of other-exports.c. Each point has the kind and its program's name before it.
# shellcheck disable=SC2016 # what a check evaluates expands then, not before
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"
built=$(cd "${top_builddir:?}" && pwd)
programs=$built/tests/integration/other-exports
export GPUBROKER_MODULE_PATH=$built/kernels
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
[ -z "${GPUBROKER_EXPORT-}" ] || { echo "1..0 # SKIP all tests run with GPUBROKER_EXPORT=$GPUBROKER_EXPORT"; exit 0; }

# where the harness looks for a broker-run, and for the rest of a build
mkdir build build/broker
ln -s "$built"/tests "$built"/kernels build
ln -s "$built"/broker/* build/broker
ln -sf "$programs-broker-run" build/broker/broker-run
run=$work/build/broker/broker-run

check "the kinds are those of the table" eval \
	'! "$run" --export dma -- true 2>err && grep -q "write ipc, vmm, fabric or file" err'
for kind in fabric file; do
	export GPUBROKER_EXPORT=$kind
	# the program of the build, which does not know the kind
	"$run" -q --device host --name "other-$$" -b u=4K -b g=4K,reserve=1M -- \
		sh -c '"$1" --json "$2"' sh "$built/broker/broker-status" "other-$$" </dev/null >out
	check "$kind: buffers are of that kind" grep -q '"export": "unknown"' out
	check "$kind: a buffer that may grow is of one that can" grep -q '"export": "vmm"' out
	for program in death drain leases reset retire slabs; do
		top_builddir=$work/build run_points "$kind: $program" "$programs-$program"
	done
done
plan

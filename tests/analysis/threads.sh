#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# threads.sh - the tests of concurrency under ThreadSanitizer: no data race, no mutex taken in two orders, in any process
# of broker, library or host device.
#
#   BUILD_DIR=build-tsan threads.sh [PROGRAM...]
#
# Configures that tree where it is not yet, builds what it needs, and runs the programs (tests/unit/client/test-slot, ...), as
# many at a time as there are processors. Not among them:
#   tests/integration/fork   looks for a key in all memory of a process, which has a thread sanitizer's shadow in it
#   test scripts             what they run is looked at here, or has one thread
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
here=$PWD/tests/analysis
top_srcdir=$PWD
top_builddir=$(realpath -m "${BUILD_DIR:-build-tsan}")
export top_srcdir top_builddir
failed=()

if [ $# -gt 0 ]; then
	programs=("$@")
else
	programs=(tests/unit/device/test-host-{device,memory,stream,stream-capture,connection} tests/integration/{threads,doubled,timelines,timeline-ends,gone,killed,drain,leases,capture,slabs,many,cache,retire}
		tests/unit/client/test-{slot,lease,close,table,timeline-wait} tests/unit/broker/test-{session,session-death,waiting,timeline,alive,line,owner-brokers,owner-random} tests/unit/common/test-board)
fi

configure_tree() {
	[ -e configure ] || autoreconf --install || return
	mkdir -p "$top_builddir" && cd "$top_builddir" &&
		"$top_srcdir/configure" -q --enable-werror --enable-sanitizers=thread --with-cuda=no
}

if [ ! -e "$top_builddir/Makefile" ]; then
	(configure_tree) || exit 1
fi
if ! grep -q '^SANITIZER_FLAGS = -fsanitize=thread' "$top_builddir/Makefile"; then
	echo "threads.sh: $top_builddir is no build with --enable-sanitizers=thread: name another BUILD_DIR" >&2
	exit 1
fi
make -s -C "$top_builddir" --no-print-directory -j "$(nproc)" broker/broker-run kernels/kernels.so "${programs[@]}" || exit 1

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
unset GPUBROKER GPUBROKER_RANK GPUBROKER_SIZE TEST_DEVICE
export GPUBROKER_MODULE_PATH=$top_builddir/kernels GPUB_HOST_STRICT=1 CMOCKA_MESSAGE_OUTPUT=TAP
# Each process leaves its reports in a file of its own, so that one whose exit status nobody looks at counts.
export TSAN_OPTIONS="log_path=$work/report suppressions=$here/tsan.supp second_deadlock_stack=1"

# runs PROGRAM: leaves its output and its exit status
runs() {
	local start=$SECONDS status
	(cd "$top_builddir" && timeout -k 5 180 "$1") </dev/null >"$work/${1##*/}.out" 2>&1
	status=$?
	echo "threads.sh: $1: exit $status, $((SECONDS - start)) s"
	[ "$status" = 0 ] && touch "$work/${1##*/}.good"
}

for program in "${programs[@]}"; do
	while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do
		wait -n
	done
	runs "$program" &
done
wait
for program in "${programs[@]}"; do
	[ -e "$work/${program##*/}.good" ] && continue
	failed+=("$program")
	tail -n 30 "$work/${program##*/}.out"
done
for report in "$work"/report.*; do
	[ -s "$report" ] || continue
	failed+=("$(grep -m 1 '^SUMMARY' "$report")")
	head -n 60 "$report"
done
echo "threads.sh: ${#programs[@]} programs"
[ ${#failed[@]} -eq 0 ] || printf 'threads.sh: failed: %s\n' "${failed[@]}"
[ ${#failed[@]} -eq 0 ]

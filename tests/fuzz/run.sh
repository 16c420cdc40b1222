#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh - runs fuzz targets, one after the other, and says what was found. "make fuzz" calls it in the build tree.
#
#   top_srcdir=... FUZZ_SECONDS=60 run.sh TARGET...
#
# Each target begins with the committed corpus and what earlier runs in this build tree collected (tests/fuzz/work).
# What it finds is kept in tests/fuzz/finds and named here; the exit status is then 1. FUZZ_SECONDS=0: the inputs that
# there are, once each.
set -uo pipefail
seconds=${FUZZ_SECONDS:-60}
corpora=${top_srcdir:?}/tests/fuzz/corpus
work=tests/fuzz/work
finds=tests/fuzz/finds
failed=()

unset GPUB_HOST_FAIL GPUB_HOST_SEED GPUB_HOST_VISIBLE GPUBROKER GPUBROKER_RANK GPUBROKER_SIZE
export UBSAN_OPTIONS=print_stacktrace=1${UBSAN_OPTIONS:+:$UBSAN_OPTIONS}

# fuzz TARGET: 0, or what libFuzzer ends with when something was found. A target that was aborted leaves its socket and
# its shared memory behind, under its pid.
fuzz() {
	local pid status length=-runs=0
	[ "$seconds" -eq 0 ] || length=-max_total_time=$seconds
	"tests/fuzz/fuzz-$1" "$length" -timeout=10 -rss_limit_mb=2560 "-artifact_prefix=$finds/$1-" \
		"$work/$1" "$corpora/$1" </dev/null >"$work/$1.log" 2>&1 &
	pid=$!
	wait "$pid"
	status=$?
	rm -rf "/tmp/gpub-fuzz.$pid" "/dev/shm/gpubroker.fuzz$pid" "/dev/shm/gpubroker.fuzz$pid".*
	return $status
}

# The sanitizer's or the target's own error message, and where it was; nothing but text, whatever the input was.
show() {
	{
		grep -aE -m 4 'ERROR:|VIOLATION|runtime error|^fuzz: ' "$work/$1.log"
		grep -aE -m 12 '^    #[0-9]+ .* in ' "$work/$1.log"
	} | LC_ALL=C tr -c '\t\n -~' '?'
}

mkdir -p "$finds"
for target in "$@"; do
	mkdir -p "$work/$target"
	if fuzz "$target"; then
		printf 'fuzz-%s: nothing found, %s\n' "$target" "$(grep -aE -m 1 '^Done' "$work/$target.log")"
		continue
	fi
	failed+=("$target")
	printf 'fuzz-%s: FOUND SOMETHING; the whole report: %s\n' "$target" "$PWD/$work/$target.log"
	show "$target"
	sed -n "s|.*Test unit written to |once more: $PWD/tests/fuzz/fuzz-$target $PWD/|p" "$work/$target.log"
done
[ ${#failed[@]} -eq 0 ] || printf 'fuzz: %d of %d targets found something: %s\n' "${#failed[@]}" $# "${failed[*]}"
[ ${#failed[@]} -eq 0 ]

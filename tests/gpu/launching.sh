#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# launching.sh - modules, launches and the default stream on a CUDA device (launching.c), and that an ordinary client makes no
# call that fails, as compute-sanitizer counts them.
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"
need_cuda
use_gpus 2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
program=${top_builddir:?}/tests/gpu/launching

run() {
	"$top_builddir/broker/broker-run" --quiet -n 1 --device cuda -- "$@" >out 2>err </dev/null
}

# points of the program, under this script's numbers
run "$program"
status=$?
while IFS= read -r line; do
	case $line in
	'ok '* | 'not ok '*)
		count=$((count + 1))
		echo "${line%%ok *}ok $count - ${line#*ok * - }"
		;;
	'1..'*) ;;
	*) echo "# $line" ;;
	esac
done <out
check "launching runs to its end" [ "$status" = 0 ]

sanitizer=$(PATH=$PATH:/usr/local/cuda/bin command -v compute-sanitizer)
if [ -z "$sanitizer" ]; then
	skip "an ordinary client makes no call that fails" "no compute-sanitizer"
else
	no_errors() {
		run "$sanitizer" "$program" plain && grep -q "ERROR SUMMARY: 0 errors" out err && grep -q "all of it was done" out
	}
	check "an ordinary client makes no call that fails" no_errors
fi
plan

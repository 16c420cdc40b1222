#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# mps.sh - clients under an MPS daemon of this test's own that are killed in a kernel: the broker, which stays outside, and
# its accounting is exact, and the memory comes back when the driver is done with the dead.
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"
need_cuda
use_gpus 2
need_mps
work=$(mktemp -d) || exit 1
export CUDA_MPS_PIPE_DIRECTORY=$work/pipe CUDA_MPS_LOG_DIRECTORY=$work/log
mkdir "$work/pipe" "$work/log"
trap 'echo quit -t 2 | timeout 20 nvidia-cuda-mps-control >/dev/null 2>&1; rm -rf "$work"' EXIT
cd "$work" || exit 1
if ! nvidia-cuda-mps-control -d >out 2>err </dev/null; then
	echo "1..0 # SKIP no MPS daemon starts here"
	exit 0
fi

TEST_DEVICE=cuda timeout -s KILL 240 "${top_builddir:?}/tests/integration/killed" >out 2>err </dev/null
status=$?
while IFS= read -r line; do
	case $line in
	'ok '* | 'not ok '*)
		count=$((count + 1))
		echo "${line%%ok *}ok $count - under MPS: ${line#*ok * - }"
		;;
	'1..'*) ;;
	*) echo "# $line" ;;
	esac
done <out
check "killed runs to its end" [ "$status" = 0 ]
echo get_server_list | timeout 20 nvidia-cuda-mps-control >out 2>err
check "a server served them" grep -q "^[0-9]" out
plan

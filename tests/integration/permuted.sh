#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# permuted.sh - workers that see two devices in different orders: heat gives the bits of one worker, and a buffer of one
# order is leased on both devices in the other order (permuted.c).
# PERMUTED_DEVICE (default host:2) chooses the devices, PERMUTED_VARIABLE (default GPUB_HOST_VISIBLE) orders them.
# shellcheck disable=SC2016 # expanded by the worker's shell
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

run=${top_builddir:?}/broker/broker-run
heat=$top_builddir/examples/heat/heat
program=$top_builddir/tests/integration/permuted
device=${PERMUTED_DEVICE:-host:2}
variable=${PERMUTED_VARIABLE:-GPUB_HOST_VISIBLE}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

# $1: after how many ranks the order changes
order='if [ $((GPUBROKER_RANK / $1 % 2)) = 0 ]; then order=0,1; else order=1,0; fi
	variable=$2; shift 2; exec env "$variable=$order" "$@"'

# permuted WORKERS CHANGE COMMAND...: leaves out, err and status
permuted() {
	local workers=$1 change=$2
	shift 2
	timeout -s KILL 60 "$run" -n "$workers" --device "$device" -- sh -c "$order" - "$change" "$variable" "$@" \
		>out 2>err </dev/null
	status=$?
}

same_field() {
	[ "$status" = 0 ] && cmp one many >>err 2>&1 && grep -q '^broker-run: account: .*; balanced$' err
}

timeout -s KILL 60 "$run" -n 1 --device "$device" -- "$heat" --size 70x40 --steps 200 --dump one >out 2>err </dev/null
check "heat with one worker" [ $? = 0 ]
# workers, and after how many ranks the order changes: with 1 all are on one device by different numbers, with 2 on both
for case in '2 1' '4 1' '4 2'; do
	rm -f many
	# shellcheck disable=SC2086 # two words
	permuted $case "$heat" --size 70x40 --steps 200 --dump many
	check "heat, workers and ranks of one order $case: the bits of one worker" same_field
done

permuted 2 1 "$program"
sed -n 's/^not ok /# /p' out
for text in "device numbers and UUIDs agree with the other order" "contents right on device 0" "contents right on device 1" \
	"written on device 0 and 1 under the other order, read under this one"; do
	check "a lease across orders: $text" grep -qx "ok $text" out
done
check "and nothing else is wrong" [ "$status:$(grep -vc '^ok ' out)" = 0:0 ]
check "the accounting balances" grep -q '^broker-run: account: .*; balanced$' err
plan

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lifetime.sh - the four lifetime examples under broker-run: every worker's verdict, the exit status, balanced accounting.
# LIFETIME_DEVICE (default host) and LIFETIME_DEVICES (default host:2) choose the devices; LIFETIME_ROUNDS is how often
# each is run, since what they hold against each other are threads and processes.
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

run=${top_builddir:?}/broker/broker-run
examples=$top_builddir/examples/lifetime
device=${LIFETIME_DEVICE:-host}
devices=${LIFETIME_DEVICES:-host:2}
rounds=${LIFETIME_ROUNDS:-4}
domain=(-b domain/0=64K -b domain/1=64K)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

# start WORKERS DEVICE EXAMPLE [OPTION...]: leaves out, err and status
start() {
	local workers=$1 where=$2 example=$3
	shift 3
	timeout -s KILL 60 "$run" -n "$workers" --device "$where" "$@" -- "$examples/$example" >out 2>err </dev/null
	status=$?
}

# promised WORKERS LEAST: each of them kept what it promised, at least that many things, and said nothing else was wrong
promised() {
	[ "$status" = 0 ] && ! grep -q -e WRONG -e BROKEN -e 'cannot go on' out &&
		awk -v workers="$1" -v least="$2" '
			/^\[[0-9]+\] verdict: as promised, all [0-9]+ of them$/ { if ($6 >= least) good++ }
			END { exit good != workers }' out
}

# balanced DEATHS: the broker freed as many buffers as it made, and ended that many mappings because their holder died
balanced() {
	grep '^broker-run: account: ' err | awk -v deaths="$1" '
		/; balanced$/ && $4 > 0 && $4 == $6 && /freed; mappings/ && $0 ~ " " deaths " ended by death;" { good = 1 }
		END { exit !good }'
}

told() {
	[ "$status" = 1 ] && grep -q -e "$1" out
}

for ((round = 1; round <= rounds; round++)); do
	start 3 "$device" copies
	check "round $round: copies hold and release nothing" promised 3 13
	check "round $round: copies: the accounting balances" balanced 0

	start 2 "$devices" modules
	check "round $round: one module serves all devices" promised 2 5
	check "round $round: modules: the accounting balances" balanced 0

	workers=$((1 << round % 4))
	start "$workers" "$device" ownership "${domain[@]}"
	check "round $round: the broker alone frees, with $workers workers" promised "$workers" 9
	check "round $round: ownership: the accounting balances" balanced 2
done

# A host device's memory is made small; a GPU is filled.
for ((round = 1; round <= (rounds + 1) / 2; round++)); do
	GPUB_HOST_MEMORY=16M start 2 "$device" returns
	check "round $round: memory comes free behind the work, however it was returned" promised 2 8
	check "round $round: returns: the accounting balances" balanced 0
done

if [ "$device" = host ]; then
	start 3 "$devices" modules
	check "more workers than devices" promised 3 6
	start 2 "$device" ownership
	check "ownership without a domain says how to start it" told 'start it as: broker-run'
	check "ownership without a domain: the accounting balances" grep -q '; balanced$' err
	start 2 "$device" returns
	check "returns does not fill a machine's memory" told 'start it as: GPUB_HOST_MEMORY'
	env -u GPUBROKER "$examples/copies" >out 2>err </dev/null
	status=$?
	check "no broker: one error message" told 'cannot go on: connect to the broker: '
fi

plan

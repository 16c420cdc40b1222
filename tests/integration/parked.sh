#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# parked.sh - streams that wait for a timeline hold up others of their process: how many, and that the connections which
# broker-run gives to its workers avoid a deadlock of two processes. parked.c is the worker.
#
# PARKED_DEVICE=cuda is tests/gpu/parked.sh. There the driver chooses a stream's connection, and its choice is not documented: what
# is held up is not a point then, but said. What goes on is a point on both.
# shellcheck disable=SC2016 # what a check evaluates expands then, not before
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

run=${top_builddir:?}/broker/broker-run
device=${PARKED_DEVICE:-host}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
unset CUDA_DEVICE_MAX_CONNECTIONS

# parked [OPTION...] -- WAITING OTHERS [first]: leaves out, err and status
parked() {
	local options=()
	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	shift
	timeout -k 5 120 "$run" -q --device "$device" -n 2 "${options[@]}" -- "$top_builddir/tests/integration/parked" "$@" \
		>out 2>err </dev/null
	status=$?
	sed "s/^/# /" out
}

# went_on COUNT: each worker ended well, and said so many streams
went_on() {
	[ "$status" = 0 ] && [ "$(grep -c "^rank [01]: $1 of 20 streams went on" out)" = 2 ]
}

held_up() {
	[ "$status" = 3 ] && grep -q 'held up' out
}

parked -- 8 0
check "eight streams of each of two processes wait, and what they wait for gets past them: as broker-run sets it" [ "$status" = 0 ]
parked --connections 32 -- 1 20
check "of 32 connections one waiting stream holds up none of 20 others" went_on 20
parked --connections 1 -- 8 0 first
check "what is signalled before the waits are queued gets past them on one connection" [ "$status" = 0 ]
if [ "$device" = host ]; then
	parked -- 8 20
	check "of 16 connections eight waiting streams hold up those of 20 others that share theirs" went_on 12
	parked --connections 8 -- 1 20
	check "of 8 connections one waiting stream holds up those that share its own" went_on 18
	parked --connections 8 -- 8 0
	check "with 8 connections eight waiting streams of each are a deadlock of two processes" held_up
	export CUDA_DEVICE_MAX_CONNECTIONS=8
	parked -- 8 0
	check "so they are where the environment asks for 8" held_up
else
	parked -- 8 20
	check "of 16 connections eight waiting streams leave some to others" [ "$status" = 0 ]
	echo "# with 8 connections, where the H200 of docs/facts.md had a deadlock:"
	parked --connections 8 -- 8 20
	echo "# status $status; 0: nothing was held up, 3: a deadlock"
fi
plan

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# startup.sh - the programs where their caller left them little: a strict umask. They serve, or one message says what to
# change, and nothing of theirs stays behind.
# shellcheck disable=SC2016 # what a check evaluates expands then, not before
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

brokerd=${top_builddir:?}/broker/brokerd
run=$top_builddir/broker/broker-run

work=$(mktemp -d) || exit 1
name=startup-$$
status_file=/dev/shm/gpubroker.$name
broker=''
cleanup() {
	[ -n "$broker" ] && kill -KILL "$broker"
	wait
	rm -rf "$work" "$status_file"*
} 2>/dev/null
trap cleanup EXIT
cd "$work" || exit 1
export GPUBROKER=unix:$work/run/socket XDG_RUNTIME_DIR=$work
printf 'device = host\ninstance = "%s"\nsocket = "%s"\n' "$name" "$work/run/socket" >brokerd.conf

# soon COMMAND...: becomes true within 10 seconds
soon() {
	local tries
	for ((tries = 0; tries < 200; tries++)); do
		"$@" && return
		sleep 0.05
	done
	return 1
}

is_up() {
	grep -q 'serves .* at ' err || ! kill -0 "$broker" 2>/dev/null
}

stops() {
	local code
	kill -TERM "$broker"
	wait "$broker"
	code=$?
	broker=''
	[ $code = 0 ]
}

# ---- umask ----

brokerd_mode() {
	: >err
	(umask 077 && exec "$brokerd" -c brokerd.conf >out 2>err </dev/null) &
	broker=$!
	soon is_up
	stat -c %a "$status_file" >mode
	stops && [ "$(cat mode)" = 640 ]
}
run_mode() {
	(umask 077 && exec timeout -k 5 20 "$run" --device host --name "$name" -- stat -c %a "$status_file" >out 2>err </dev/null) &&
		[ "$(cat out)" = 640 ]
}
check "umask 077: brokerd's status file is its group's to read" brokerd_mode
check "umask 077: broker-run's is, too" run_mode

check "nothing is left" test -z "$(find /dev/shm "$work" -maxdepth 1 -name "gpubroker*$name*")"

plan

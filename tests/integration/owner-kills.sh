#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# owner-kills.sh - the process that owns the device memory is killed again and again, while workers do everything and check every
# result and byte (owner-kills.c), or hold memory and use it on the device (owner-holds.c). Under the latter the broker's process is
# killed, too; broker-kills.sh kills it under workers that do everything.
#
# OWNER_KILLS: how often, with each kind of export and worker; the default takes some seconds. BROKER_KILLS: as often by default.
# OWNER_DEVICE, OWNER_BYTES (that are held), OWNER_PAUSE (longest time between two kills of the owner, in seconds): for
# tests/gpu/owner-kills.sh.
# shellcheck disable=SC2016,SC2034 # what a check evaluates expands then, not before
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"
# shellcheck source=tests/own-brokerd.sh
. "$top_srcdir/tests/own-brokerd.sh"

owner_kills=${OWNER_KILLS:-40}
broker_kills=${BROKER_KILLS:-$owner_kills}
run=$(cd "${top_builddir:?}" && pwd)/broker/broker-run
programs=${run%/broker/*}/tests/integration
device=${OWNER_DEVICE:-host}
bytes=${OWNER_BYTES:-67108864}
pause=${OWNER_PAUSE:-0.08}
name=owner-kills-$$
own_folder
trap 'own_cleanup' EXIT
export GPUB_HOST_MEMORY=1G GPUBROKER_MODULE_PATH=${run%/broker/*}/kernels

# KiB that the broker may have more in the last quarter of a run than in the second: in a short one it is still taking memory for
# the first time, and the address sanitizer keeps what is freed. owner.sh counts descriptors exactly.
more_kib=$([ "$owner_kills" -lt 200 ] && echo 2048 || echo 128)
! grep -qE "__[at]san_init" "${run%/broker/*}/libbroker/.libs/libgpubroker.so" || more_kib=65536

# kills_next: kills the victim, once that is another one than $last
kills_next() {
	local next=''
	until [ -n "$next" ] && [ "$next" != "$last" ] && kill -KILL "$next"; do
		next=$("${victim}_of" "$broker")
		kill -0 "$broker" || return 1
	done
	last=$next
} 2>/dev/null

# random_below SECONDS
random_below() {
	awk -v below="$1" -v seed="$RANDOM" 'BEGIN { srand(seed); printf "%.3f", rand() * below }'
}

# followed: how many owners, or brokers, have begun to serve after another one
followed() {
	case $victim in
	owner) grep -c "owns the device memory now" err ;;
	broker) grep -c "a broker was killed: process [0-9]* goes on" err ;;
	esac
}

# weighs: resident KiB and descriptors of broker and keeper
weighs() {
	local served
	served=$(broker_of "$broker")
	echo "$(sed -n 's/^VmRSS:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$served/status" "/proc/$broker/status" | awk '{ sum += $1 } END { print sum }')" \
		"$(find "/proc/$served/fd" "/proc/$broker/fd" -type l 2>/dev/null | wc -l)"
}

# killed VICTIM KILLS PAUSE EXPORT WORKERS PROGRAM...: true if these workers end well after the victim was killed so often
killed() {
	local victim=$1 kills=$2 pause=$3 n before last=''
	rm -f stop
	GPUBROKER_EXPORT=$4 "$run" --device "$device" --name "$name" -n "$5" -- "${@:6}" >out 2>err </dev/null &
	broker=$!
	soon is_ready "$5"
	: >weights
	for ((n = 0; n < kills; n++)); do
		before=$(followed)
		kills_next || break
		weighs >>weights
		# one in four may die while it starts
		[ $((RANDOM % 4)) = 0 ] || soon eval '[ "$(followed)" -gt "$before" ]'
		sleep "$(random_below "$pause")"
	done
	touch stop
	wait "$broker"
	status=$?
	broker=''
	[ "$n" = "$kills" ] && [ "$status" = 0 ]
}

# is_ready WORKERS: all have begun, or it is over
is_ready() {
	! kill -0 "$broker" 2>/dev/null || [ "$(grep -c "worker . begins" out)" = "$1" ]
}

works() {
	killed owner "$owner_kills" "$pause" "$1" 8 "$programs/owner-kills" "$work/stop" "${@:2}"
}

# holds VICTIM KILLS PAUSE EXPORT
holds() {
	killed "$@" 3 "$programs/owner-holds" "$work/stop" "$bytes"
}

# means: of resident memory and descriptors, in the second and in the last quarter of the run
means() {
	awk '{ part = int((NR - 1) * 4 / total); kib[part] += $1; fds[part] += $2; count[part]++ }
		END { for (part = 1; part <= 3; part += 2) printf "%.0f %.1f ", kib[part] / count[part], fds[part] / count[part]; print "" }' \
		total="$owner_kills" weights
}
is_flat() {
	read -r kib fds kib_last fds_last < <(means)
	echo "# $(victim=owner followed) owners followed; $kib and $kib_last KiB, $fds and $fds_last descriptors"
	awk -v a="$kib" -v b="$kib_last" -v c="$fds" -v d="$fds_last" -v more="$more_kib" \
		'BEGIN { exit !(b <= a + more && d <= c + 48) }'
}

for export in vmm ipc; do
	if [ $export = vmm ]; then
		check "vmm: workers do everything, the owner is killed $owner_kills times, and they notice nothing" works vmm
	else
		check "ipc: workers do everything, the owner is killed $owner_kills times, and buffers lose no more than their names" works ipc ends
	fi
	check "$export: all that was allocated is freed, each mapping returned" eval 'grep -q "; balanced" err'
	check "$export: memory and descriptors of the broker stay flat" is_flat
	check "$export: who holds memory reads and writes on, and streams that wait go on, over $owner_kills kills of the owner" \
		holds owner "$owner_kills" "$pause" $export
	check "$export: that is freed, too" eval 'grep -q "; balanced" err'
	check "$export: the same over $broker_kills kills of the broker" holds broker "$broker_kills" 0.08 $export
	check "$export: that is freed, too" eval 'grep -q "; balanced" err'
	check "$export: nothing is left in /dev/shm" eval '! ls -d /dev/shm/gpubroker."$name"* 2>/dev/null'
done
plan

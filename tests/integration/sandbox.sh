#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# sandbox.sh - programs in systems that deny some calls: an old container runtime, gVisor, an old kernel (denied.c says which calls).
# What they can do without those calls works; where a broker cannot do without one, it says at its start what is needed.
# shellcheck disable=SC2016,SC2034 # what a check evaluates expands then, not before
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

built=$(cd "${top_builddir:?}" && pwd)
ctl=$built/broker/broker-ctl
run=$built/broker/broker-run
denied=$built/tests/integration/denied
client=$built/tests/integration/status-client
name=sandbox-$$
work=$(mktemp -d) || exit 1
socket=$work/gpubroker/socket
# shellcheck source=tests/own-brokerd.sh
. "$top_srcdir/tests/own-brokerd.sh"
cleanup() {
	[ -z "$broker" ] || stops KILL 137
	rm -rf "$work" /dev/shm/gpubroker."$name"*
} 2>/dev/null
trap cleanup EXIT
cd "$work" && mkdir -m 0755 gpubroker || exit 1
unset GPUBROKER

if ! "$denied" faccessat2 2>err; then
	echo "1..0 # SKIP no calls can be denied here: $(cat err)"
	exit 0
fi

configure ''
# shellcheck disable=SC2119 # it may be given a command
start || echo "Bail out! no broker: $(cat err)"
export XDG_RUNTIME_DIR=$work

# ---- EPERM for calls that an old container runtime does not know ----

check "no faccessat2: the default socket is found" "$denied" faccessat2 -- "$client" create u 1 acquire u unlink u
check "no faccessat2: the doctor finds the broker, too" eval '"$denied" faccessat2 -- "$ctl" doctor >out 2>err; grep -q "^ok: the broker .$name. answers" out'
# Root passes every directory, unless it drops that right.
unprivileged=()
[ "$(id -u)" != 0 ] || unprivileged=(setpriv --bounding-set "-dac_override,-dac_read_search")
closed() {
	chmod 0 gpubroker
	"${unprivileged[@]}" "$denied" faccessat2 -- "$ctl" --address "unix:$socket" list >out 2>err
	chmod 0755 gpubroker
	grep -q "$work/gpubroker is closed to this process" err
}
if "${unprivileged[@]}" true 2>/dev/null; then
	check "no faccessat2: a directory that is closed to this user is named" closed
else
	skip "no faccessat2: a directory that is closed to this user is named" "root may not drop rights here"
fi
check "no faccessat2: modules are found" eval \
	'"$denied" faccessat2 -- "$run" -q --device host --name "$name-r" -n 1 -- "$built/examples/heat/heat" --size 64 --steps 10 >out 2>err'

# ---- a kernel that does not know MADV_WIPEONFORK ----

check "no MADV_WIPEONFORK: a client connects and acquires" "$denied" wipeonfork -- "$client" create u 1 acquire u unlink u
check "no MADV_WIPEONFORK: a broker serves" eval \
	'"$denied" wipeonfork -- "$run" -q --device host --name "$name-r" -n 2 -- "$built/examples/heat/heat" --size 64 --steps 10 >out 2>err'

# ---- a kernel without pidfds ----

check "no SO_PEERPIDFD: pidfd_open is enough" eval \
	'"$denied" peerpidfd -- "$run" -q --device host --name "$name-r" -n 1 -b u=64K -- "$client" acquire u >out 2>err'
check "no pidfds at all: broker-run does not start, and says which kernel is needed" eval \
	'"$denied" pidfd_open peerpidfd -- "$run" --device host --name "$name-r" -n 1 -b u=64K -- touch started >out 2>err
	[ $? = 125 ] && grep -q "pidfd_open(2) fails: Function not implemented; .*Linux 5.3 or newer" err && [ ! -e started ]'
stops TERM 0
check "brokerd neither" eval '! start "$denied" pidfd_open peerpidfd -- && grep -q "Linux 5.3 or newer" err && ended 1'
plan

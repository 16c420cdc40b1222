#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# exported.sh - --export, and programs of tests/integration once more with brokers that export memory by descriptors
# (GPUBROKER_EXPORT=vmm): each point has its program's name before it. GPUBROKER_EXPORT=vmm make check runs all tests so.
# shellcheck disable=SC2016 # what a check evaluates expands then, not before
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"
built=$(cd "${top_builddir:?}" && pwd)
run=$built/broker/broker-run
client=$built/tests/integration/status-client
export GPUBROKER_MODULE_PATH=$built/kernels
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
[ -z "${GPUBROKER_EXPORT-}" ] || { echo "1..0 # SKIP all tests run with GPUBROKER_EXPORT=$GPUBROKER_EXPORT"; exit 0; }

exports() { # FILES DESCRIPTORS OPTION...
	local files=$1 descriptors=$2
	shift 2
	"$run" -q --device host "$@" -b u=4K -- sh -c 'echo $$ >pid; exec "$0" acquire u mark here wait go' "$client" </dev/null &
	local job=$!
	soon test -e here
	pid=$(cat pid)
	[ "$(grep -c '/dev/shm/gpubroker.*\.mem/' "/proc/$pid/maps")" = "$files" ] &&
		[ "$(grep -c '/memfd:gpubroker\.mem/' "/proc/$pid/maps")" = "$descriptors" ]
	local seen=$?
	touch go
	wait "$job" || seen=1
	rm -f here go
	return $seen
}
check "a worker maps memory by its handle unless told" exports 1 0
check "--export vmm: by a descriptor" exports 0 1 --export vmm
shows() { # WHAT OPTION...: what broker-status says of the buffer, whose broker has this option
	local what=$1
	shift
	"$run" -q --device host --name exported "$@" -- sh -c '"$1" --json exported' sh "$built/broker/broker-status" </dev/null >json &&
		grep -qF "\"export\": \"$what\"" json
}
check "broker-status says how a buffer is exported" shows ipc -b u=4K
check "and that is the buffer's own" shows vmm -b u=4K,same-address
export GPUBROKER_EXPORT=vmm
check "GPUBROKER_EXPORT says so for all brokers" exports 0 1
check "--export ipc goes before it" exports 1 0 --export ipc
check "and nothing else is a kind" eval '! "$run" --export dma -- true 2>err && grep -q "write ipc or vmm" err'
GPUBROKER_EXPORT=dma
check "nor in the environment" eval '! "$run" --device host -- true 2>err && grep -q "GPUBROKER_EXPORT names no kind of export: write ipc or vmm" err'
GPUBROKER_EXPORT=vmm

for program in ${INTEGRATION:-cache death drain fork leases many publish reset retire slabs threads truncate users}; do
	run_points "$program" "$built/tests/integration/$program"
done
plan

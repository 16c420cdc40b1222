#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# placement.sh - broker-run --map and --bind: the device that each worker is told, and the processors on which it may run, as the
# process itself and broker-status see them. The driver is tests/fake-cuda/, the machine of two sockets that of two-sockets.xml.
# shellcheck disable=SC2016,SC2034 # what a check evaluates, and the workers' shells, expand then, not before
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

built=$(cd "${top_builddir:?}" && pwd)
run=$built/broker/broker-run
show=$built/broker/broker-status
client=$built/tests/integration/status-client
heat=$built/examples/heat/heat
sockets=$(cd "$top_srcdir/tests/integration" && pwd)/two-sockets.xml
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
name=place-$$
unset "${!HWLOC@}" "${!OMPI_COMM@}" "${!PMIX_SERVER@}"

# ---- which device ----

# devices TEXT DEVICES OPTION...: what the workers are told, by rank
devices() {
	local wanted=$1
	timeout -k 5 30 "$run" -q --device "host:$2" "${@:3}" -- sh -c 'echo "$GPUBROKER_RANK $GPUBROKER_DEVICE"' >out 2>err </dev/null &&
		[ "$(sort -n out | cut -d' ' -f2 | tr '\n' ' ')" = "$wanted " ]
}
check "round is the default" devices "0 1 2 0 1" 3 -n 5
check "round" devices "0 1 0 1" 2 -n 4 --map round
check "block" devices "0 0 1 1" 2 -n 4 --map block
check "block, not even" devices "0 0 1 1 2" 3 -n 5 --map block
check "block, more devices than workers" devices "0 1" 3 -n 2 --map block
refused() {
	timeout -k 5 30 "$run" --device host "${@:2}" -- true >out 2>err </dev/null
	[ $? = 125 ] && grep -q "^broker-run: .*$1" err
}
check "an order that is none is refused" refused 'round or block' --map scatter
check "a place that is none is refused" refused 'none or device' --bind core
check "heat is right with neighbours on one device" \
	eval 'GPUBROKER_MODULE_PATH=$built/kernels timeout -k 5 60 "$run" -q --device host:2 --map block -n 4 -- "$heat" --size 64 --steps 50 >out 2>err'
check "a device that is none is refused by heat" eval \
	'! timeout 30 "$run" -q --device host -- env GPUBROKER_DEVICE=first "$heat" >out 2>err && grep -q "GPUBROKER_DEVICE is .first." err'

# ---- which processors ----

# placed OPTION... : on the machine of two sockets; each worker writes a line. The file is read without libxml, which is a plugin of
# hwloc's that Debian installs by itself.
placed() {
	env LD_LIBRARY_PATH="$built/tests/fake-cuda/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" FAKE_CUDA="devices=$gpus" \
		HWLOC_XMLFILE="$sockets" HWLOC_LIBXML=0 HWLOC_THISSYSTEM=1 CUDA_MPS_PIPE_DIRECTORY="$work/none" \
		timeout -k 5 30 "${before[@]}" "$run" --device cuda --name "$name" "$@" -- \
		sh -c 'echo "$GPUBROKER_RANK $(sed -n "s/^Cpus_allowed_list:.//p" /proc/self/status)" >>cpus' </dev/null
}
joins() {
	OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_NAMESPACE=$name placed --join --bind device >>out 2>>err
}
# bound OPTION...: the same; leaves the lines, and err of two sockets; leaves a line for each worker, and err
bound() {
	placed "$@" >out 2>err
	status=$?
	processors=$(sort -n cpus | tr '\n' ' ')
	rm -f cpus
}
before=()
gpus=2
points() {
	bound -n 4 --bind device
	check "each worker runs near its device" [ "$status:$processors" = "0:0 0 1 1 2 0 3 1 " ]
	check "and no hint says otherwise" eval '! grep -q "not bound" err'
	bound -n 4 --bind device --map block
	check "also in blocks" [ "$status:$processors" = "0:0 0 1 0 2 1 3 1 " ]
	OMPI_COMM_WORLD_LOCAL_RANK=1 joins &
	OMPI_COMM_WORLD_LOCAL_RANK=0 joins
	wait $!
	check "also processes that join" [ "$(sort -n cpus | tr '\n' ' ')" = "0 0 1 1 " ]
	rm -f cpus
	bound -n 2
	check "none is the default" [ "$status:$processors" = "0:0 $all 1 $all " ]
	before=(taskset -c 0)
	bound -n 2 --bind device
	check "what broker-run may not use its workers do not get, and a hint says so" \
		eval '[ "$status:$processors" = "0:0 0 1 0 " ] && grep -q "hint: the workers of device 1 are not bound: broker-run may not use the processors near it (1)" err'
	before=()
	gpus=3
	bound -n 3 --bind device
	check "where hwloc knows nothing of a device, a hint says so, once" \
		eval '[ "$status:$processors" = "0:0 0 1 1 2 $all " ] && [ "$(grep -c "hint: the workers of device 2 are not bound: hwloc does not know" err)" = 1 ]'
}
# hwloc's plugins are no part of this, and some leave memory behind.
export HWLOC_PLUGINS_PATH=$work/none
if ! "$run" -q --device host --bind device --no-hints -- true 2>err && grep -q "built without it" err; then
	skip "workers run near their device" "built without hwloc (Debian: libhwloc-dev)"
elif [ ! -e "$built/tests/fake-cuda/.libs/libcuda.so.1" ]; then
	skip "workers run near their device" "built without CUDA"
elif ! taskset -c 0,1 true 2>/dev/null || ! taskset -c 1 true; then
	skip "workers run near their device" "the processors 0 and 1 cannot be used here"
else
	all=$(sed -n 's/^Cpus_allowed_list:.//p' /proc/self/status)
	points
fi

# ---- broker-status ----

shows() {
	taskset -c 0 timeout -k 5 30 "$run" -q --device host --name "$name" -- "$client" mark here wait go >out 2>err </dev/null &
	soon test -e here
	"$show" --json "$name" >json && "$show" "$name" >table
	touch go
	wait $!
	grep -q '"cpus": "0"' json && grep -q ' CPUS ' table
}
if [ "$(nproc)" -gt 1 ] && taskset -c 0 true 2>/dev/null; then
	check "broker-status shows where a worker may run" shows
else
	skip "broker-status shows where a worker may run" "one processor, or the first cannot be used"
fi
plan

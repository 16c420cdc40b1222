#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# driver.sh - how a real driver starts, and how it says that there is no device. One that does not work: tests/integration/driver.sh.
# shellcheck disable=SC2016,SC2034 # what a check evaluates expands then, not before
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"
need_cuda

run=${top_builddir:?}/broker/broker-run
ctl=$top_builddir/broker/broker-ctl
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

# runs DEVICE: broker-run with that device; leaves out, err and status
runs() {
	timeout -k 5 60 "$run" --device "$1" --name "driver-$$" -- true >out 2>err </dev/null
	status=$?
}

check "auto serves the GPUs" eval 'runs auto; [ "$status" = 0 ] && grep -qE "[0-9]+ cuda devices? " err'
export CUDA_VISIBLE_DEVICES=
check "no visible device: auto serves the host device" eval 'runs auto; [ "$status" = 0 ] && grep -q "1 host device " err'
check "no visible device: cuda is refused, and says why" eval 'runs cuda; [ "$status" = 125 ] && grep -q "CUDA shows no device" err'
check "the doctor says why it would be the host device" eval '"$ctl" --address "unix:$work/none" doctor >out 2>err
	grep -q "serves the host device: CUDA shows no device" out'
unset CUDA_VISIBLE_DEVICES
check "the doctor says what the driver supports" eval '"$ctl" --address "unix:$work/none" doctor >out 2>err
	grep -qE "^ok: libcuda.so.1 supports CUDA [0-9]+\.[0-9]; gpubroker needs 12\.0" out &&
	grep -qE "serves CUDA devices: [1-9]" out'
# Nothing of the runtime is in these programs: what they load of CUDA is the driver, and only the process that owns the memory does.
check "the owner of the memory has the driver's library and no runtime, the broker's own process neither" eval \
	'timeout -k 5 60 "$run" --quiet --device cuda --name "driver-$$" -- sh -c "cat /proc/\$PPID/maps /proc/\$(pgrep -P \$PPID -x gpubroker-serve)/maps >of-broker
		cat /proc/\$(pgrep -P \$PPID -x gpubroker-owner)/maps >of-owner" >out 2>err </dev/null &&
	grep -q "libcuda\.so" of-owner && ! grep -q "libcudart" of-owner && ! grep -qE "libcuda(rt)?\.so" of-broker'
plan

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# load.sh - broker-ctl load and save on a CUDA device: pinned blocks, copies of their own streams, and files that come back as they were.
# What a load refuses, and what is left of one that ends in the middle, is in tests/integration/load.sh.
# shellcheck disable=SC2016 # what a check evaluates expands then, not before
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"
need_cuda
use_gpus 2
run=$top_builddir/broker/broker-run
ctl=$top_builddir/broker/broker-ctl
work=$(mktemp -d /dev/shm/gpubroker-load.XXXXXX) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

# under COMMAND: with a broker, whose accounting has to be balanced at the end
under() {
	timeout -k 5 300 "$run" --quiet --device cuda --name "load-$$" -- bash -c "$1" >out 2>err </dev/null
}
export ctl

head -c 1000000000 /dev/urandom >bytes.bin
check "a gigabyte goes through pinned blocks and comes back" under \
	'"$ctl" load b bytes.bin && "$ctl" save b again.bin && cmp bytes.bin again.bin'
check "a size that no block divides, in two steps" under \
	'head -c 16777217 bytes.bin >odd.bin && "$ctl" load o odd.bin && "$ctl" save o again.bin && cmp odd.bin again.bin'
check "the bytes of an array" under \
	'"$ctl" create u "f32[1000,1003]" && "$ctl" save u u.bin && "$ctl" load v u.bin && "$ctl" save v v.bin && cmp u.bin v.bin'
check "a version replaces the one before, sealed" under \
	'"$ctl" load p odd.bin && "$ctl" load p bytes.bin --replace --seal && "$ctl" save p again.bin && cmp bytes.bin again.bin'
plan

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# need-cuda.sh - what decides whether the scripts of tests/gpu run: need_cuda() in tests/tap.sh. They are skipped where a broker finds
# no CUDA device, and fail where a driver or a GPU does not work. The broker is one that says what it is told, so that this is
# held on every machine; then the real one, on the fake driver of tests/fake-cuda where that was built.
# shellcheck disable=SC2016,SC2034 # what a check evaluates expands then, not before
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

fake=${top_builddir:?}/tests/fake-cuda/.libs
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

# A build folder of its own has a lock of its own: GPU tests that run meanwhile are not waited for.
mkdir -p told/broker told/tests real/tests
ln -s "$top_builddir/broker" real/broker
cat >told/broker/broker-run <<'END'
#!/bin/sh
# Its arguments begin with --device DEVICE. The first two lines are what other tests' brokers may cause.
echo "broker-run: removed what the dead broker x left" >&2
case $2 in
cuda) echo "broker-run: $CUDA" ;;
*) echo "broker-run: $AUTO" ;;
esac >&2
case $2:$CUDA:$AUTO in
cuda:1\ worker,* | auto:*:1\ worker,*) echo "broker-run: account: balanced" >&2 ;;
*) exit 125 ;;
esac
END
chmod +x told/broker/broker-run
echo '. "$top_srcdir/tests/tap.sh"; need_cuda; check "it ran on $cuda_devices" true; plan' >gpu-test.sh
echo '. "$top_srcdir/tests/tap.sh"; need_cuda; use_gpus $MOST; check "it ran on $cuda_devices, $CUDA_VISIBLE_DEVICES" true; plan' >visible-test.sh

# told CUDA AUTO: a GPU test whose broker answers so when it is asked for the device cuda and for auto
told() {
	CUDA=$1 AUTO=$2 top_builddir=$work/told bash gpu-test.sh >out 2>err </dev/null
}
# on ORDERS: a GPU test with the real broker, on the fake driver
on() {
	LD_LIBRARY_PATH=$fake${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} FAKE_CUDA=$1 top_builddir=$work/real \
		bash gpu-test.sh >out 2>err </dev/null
}

ran() {
	printf 'ok 1 - it ran on 2\n1..1\n' | cmp -s - out && [ ! -s err ]
}
# skipped REASON: with that as the whole reason
skipped() {
	[ "$(cat out)" = "1..0 # SKIP $1" ]
}
# failed PATTERN: one point, which says so
failed() {
	[ "$(grep -vc '^#' out)" = 2 ] && grep -q '^not ok 1 ' out && grep -q '^1\.\.1$' out && grep -q "^# .*$1" out
}

none="CUDA shows no device: see nvidia-smi"
broken="the NVIDIA driver cannot start: CUDA_ERROR_SYSTEM_NOT_READY"
host="1 worker, 1 host device (host device 0)"
gpus="1 worker, 2 cuda devices (NVIDIA H200)"

check "where a broker serves GPUs a GPU test runs, and knows how many they are" eval 'told "$gpus" "$gpus"; ran'
# sees MOST VISIBLE LINE: a GPU test that uses so many of eight
sees() {
	CUDA="1 worker, 8 cuda devices (NVIDIA H200)" AUTO=none MOST=$1 CUDA_VISIBLE_DEVICES=$2 top_builddir=$work/told \
		bash visible-test.sh >out 2>err </dev/null
	grep -qx "ok 1 - it ran on $3" out && [ ! -s err ]
}
check "one that uses two of eight sees those alone, and says so" eval 'sees 2 "" "2, 0,1" && grep -qx "# on 2 of 8 GPUs" out'
check "the first two of those that are visible" sees 2 7,5,3,1,0,2,4,6 "2, 7,5"
check "one that could use more sees all" sees 8 "" "8, "
check "where a broker finds no device it is skipped, with the broker's reason" eval \
	'told "$none" "$host"; skipped "no CUDA device: $none"'
check "where auto fails too it fails, and says what the broker said" eval 'told "$broken" "$broken"; failed "$broken"'
check "a GPU that works the second time alone is no reason to skip" eval 'told "$broken" "$gpus"; failed "$broken"'

# all CUDA AUTO VERDICT...: each script of tests/gpu has that verdict. This build folder has no programs that one could run.
all() {
	local script differ=0
	for script in "$top_srcdir"/tests/gpu/*.sh; do
		CUDA=$1 AUTO=$2 top_builddir=$work/told bash "$script" >out 2>err </dev/null
		"${@:3}" || { echo "# $script" && differ=1; }
	done
	return $differ
}
check "each script of tests/gpu is skipped so" all "$none" "$host" skipped "no CUDA device: $none"
check "each fails so" all "$broken" "$broken" failed "$broken"

# ---- the real broker ----

if [ ! -e "$fake/libcuda.so.1" ]; then
	check "in a build without CUDA it is skipped" eval 'on ""; grep -q "^1\.\.0 # SKIP no CUDA device: .*built without CUDA" out'
	plan
	exit 0
fi
for orders in cuInit=100 devices=0; do
	check "$orders: skipped" eval 'on "$orders"; grep -q "^1\.\.0 # SKIP no CUDA device: $none" out'
done
check "the fake driver's devices are not taken for GPUs" eval 'on devices=2; grep -q "^1\.\.0 # SKIP .*fake" out'
check "cuInit=802: failed" eval 'on cuInit=802; failed CUDA_ERROR_SYSTEM_NOT_READY'
check "cuInit=999: failed" eval 'on cuInit=999; failed CUDA_ERROR_UNKNOWN'
check "a driver that is too old: failed" eval 'on version=11080; failed "too old: it supports CUDA 11.8"'
plan

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# driver.sh - where there is no NVIDIA driver or no device, --device auto takes the host device; a driver or a device that does not
# work is an error that names it, for broker-run, brokerd, a client and the doctor. The driver is tests/fake-cuda/, or none.
# shellcheck disable=SC2016 # what a check evaluates expands then, not before
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

fake=${top_builddir:?}/tests/fake-cuda/.libs
if [ ! -e "$fake/libcuda.so.1" ]; then
	echo "1..0 # SKIP built without CUDA"
	exit 0
fi
run=$top_builddir/broker/broker-run
ctl=$top_builddir/broker/broker-ctl
client=$top_builddir/tests/integration/status-client
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
unset CUDA_VISIBLE_DEVICES

# on ORDERS COMMAND...: COMMAND, and all that it starts, on the fake driver
on() {
	env LD_LIBRARY_PATH="$fake${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" FAKE_CUDA="$1" "${@:2}"
}

# with FOLDER COMMAND...: COMMAND finds its libcuda.so.1 in FOLDER
with() {
	env LD_LIBRARY_PATH="$work/$1${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "${@:2}"
}

# runs DEVICE PREFIX...: broker-run under PREFIX; leaves out, err and status, and a file ran where a worker did
runs() {
	rm -f ran
	"${@:2}" timeout -k 5 20 "$run" --device "$1" --name "driver-$$" -- touch ran >out 2>err </dev/null
	status=$?
}

# serves KIND DEVICE PREFIX...: it takes KIND
serves() {
	runs "${@:2}"
	[ "$status" = 0 ] && grep -q "1 worker, [0-9]* $1 device" err && [ -e ran ]
}

# fails PATTERN DEVICE PREFIX...: it is refused with one error message, and no worker runs
fails() {
	runs "${@:2}"
	# other tests' brokers die meanwhile
	[ "$status" = 125 ] && [ "$(grep -vc 'removed what the dead broker' err)" = 1 ] && grep -q "^broker-run: .*$1" err && [ ! -e ran ]
}

# ---- no device ----

for orders in cuInit=100 devices=0 cuDeviceGetCount=100; do
	check "$orders: auto serves the host device" serves host auto on "$orders"
	check "$orders: cuda is refused" fails 'CUDA shows no device: see nvidia-smi' cuda on "$orders"
done
check "a device: auto serves it" serves cuda auto on devices=2

# ---- a device or a driver that does not work ----

# broken ORDERS PATTERN
broken() {
	check "$1: auto says what is broken" fails "$2" auto on "$1"
	check "$1: so does cuda" fails "$2" cuda on "$1"
}
broken cuInit=802 'CUDA_ERROR_SYSTEM_NOT_READY .*nvidia-fabricmanager'
broken cuInit=803 'CUDA_ERROR_SYSTEM_DRIVER_MISMATCH .*different versions: reboot'
broken cuInit=804 'forward-compatible'
broken cuInit=304 'CUDA_ERROR_OPERATING_SYSTEM .*/dev/nvidia'
broken cuInit=999 'CUDA_ERROR_UNKNOWN .*nvidia-smi'
broken cuInit=34 'stub'
broken cuInit=46 'exclusive mode'
broken cuInit=101 'CUDA_ERROR_INVALID_DEVICE .*CUDA_VISIBLE_DEVICES'
broken cuInit=102 'licence'
broken cuInit=805 'MPS daemon does not answer'
broken cuDeviceGetCount=999 'CUDA_ERROR_UNKNOWN'
broken version=11080 'too old: it supports CUDA 11\.8, and gpubroker needs 12\.0; install driver 525\.60\.13 or newer'
broken missing=cuLibraryLoadFromFile "$fake/libcuda.so.1 .*has no cuLibraryLoadFromFile: reinstall"

# ---- a library that is none ----

mkdir text stub dependent
echo "not a library" >text/libcuda.so.1
check "a libcuda.so.1 that is no library: auto says so" fails 'cannot be loaded: .*/text/libcuda\.so\.1: .*; reinstall' auto with text

# The toolkit's own, which is called libcuda.so unless somebody links it.
toolkit=${CUDA_LIBS%% *}
ln -s "${toolkit#-L}/stubs/libcuda.so" stub/libcuda.so.1
if [ -e stub/libcuda.so.1 ]; then
	check "the toolkit's stub: auto says so" fails 'stub/libcuda\.so\.1 is a stub of the CUDA toolkit.*LD_LIBRARY_PATH' auto with stub
else
	skip "the toolkit's stub: auto says so" "there is none in the toolkit"
fi

# CC may be a compiler and its flags.
# shellcheck disable=SC2086
if echo 'int gone;' | ${CC:?} -shared -fPIC -Wl,-soname,libgone-$$.so -o libgone.so -x c - 2>/dev/null &&
	echo 'int cuda;' | $CC -shared -fPIC -Wl,-soname,libcuda.so.1 -o dependent/libcuda.so.1 -x c - -x none \
		-Wl,--no-as-needed ./libgone.so 2>/dev/null; then
	check "a library that it needs is missing: auto names it" fails "cannot be loaded: libgone-$$\.so: " auto with dependent
else
	skip "a library that it needs is missing: auto names it" "cannot be made with this compiler"
fi

# The dynamic loader says by itself whether it finds one.
mkdir empty
if [ -n "$(LD_PRELOAD=libcuda.so.1 env true 2>&1)" ]; then
	check "no libcuda.so.1 anywhere: auto serves the host device" serves host auto with empty
	check "and cuda is refused" fails 'no NVIDIA driver: libcuda\.so\.1 is not found; install' cuda with empty
	check "the doctor says why it is the host device" eval '"$ctl" --address "unix:$work/none" doctor >out 2>err; grep -q \
		"^ok: a broker that is started here serves the host device: no NVIDIA driver: libcuda.so.1 is not found" out'
else
	for point in "no libcuda.so.1 anywhere: auto serves the host device" "and cuda is refused" \
		"the doctor says why it is the host device"; do
		skip "$point" "a driver is installed here"
	done
fi

# ---- who else starts the device ----

# daemon PATTERN ORDERS: a brokerd with the default device does not start, and says why
daemon() {
	printf 'socket = "%s/socket"\ninstance = "driver-%s"\n' "$work" $$ >conf
	on "$2" timeout -k 5 20 "$top_builddir/broker/brokerd" --config conf >out 2>err </dev/null
	status=$?
	[ "$status" = 1 ] && grep -q "$1" err
}
check "brokerd does not start on a broken GPU" daemon 'CUDA_ERROR_SYSTEM_NOT_READY' cuInit=802

# inside ORDERS COMMAND...: COMMAND is a worker of a broker whose driver works, with another one itself
inside() {
	on devices=1 timeout -k 5 20 "$run" --quiet --device cuda --name "driver-$$" -- env FAKE_CUDA="$1" \
		"${@:2}" >out 2>err </dev/null
}
check "a client uses the device" inside devices=1 "$client" create u 4 acquire u unlink u
check "a client whose driver is broken is told what is" eval '! inside cuInit=802 "$client" acquire u && grep -q CUDA_ERROR_SYSTEM_NOT_READY err'
check "a client that sees no device is told so" eval '! inside devices=0 "$client" acquire u && grep -q "CUDA shows no device" err'

# The doctor, in the place of a client and alone.
check "the doctor finds devices and driver in order" eval 'inside devices=1 "$ctl" doctor && ! grep -q "^FAIL" out &&
	grep -q "^ok: libcuda.so.1 supports CUDA 12.0; gpubroker needs 12.0$" out && grep -q "device 0 here: a buffer was created and mapped$" out'
check "a driver that is broken: FAIL, and what is" eval '! inside cuInit=803 "$ctl" doctor && grep -q "^FAIL: .*SYSTEM_DRIVER_MISMATCH" out'
check "one that is too old: FAIL, its version and the minimum" eval '! inside version=11040 "$ctl" doctor &&
	grep -q "^FAIL: .*too old: it supports CUDA 11.4, and gpubroker needs 12.0; install driver 525.60.13 or newer" out'
alone() {
	on "$1" "$ctl" --address "unix:$work/none" doctor >out 2>err
	grep -q "$2" out
}
check "alone, too" alone version=11040 '^FAIL: .*too old: it supports CUDA 11.4'
check "alone, a broken GPU is not called the host device" eval 'alone cuInit=999 "^FAIL: .*CUDA_ERROR_UNKNOWN" && ! grep -q "serves the host device" out'
check "alone, no device is, with the reason" alone devices=0 '^ok: a broker that is started here serves the host device: CUDA shows no device'
check "alone, a device is served" alone devices=2 '^ok: a broker that is started here serves CUDA devices: 2'

plan

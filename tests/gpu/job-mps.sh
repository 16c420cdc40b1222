#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# job-mps.sh - broker-run --mps with a real daemon: the field is right, a worker that is killed in a kernel ends the others with a
# message and leaves the accounting exact, limits hold, many workers, two jobs of two users at once, and nothing is left.
# shellcheck disable=SC2016,SC2034 # what a check evaluates, and the workers' shells, expand then, not before
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"
need_cuda
need_mps

build=$(cd "${top_builddir:?}" && pwd)
run=$build/broker/broker-run
heat=$build/examples/heat/heat
client=$build/tests/integration/status-client
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
cd "$work" || exit 1
mkdir none
unset CUDA_VISIBLE_DEVICES "${!CUDA_MPS@}"
export CUDA_MPS_PIPE_DIRECTORY=$work/none client
several=$((2 * cuda_devices))
# daemons PROGRAM: how many processes of MPS there are, of this user or of any other
daemons() {
	grep -lsa "^$1" /proc/[0-9]*/cmdline | wc -l
}
before=$(daemons nvidia-cuda-mps)

# runs OPTION... -- COMMAND...
runs() {
	timeout -k 5 120 "$run" --device cuda --mps auto --name "job-mps-$$" "$@" >out 2>err </dev/null
	status=$?
}
own() {
	grep -q 'under an MPS daemon of their own' err
}
balanced() {
	grep -q '; balanced$' err
}
nothing_left() {
	[ "$(daemons nvidia-cuda-mps)" = "$before" ] && [ -z "$(find /tmp -maxdepth 1 -name "gpubroker-job-mps-$$.*")" ]
}

# ---- it works ----

for workers in "$several" $((4 * cuda_devices)) $((8 * cuda_devices)); do
	runs -n "$workers" -- "$heat" --size 512 --steps 200
	check "$workers workers under a daemon of their own: heat is right" eval '[ "$status" = 0 ] && own && balanced'
done
check "daemon and server have ended with the job" nothing_left
runs -n 48 -b u=4K -- "$client" acquire u
check "48 workers on one GPU" eval '[ "$status" = 0 ] && own && balanced'
CUDA_VISIBLE_DEVICES=0 runs -n 4 -- "$heat" --size 512 --steps 200
check "with some of the GPUs visible" eval '[ "$status" = 0 ] && own && balanced'

# ---- limits ----

sms='import ctypes
cuda = ctypes.CDLL("libcuda.so.1"); n = ctypes.c_int()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(ctypes.c_void_p()), 0) == 0
assert cuda.cuDeviceGetAttribute(ctypes.byref(n), 16, 0) == 0
print(n.value)'
if command -v python3 >/dev/null; then
	runs --mps no -- python3 -c "$sms"
	all=$(cat out)
	runs --mps yes --mps-threads 25 -- python3 -c "$sms"
	check "--mps-threads 25: a quarter of the multiprocessors ($(cat out) of $all)" eval '[ "$(cat out)" -le $((all / 3)) ]'
else
	skip "--mps-threads" "there is no python3 (Debian: python3)"
fi
runs --mps yes --mps-memory 8G -b big=4G -- "$client" acquire big
check "--mps-memory: what is mapped within the limit" eval '[ "$status" = 0 ] && own && balanced'
runs --mps yes --mps-memory 1G -b big=4G -- "$client" acquire big
check "and not beyond: it counts as if the worker had allocated it" eval '[ "$status" = 1 ] && grep -q CUDA_ERROR_OUT_OF_MEMORY err && balanced'

# ---- a worker is killed in a kernel ----

for round in 1 2 3; do
	rm -f victim
	timeout -k 5 60 "$run" --device cuda --mps auto --name "job-mps-$$" -n $((several + 2)) -- sh -c '
		if [ "$GPUBROKER_RANK" = 1 ]; then echo $$ >victim; fi; exec "$0" --size 8192 --steps 100000000' "$heat" >out 2>err </dev/null &
	job=$!
	soon test -s victim
	sleep "$((round + 1))"
	kill -KILL "$(cat victim)"
	wait "$job"
	status=$?
	check "round $round: the others end when a worker is killed in a kernel" [ "$status" = 137 ]
	check "round $round: what they see is said" grep -q 'if worker 1 died in a kernel' err
	check "round $round: each says why it stops" eval '[ "$(grep -c "^heat\[[0-9]*\]: " err)" = $((several + 1)) ]'
	check "round $round: the accounting is exact" balanced
	check "round $round: nothing is left" nothing_left
done
timeout -k 5 60 "$run" --device cuda --mps auto --name "job-mps-$$" -n $((several + 2)) -- \
	sh -c 'echo $PPID >broker; echo $$ >>workers; exec "$0" --size 1024 --steps 100000000' "$heat" >out 2>err </dev/null &
job=$!
soon eval '[ "$(wc -l <workers)" = $((several + 2)) ]'
sleep 2
kill -KILL "$(cat broker)"
wait "$job"
check "SIGKILL of broker-run: workers, daemon and server end" soon eval '[ "$(daemons nvidia-cuda-mps)" = "$before" ]'
runs -n 1 -- true
check "and the next broker removes what it left" [ -z "$(find /tmp -maxdepth 1 -name "gpubroker-job-mps-$$.*")" ]

# between kernels
timeout -k 5 60 "$run" --device cuda --mps auto --name "job-mps-$$" -n "$several" -b u=1M -- \
	sh -c 'echo $$ >"pid.$GPUBROKER_RANK"; exec "$client" acquire u mark "here.$GPUBROKER_RANK" wait go create "v$GPUBROKER_RANK" 1 acquire "v$GPUBROKER_RANK"' >out 2>err </dev/null &
job=$!
soon eval '[ -e here.0 ] && [ -e here.1 ]'
kill -KILL "$(cat pid.1)"
sleep 1
touch go
wait "$job"
check "a worker that is killed between kernels: the others go on" \
	eval '[ "$(grep -c "^broker-run: worker" err)" = 1 ] && ! grep -q "^status-client" err && balanced'
rm go

# ---- two users ----

# as USER TAG: a job under a daemon of that user's own
as() {
	mkdir "run-$1" && chown "$1" "run-$1"
	setpriv --reuid "$1" --regid "$1" --clear-groups env LD_LIBRARY_PATH="$work/lib:$LD_LIBRARY_PATH" \
		timeout -k 5 60 "$work/broker-run" --device cuda --mps auto --name "user-$1" -n "$several" -b u=1M -- \
		"$work/status-client" acquire u mark "$work/run-$1/here" wait "$work/go" >"out-$1" 2>"err-$1" </dev/null
}
# libraries that the build was given may lie where no other user may read
others_can() {
	setpriv --reuid 4001 --regid 4001 --clear-groups env LD_LIBRARY_PATH="$work/lib:$LD_LIBRARY_PATH" \
		"$work/broker-run" --version >out 2>err
}
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
	export LD_LIBRARY_PATH=${LD_LIBRARY_PATH-}
	mkdir lib && cp -L "$build"/.libs/libgpubroker.so* "$build"/libbroker/.libs/libgpubroker.so* lib/ 2>/dev/null
	cp "$run" "$build/tests/integration/.libs/status-client" .
fi
if [ -d lib ] && others_can; then
	as 4001 &
	first=$!
	as 4002 &
	second=$!
	check "two jobs of two users at once" soon eval '[ -e run-4001/here ] && [ -e run-4002/here ]'
	check "have two daemons" [ "$(daemons nvidia-cuda-mps-control)" -ge 2 ]
	touch go
	wait $first
	one=$?
	wait $second
	two=$?
	cat err-4001 err-4002 >err
	check "and end well" eval '[ $one = 0 ] && [ $two = 0 ] && [ "$(grep -c "; balanced" err)" = 2 ]'
else
	skip "two jobs of two users" "needs root, setpriv, and a build that everybody can read"
fi
check "nothing is left" eval 'nothing_left && [ -z "$(find /tmp -maxdepth 1 -name "gpubroker-user-400[12].*")" ]'
plan

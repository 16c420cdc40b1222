#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# mps.sh - broker-run --mps: when an MPS daemon is started, what it and the workers find in their environment, that it ends with the
# job however that ends, and what is said. The driver is tests/fake-cuda/, the daemon fake-mps-control.sh.
# shellcheck disable=SC2016,SC2034 # what a check evaluates expands then, not before
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

fake=$(cd "${top_builddir:?}/tests/fake-cuda/.libs" 2>/dev/null && pwd)
if [ ! -e "$fake/libcuda.so.1" ]; then
	echo "1..0 # SKIP built without CUDA"
	exit 0
fi
run=$(cd "$top_builddir/broker" && pwd)/broker-run
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/log" "$work/none" "$work/present"
cp "$top_srcdir/tests/integration/fake-mps-control.sh" "$work/bin/nvidia-cuda-mps-control" || exit 1
cd "$work" || exit 1
unset CUDA_VISIBLE_DEVICES CUDA_DEVICE_MAX_CONNECTIONS "${!CUDA_MPS@}"
export FAKE_MPS_LOG=$work/log FAKE_CUDA=devices=2 FAKE_MPS=
# no daemon of this machine's own is seen
export CUDA_MPS_PIPE_DIRECTORY=$work/none PATH=$work/bin:$PATH
export LD_LIBRARY_PATH="$fake${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

path=$PATH
# runs OPTION... : leaves status, err, and each worker's environment in workers/RANK
runs() {
	rm -rf workers log/*
	mkdir workers
	timeout -k 5 60 env PATH="$path" "$run" --device cuda --mps auto --name "mps-$$" "$@" -- \
		bash -c 'env >"workers/$GPUBROKER_RANK"; [ ! -d "$CUDA_MPS_PIPE_DIRECTORY" ] || ls "$CUDA_MPS_PIPE_DIRECTORY" >workers/files' \
		>out 2>err </dev/null
	status=$?
}

variable() { # FILE NAME: its value
	sed -n "s/^$2=//p" "$1"
}

gone() { # FILE: the process whose pid it has
	[ -s "log/$1" ] && ! kill -0 "$(cat "log/$1")" 2>/dev/null
}

nothing_left() {
	[ -z "$(find /tmp -maxdepth 1 -name "gpubroker-mps-$$.*")" ]
}

without() { # what a run without MPS leaves
	[ "$status" = 0 ] && [ ! -e log/daemon ] && [ "$(variable workers/0 CUDA_MPS_PIPE_DIRECTORY)" = "$work/none" ]
}

under_own() {
	[ "$status" = 0 ] && [ -e log/daemon ] && grep -q '^control$' workers/files &&
		[[ $(variable workers/0 CUDA_MPS_PIPE_DIRECTORY) = /tmp/gpubroker-mps-$$.??????/mps ]]
}

# ---- who decides ----

runs -n 2
check "auto, a worker for each GPU: no MPS" without
check "and CUDA_DEVICE_MAX_CONNECTIONS is set" [ "$(variable workers/0 CUDA_DEVICE_MAX_CONNECTIONS)" = 16 ]
runs -n 3
check "auto, more workers than GPUs: a daemon of the job's own, which serves when they start" under_own
check "it says what its clients share" grep -q 'own: when one dies in a kernel, the CUDA calls of the others fail' err
check "the workers share its connections" [ -z "$(variable workers/0 CUDA_DEVICE_MAX_CONNECTIONS)" ]
check "daemon and server have ended with the job" eval 'gone daemon && gone server'
check "and left nothing" nothing_left
check "the daemon has no descriptor but its own" eval '! grep -vE "^total| 0 -> /dev/null$| -> .*/(mps/output|log/descriptors|bin/nvidia-cuda-mps-control)$" log/descriptors >err'
check "they have the job's directory for what they write" \
	eval '[ "$(variable log/environment CUDA_MPS_LOG_DIRECTORY)" = "$(variable workers/0 CUDA_MPS_PIPE_DIRECTORY)" ]'
check "and all GPUs" eval '! grep -q CUDA_VISIBLE_DEVICES log/environment workers/0'
runs -n 3 -q
check "with -q nothing is said" eval 'under_own && [ ! -s err ]'
runs -n 3 --no-hints
check "nor with --no-hints, but for the first and the last line" eval 'under_own && ! grep -v ": 3 workers, 2\|: account: " err'
runs -n 97
check "auto, more workers than servers take: no MPS, and a hint" eval 'without && grep -q "hint: 97 workers share 2 GPUs without MPS.*too many for MPS" err'
runs -n 1 --mps yes
check "yes: a daemon for one worker, too" under_own
runs -n 3 --mps no
check "no: none, and a hint" eval 'without && grep -q "hint: 3 workers share 2 GPUs without MPS, so they take turns.*--mps auto" err'
runs -n 2 --mps no
check "but not where each has a GPU" eval 'without && ! grep -q hint err'

CUDA_VISIBLE_DEVICES=1,0 runs -n 3
uuids=$(variable log/environment CUDA_VISIBLE_DEVICES)
check "visible devices mean the same for daemon and workers: they are UUIDs" \
	eval '[[ $uuids =~ ^GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12},GPU-[0-9a-f-]{36}$ ]] && [ "$uuids" = "$(variable workers/2 CUDA_VISIBLE_DEVICES)" ]'
CUDA_VISIBLE_DEVICES=MIG-1,MIG-2 runs -n 3
check "but for those of divided GPUs, which stay" [ "$(variable log/environment CUDA_VISIBLE_DEVICES)" = MIG-1,MIG-2 ]

# ---- limits ----

runs --mps yes --mps-threads 25 --mps-memory 4G --mps-memory 1=512M
check "a part of the multiprocessors" [ "$(variable workers/0 CUDA_MPS_ACTIVE_THREAD_PERCENTAGE)" = 25 ]
check "memory, a number for each device" [ "$(variable workers/0 CUDA_MPS_PINNED_DEVICE_MEM_LIMIT)" = 0=4096M,1=512M ]

refused() { # PATTERN OPTION...
	runs "${@:2}"
	[ "$status" = 125 ] && grep -q "^broker-run: .*$1" err && [ -z "$(find workers log -type f)" ] && nothing_left
}
check "limits without MPS are refused" refused 'for workers under MPS: add --mps yes' --mps no --mps-threads 25
check "also for a device that is not there" refused 'device 2, and there are 2' --mps-memory 2=4G
check "a percentage of 0 is refused" refused 'percentage' --mps-threads 0
check "memory below a MiB is refused" refused 'MPS counts in MiB' --mps-memory 4K
check "a device that is no number is refused" refused "device's number" --mps-memory x=4G
check "a mode that is none is refused" refused 'no, auto or yes' --mps always
check "a number that is cut off is none" refused 'names no device' --mps-memory 00000000000000000000000000000000001=4G
check "yes is refused where devices are the host's" refused 'these are host devices' --device host --mps yes
runs -n 3 --device host
check "auto does nothing there" without

# ---- a daemon that is there, or cannot be ----

: >present/control
check "what a daemon left that has ended is not taken for one" eval 'CUDA_MPS_PIPE_DIRECTORY=$work/present refused "MPS daemon that has ended" -n 3 --mps yes'
rm present/control
# somebody listens
"$run" -q --device host --name "mps-$$-2" -- sleep 1000 &
listener=$!
soon eval 'ls /tmp/gpubroker-mps-$$-2.*/socket 2>err'
ln -s /tmp/gpubroker-mps-$$-2.*/socket present/control
CUDA_MPS_PIPE_DIRECTORY=$work/present runs -n 3 --mps yes --mps-threads 50
check "a daemon that is there is used" \
	eval '[ "$status" = 0 ] && [ ! -e log/daemon ] && [ "$(variable workers/0 CUDA_MPS_PIPE_DIRECTORY)" = "$work/present" ]'
check "with the limits" [ "$(variable workers/0 CUDA_MPS_ACTIVE_THREAD_PERCENTAGE)" = 50 ]
CUDA_MPS_PIPE_DIRECTORY=$work/present runs -n 3 --mps no
check "also with no, as in any program that is started here: no hint then" \
	eval '[ "$status" = 0 ] && [ "$(variable workers/0 CUDA_MPS_PIPE_DIRECTORY)" = "$work/present" ] && ! grep -q hint err'

kill "$listener"
wait "$listener"

# cannot TEXT PATTERN: yes is refused, auto goes on
cannot() {
	check "$1: yes says so, and no worker runs" refused "$2" -n 3 --mps yes
	runs -n 3
	check "$1: auto goes on without, and says so" eval 'without && grep -q "hint: 3 workers share 2 GPUs without MPS: .*'"$2"'" err'
}
FAKE_MPS=fail cannot "a daemon that ends" 'ended at its start: Cannot access CUDA_MPS_PIPE_DIRECTORY='
FAKE_MPS=hang check "a daemon that does not answer is refused" refused 'did not answer for 5 s' -n 3 --mps yes
FAKE_MPS=mute runs -n 3 --mps yes
check "so is one that does not answer a command" \
	eval '[ "$status" = 125 ] && grep -q "did not answer for 5 s" err && [ -z "$(find workers -type f)" ] && nothing_left && gone daemon'
check "nor does the command live on" gone command
# a machine may have the real one
mkdir tools
for tool in bash env ls; do ln -s "$(command -v "$tool")" tools/; done
path=$work/tools
cannot "no such program" 'no nvidia-cuda-mps-control is in PATH'
path=$PATH

# ---- its end, however the job ends ----

# starts COMMAND: a job under MPS in the background, whose workers run COMMAND; returns when they run
starts() {
	rm -f log/* started.*
	"$run" --device cuda --mps auto --name "mps-$$" -n 3 -- bash -c 'touch "started.$GPUBROKER_RANK"; '"$1" >out 2>err </dev/null &
	job=$!
	soon eval '[ -e started.0 ] && [ -e started.1 ] && [ -e started.2 ]'
}
ended() {
	soon eval 'gone daemon && gone server'
}
keeper() { # of the daemon
	parent "$(cat log/daemon)"
}

check "a job begins" starts 'sleep 1000'
kill -TERM "$job"
wait "$job"
check "SIGTERM of broker-run: all has ended when it ends" eval 'gone daemon && gone server && nothing_left'

check "a job begins" starts 'echo $$ >>log/workers; exec sleep 1000'
touch log/client
kill -KILL "$job"
wait "$job" 2>/dev/null
sleep 0.3
check "SIGKILL of broker-run: the daemon serves as long as it has clients" eval '! gone daemon && ! gone server'
rm log/client
check "and ends with the last" ended
# shellcheck disable=SC2046 # pids
kill $(cat log/workers)

check "a job begins" starts 'exec sleep 3'
kill -KILL "$(keeper)"
wait "$job"
status=$?
check "SIGKILL of the daemon's keeper: the daemon ends" ended
check "and that is said" grep -q 'the MPS daemon of this job was ended: .*CUDA_ERROR_MPS_RPC_FAILURE' err

check "a job begins" starts 'exec sleep 3'
kill -KILL "$(cat log/daemon)"
wait "$job"
check "SIGKILL of the daemon is said" grep -q 'the MPS daemon of this job was ended' err

check "a job begins" starts '[ "$GPUBROKER_RANK" != 1 ] || kill -KILL $$; exec sleep 1'
wait "$job"
check "a worker that is killed: what the others see is said" grep -q 'if worker 1 died in a kernel, .* CUDA_ERROR_ILLEGAL_ADDRESS' err

# joins RANK COMMAND...: one of the two processes of a job that a launcher starts; only the first one has a broker
joins() {
	PMIX_NAMESPACE=mps-$$ OMPI_COMM_WORLD_LOCAL_RANK=$1 OMPI_COMM_WORLD_LOCAL_SIZE=2 timeout -k 5 60 \
		"$run" --join --device cuda --mps yes --name "mps-$$" -- "${@:2}" >"out.$1" 2>"err.$1" </dev/null &
}
rm -f log/* started.* go
joins 0 bash -c 'kill -KILL $$'
job=$!
joins 1 bash -c 'touch started.1; while [ ! -e go ]; do sleep 0.1; done'
other=$!
check "also where the others are no children of the first process" \
	eval 'soon [ -e started.1 ] && soon grep -q "if worker 0 died in a kernel, .* CUDA_ERROR_ILLEGAL_ADDRESS" err.0'
touch go
wait "$other" "$job"

check "a job begins" starts 'exec sleep 1'
kill -USR1 "$(keeper)"
sleep 0.3
check "SIGUSR1 of somebody does not end the daemon" eval '! gone daemon'
wait "$job"
trap '' TERM
check "a job begins" starts 'exec sleep 1'
wait "$job"
check "where the script ignores SIGTERM, all ends as usual" eval 'gone daemon && gone server'
trap - TERM
FAKE_MPS=deaf
check "a job begins" starts 'exec sleep 1'
wait "$job"
check "a daemon that ignores SIGTERM is killed" ended
FAKE_MPS=

check "a job begins" starts 'echo $$ >>log/workers; exec sleep 1000'
touch log/client
kill -KILL "$job"
wait "$job" 2>/dev/null
"$run" -q --device host -- true 2>/dev/null
check "the next broker leaves the directory of a daemon that serves" eval 'ls /tmp/gpubroker-mps-$$.*/mps/nvidia-cuda-mps-control.pid >out && ! gone daemon'
rm log/client
check "which ends with its last client" ended
# shellcheck disable=SC2046 # pids
kill $(cat log/workers)

# the next broker removes what is left of a job that was killed
check "a job begins" starts 'echo $$ >>log/workers; exec sleep 1000'
touch log/client
kill -KILL "$job" "$(keeper)"
wait "$job" 2>/dev/null
check "SIGKILL of broker-run and keeper: the daemon ends" ended
# shellcheck disable=SC2046 # pids
kill $(cat log/workers)
runs -n 1
check "and the next broker removes their files" nothing_left
plan

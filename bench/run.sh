#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh - runs benchmark programs in the build folder and hands their lines to bench/report; make bench calls it.
#
# usage: run.sh RESULTS PROGRAM ... optional PROGRAM ... cuda PROGRAM ...
#
# An optional program is built and run where its header and its command are there, a cuda program where the driver lists a
# device; what is left out is said. A program that fails is said too, and fails the run when all have run. No program fails
# for being slow, but cuda programs have a limit, each and all together, since a device may hang.
# shellcheck disable=SC2317 # called by their names in $kind
set -u

source=$(dirname "$0")
results=$1
lines=bench/run.jsonl
failed=0
limit=          # seconds that a program may take
cuda_together=240
cuda_until=
shift

header_of() {
	case $1 in
	bench/peer-boost) echo boost/interprocess/managed_shared_memory.hpp ;;
	bench/peer-lmdb) echo lmdb.h ;;
	bench/peer-redis) echo hiredis/hiredis.h ;;
	*) echo stddef.h ;;
	esac
}

command_of() {
	case $1 in
	bench/peer-redis) echo redis-server ;;
	bench/join) echo mpirun ;;
	esac
}

has_header() {
	echo "#include <$1>" | $CXX -E -x c++ - >/dev/null 2>&1
}

left_out() {
	echo "bench: $1 is left out: $2" >&2
}

run() {
	echo "bench: $1" >&2
	${limit:+timeout --kill-after=5 "$limit"} ./"$1" >>"$lines" || { echo "bench: $1 failed" >&2; failed=1; }
}

run_optional() {
	if ! has_header "$(header_of "$1")"; then
		left_out "$1" "no <$(header_of "$1")>"
	elif [ -n "$(command_of "$1")" ] && ! command -v "$(command_of "$1")" >/dev/null; then
		left_out "$1" "no $(command_of "$1")"
	else
		$MAKE -s "$1" && run "$1" || failed=1
	fi
}

has_cuda() {
	ls /proc/driver/nvidia/gpus/*/information >/dev/null 2>&1 || nvidia-smi -L >/dev/null 2>&1
}

run_cuda() {
	: "${cuda_until:=$(($(date +%s) + cuda_together))}"
	limit=$((cuda_until - $(date +%s)))
	[ "$limit" -lt 110 ] || limit=110
	if ! has_cuda; then
		left_out "$1" "no CUDA device"
	elif [ "$limit" -le 0 ]; then
		left_out "$1" "those before it took $cuda_together seconds"
		failed=1
	else
		run "$1"
	fi
	limit=
}

printf '{"run":{"date":"%s","commit":"%s","load":"%s"}}\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" \
	"$(git -C "$source" describe --always --dirty 2>/dev/null || echo release)" "$(cut -d' ' -f1-3 /proc/loadavg)" >"$lines"
kind=run
for program; do
	case $program in
	optional | cuda) kind=run_$program ;;
	*) $kind "$program" ;;
	esac
done

# a python3 that has matplotlib, if there is one; without, there are no plots
python=python3
python3 -c 'import matplotlib' 2>/dev/null || ! /usr/bin/python3 -c 'import matplotlib' 2>/dev/null || python=/usr/bin/python3
$python "$source/report" "$lines" "$results" || failed=1
exit $failed

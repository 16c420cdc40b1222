#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# on-gpu.sh - one whole run on a machine with GPUs: the README's two commands from a release tarball, and the figures
# of heat beside the same stencil without a broker.
#
# usage: [BENCH=1|only|gpu] tests/on-gpu.sh TARBALL [SYSROOT] [RESULTS]
#
#   BENCH     1: the benchmark too (bench/README.md); only: the benchmark instead; gpu: its rows about devices instead
#   TARBALL   from make dist: the machine needs no autotools
#   SYSROOT   unpacked -dev packages of what the machine lacks (usr/lib/..., usr/include); "" for none
#   RESULTS   folder for the logs and the summary (default: ./results)
#
# Prints the summary last: machine, driver, the suite's closing line, heat's figures. Exit 0 only if the suite passed
# and every heat was right. Changes no setting of a GPU.
set -u
tarball=$(realpath "$1")
sysroot=${2:+$(realpath "$2")}
results=${3:-results}
mkdir -p "$results"
results=$(realpath "$results")
work=$(mktemp -d)
trap 'rm -rf "$work" "$work.sysroot"' EXIT
chmod 755 "$work" # tests run programs as other users
status=0

# A copy: tests run programs as other users, who may not enter each folder that SYSROOT can lie in, such as /root.
if [ -n "$sysroot" ]; then
	cp -a "$sysroot" "$work.sysroot"
	sysroot=$work.sysroot
	chmod -R a+rX "$sysroot"
	libraries=$(dirname "$(find "$sysroot" -name libsodium.a -print -quit)")
	export PKG_CONFIG_SYSROOT_DIR=$sysroot PKG_CONFIG_PATH=$libraries/pkgconfig
	export CPPFLAGS="-I$sysroot/usr/include ${CPPFLAGS-}" LDFLAGS="-L$libraries ${LDFLAGS-}"
	export LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi

# heat NAME WORKERS SIZE STEPS GPUS: under the broker, on GPUS, such as 0,1.
heat() {
	local name=$1 workers=$2 size=$3 steps=$4 gpus=$5
	CUDA_VISIBLE_DEVICES=$gpus timeout --signal=KILL 120 ./broker/broker-run -n "$workers" --device cuda -- \
		./examples/heat/heat --size "$size" --steps "$steps" </dev/null >"$results/heat-$name.log" 2>&1 ||
		{ status=1; echo "heat $name FAILED"; }
	echo "heat $name: $(grep -E 'time per step|largest error|account' "$results/heat-$name.log" | tr -s ' \n' ' ')"
}

summary() {
	local gpus
	gpus=$(nvidia-smi --query-gpu=name --format=csv,noheader | wc -l)
	date -u +%Y-%m-%dT%H:%MZ
	uname -sr
	sed -n 's/^PRETTY_NAME=//p' /etc/os-release
	nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
	nvcc --version | sed -n 's/.*release \([^,]*\).*/CUDA \1/p'
	echo "./bootstrap demo: $(tail -n 2 "$results/demo.log" | tr '\n' ' ')"
	echo "./bootstrap check: $(tail -n 1 "$results/check.log")"
	export GPUBROKER_MODULE_PATH=$PWD/kernels
	echo "README's program: $(./broker/broker-run --quiet -n 2 -b u=64K,timeline -- ./examples/hello 2>&1 </dev/null | tr '\n' ' ')"
	echo "acquire.cu: $(./broker/broker-run --quiet -n 2 -b u=64M -- ./examples/acquire 2>&1 </dev/null | tr '\n' ' ')"
	heat one-worker 1 4096 2000 0
	heat four-on-one 4 4096 2000 0
	if [ "$gpus" -ge 2 ]; then
		heat two-on-two 2 4096 2000 0,1
	fi
	if [ "$gpus" -ge 4 ]; then
		heat four-on-four 4 4096 2000 0,1,2,3
	fi
	./bench/heat-alone 4096 2000 1
	if [ "$gpus" -ge 2 ]; then
		./bench/heat-alone 4096 2000 2
	fi
}

# The lines lie in RESULTS as they come, the tables in a folder of RESULTS/bench for each kind of device.
benchmark() {
	local programs=()
	[ "$BENCH" != gpu ] || programs=(bench_programs= bench_optional=)
	ln -sf "$results/run.jsonl" bench/run.jsonl
	make -s -j "$(nproc)" bench "${programs[@]}" bench_results="$results/bench" </dev/null >"$results/bench.log" 2>&1 ||
		status=1
	grep -v '^  [A-Z]' "$results/bench.log"
	cat "$results"/bench/*/README.md 2>/dev/null
}

tar -xf "$tarball" -C "$work" --strip-components=1 && cd "$work" || exit 1
export CONFIGURE_FLAGS=--with-cuda=yes
case ${BENCH-} in
only | gpu)
	./bootstrap </dev/null >"$results/build.log" 2>&1 || { tail -n 40 "$results/build.log"; exit 1; }
	cd build || exit 1
	benchmark
	exit $status
	;;
esac
./bootstrap demo </dev/null >"$results/demo.log" 2>&1 || { status=1; tail -n 40 "$results/demo.log"; }
./bootstrap check </dev/null >"$results/check.log" 2>&1 || status=1
cd build || exit 1
cp test-suite.log "$results/" 2>/dev/null
grep -hE '^(not ok|FAIL|ERROR|Bail)' "$results/check.log" | sort -u | head -n 60
summary 2>&1 | tee "$results/summary.txt"
[ -z "${BENCH-}" ] || benchmark
exit $status

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# machines.sh - heat --mpi and heat --nccl with the GPUs of this machine taken as two machines: two brokers, each with half of the GPUs and
# a name of its own for NCCL, so that every edge between the halves goes by MPI or NCCL. GPU_MACHINES_DEVICE=host tries the script
# where there is no GPU.
# shellcheck disable=SC2016 # the workers' shells expand them
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"
device=${GPU_MACHINES_DEVICE:-cuda}
cuda_devices=2
[ "$device" != cuda ] || need_cuda
built=$(cd "${top_builddir:?}" && pwd)
run=$built/broker/broker-run
heat=$built/examples/heat/heat
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export GPUBROKER_MODULE_PATH=$built/kernels OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

skip_all() {
	echo "1..0 # SKIP $1"
	exit 0
}
[ "$cuda_devices" -ge 2 ] || skip_all "one GPU"
mpirun --version 2>/dev/null | grep -q 'Open MPI' || skip_all "no Open MPI (Debian: openmpi-bin)"
"$heat" --mpi --size 1 --steps 0 2>&1 </dev/null | grep -q 'built without MPI' && skip_all "heat was built without MPI (Debian: libopenmpi-dev)"

# Each half is a machine to broker-run, which gets another job and other local ranks than MPI counts. heat gets MPI's again.
half=$((cuda_devices / 2))
cat >process <<'END'
#!/bin/bash
each=$1 run=$2
shift 2
machine=$((OMPI_COMM_WORLD_RANK / each)) first=$((OMPI_COMM_WORLD_RANK / each * each))
export NCCL_HOSTID=machine$machine NCCL_SOCKET_IFNAME=lo
CUDA_VISIBLE_DEVICES=$(seq -s, $first $((first + each - 1)))
export CUDA_VISIBLE_DEVICES
rank=$OMPI_COMM_WORLD_LOCAL_RANK size=$OMPI_COMM_WORLD_LOCAL_SIZE job=$PMIX_NAMESPACE
exec env OMPI_COMM_WORLD_LOCAL_RANK=$((OMPI_COMM_WORLD_RANK - first)) OMPI_COMM_WORLD_LOCAL_SIZE="$each" PMIX_NAMESPACE="$job.$machine" \
	"$run" --join --name "machine$machine-$PPID" "${@:1:2}" -- \
	env OMPI_COMM_WORLD_LOCAL_RANK="$rank" OMPI_COMM_WORLD_LOCAL_SIZE="$size" PMIX_NAMESPACE="$job" "${@:3}"
END
chmod +x process

two() { # OPTION...: heat on both halves, a worker for each GPU
	timeout -k 5 120 mpirun --oversubscribe -n $((2 * half)) ./process "$half" "$run" --device "$device" "$heat" "$@" >out 2>err </dev/null
}
same() { # WORD OPTION...: the bits of one worker
	rm -f many
	two "--$1" "${@:2}" --dump many && cmp one many >>err && grep -q "^machines:      2 (${1^^})" out
}

options=(--size 512x300 --steps 200)
"$run" -q --device "$device" -n 1 -- "$heat" "${options[@]}" --dump one >out 2>err
check "two machines by MPI give the bits of one worker" same mpi "${options[@]}"
check "each has a broker, and all that was granted was returned" eval '[ "$(grep -c balanced err)" = 2 ]'
nccl="two machines by NCCL give the bits of one worker"
if [ "$device" = host ]; then
	skip "$nccl" "the host device"
elif ! two --nccl --size 64 --steps 0 && grep -q 'built without NCCL\|libnccl.so' err; then
	skip "$nccl" "$(grep -o 'built without NCCL\|libnccl.so.*' err | head -n 1)"
else
	check "$nccl" same nccl "${options[@]}"
fi
check "a worker that cannot go on ends both machines" eval '! two --mpi --size 512 --steps 100 --dump /nowhere/dump && grep -q "/nowhere/dump" err'
plan

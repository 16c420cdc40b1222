#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# heat-py.sh - examples/heat.py on the host device: the closed form, and the same field for every number of workers, whether broker-run
# starts them or mpirun, on one machine or on two; and an end instead of a hang when a worker dies.
#
# It needs the virtual environment that ./bootstrap check makes. Two machines are two network namespaces, which root can make.
# shellcheck disable=SC2016 # what a check evaluates expands then, not before
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

need_venv
run=$top_builddir/broker/broker-run
example=$(cd "$top_srcdir" && pwd)/examples/heat.py || exit 1
work=$(mktemp -d) || exit 1
namespaces=()
leave() {
	local name
	for name in "${namespaces[@]}"; do
		ip netns del "$name"
	done
	rm -rf "$work"
}
trap leave EXIT
cd "$work" || exit 1
need_package
export PYTHONPATH=$top_builddir/python/lib
# Python itself is not built with the sanitizers, which must be loaded first; it frees little at its end.
python=("$python")
if grep -q __asan_init "$top_builddir/libbroker/.libs/libgpubroker.so"; then
	python=(env LD_PRELOAD="$(${CC:-cc} -print-file-name=libasan.so) $(${CC:-cc} -print-file-name=libubsan.so)"
		ASAN_OPTIONS="detect_leaks=0:${ASAN_OPTIONS-}" "${python[@]}")
fi
grid=(--size 47x30 --steps 60)

# ---- under broker-run alone ----

# solve WORKERS ARGUMENT...: leaves out and err
solve() {
	local workers=$1
	shift
	timeout -k 5 60 "$run" --device host -n "$workers" -- "${python[@]}" "$example" "$@" >out 2>err </dev/null
}
# The error is a number, as small as the example demands; each of so many brokers has its memory back.
is_right() { # RANKS MACHINES
	grep -q "ranks: $1, machines: $2\$" out && [ "$(grep -c 'balanced$' err)" = "$2" ] && ! grep -q 'NOT BALANCED' err &&
		awk '/^largest error:/ { seen = $3 ~ /^[0-9]/ && $3 + 0 <= 1e-13 } END { exit !seen }' out
}
plain() { # WORKERS
	solve "$1" "${grid[@]}" --save "$1.npy" && is_right "$1" 1
}
check "one worker agrees with the closed form" plain 1
for workers in 2 3; do
	check "so do $workers" plain "$workers"
	check "and their field is the same to the bit" cmp 1.npy "$workers.npy"
done
mkdir none
echo 'raise ImportError("none")' >none/mpi4py.py
without_mpi4py() {
	PYTHONPATH=$PWD/none:$PYTHONPATH solve 2 "${grid[@]}" --save none.npy && is_right 2 1 && cmp 1.npy none.npy
}
check "without mpi4py it is the same" without_mpi4py
check "no step leaves the initial field" eval 'solve 3 --size 3x40 --steps 0 && is_right 3 1'
check "a grid without a row for each worker is refused" eval '! solve 3 --size 2x40 && grep -q "each rank needs a row" err'

# is_wrong: a step with another factor is found
is_wrong() {
	sed 's/- 4 \* here/- 4.001 * here/' "$example" >wrong.py
	! example=$PWD/wrong.py solve 2 "${grid[@]}" && grep -q '^largest error' out && grep -q 'ended with status 1 ' err
}
check "a wrong step is an exit status of 1" is_wrong

# ---- workers that fail ----

# Rank 1 of these jobs says where it is, and has the arguments in other as well.
cat >worker <<'EOW'
#!/bin/sh
if [ "$GPUBROKER_RANK" = 1 ]; then
	set -- "$@" $other
	echo "$GPUBROKER" >address
	echo $$ >pid.new
	mv pid.new pid
fi
exec "$@"
EOW
chmod +x worker
export other=
# kills LAUNCHER...: rank 1, when it has done some steps; leaves out and err. Succeeds if the job fails, and within the time.
kills() {
	local began=$SECONDS
	rm -f pid
	timeout -k 5 60 "$@" ./worker "${python[@]}" "$example" --size 47x30 --steps 10000000 >out 2>err </dev/null &
	soon test -e pid
	"${python[@]}" -c '
import sys, time, gpubroker
with gpubroker.connect(sys.argv[1]) as c, c.acquire("heat/1", timeout=20) as u:
    while u.timeline < 20:
        time.sleep(0.001)' "$(cat address)" && kill -KILL "$(cat pid)" || echo "no worker was killed" >>err
	! wait $! && [ $((SECONDS - began)) -lt 60 ] && ! grep -q '^largest error\|^no worker' out err
}
others_say() {
	kills "$run" --device host -n 3 -- && grep -q 'rank 0: OSError: .* died' err && grep -q 'rank 2: OSError: .* died' err &&
		grep -q '[1-9][0-9]* ended by death; balanced$' err
}
check "a worker is killed: the others say so, and end" others_say
another_grid() {
	other='--size 47x31'
	timeout -k 5 60 "$@" ./worker "${python[@]}" "$example" --size 47x30 >out 2>err </dev/null
	case $? in 0 | 124 | 137) return 1 ;; esac
	grep -q 'heat.py: rank' err
}
check "a worker with another grid ends all" eval '(another_grid "$run" --kill-on-failure --device host -n 3 --)'

# ---- under mpirun, with mpi4py ----

no_mpi=
if ! mpirun --version 2>/dev/null | grep -q 'Open MPI'; then
	no_mpi="no mpirun of Open MPI (Debian: openmpi-bin)"
elif ! "${python[@]}" -c 'import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI' 2>/dev/null; then
	no_mpi="no mpi4py that finds an MPI"
fi
if [ -n "$no_mpi" ]; then
	skip "mpirun, 2 and 3 workers: the same field" "$no_mpi"
	skip "mpirun: a worker that fails" "$no_mpi"
	skip "mpirun, two machines" "$no_mpi"
	plan
	exit 0
fi
unset "${!OMPI_COMM@}" "${!PMIX_SERVER@}" "${!SLURM_@}" "${!MPI_@}"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
mpi=(mpirun --allow-run-as-root --oversubscribe)

# mpi_solves RANKS MACHINES LAUNCHER...
mpi_solves() {
	local ranks=$1 machines=$2
	shift 2
	timeout -k 5 60 "$@" -n "$ranks" "$run" --join --device host -- "${python[@]}" "$example" "${grid[@]}" --save "mpi.npy" >out 2>err </dev/null &&
		is_right "$ranks" "$machines" && cmp 1.npy mpi.npy
}
for workers in 2 3; do
	check "mpirun, $workers workers: the same field to the bit" mpi_solves "$workers" 1 "${mpi[@]}"
done
check "mpirun: a worker is killed, and the job ends" eval 'kills "${mpi[@]}" -n 3 "$run" --join --device host -- && grep -q "signal 9\|OSError: .* died" err'
no_broker() {
	timeout -k 5 60 "${mpi[@]}" -n 3 "$run" --join --device host -- sh -c '[ "$GPUBROKER_RANK" != 1 ] || export GPUBROKER=unix:/nowhere; exec "$@"' \
		sh "${python[@]}" "$example" >out 2>err </dev/null
	case $? in 0 | 124 | 137) return 1 ;; esac
	grep -q 'rank 1: FileNotFoundError: ' err
}
check "mpirun: a worker that finds no broker ends all" no_broker
check "mpirun: a worker with another grid ends all" eval '(another_grid "${mpi[@]}" -n 3 "$run" --join --device host --)'
# mpirun does not always give the first one the time to end in order: the next broker removes what that left
check "nothing is left" soon eval '"$run" -q --device host -- true 2>err && none_dead'

# ---- on two machines ----

# Each is a network namespace with a hostname of its own. enter runs a command there, and agent does what ssh does.
two=(heat-a-$$ heat-b-$$)
network=10.213.7
make_machines() {
	local name place=1
	[ "$(id -u)" = 0 ] && unshare -u true || return
	command -v ip || { echo "there is no ip (Debian: iproute2)" >&2 && return 1; }
	for name in "${two[@]}"; do
		ip netns add "$name" || return
		namespaces+=("$name")
	done
	ip -n "${two[0]}" link add eth0 type veth peer name eth0 netns "${two[1]}" || return
	for name in "${two[@]}"; do
		ip -n "$name" addr add $network.$place/24 dev eth0 && ip -n "$name" link set eth0 up && ip -n "$name" link set lo up || return
		echo "$name slots=2" >>machines
		place=$((place + 1))
	done
	cat >enter <<-EOE
		#!/bin/sh
		exec ip netns exec "\$1" unshare -u sh -c 'hostname "\$0" && exec "\$@"' "\$@"
	EOE
	cat >agent <<-EOA
		#!/bin/sh
		name=\$1
		shift
		exec "$work/enter" "\$name" sh -c "\$*"
	EOA
	chmod +x enter agent
}
if make_machines >out 2>err; then
	launcher=("$work/enter" "${two[0]}" mpirun --allow-run-as-root --hostfile machines --mca plm_rsh_agent "$work/agent"
		--mca btl_tcp_if_include "$network.0/24" --mca oob_tcp_if_include "$network.0/24")
	check "mpirun, two machines of 2 workers: the same field to the bit" mpi_solves 4 2 "${launcher[@]}"
	check "mpirun, 2 workers on one and 1 on the other: too" mpi_solves 3 2 "${launcher[@]}"
else
	skip "mpirun, two machines of 2 workers: the same field to the bit" "no network namespaces: $(tail -n 1 err)"
	skip "mpirun, 2 workers on one and 1 on the other: too" "no network namespaces"
fi
plan

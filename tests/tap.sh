# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# tap.sh - what the test scripts share; they source it. A script prints its points with check() and its plan with plan().

# Started by hand, a script gets the supervisor that make check gives it: nothing that it starts lives longer than it does.
if [ -z "${GPUB_SUPERVISED-}" ]; then
	exec "${top_builddir:?}/tests/supervisor" 900 bash "$0" "$@"
fi

count=0

# check TEXT COMMAND...: one point; what the last run left in the files out and err explains a failure
check() {
	local text=$1
	shift
	count=$((count + 1))
	if "$@"; then
		echo "ok $count - $text"
	else
		echo "not ok $count - $text"
		sed 's/^/# /' out err 2>/dev/null
	fi
}

# skip TEXT REASON: the point is left out by its name
skip() {
	count=$((count + 1))
	echo "ok $count - $1 # SKIP $2"
}

# soon COMMAND...: becomes true within 10 seconds
soon() {
	local tries
	for ((tries = 0; tries < 200; tries++)); do
		"$@" && return
		sleep 0.05
	done
	return 1
}

# plan: last
plan() {
	echo "1..$count"
}

# need_cuda: ends the script where no CUDA device is; else it has the devices for itself until it ends, since some tests
# fill one
need_cuda() {
	if [ ! -e "${top_builddir:?}/kernels/kernels.fatbin" ] || [ ! -e /dev/nvidiactl ]; then
		echo "1..0 # SKIP no CUDA device"
		exit 0
	fi
	exec 9>"$top_builddir/tests/gpu.lock" && flock 9
}

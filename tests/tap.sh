# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# tap.sh - what the test scripts share; they source it. A script prints its points with check() and its plan with plan().

# Started by hand, a script gets the supervisor that make check gives it: nothing that it starts lives longer than it does.
if [ -z "${GPUB_SUPERVISED-}" ]; then
	exec "${top_builddir:?}/tests/supervisor" 900 bash "$0" "$@"
fi

# own_shm: starts the script again with a /dev/shm of its own where that may be, so that it sees no other test's brokers, and none
# of them removes what a dead broker of the script left. Sets OWN_SHM to yes, or to no.
own_shm() {
	local flag mount='mount -t tmpfs tmpfs /dev/shm'
	[ -z "${OWN_SHM-}" ] || return 0
	for flag in -m -rm; do
		if unshare $flag sh -c "$mount" 2>/dev/null; then
			OWN_SHM=yes exec unshare $flag sh -c "$mount"' && exec "$@"' - bash "$0"
		fi
	done
	OWN_SHM=no
}

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

# soon COMMAND...: becomes true within 10 seconds, or within a minute if the command itself takes long
soon() {
	local tries end=$((SECONDS + 60))
	for ((tries = 0; tries < 200 && SECONDS < end; tries++)); do
		"$@" && return
		sleep 0.05
	done
	return 1
}

# parent PID: the process that started it
parent() {
	sed -n 's/^PPid:\t//p' "/proc/$1/status"
}

# children PID: the processes that it started, each pid a line
children() {
	grep -lsx "PPid:	$1" /proc/[0-9]*/status | cut -d / -f 3
}

# child_named NAME PID: the child of that process with the name
child_named() {
	children "$2" | while read -r child; do ! grep -qx "$1" "/proc/$child/comm" || echo "$child"; done
} 2>/dev/null

# owner_of PID: the process that owns the device memory of the brokerd or broker-run with that pid
owner_of() {
	child_named gpubroker-owner "$1"
}

# broker_of PID: the broker's process of the brokerd or broker-run with that pid; the next one's, while one that was killed is
# still ending
broker_of() {
	child_named gpubroker-serve "$1" | sort -n | tail -n 1
}

# plan: last
plan() {
	echo "1..$count"
}

# broker_starts DEVICE: a broker starts there, and ends; prints what it says
broker_starts() {
	timeout -k 5 120 "${top_builddir:?}/broker/broker-run" --device "$1" --name "need-cuda-$$" -- true 2>&1 </dev/null
}

# need_venv: skips the script where bootstrap made no virtual environment of Python; its interpreter is in python
need_venv() {
	local why
	python=${top_builddir:?}/venv/bin/python
	[ ! -x "$python" ] || return 0
	why=$(tail -n 1 "$top_builddir/venv.log" 2>/dev/null)
	echo "1..0 # SKIP no virtual environment: ${why:-./bootstrap check makes it}"
	exit 0
}

# none_dead: no broker-run of this user that is dead has left its directory; a living one holds a lock on it
none_dead() {
	local directory
	for directory in /tmp/gpubroker-*.??????; do
		[ ! -O "$directory" ] || [ ! -e "$directory/lock" ] || ! flock -n "$directory" true 2>/dev/null || return 1
	done
}

# makes TARGET: of the build tree, with files out and err. A test is run by a make, whose options are its own.
makes() {
	env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS "${MAKE:-make}" -s -C "${top_builddir:?}" "$1" >out 2>err
}

# need_package: the Python package is built, or the script fails
need_package() {
	makes python && return
	check "the package builds" false
	plan
	exit 0
}

# need_gpu_package: package is the folder of the Python package, and python a Python of this machine for its GPUs, GPU_PYTHON or python3.
# GPUBROKER_PACKAGE names an unpacked wheel, for a machine that cannot build the package. Skips the script where there is none.
need_gpu_package() {
	package=${GPUBROKER_PACKAGE:-${top_builddir:?}/python/lib}
	python=${GPU_PYTHON:-python3}
	if [ -x "$top_builddir/venv/bin/python" ] && [ -z "${GPUBROKER_PACKAGE-}" ]; then
		env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS "${MAKE:-make}" -s -C "$top_builddir" python >/dev/null || exit 1
	fi
	[ ! -e "$package/gpubroker/_core.abi3.so" ] || return 0
	echo "1..0 # SKIP the Python package is not built: GPUBROKER_PACKAGE may name an unpacked wheel"
	exit 0
}

# points_of PROGRAM FILE: passes on the points that the program printed there, with its name before each; leaves how many there were in
# seen, and how many it planned in planned. A program that skipped itself planned 0, and is one point here, which is skipped by its name.
# shellcheck disable=SC2034 # for the script
points_of() {
	local line
	seen=0 planned=none
	while IFS= read -r line; do
		case $line in
		'ok '* | 'not ok '*)
			count=$((count + 1)) seen=$((seen + 1))
			echo "${line%%ok *}ok $count - $1: ${line#*ok * - }"
			;;
		'1..0 # SKIP '*)
			planned=0
			skip "$1" "${line#*# SKIP }"
			;;
		'1..'*) planned=${line#1..} planned=${planned%% *} ;;
		'Bail out!'*) echo "# $1: $line" ;;
		*) echo "$line" ;;
		esac
	done <"$2"
}

# run_points NAME COMMAND...: runs a program that prints points, whose name here is NAME. Its points are passed on, and one more says
# whether there were as many as it planned, and no signal ended it. Leaves its output in out and err.
run_points() {
	local name=$1 status
	shift
	timeout -s KILL 130 "$@" >out 2>err </dev/null
	status=$?
	points_of "$name" out
	[ "$status" -lt 128 ] || planned="nothing: signal $((status - 128))"
	check "$name runs to its end" [ "$planned" = "$seen" ]
	[ "$status" = 0 ] || sed "s/^/# $name: /" err
}

# need_mps: skips the script where no MPS daemon can be started
need_mps() {
	command -v nvidia-cuda-mps-control >/dev/null && return
	echo "1..0 # SKIP no nvidia-cuda-mps-control"
	exit 0
}

# need_cuda: skips the script, with the broker's reason, where a broker finds no CUDA device. A driver or a GPU that does not
# work fails instead: a skip would hide the fault. Otherwise the script has the devices for itself until it ends, since some
# tests fill one; cuda_devices is how many there are.
need_cuda() {
	local said reason=
	exec 9>"${top_builddir:?}/tests/gpu.lock" && flock 9
	if said=$(broker_starts cuda); then
		# shellcheck disable=SC2034 # for the script
		cuda_devices=$(sed -nE 's/.*: 1 worker, ([0-9]+) cuda devices? .*/\1/p' <<<"$said")
		[[ $said != *'(Fake GPU '* ]] || reason="the driver is the fake one of tests/fake-cuda"
	elif [[ $(broker_starts auto) = *': 1 worker, 1 host device '* ]]; then
		reason="no CUDA device: ${said##*broker-run: }"
	else
		check "a broker starts on the GPUs, or finds that there are none" false
		echo "# ${said//$'\n'/$'\n# '}"
		plan
		exit 0
	fi
	[ -z "$reason" ] || { echo "1..0 # SKIP $reason" && exit 0; }
}

# use_gpus COUNT, behind need_cuda: the first so many of those that are visible, from now on. Each process that starts CUDA takes 0.2 s
# for each GPU that it sees.
use_gpus() {
	[ "${cuda_devices:?}" -gt "$1" ] || return 0
	echo "# on $1 of $cuda_devices GPUs"
	CUDA_VISIBLE_DEVICES=$(cut -d, -f"1-$1" <<<"${CUDA_VISIBLE_DEVICES:-$(seq -s, 0 $((cuda_devices - 1)))}")
	export CUDA_VISIBLE_DEVICES
	cuda_devices=$1
}

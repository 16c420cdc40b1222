#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh - this tree as AArch64 code: cross-compiled with warnings as errors, and make check under qemu-user.
#
# usage: tests/aarch64/run.sh [TEST...]      ./bootstrap check-aarch64 is the same with all tests
#
# qemu.txt lists the points that fail because qemu-user is not a kernel: those do not count. The last line is "N passed,
# N failed, N skipped"; the exit status is 0 only where nothing else failed. Where a tool is missing, it skips by name.
#
# BUILD_DIR (build-aarch64) has the build and the sysroot. The sysroot is made of Debian's arm64 packages, which apt-get
# downloads beside this system's own and dpkg-deb unpacks: nothing is installed, and root is not needed. SYSROOT=DIR takes
# another one. The shell scripts of the tests run as they are; only the programs of this build are emulated. The kernel starts
# qemu for them (binfmt_misc), in a user namespace of their own (Linux 6.7), so that nothing of this machine changes.
set -euo pipefail

host=aarch64-linux-gnu qemu=qemu-aarch64-static
slower=4 # so many times as long as natively may a test take: TEST_SLOWER
packages=(libc6 libsodium-dev libevent-dev libconfuse-dev libjansson-dev libpng-dev libcmocka-dev uthash-dev)

top=$(cd "$(dirname "$0")/../.." && pwd)
build=$(realpath -m "${BUILD_DIR:-$top/build-aarch64}")
sysroot=$(realpath -m "${SYSROOT:-$build/sysroot}")
magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'

skip() {
	echo "aarch64: skipped: $1"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
}

need_tools() {
	local tool
	for tool in $host-gcc $host-g++ $qemu unshare; do
		command -v "$tool" >/dev/null || skip "$tool is not installed (Debian: gcc-$host g++-$host qemu-user-static)"
	done
	[ -e "$sysroot/complete" ] || [ -n "${SYSROOT-}" ] || { command -v apt-get && command -v dpkg-deb; } >/dev/null ||
		skip "this is no Debian: SYSROOT=DIR names a folder with arm64 libraries"
}

# With state, cache and status of its own, apt-get neither sees nor changes what is installed here.
make_sysroot() {
	local apt=$build/apt options package
	mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$sysroot"
	: >"$apt/status"
	options=(-qq -o "Dir::State=$apt" -o "Dir::State::status=$apt/status" -o "Dir::Cache=$apt" -o APT::Architecture=arm64
		-o APT::Architectures=arm64 -o "APT::Sandbox::User=$(id -un)")
	apt-get "${options[@]}" update || true # other sources of this machine may have nothing for arm64
	apt-get "${options[@]}" install -y --download-only --no-install-recommends "${packages[@]}" ||
		skip "the arm64 packages cannot be downloaded: SYSROOT=DIR names a folder that has them"
	for package in "$apt"/archives/*.deb; do
		dpkg-deb -x "$package" "$sysroot"
	done
	rm -rf "$apt"
	touch "$sysroot/complete"
}

# In the namespace of a child: everything is mapped that may be, and the child is root there.
register() {
	until [ "$(id -u)" = 0 ]; do
		sleep 0.02
	done
	mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc &&
		echo ":gpubroker-aarch64:M::$magic:$mask:$(command -v $qemu):PF" >/proc/sys/fs/binfmt_misc/register
}
export -f register
export magic mask qemu

# emulated COMMAND...: where AArch64 programs can be executed. A user without rights is itself again in a second namespace.
emulated() {
	local child inner=()
	if [ "$(id -u)" = 0 ]; then
		unshare --user --mount bash -c 'register && exec "$@"' - "$@" &
		child=$!
		until [ "$(readlink /proc/$child/ns/user)" != "$(readlink /proc/self/ns/user)" ]; do
			sleep 0.02
		done
		# tests are several users
		echo "0 0 4294967295" >/proc/$child/gid_map
		echo "0 0 4294967295" >/proc/$child/uid_map
		wait $child
	else
		inner=(unshare --user --map-user="$(id -u)" --map-group="$(id -g)")
		unshare --user --map-root-user --mount bash -c 'register && exec "$@"' - "${inner[@]}" "$@"
	fi
}

# The results of the tests that ran, one a line: test, tab, result, tab, point without its number.
results() {
	find "$build/tests" -name '*.log' -newer "$build/began" -exec \
		sed -nE 's/^([A-Z]+): (tests[^ ]*) ([0-9]+ )?(- )?(.*)$/\2\t\1\t\5/p' {} +
}

# judge FILE: of those results, what failed and is not listed; the count. A test whose listed points fail exits with a status.
judge() {
	awk -F '\t' '
		NR == FNR { if (!/^#/ && NF == 3) listed[$1, $2] = 1; next }
		function is_listed(text, k, part) {
			for (k in listed) {
				split(k, part, SUBSEP)
				if (part[1] == $1 && index(text, part[2]) == 1) { seen[k] = 1; return 1 }
			}
			return 0
		}
		$2 == "PASS" || $2 == "XFAIL" { passed++; next }
		$2 == "SKIP" { skipped++; next }
		is_listed($3) { emulator++; excused[$1] = 1; next }
		$2 == "ERROR" && $3 ~ /^exited with status/ && excused[$1] { next }
		{ failed++; print "failed: " $1 ": " $3 }
		END {
			printf "%d of qemu, listed in tests/aarch64/qemu.txt\n", emulator
			printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
			exit failed > 0 || !passed
		}' "$top/tests/aarch64/qemu.txt" "$1"
}

need_tools
mkdir -p "$build"
[ -e "$sysroot/complete" ] || [ -n "${SYSROOT-}" ] || make_sysroot

export PKG_CONFIG_LIBDIR=$sysroot/usr/lib/$host/pkgconfig:$sysroot/usr/share/pkgconfig PKG_CONFIG_SYSROOT_DIR=$sysroot
export CC="$host-gcc --sysroot=$sysroot" CXX="$host-g++ --sysroot=$sysroot" QEMU_LD_PREFIX=$sysroot TEST_SLOWER=$slower
BUILD_DIR=$build CONFIGURE_FLAGS="--host=$host --enable-werror --with-cuda=no" "$top/bootstrap"
make=(make -C "$build" --no-print-directory -s -j "$(nproc)" -k check TEST_SECONDS=$((300 * slower)))
"${make[@]}" TESTS=

emulated "$build/broker/broker-run" --version >/dev/null 2>&1 ||
	skip "this kernel gives no namespace its own binfmt_misc (Linux 6.7), or may not: it was built, and not run"
touch "$build/began"
emulated "${make[@]}" ${1:+TESTS="$*"} </dev/null | grep -vE '^(PASS|SKIP):' || true
results >"$build/results"
judge "$build/results"

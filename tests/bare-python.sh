#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bare-python.sh - the Python wheel in a Debian or Ubuntu that has python3-venv and nothing else: pip installs it with NumPy, and its
# broker-run runs README's second program on the host device.
#
# usage: tests/bare-python.sh SUITE WHEEL [MIRROR]      SUITE: bookworm, trixie, ..., or of Ubuntu: noble. WHEEL: of make wheel
#
# Prints what the program prints; exit 0 only when it is right. Needs root, debootstrap, a network with a package index and 1 GiB in
# BARE_DIR (/var/tmp). PIP_INDEX_URL and PIP_CERT are pip's, there too. What it mounts is seen by it alone and ends with it.
set -euo pipefail

if [ $# -lt 2 ] || [ $# -gt 3 ]; then
	sed -n 's/^# usage: /usage: /p' "$0" >&2
	exit 2
fi
if [ "$(id -u)" != 0 ] || ! command -v debootstrap >/dev/null; then
	echo "bare-python.sh: it needs root and debootstrap" >&2
	exit 2
fi
if [ -z "${BARE_ALONE-}" ]; then
	BARE_ALONE=yes exec unshare --mount --pid --fork --kill-child --mount-proc bash "$0" "$@"
fi

suite=$1 wheel=$(realpath "$2") mirror=${3:-http://deb.debian.org/debian}
flags=() script=()
case $suite in
jammy | noble)
	mirror=${3:-http://archive.ubuntu.com/ubuntu}
	flags=('--components=main,universe')
	# all suites of Ubuntu have this one, and debootstrap of Debian 12 does not know the newest by name
	script=(/usr/share/debootstrap/scripts/gutsy)
	;;
esac
top=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d "${BARE_DIR:-/var/tmp}/bare-python-$suite-XXXXXX")
root=$work/root
finish() {
	umount "$root/dev/shm" "$root/proc" 2>/dev/null || true
	# nothing of this machine may be reached below it when it is removed
	if ! grep -q " $root/" /proc/self/mounts; then
		rm -rf --one-file-system "$work"
	fi
}
trap finish EXIT

# inside COMMAND...: as its root, with an environment of its own, but for how pip reaches its index
inside() {
	chroot "$root" env -i PATH=/root/venv/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
		${PIP_INDEX_URL:+PIP_INDEX_URL="$PIP_INDEX_URL"} ${PIP_CERT:+PIP_CERT=/root/pip-cert.pem} "$@" </dev/null
}

debootstrap --variant=minbase "${flags[@]}" "$suite" "$root" "$mirror" "${script[@]}" >"$work/log" 2>&1 || { tail "$work/log"; exit 1; }
mount -t proc proc "$root/proc"
mkdir -p "$root/dev/shm"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
cp /etc/resolv.conf "$root/etc/resolv.conf"
[ -z "${PIP_CERT-}" ] || cp "$PIP_CERT" "$root/root/pip-cert.pem"
cp "$wheel" "$top/examples/acquire.py" "$root/root/"
{
	inside apt-get update
	inside apt-get install -y --no-install-recommends python3-venv ca-certificates
	inside python3 -m venv /root/venv
	inside pip --disable-pip-version-check install numpy "/root/${wheel##*/}"
} >>"$work/log" 2>&1 || { tail "$work/log"; exit 1; }
sed -n 's/^PRETTY_NAME=//p' "$root/etc/os-release"
said=$(inside broker-run --device host -b 'u=f32[1024]' -- python /root/acquire.py 2>&1)
echo "$said"
grep -qx 'u\[0\] = 1.0' <<<"$said" && grep -q 'balanced$' <<<"$said"

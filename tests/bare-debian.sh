#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bare-debian.sh - a newcomer's first hour: this commit, cloned into a Debian that has nothing but git, and README's commands.
#
# usage: tests/bare-debian.sh SUITE [MIRROR]      SUITE: bookworm, trixie, ...
#
# BARE_LOCALE (C.UTF-8) and BARE_UMASK (022) are the newcomer's: BARE_LOCALE=tr_TR.UTF-8 BARE_UMASK=077 tests/bare-debian.sh bookworm
# clones, builds and tests so. A locale that a bare Debian does not have is made there, of its package locales.
#
# As a user without rights ./bootstrap must say what to install; root runs the demo and the tests, which installs it; then
# the user runs the tests, built with every warning an error. Prints the commit and each closing line; exit 0 only when
# everything passed. Needs root, debootstrap, a network and 2 GiB in BARE_DIR (/var/tmp), where it leaves the logs. What it
# mounts is seen by it alone and ends with it.
#
# BARE_CUDA=yes tests/bare-debian.sh trixie: the suite's own nvidia-cuda-toolkit is there too, and the cuda device has to be
# built. It takes 10 GiB.
# shellcheck disable=SC2317 # functions are reached through trap and step
set -euo pipefail

if [ $# -lt 1 ] || [ $# -gt 2 ]; then
	sed -n 's/^# usage: /usage: /p' "$0" >&2
	exit 2
fi
if [ "$(id -u)" != 0 ] || ! command -v debootstrap >/dev/null; then
	echo "bare-debian.sh: it needs root and debootstrap" >&2
	exit 2
fi
if [ -z "${BARE_ALONE-}" ]; then
	BARE_ALONE=yes exec unshare --mount --pid --fork --kill-child bash "$0" "$@"
fi

suite=$1 mirror=${2:-http://deb.debian.org/debian} cuda=${BARE_CUDA-}
[ "$cuda" = yes ] || cuda=
locale=${BARE_LOCALE:-C.UTF-8} mask=${BARE_UMASK:-022}
top=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d "${BARE_DIR:-/var/tmp}/bare-$suite${cuda:+-cuda}-XXXXXX")
root=$work/root
status=0
finish() {
	umount "$root/dev/pts" "$root/dev/shm" "$root/proc" 2>/dev/null || true
	# nothing of this machine may be reached below it when it is removed
	if ! grep -q " $root/" /proc/self/mounts; then
		rm -rf --one-file-system "$root"
	fi
	echo "logs: $work"
}
trap finish EXIT

# inside USER COMMAND...: in the new system, as that user, in that user's clone, with an environment and a umask of its own
inside() {
	local user=$1 home=/root
	[ "$user" = root ] || home=/home/$user
	shift
	# shellcheck disable=SC2016 # the shell within expands
	chroot --userspec="$user:$user" "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME="$home" LC_ALL="$locale" \
		bash -c 'umask "$1" && shift && cd "$HOME/gpubroker" && exec "$@"' - "$mask" "$@" </dev/null
}

# step NAME COMMAND...: its output is in the log of that name, its last line is shown
step() {
	local name=$1 began=$SECONDS code=0
	shift
	"$@" >"$work/$name.log" 2>&1 || code=$?
	echo "$name: $(tail -n 1 "$work/$name.log") (exit status $code, $((SECONDS - began)) s)"
	[ $code = 0 ] || status=1
}

# Every line is bootstrap's own, and the last one is to be typed.
refused() {
	inside user ./bootstrap check >"$work/refusal" 2>&1 && return 1
	cat "$work/refusal"
	! grep -vqE '^(bootstrap: |  apt-get )' "$work/refusal"
}

packages=git,ca-certificates
make_locale() { :; }
case $locale in
C | C.* | POSIX) ;;
*)
	packages+=,locales
	make_locale() { chroot "$root" localedef -i "${locale%%.*}" -f "${locale##*.}" "$locale"; }
	;;
esac
# The toolkit, of Debian's non-free part
toolkit() {
	chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive \
		sh -c 'apt-get update && apt-get install -y --no-install-recommends nvidia-cuda-toolkit && apt-get clean' </dev/null
	chroot "$root" nvcc --version
}

step debootstrap debootstrap --variant=minbase --include="$packages" --components=main,contrib,non-free \
	"$suite" "$root" "$mirror"
[ $status = 0 ] || exit 1
make_locale
mount -t proc proc "$root/proc"
mkdir -p "$root/dev/shm"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
# tests read what programs show on a terminal
mount -t devpts -o newinstance,ptmxmode=0666,mode=0620,gid=5 devpts "$root/dev/pts"
cp /etc/resolv.conf "$root/etc/resolv.conf"
chroot "$root" useradd --create-home user
(umask "$mask" && git clone -q "$top" "$root/root/gpubroker")
cp -a "$root/root/gpubroker" "$root/home/user/"
chroot "$root" chown -R user:user /home/user/gpubroker

echo "commit: $(git -C "$top" rev-parse --short HEAD), $(sed -n 's/^PRETTY_NAME=//p' "$root/etc/os-release"), $locale, umask $mask"
[ -z "$cuda" ] || step toolkit toolkit
step refusal refused
step demo inside root ./bootstrap demo
step check inside root ./bootstrap check
step check-user inside user env CONFIGURE_FLAGS=--enable-werror ./bootstrap check
[ -z "$cuda" ] || step cuda inside root ls build/kernels/kernels.fatbin
# What failed, of all
grep -hE '^(not ok|FAIL|ERROR|Bail)' "$work"/*.log | sort -u || true
exit $status

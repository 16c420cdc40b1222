# shellcheck shell=bash disable=SC2034,SC2054
# SPDX-License-Identifier: Apache-2.0
# bare.sh - what the scripts share that make a bare Debian or Ubuntu and work in it: bare-debian.sh, bare-python.sh, packages.sh.
# A system is the folder root-NAME in $work. Nothing is mounted below it but by inside, for the time that one command runs.

# bare_alone ARGUMENTS: ends the script with 2 where it cannot run. Starts it anew with these arguments, in namespaces of its own, so
# that its mounts and processes end with it.
bare_alone() {
	if [ "$(id -u)" != 0 ] || ! command -v debootstrap >/dev/null; then
		echo "${0##*/}: it needs root and debootstrap" >&2
		exit 2
	fi
	[ -n "${BARE_ALONE-}" ] || BARE_ALONE=yes exec unshare --mount --pid --fork --kill-child --mount-proc bash "$0" "$@"
}

# bare_begin SUITE [MIRROR]: sets top (the sources) and work (a new folder, in BARE_DIR or /var/tmp)
bare_begin() {
	local name=${0##*/}
	suite=$1 mirror=${2:-http://deb.debian.org/debian}
	# for debootstrap: before the suite, and behind the mirror
	options=(--components=main,contrib,non-free) script=()
	case $suite in
	jammy | noble)
		mirror=${2:-http://archive.ubuntu.com/ubuntu}
		options=(--components=main,universe)
		# all suites of Ubuntu have this one, and debootstrap of Debian 12 does not know the newest by name
		script=(/usr/share/debootstrap/scripts/gutsy)
		;;
	esac
	top=$(cd "$(dirname "$0")/.." && pwd)
	work=$(mktemp -d "${BARE_DIR:-/var/tmp}/${name%.sh}-$suite-XXXXXX")
}

# bare_make NAME [PACKAGES]: makes a system that has these packages (a list with commas) and what debootstrap cannot leave out
bare_make() {
	debootstrap --variant=minbase ${2:+"--include=$2"} "${options[@]}" "$suite" "$work/root-$1" "$mirror" "${script[@]}"
	cp /etc/resolv.conf "$work/root-$1/etc/resolv.conf"
	[ -z "${PIP_CERT-}" ] || cp "$PIP_CERT" "$work/root-$1/etc/pip-cert.pem"
}

# bare_copy FROM NAME
bare_copy() {
	cp -a --reflink=auto "$work/root-$1" "$work/root-$2"
}

# bare_remove NAME...
bare_remove() {
	rm -rf --one-file-system "${@/#/${work:?}/root-}"
}

# What the shell does that inside starts: it enters the system as a machine or a container does, by a root that is a mount point, so that
# namespaces can be made there, and mounts /proc, /sys, /dev/shm and /dev/pts. Its arguments: the system's folder, user, command.
# shellcheck disable=SC2016 # that shell expands it
enter='set -e
mount --rbind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount --rbind /sys sys
mkdir -p dev/shm
mount -t tmpfs -o mode=1777 tmpfs dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=0620,gid=5 devpts dev/pts
pivot_root . mnt
umount -l mnt
user=$2
shift 2
exec setpriv --reuid="$user" --regid="$user" --init-groups "$@"'

# inside NAME USER COMMAND...: runs a command in a system, in the home of that user, with an environment of its own
inside() {
	local root=$work/root-$1 user=$2 home=/root
	[ "$user" = root ] || home=/home/$user
	shift 2
	unshare --mount bash -c "$enter" - "$root" "$user" env -i --chdir="$home" PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME="$home" \
		LC_ALL="${BARE_LOCALE:-C.UTF-8}" DEBIAN_FRONTEND=noninteractive ${PIP_INDEX_URL:+PIP_INDEX_URL="$PIP_INDEX_URL"} \
		${PIP_CERT:+PIP_CERT=/etc/pip-cert.pem} "$@" </dev/null
}

status=0
# step NAME COMMAND...: the output is in the log of that name, and its last line is shown. A failure makes status 1.
step() {
	local name=$1 began=$SECONDS code=0
	shift
	# not behind ||, where a function would go on after a failure
	set +e
	(set -e; "$@") >"$work/$name.log" 2>&1 </dev/null
	code=$?
	set -e
	echo "$name: $(tail -n 1 "$work/$name.log") (exit status $code, $((SECONDS - began)) s)"
	[ $code = 0 ] || status=1
}

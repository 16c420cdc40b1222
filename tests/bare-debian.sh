#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bare-debian.sh - a newcomer's first hour: this commit, cloned into a Debian that has nothing but git, and README's commands.
#
# usage: tests/bare-debian.sh SUITE [MIRROR]      SUITE: bookworm, trixie, ...
#
# The table of cases below says who the newcomers are. BARE_CASES="root driver" runs these alone, and BARE_TESTS="tests/integration/join.sh"
# these tests of each. BARE_LOCALE (C.UTF-8) and BARE_UMASK (022) are every newcomer's. A locale that a bare Debian does not have is made
# there, of its package locales.
#
# As a user without rights ./bootstrap must say what to install, and root types that line for the user. For root ./bootstrap installs
# it. Prints the commit and each closing line; exit 0 only when everything passed. Needs root, debootstrap, a network and 4 GiB in
# BARE_DIR (/var/tmp), where it leaves the logs. PIP_INDEX_URL and PIP_CERT are pip's, there too.
#
# BARE_CUDA=yes tests/bare-debian.sh trixie: root has the suite's own nvidia-cuda-toolkit too, and the cuda device has to be
# built. It takes 10 GiB.
# shellcheck disable=SC2154,SC2317 # bare.sh sets variables; functions are reached through trap and step
set -euo pipefail

# Each case: its name; the user; which of README's commands (python: those of the Python package); whether libhwloc-dev is there (libhwloc-plugins never is); TMPDIR; how the
# name of the clone's folder is; and CONFIGURE_FLAGS. In a long one, a copy of a clone that was built before, everything is built anew from what git knows.
cases='root       root  demo,python,check  hwloc  unset           short
root-long  root  check              bare   /tmp/user/0     long   --enable-werror
user       user  demo,check         hwloc  /home/user/tmp  short
driver     user  check              hwloc  unset           short  --enable-werror --with-cuda=driver
user-long  user  check              bare   unset           long   --enable-werror'

if [ $# -lt 1 ] || [ $# -gt 2 ]; then
	sed -n 's/^# usage: /usage: /p' "$0" >&2
	exit 2
fi
# shellcheck source=tests/bare.sh
. "$(dirname "$0")/bare.sh"
bare_alone "$@"
bare_begin "$@"

wanted=" ${BARE_CASES-$(awk '{ print $1 }' <<<"$cases" | tr '\n' ' ')} "
locale=${BARE_LOCALE:-C.UTF-8}
long=$(printf 'a-folder-with-a-long-name-%.0s' {1..6})
finish() {
	bare_remove made root user
	echo "logs: $work"
}
trap finish EXIT

# newcomer USER FOLDER COMMAND...: runs a command in the clone of that user, with the umask of newcomers
newcomer() {
	local user=$1 folder=$2
	shift 2
	# shellcheck disable=SC2016 # the shell within expands
	inside "$user" "$user" bash -c 'umask "$1" && cd "$2" && shift 2 && exec "$@"' - "${BARE_UMASK:-022}" "$folder" "$@"
}

packages=git,ca-certificates
case $locale in
C | C.* | POSIX) ;;
*) packages+=,locales ;;
esac
made() {
	bare_make made "$packages"
	chroot "$work/root-made" useradd --create-home user
	[[ $packages != *,locales ]] || chroot "$work/root-made" localedef -i "${locale%%.*}" -f "${locale##*.}" "$locale"
}

# ready USER: a system of that user's own, with a clone
ready() {
	[ ! -e "$work/root-$1" ] || return 0
	local home=/home/$1
	[ "$1" != root ] || home=/root
	bare_copy made "$1"
	(umask "${BARE_UMASK:-022}" && git clone -q "$top" "$work/root-$1$home/gpubroker")
	inside "$1" root chown -R "$1:$1" "$home/gpubroker"
	"ready_$1"
}
ready_root() {
	[ "${BARE_CUDA-}" != yes ] || step toolkit toolkit
}
# The toolkit, of Debian's non-free part
toolkit() {
	inside root root sh -c 'apt-get update && apt-get install -y --no-install-recommends nvidia-cuda-toolkit && apt-get clean'
	inside root root nvcc --version
}
# What bootstrap tells this user is what root types. Every line is bootstrap's own, and the last one is to be typed.
ready_user() {
	step refusal refused
	step install inside user root bash -c "$(tail -n 1 "$work/refusal.log")"
}
refused() {
	newcomer user gpubroker ./bootstrap check >"$work/refused" 2>&1 && return 1
	cat "$work/refused"
	! grep -vqE '^(bootstrap: |  apt-get )' "$work/refused"
}

# python USER FOLDER VARIABLE=VALUE...: the two lines with which README builds the Python package and runs a program that uses it
python() {
	local lines
	lines=$(sed -n 's/^    \$ \(\.\/bootstrap wheel .*\|broker-run .* -- python examples\/acquire\.py\)$/\1/p' "$top/README.md")
	[ "$(wc -l <<<"$lines")" = 2 ]
	newcomer "$1" "$2" env "${@:3}" bash -ec "$lines"
}

# run_case NAME USER COMMANDS HWLOC TMPDIR FOLDER FLAG...: one row of the table
run_case() {
	local name=$1 user=$2 commands=$3 hwloc=$4 temporary=$5 length=$6 folder=gpubroker command
	local given=(CONFIGURE_FLAGS="${*:7}" TESTS="${BARE_TESTS-}")
	ready "$user"
	if [ "$length" = long ]; then
		step "$name-before" newcomer "$user" gpubroker env TESTS=tests/install/points.sh ./bootstrap check
	fi
	[ "$hwloc" = hwloc ] || step "$name-without-hwloc" inside "$user" root apt-get purge -y libhwloc-dev
	if [ "$temporary" != unset ]; then
		inside "$user" "$user" mkdir -p -m 700 "$temporary"
		given+=(TMPDIR="$temporary")
	fi
	if [ "$length" = long ]; then
		folder=$long/gpubroker
		newcomer "$user" . mkdir -p "$long"
		newcomer "$user" . cp -a gpubroker "$folder"
		newcomer "$user" "$folder" git clean -xdfq
	fi
	for command in ${commands//,/ }; do
		if [ "$command" = python ]; then
			step "$name-python" python "$user" "$folder" "${given[@]}"
		else
			step "$name-$command" newcomer "$user" "$folder" env "${given[@]}" ./bootstrap "$command"
		fi
	done
}

step debootstrap made
[ $status = 0 ] || exit 1
echo "commit: $(git -C "$top" rev-parse --short HEAD), $(sed -n 's/^PRETTY_NAME=//p' "$work/root-made/etc/os-release")," \
	"$locale, umask ${BARE_UMASK:-022}"
while read -r -a row; do
	[[ $wanted != *" ${row[0]} "* ]] || run_case "${row[@]}"
done <<<"$cases"
[ "${BARE_CUDA-}" != yes ] || step cuda newcomer root gpubroker ls build/kernels/kernels.fatbin
# What failed, of all
grep -hE '^(not ok|FAIL|ERROR|Bail)' "$work"/*.log | sort -u || true
exit $status

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# caller.sh - what a test inherits is the same whoever calls make check: locale, umask, a temporary directory that leaves
# room for a socket's path. It asks the Makefile itself, which starts nothing but a shell.
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

# shellcheck disable=SC2016 # make and the test's shell expand it
printf '%s\n' 'include Makefile' 'show-caller:' \
	'	@$(AM_TESTS_ENVIRONMENT) echo "locale=$$LC_ALL umask=$$(umask) temporary=$$TMPDIR"' >show.mk

# inherits WANTED COMMAND...: what a test sees when COMMAND calls make
inherits() {
	local wanted=$1
	shift
	"$@" env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -s -C "${top_builddir:?}" -f "$work/show.mk" show-caller >out 2>err &&
		[ "$(cat out)" = "$wanted" ]
}
with_umask() {
	(umask "$1" && shift && "$@")
}

long=$work/$(printf 'x%.0s' {1..120})
mkdir "$long"
for language in de_DE.UTF-8 tr_TR.UTF-8; do
	check "a caller in $language" inherits "locale=C umask=0022 temporary=/tmp" env TMPDIR=/tmp LC_ALL=$language
done
for mask in 000 077; do
	check "a caller with umask $mask" inherits "locale=C umask=0022 temporary=/tmp" with_umask $mask env TMPDIR=/tmp
done
check "a caller whose temporary directory has a long name" inherits "locale=C umask=0022 temporary=/tmp" env "TMPDIR=$long"
check "a caller whose temporary directory has a short one keeps it" inherits "locale=C umask=0022 temporary=/var/tmp" \
	env TMPDIR=/var/tmp
check "a caller without one" inherits "locale=C umask=0022 temporary=" env -u TMPDIR
plan

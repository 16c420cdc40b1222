#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# debian.sh - debian/ says what the rest of the tree says: the version, the library's functions, what is needed to build, what the
# release has of it. And nothing in the units needs a program that a small system is without. tests/packages.sh builds and installs them.
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
source=$(cd "$top_srcdir" && pwd) || exit 1
build=$(cd "${top_builddir:?}" && pwd) || exit 1
cd "$work" || exit 1
debian=$source/debian

# same COMMAND COMMAND: both print the same, and something
same() {
	"$1" | LC_ALL=C sort -u >one
	"$2" | LC_ALL=C sort -u >two
	[ -s one ] && diff one two >out 2>err
}

version() {
	sed -n 's/^AC_INIT(\[gpubroker\],\[\(.*\)\])$/\1/p' "$source/configure.ac"
}
package_version() {
	sed -n '1s/^gpubroker (\(.*\)) .*/\1/p' "$debian/changelog"
}
check "the packages have the release's version" same version package_version

# the nodes, each of which stands for all its functions
exported() {
	sed -n 's/^\(GPUBROKER_[0-9]*\) .*/\1/p' "$source/libbroker/gpubroker.map"
}
symbols() {
	sed -n 's/^ (symver)\([^ ]*\) .*/\1/p' "$debian/libgpubroker0.symbols"
}
check "the symbols file has the nodes of the version script" same exported symbols

# Not what is for tests, or in no package without a build profile
wanted() {
	grep -v '^#' "$source/bootstrap" | grep -oE '[a-z0-9.+-]+-dev\>' | grep -vxE 'libcmocka-dev|python3-dev'
}
build_depends() {
	sed -n '/^Build-Depends:/,/^[A-Z]/s/^ \([a-z0-9.+-]*-dev\),$/\1/p' "$debian/control"
}
check "they are built with what bootstrap asks for" same wanted build_depends

# A test may not ask git: a release has none.
there() {
	(cd "$source" && find debian -type f ! -name local.mk ! -path 'debian/build/*')
}
released() {
	sed -n '/^EXTRA_DIST/,$p' "$debian/local.mk" | tr -s ' \t' '\n' | grep '^debian/'
}
check "the release has each file of debian" same there released

# No absolute path of a program but sh, which each system has, and our own.
commands() {
	local unit
	for unit in "$build"/contrib/systemd/*.service; do
		sed -n 's/^Exec[A-Za-z]*=[-@:+!]*\([^ ]*\).*/\1/p' "$unit"
	done
}
only_own() {
	commands >out && [ -s out ] && ! grep -vE '^/bin/sh$|/(brokerd|broker-exporter)$' out >err
}
check "the units start brokerd and sh alone" only_own
plan

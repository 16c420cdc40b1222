#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# release.sh - what a release is made of: the files that its documents link to, and the same bytes wherever it is packed and
# built. Which folders' names are refused because of a blank. Packs, configures and compiles in folders of its own.
# shellcheck disable=SC2016 # what a check evaluates expands then, not before
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

work=$(mktemp -d) || exit 1
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
sources=$(cd "$top_srcdir" && pwd) || exit 1 # distcheck's is relative
cd "$work" || exit 1

# run_make FOLDER ARGUMENT...: this test is run by a make, whose options are its own
run_make() {
	env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS "${MAKE:-make}" -s -C "$@"
}

# ---- what is in it ----

# linked: what its documents link to, from the top
linked() {
	local file
	find . -name '*.md' | while read -r file; do
		grep -ohE '\]\([^)#:]+[)#]' "$file" | sed "s/^](//; s/.\$//; s|^|$(dirname "$file")/|"
	done
}
complete() {
	local path missing=0
	cd one/release || return 1
	for path in $(linked | sort -u); do
		[ -e "$path" ] || { echo "# $path is not in the release" && missing=1; }
	done
	return $missing
}
# whole FOLDER: each of its files is in it; what a program left there is not asked for, where git knows that
whole() {
	local path missing=0
	while read -r path; do
		[ -e "one/release/$path" ] || { echo "# $path is not in the release" && missing=1; }
	done < <(cd "$sources" && { git ls-files "$1" 2>/dev/null | grep . || find "$1" -type f; })
	return $missing
}
long=$work/two/a-folder-with-a-longer-name-that-no-binary-may-have
mkdir -p one "$long"
check "a release is laid out" eval \
	'run_make "${top_builddir:?}" distdir distdir="$work/one/release" >out 2>err && [ -e one/release/configure ]'
check "it has each file that its documents link to" eval '(complete)'
check "it has each file of the bindings" whole bindings

# ---- packed twice ----

# The second has other times, modes and, where root packs, owners, and its folders' entries in another order.
(umask 077 && mkdir "$long/release" && cd one/release && find . -type f | sort -r | tar cf - -T - |
	tar xf - --no-same-permissions --touch -C "$long/release")
[ "$(id -u)" != 0 ] || chown -R 12345:12345 "$long/release"
printf '%s\n' 'include Makefile' 'pack-folder:' '	@cd $(folder) && tardir=release && $(am__tar)' >pack.mk
# packed FOLDER NAME
packed() {
	run_make "$top_builddir" -f "$work/pack.mk" pack-folder folder="$1" srcdir="$sources" >"$2.tar" 2>err && [ -s "$2.tar" ]
}
check "it is packed" packed "$work/one" one
check "again, from another folder with other times, modes and order" packed "$long" two
check "the tarballs are the same" cmp one.tar two.tar
# Some file systems hand out names in one order, whatever was made first: so the order is looked at too.
check "files are in the order of their names" eval 'tar -tf two.tar | tr / "\1" | LC_ALL=C sort -c 2>err'
check "they belong to nobody" eval '! tar -tvf two.tar --numeric-owner | grep -v "^[^ ]* 0/0 " >out'
check "SOURCE_DATE_EPOCH is the files' time" eval 'SOURCE_DATE_EPOCH=86400 packed "$long" two &&
	tar -tvf two.tar --utc | grep -q " 1970-01-02 00:00 " && ! cmp -s one.tar two.tar'

# ---- built twice ----

# Configured as this tree is, but without sanitizers, which write down where things lie; and with a compiler that sets the highest
# level of fortify by itself, as some systems' do.
printf '#!/bin/sh\nexec %s -D_FORTIFY_SOURCE=3 "$@"\n' "${CC:-cc}" >fortified
chmod +x fortified
arguments=()
eval "arguments=($("$top_builddir/config.status" --config | sed -E "s/'?--srcdir=[^' ]*'?//"))" # distcheck names its own
# configured FOLDER CONFIGURE
configured() {
	mkdir -p "$1"
	(cd "$1" && "$2" "${arguments[@]}" --disable-maintainer-mode --disable-sanitizers --cache-file="$work/cache" CC="$work/fortified" \
		CFLAGS='-g -O2' >"$work/out" 2>"$work/err" </dev/null)
}
check "it is configured, in a folder of its own by a relative path" configured "$work/one/release/build" ../configure
check "again, by an absolute path" configured "$long/elsewhere" "$long/release/configure"
check "a compiler's own level of fortify is not lowered" eval '! grep "^HARDENING_CPPFLAGS.*FORTIFY" one/release/build/Makefile'

# A module, and objects of a library, of a program, and of nvcc.
built=(kernels/kernels.la libbroker/common/sealed.lo broker/show/broker-status.o)
files=(kernels/.libs/kernels.so libbroker/common/.libs/sealed.o broker/show/broker-status.o)
if [ -e "$top_builddir/kernels/kernels.fatbin" ]; then
	built+=(examples/acquire.lo kernels/kernels.fatbin)
	files+=(examples/.libs/acquire.o kernels/kernels.fatbin)
fi
# same_bytes: of two builds, none of which has the name of its folder in a file
same_bytes() {
	local file differ=0
	run_make one/release/build "${built[@]}" >out 2>err && run_make "$long/elsewhere" "${built[@]}" >out 2>err || return 1
	for file in "${files[@]}"; do
		cmp "one/release/build/$file" "$long/elsewhere/$file" || differ=1
		! grep -lF -e "$work" "one/release/build/$file" || differ=1
	done
	return $differ
}
check "both builds have the same bytes" same_bytes
# What is compiled, from make's own plan. An object that is there already is none of it, but those have been compared.
mapped() {
	run_make one/release/build -n V=1 all >plan 2>err && grep -q -- ' -c -o ' plan &&
		! grep -- ' -c -o ' plan | grep -v -- ' -ffile-prefix-map='
}
check "each object that is installed is compiled so" mapped

# ---- blanks ----

# refuses FOLDER WHAT COMMAND...: configure, called so in FOLDER, refuses WHAT
refuses() {
	local folder=$1 what=$2 status
	shift 2
	mkdir -p "$folder"
	(cd "$folder" && "$@" >"$work/out" 2>"$work/err" </dev/null)
	status=$?
	[ $status != 0 ] && grep -q "error: $what is '.* .*', which has a blank in it" err
}
configure=$work/one/release/configure
check "a prefix with a blank is refused" refuses refused --prefix "$configure" --prefix="/opt/two words"
check "so is a library folder" refuses refused --libdir "$configure" --libdir="/opt/two words"
check "so is a build folder" refuses "two words" "the build folder" "$configure"
mkdir "more words"
mv "$long/release" "more words/"
check "so are sources" refuses refused "the folder of the sources" "$work/more words/release/configure"
# not_installed ARGUMENT...: make install refuses it, before it has made a folder
not_installed() {
	! run_make "$top_builddir" install "$@" >out 2>err && grep -q "^make: '$work/even more.*' has a blank in it" err &&
		[ ! -e "$work/even more" ] && [ ! -e "$work/even" ]
}
check "make install refuses a DESTDIR with one" not_installed DESTDIR="$work/even more"
check "and a prefix" not_installed prefix="$work/even more"
plan

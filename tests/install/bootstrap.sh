#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bootstrap.sh - what ./bootstrap does where libraries are missing and this user may not install any: it says which, and how
# to install them, and nothing else. And what the documents tell to run can be run. Installs and builds nothing.
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

# A machine with these commands alone: no compiler, no library, and an apt-get that remembers that it was called.
mkdir bin
for tool in bash env dirname realpath mktemp cp rm; do
	ln -s "$(command -v $tool)" "bin/$tool"
done
# stub NAME COMMAND
stub() {
	printf '#!%s/bin/bash\n%s\n' "$work" "$2" >"bin/$1"
	chmod +x "bin/$1"
}
stub id 'echo 1000'
stub apt-get "echo \"\$@\" >>$work/called"

# refused [COMMAND]: bootstrap ends with 1, without a call of apt-get; every line is its own, and the last one is to be typed
refused() {
	rm -f called
	PATH=$work/bin bash "$top_srcdir/bootstrap" "$@" >out 2>err </dev/null
	[ $? = 1 ] && [ ! -e called ] && [ ! -s out ] && [ "$(wc -l <err)" = 3 ] &&
		sed -n 1p err | grep -q '^bootstrap: these Debian packages.* are missing: build-essential .*libsodium-dev' &&
		sed -n 2p err | grep -q '^bootstrap: to install them, run' &&
		sed -n 3p err | grep -q '^  apt-get update && apt-get install .* build-essential .*libsodium-dev'
}
check "a user without rights, where there is no sudo, is told what to install" refused
check "for the Python wheel, too, all at once" eval 'refused wheel && sed -n 3p err | grep -q " libpng-dev .* python3-dev python3-venv"'
stub sudo 'echo "sudo: a password is required" >&2; exit 1'
check "so is one from whom sudo wants a password" refused
installs() {
	PATH=$work/bin bash "$top_srcdir/bootstrap" >out 2>err </dev/null
	[ $? = 1 ] && grep -q '^update' called && grep -q '^install .*libsodium-dev' called &&
		grep -q '^bootstrap: installed, but still not usable here: build-essential' err
}
# shellcheck disable=SC2016 # the stub expands it
stub sudo 'shift; "$@"'
check "one whom sudo lets has it installed" installs

# In backquotes, at a command's place, perhaps behind variables; and what a table's first column has.
runnable() {
	local script
	cd "$top_srcdir" || return 1
	grep -ohE '(`|^    )([A-Z]+=[^ ]* )*(\./bootstrap|tests/[a-z-]+\.sh|\.ci/run)\>' ./*.md tests/*.md bench/*.md |
		sed 's/.*[` ]//' | sort -u | while read -r script; do
		[ ! -e "$script" ] || [ -x "$script" ] || { echo "# $script cannot be executed" && return 1; }
	done
}
check "scripts that the documents run by their names are executable" runnable
plan

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# wheel.sh - the Python wheel is all that a machine needs: installed into an empty virtual environment, its broker-run starts four
# workers in Python that share memory, and nothing of it comes from the build tree.
#
# It needs the virtual environment that ./bootstrap check makes. Makes build/wheel/ anew.
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

need_venv
venv=$top_builddir/venv
if grep -q -e __asan_init -e __tsan_init "$top_builddir/libbroker/.libs/libgpubroker.so"; then
	echo "1..0 # SKIP a wheel with the sanitizers would need an interpreter with them"
	exit 0
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

made() {
	makes wheel &&
		[ "$(find "$top_builddir/wheel" -name 'gpubroker-*-abi3-manylinux_*.whl' | wc -l)" = 1 ]
}
check "the wheel is made, for each CPython from 3.11 on and each system with this libc or a later one" made

# An environment that has neither pip nor NumPy.
installed() {
	cp "$top_builddir"/wheel/*.whl . && python3 -m venv --without-pip bare >out 2>err &&
		"$venv/bin/pip" --disable-pip-version-check --python bare/bin/python install --no-index ./gpubroker-*.whl >out 2>err
}
check "it is installed, without an index" installed

cat >sim.py <<'END'
import os

import gpubroker

rank, size = int(os.environ["GPUBROKER_RANK"]), int(os.environ["GPUBROKER_SIZE"])
with gpubroker.connect() as c:
    c.create(f"u{rank}", 4, "int64", timeline=True)
    with c.acquire(f"u{rank}", "w", signal=1) as u, memoryview(u) as view:
        view[2] = 10 + rank
    with c.acquire(f"u{(rank + 1) % size}", timeout=60, at=1) as u, memoryview(u) as view:
        files = {line.split(None, 5)[5].strip() for line in open("/proc/self/maps") if line.count("/")}
        print(rank, "reads", view[2], [file for file in files if file.startswith(os.environ["FORBIDDEN"])])
END
# alone COMMAND...: with nothing of this tree in the environment
alone() {
	env -i PATH="$work/bare/bin:/usr/bin:/bin" HOME="$work" TMPDIR="${TMPDIR:-/tmp}" FORBIDDEN="$(realpath "$top_builddir")" "$@"
}
shares() {
	alone broker-run --device host -n 4 -- python sim.py >out 2>err && grep -q 'balanced$' err &&
		[ "$(sort out)" = "$(printf '%s\n' '0 reads 11 []' '1 reads 12 []' '2 reads 13 []' '3 reads 10 []')" ]
}
check "its broker-run starts four workers in Python, which read what the others wrote" shares
# Each command is the program itself: it replaces the interpreter that starts it.
answers() {
	local program
	for program in broker-run broker-status broker-ctl brokerd; do
		alone "$program" --version >out 2>err && grep -q "^$program " out || return 1
	done
}
check "it brings broker-run, broker-status, broker-ctl and brokerd" answers
nowhere() {
	! grep -rlF -e "$(realpath "$top_builddir")" bare/lib/python*/site-packages >out 2>err
}
check "no file of it names the build tree" nowhere
licensed() {
	find bare/lib/python*/site-packages/gpubroker-*.dist-info -name LICENSE | grep -q .
}
check "it has the licence" licensed
# noticed: one for each library that it brings, which Debian's packages have
noticed() {
	local brought
	brought=$(find bare/lib/python*/site-packages/gpubroker.libs -name '*.so*' ! -name 'libgpubroker-*' | sed 's|.*/||; s|-.*||' | sort -u | wc -l)
	find bare/lib/python*/site-packages/gpubroker-*.dist-info -name 'NOTICE.*' >out
	[ "$brought" -gt 0 ] && [ "$(wc -l <out)" -ge $((brought - 1)) ] # libncursesw and libtinfo may be of one package
}
if command -v dpkg-query >/dev/null; then
	check "and those of the libraries that it brings" noticed
else
	skip "and those of the libraries that it brings" "their licences are taken from Debian's packages"
fi
plan

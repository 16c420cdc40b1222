#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# venv.sh - makes the virtual environment that the package is built and tested in, BUILD/venv, with tests/requirements.txt, and with
# mpi4py for examples/heat.py, if there is a wheel of it.
#
#   venv.sh BUILD
#
# Quick when it is there. Ends with 1 where it cannot be made, and the last line that it prints is why. Never changes the
# system's Python.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd) || exit 1
venv=$1/venv
requirements=$here/tests/requirements.txt

refuse() {
	rm -rf "$venv"
	echo "$1"
	exit 1
}

! cmp -s "$requirements" "$venv/requirements.txt" || exit 0
rm -rf "$venv"
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || refuse "there is no Python 3.11 or later (Debian: python3)"
headers=$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')
[ -e "$headers/Python.h" ] || refuse "there is no Python.h in $headers (Debian: python3-dev)"
python3 -m venv "$venv" || refuse "Python makes no virtual environment (Debian: python3-venv)"
"$venv/bin/pip" install -q --disable-pip-version-check --timeout 10 --retries 1 -r "$requirements" ||
	refuse "pip cannot install tests/requirements.txt: no package index can be reached, or see above"
# heat-py.sh skips by name without it: to compile it here would need the headers of an MPI.
"$venv/bin/pip" install -q --disable-pip-version-check --timeout 10 --retries 1 --only-binary :all: mpi4py ||
	echo "pip finds no wheel of mpi4py"
cp "$requirements" "$venv/requirements.txt"

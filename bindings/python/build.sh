#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# build.sh - builds the package in a build tree: PYTHONPATH=BUILD/python/lib imports it, with the tree's libgpubroker.
#
#   build.sh BUILD PYTHON
#
# Compiles a copy of the sources, which may be read-only, and only what has changed. CC, CFLAGS and LDFLAGS are those of the tree.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd)
python=$2
work=$build/python

# Two tests may want it at the same time, and a third one use it.
mkdir -p "$work"
exec 9>"$work/lock"
flock 9
rm -rf "$work/source"
for module in "$work"/lib/gpubroker/*.py; do
	[ -e "$here/src/gpubroker/${module##*/}" ] || rm -f "$module"
done
cp -Rp "$here" "$work/source"
chmod -R u+w "$work/source"
cd "$work/source"
GPUBROKER_BUILD=$build GPUBROKER_SOURCE=$here/../.. "$python" setup.py -q build --build-base "$work/temp" --build-lib "$work/lib"

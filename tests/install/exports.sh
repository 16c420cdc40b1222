#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# exports.sh - the library exports the functions that its header declares, and nothing else: none of its own inner
# functions, none of CUDA's runtime, none of an archived libsodium.
set -u

library=${top_builddir:?}/libbroker/.libs/libgpubroker.so
header=${top_srcdir:?}/libbroker/gpubroker.h

# A declaration begins its line; comments that name a function do not.
declared=$(grep -oE '^(int|void|const char \*) *gpub_[a-z_]+\(' "$header" | grep -oE 'gpub_[a-z_]+' | sort)
exported=$($NM -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort)

echo 1..2
if [ -n "$exported" ] && [ "$declared" = "$exported" ]; then
	echo "ok 1 - exports are the declared functions"
else
	echo "not ok 1 - exports are the declared functions"
	diff <(echo "$declared") <(echo "$exported") | sed 's/^/# /'
fi
# What a process has loaded it can never unload: the service thread runs in it.
if ${READELF:-readelf} -d "$library" | grep -q NODELETE; then
	echo "ok 2 - marked nodelete"
else
	echo "not ok 2 - marked nodelete"
fi

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# exports.sh - the library exports the functions that its header declares, and nothing else: none of its own inner
# functions, none of an archived libsodium. No program has a function of a library's name. Nothing of the CUDA runtime is in it or in the broker's programs.
set -u

library=${top_builddir:?}/libbroker/.libs/libgpubroker.so
header=${top_srcdir:?}/libbroker/gpubroker.h

# A declaration begins its line; comments that name a function do not.
declared=$(grep -oE '^(int|void|const char \*) *gpub_[a-z_]+\(' "$header" | grep -oE 'gpub_[a-z_]+' | sort)
exported=$($NM -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort)

echo 1..4
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

# Linked statically, the runtime's functions are local symbols. One that is linked dynamically is needed by name.
runtime=$(for file in "$library" "$top_builddir"/broker/{broker-run,brokerd,broker-status,broker-ctl}; do
	$NM "$file" | awk -v file="${file##*/}" '$NF ~ /^cuda[A-Z]/ { print file ": " $NF; exit }'
	${READELF:-readelf} -d "$file" | awk -v file="${file##*/}" '/NEEDED/ && /libcuda/ { print file ": " $NF; exit }'
done)
if [ -z "$runtime" ] && $NM "$library" | grep -q ' device_host$'; then
	echo "ok 3 - no CUDA runtime, and no driver that must be there to start"
else
	echo "not ok 3 - no CUDA runtime, and no driver that must be there to start"
	printf '# %s\n' "${runtime//$'\n'/$'\n# '}"
fi

# A program that is linked with a library dynamically would take the place of the library's function in the library itself.
# shellcheck disable=SC2086 # NM may be a program and its flags
taken=$(for program in "$top_builddir"/broker/{broker-run,brokerd,broker-status,broker-ctl,broker-exporter}; do
	[ -x "$program" ] || continue
	comm -12 <($NM --defined-only "$program" | awk '$2 == "T" && $3 !~ /^_/ { print $3 }' | sort -u) \
		<(ldd "$program" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | xargs -r $NM -D --defined-only |
			awk 'NF == 3 && $2 ~ /[TWi]/ { sub(/@.*/, "", $3); print $3 }' | sort -u)
done)
if [ -z "$taken" ]; then
	echo "ok 4 - no function of a program has the name of a library's"
else
	echo "not ok 4 - no function of a program has the name of a library's"
	printf '# %s\n' "${taken//$'\n'/$'\n# '}"
fi

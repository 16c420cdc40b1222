#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# readme.sh - the README shows examples/acquire.cu as it is, and every file that README and CONTRIBUTING name is there.
# shellcheck disable=SC2016 # backquotes are what is looked for
set -u
cd "${top_srcdir:?}" || exit 1

# Between the fence that says cuda and the next one.
listing() {
	sed -n '/^```cuda$/,/^```$/p' README.md | sed '1d;$d'
}

# Links to files, and paths in backquotes whose first folder is one of ours.
named() {
	grep -ohE '\]\([^)#:]+\)' README.md CONTRIBUTING.md SECURITY.md | sed 's/^](//; s/)$//'
	grep -ohE '`(broker|libbroker|kernels|examples|tests|man|m4|docs|bench|\.ci)/[A-Za-z0-9_./-]*`' \
		README.md CONTRIBUTING.md SECURITY.md | tr -d '`'
}

# Not asked for: the program that CONTRIBUTING has its reader write; what a release leaves out.
absent() {
	named | sort -u | while read -r path; do
		case $path in
		.ci/* | tests/integration/stat-count*) ;;
		*) [ -e "$path" ] || echo "$path" ;;
		esac
	done
}

echo 1..2
if [ -n "$(listing)" ] && difference=$(diff examples/acquire.cu <(listing)); then
	echo "ok 1 - the README's program is examples/acquire.cu"
else
	echo "not ok 1 - the README's program is examples/acquire.cu"
	printf '# %s\n' "${difference//$'\n'/$'\n# '}"
fi
missing=$(absent)
if [ -z "$missing" ]; then
	echo "ok 2 - what README, CONTRIBUTING and SECURITY name is there"
else
	echo "not ok 2 - what README, CONTRIBUTING and SECURITY name is there"
	printf '# %s\n' "${missing//$'\n'/$'\n# '}"
fi

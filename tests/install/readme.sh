#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# readme.sh - the README shows examples/hello.c and acquire.py as they are, and every file that README and CONTRIBUTING name is there.
# shellcheck disable=SC2016 # backquotes are what is looked for
set -u
cd "${top_srcdir:?}" || exit 1

# listing LANGUAGE: between the fence that says so and the next one
listing() {
	sed -n "/^\`\`\`$1\$/,/^\`\`\`\$/p" README.md | sed '1d;$d'
}

# shown NUMBER LANGUAGE FILE
shown() {
	local difference
	if [ -n "$(listing "$2")" ] && difference=$(diff "$3" <(listing "$2")); then
		echo "ok $1 - the README's program is $3"
	else
		echo "not ok $1 - the README's program is $3"
		printf '# %s\n' "${difference//$'\n'/$'\n# '}"
	fi
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

echo 1..3
shown 1 c examples/hello.c
shown 2 python examples/acquire.py
missing=$(absent)
if [ -z "$missing" ]; then
	echo "ok 3 - what README, CONTRIBUTING and SECURITY name is there"
else
	echo "not ok 3 - what README, CONTRIBUTING and SECURITY name is there"
	printf '# %s\n' "${missing//$'\n'/$'\n# '}"
fi

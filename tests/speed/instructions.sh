#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# instructions.sh - the fast paths take no more instructions than instructions.txt says, give or take 15 %. Counted by
# callgrind, in this project's code alone: not in the C library and libsodium, which differ from system to system. A
# change that costs more, and is worth it, changes that file.
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

program=${top_builddir:?}/tests/speed/rounds
figures=$top_srcdir/tests/speed/instructions.txt
tolerance=15 # per cent
rounds=1000
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

skip_all() {
	echo "1..0 # SKIP $1"
	exit 0
}

for tool in valgrind callgrind_annotate; do
	command -v $tool >/dev/null || skip_all "there is no $tool (Debian: valgrind)"
done
processor=$("$program") || exit 1
case $processor in SKIP*) skip_all "${processor#SKIP }" ;; esac
grep -q "^$processor " "$figures" || skip_all "no figures for $processor: add those that the points below would be"

# count_path PATH: runs it; the instructions of the program's own functions, into the file counted
count_path() {
	timeout -s KILL 120 valgrind --tool=callgrind --toggle-collect=measured --callgrind-out-file=calls \
		"$program" "$1" $rounds >out 2>err </dev/null &&
		callgrind_annotate --threshold=100 --inclusive=no --auto=no calls >listed 2>>err &&
		awk '/^ *[0-9,]+ \(.*:/ && !/\[[^]]*\.so/ { gsub(",", "", $1); sum += $1 } END { print sum + 0 }' listed >counted
}

# within PATH FIGURE: what a round takes is what stands there
within() {
	local one
	count_path "$1" || return
	one=$(($(cat counted) / rounds))
	echo "# $1: $one instructions a round"
	[ $one -gt 0 ] && [ $((one * 100)) -le $(($2 * (100 + tolerance))) ]
}

while read -r built path figure; do
	[ "$built" = "$processor" ] || continue
	check "$path takes $figure instructions a round, or at most $tolerance % more" within "$path" "$figure"
done <"$figures"
plan

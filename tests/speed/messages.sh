#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# messages.sh - what a message costs the broker does not grow with what others hold (invariant 5): for each message, the
# broker's instructions with every table full are at most those with empty tables, and half as many more, and 1000 for a
# device's answer that wakes somebody. So are they with a ledger, in which the broker notes what must survive it. Counted
# by callgrind, in this project's code alone. --table prints them for README.md.
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

program=${top_builddir:?}/tests/speed/messages
times=3 # of each, of which the one in the middle counts: a table that grows has one message pay for many
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

skip_all() {
	echo "1..0 # SKIP $1"
	exit 0
}

command -v valgrind >/dev/null || skip_all "there is no valgrind (Debian: valgrind)"
limit=$(ulimit -Hn)
[ "$limit" = unlimited ] || [ "$limit" -ge 4096 ] || skip_all "a process may have $limit descriptors, not 4096"
reason=$("$program") || exit 1
[ -z "$reason" ] || skip_all "${reason#SKIP }"
valgrind --tool=none "$program" >/dev/null 2>&1 || skip_all "this valgrind cannot run programs of this build's processor"

# own_instructions FILE: those of the program's own functions: cost lines are two numbers, and one behind calls= is of the
# called. An object has its name where it is first named.
own_instructions() {
	awk '/^c?ob=/ { id = $1; sub(/.*=/, "", id); if (NF > 1) library[id] = $2 ~ /\.so/ }
	     /^ob=/ { own = !library[id] }
	     /^calls=/ { getline; next }
	     own && /^[+*0-9-][0-9]* [0-9]+$/ { sum += $2 }
	     END { print sum + 0 }' "$1"
}

# count_with ARGUMENT...: what the program says, each line with its instructions
count_with() {
	local part=0 line
	timeout -s KILL 300 valgrind --tool=callgrind --toggle-collect=measured --dump-after=measured \
		--callgrind-out-file=calls ./messages $times "$@" >labels 2>err </dev/null || return
	while read -r line; do
		part=$((part + 1))
		printf '%s\t%s\n' "$line" "$(own_instructions calls.$part)"
	done <labels
	rm -f calls.*
}

# Symbols are enough. Debug information would be read too, and valgrind 3.19 ends at what clang writes (DWARF 5).
count_messages() {
	strip --strip-debug -o messages "$program" && count_with >counted && count_with noted >>counted
}

# The message, its instructions when tables are empty, when they are full, when it is noted.
table() {
	sort -s -t $'\t' -k 1,2 -k 3n counted | awk -F '\t' -v times=$times '
		{ if ($1 FS $2 != last) n = 0; last = $1 FS $2; if (++n == int(times / 2) + 1) cost[$1, $2] = $3 }
		END { for (key in cost) { split(key, k, SUBSEP); if (k[1] == "empty") print k[2] FS cost[key] FS cost["full", k[2]] FS cost["noted", k[2]] } }' |
		sort
}

# bounded EMPTY OTHER
bounded() {
	[ "$1" -gt 0 ] && [ "$2" -gt 0 ] && [ $(($2 * 2)) -le $(($1 * 3 + 2000)) ]
}

check "every message is answered, with empty tables, with full ones and with a ledger" count_messages
table >rows
# each_message: every message of a client has a label that begins with it, but those whose answer is a file (VIEW), which
# is as long as what is there
each_message() {
	local message=
	while read -r message; do
		grep -qE "^$message(\W|$)" rows || { echo "# $message is not counted"; return 1; }
	done < <(sed -n '/, VIEW,/d; s/^\tROW(\([A-Z]*\), [0-9]*, CLIENT,.*/\1/p' "$top_srcdir/libbroker/common/wire.h")
	grep -q '^CREATE' rows
}
check "and each is counted" each_message
while IFS=$'\t' read -r message empty full noted; do
	[ "${1:-}" != --table ] || echo "| $message | $empty | $full | $noted |"
	check "invariant 5: $message: $empty instructions with empty tables, $full with full ones" bounded "$empty" "$full"
	check "$message: $noted instructions when it is noted" bounded "$empty" "$noted"
done <rows
plan

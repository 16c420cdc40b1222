#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# rooms.sh - tests stand where a newcomer looks for them: a unit test in the room of the source that it is named after, and
# no test is longer than 700 lines.
#
# tests/unit/ROOM/test-X.c, or test-X-PART.c, tests X.c of that room. The rooms are the four of CONTRIBUTING.md.
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

# folders ROOM: where its sources are
folders() {
	case $1 in
	broker) echo 'broker/*' ;;
	client) echo 'libbroker/client libbroker/launch' ;;
	*) echo "libbroker/$1" ;;
	esac
}

# has_source ROOM NAME: NAME.c is there, or what is left of NAME without its last parts
has_source() {
	local name=$2 folder
	while :; do
		# shellcheck disable=SC2046 # patterns
		for folder in $(folders "$1"); do
			[ ! -e "$folder/$name.c" ] || return 0
		done
		[[ $name == *-* ]] || return 1
		name=${name%-*}
	done
}

# misplaced TOP: each unit test without a source in its room
misplaced() {
	local file room name
	cd "$1" || return
	for file in tests/unit/*/test-*.c tests/unit/test-*.c; do
		[ -e "$file" ] || continue
		room=$(basename "${file%/*}")
		name=${file##*/test-}
		has_source "$room" "${name%.c}" ||
			echo "# $file: no source in the room '$room' has that name: name it test-SOURCE.c or test-SOURCE-PART.c"
	done
}

# long TOP: each file of tests that is too long
long() {
	cd "$1" && find tests -name '*.[ch]' -o -name '*.sh' | sort | xargs wc -l | awk '$1 > 700 && $2 != "total" {
		print "# " $2 ": " $1 " lines: split it by what is tested; more than 700 hide a test from its reader" }'
}

# none COMMAND...: it prints nothing; else that is why
none() {
	local lines
	lines=$("$@")
	[ -z "$lines" ] || { echo "$lines" && return 1; }
}

# ---- the check itself, over a small tree with faults ----

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/broker/base "$work"/libbroker/common "$work"/tests/unit/{broker,common}
touch "$work"/broker/base/log.c "$work"/libbroker/common/{size,path-name}.c
touch "$work"/tests/unit/broker/test-{log,log-lines}.c "$work"/tests/unit/common/test-{size,path-name-long}.c
yes '' | head -n 700 >"$work"/tests/most.c
check "a test that is named after its source or a part of it, in its room, is right" none misplaced "$work"
check "and so are 700 lines" none long "$work"
touch "$work"/tests/unit/broker/test-size.c "$work"/tests/unit/common/test-{path,sizes}.c
yes '' | head -n 701 >"$work"/tests/more.c
noticed() {
	[ "$(misplaced "$work" | sed 's/^# //; s/:.*//' | tr '\n' ' ')" = \
		"tests/unit/broker/test-size.c tests/unit/common/test-path.c tests/unit/common/test-sizes.c " ]
}
check "a test in another room than its source, or without one, is noticed" noticed
check "so is a file of 701 lines" [ "$(long "$work")" = \
	"# tests/more.c: 701 lines: split it by what is tested; more than 700 hide a test from its reader" ]

# ---- this project ----

check "each unit test stands in the room of its source" none misplaced "$top_srcdir"
check "no test is longer than 700 lines" none long "$top_srcdir"
plan

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# layers.sh - no file depends on a room above its own, and no files depend on each other in a circle.
#
# The rooms, from the top to the ground, are the first table of CONTRIBUTING.md: a row for each folder. A file depends on
# what it includes and on what it calls: the undefined symbols of its object that another file's object defines. X.c and
# X.h count as one file. Files that this build leaves out count by their includes alone, and objects without a source not
# at all.
#
# layers.txt lists the arrows that do not count, each with its reason, and no longer than they are needed.
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

read -ra nm <<<"${NM:-nm}" # with its options
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
source=$(cd "$top_srcdir" && pwd) || exit 1
build=$(cd "${top_builddir:?}" && pwd) || exit 1
cd "$work" || exit 1

# rooms FILE: the folders of its first table, in their order
rooms() {
	awk -F'|' '$2 ~ /^ room / { on = 1; next }
		   on && !/^\|/ { exit }
		   on && $2 ~ /`/ { gsub(/[ `]/, "", $2); print $2 }' "$1"
}

# includes SOURCE: "FILE LINE FILE", of what lies in the rooms; a path is looked for as the compiler does
includes() {
	local room
	(cd "$1" && while read -r room; do
		find "$room" -name '*.[ch]'
	done <"$work/table" | LC_ALL=C sort -u) >files
	# shellcheck disable=SC2016 # awk's own
	(cd "$1" && xargs awk -v files="$work/files" '
		BEGIN { while ((getline line <files) > 0) there[line] = 1 }
		!/^[ \t]*#[ \t]*include[ \t]*"/ { next }
		{
			path = $0
			sub(/^[^"]*"/, "", path)
			sub(/".*/, "", path)
			folder = FILENAME
			sub(/[^\/]*$/, "", folder)
			if (folder path in there) print FILENAME, FNR, folder path
			else if ("libbroker/" path in there) print FILENAME, FNR, "libbroker/" path
			else if (path in there) print FILENAME, FNR, path
		}' <"$work/files")
}

# calls SOURCE BUILD: "FILE LINE FILE SYMBOL"; the line is the first that names the symbol
calls() {
	(cd "$2" && find . -name '*.o' | sed 's|^\./||' | sort | xargs "${nm[@]}" -A 2>/dev/null) >symbols
	# shellcheck disable=SC2016 # awk's own
	awk -v files=files '
		BEGIN { while ((getline line <files) > 0) there[line] = 1 }
		{
			file = $1
			sub(/:.*/, "", file)
			sub(/\.libs\//, "", file)
			sub(/\.o$/, ".c", file)
			if (!(file in there)) next
			if ($(NF - 1) == "U") wants[file, $NF] = 1
			else if ($(NF - 1) ~ /^[TDBRVWCGS]$/) {
				if ($NF in owner && owner[$NF] != file) several[$NF] = 1
				owner[$NF] = file
			}
		}
		END {
			for (key in wants) {
				split(key, part, SUBSEP)
				if (part[2] in owner && !(part[2] in several) && owner[part[2]] != part[1])
					print part[1], part[2], owner[part[2]]
			}
		}' symbols | sort >wanted
	# shellcheck disable=SC2016 # awk's own
	(cd "$1" && awk '
		function line_of(file, symbol,   line, number, found) {
			while (!found && (getline line <file) > 0) {
				number++
				if (line !~ /^ ?\*|^\/\*/ && line ~ "(^|[^A-Za-z0-9_])" symbol "($|[^A-Za-z0-9_])") found = number
			}
			close(file)
			return found + 0
		}
		{ print $1, line_of($1, $2), $3, $2 }' "$work/wanted")
}

# judge: reads table, exceptions, files and arrows; writes the files unplaced, upward, circles and unneeded
# shellcheck disable=SC2016 # awk's own
judge='
function unit(file) { sub(/\.[ch]$/, "", file); return file }
function room_of(file,   i, best) {
	for (i = 1; i <= count; i++)
		if (index(file, room[i]) == 1 && length(room[i]) > length(room[best])) best = i
	return best + 0
}
function excepted(from, to,   i, hit) {
	for (i = 1; i <= exceptions; i++)
		if (from ~ left[i] && to ~ right[i]) hit = needed[i] = 1
	return hit
}
function pattern(text) { gsub(/\./, "\\.", text); gsub(/\*/, ".*", text); return "^" text "$" }
# the shortest way from a file back to itself, over files that are left
function circle_of(start,   queue, head, tail, at, i, to, seen, text) {
	queue[tail++] = start
	while (head < tail) {
		at = queue[head++]
		for (i = 1; i <= outs[at]; i++) {
			to = out[at, i]
			if (to == start) {
				text = to
				for (; at != start; at = from_of[at]) text = at " " text
				return start " " text
			}
			if (!(to in left_over) || to in seen) continue
			seen[to] = 1
			from_of[to] = at
			queue[tail++] = to
		}
	}
	return ""
}
FILENAME == "table" { room[++count] = $1; next }
FILENAME == "exceptions" {
	if (/^#/ || !NF) next
	left[++exceptions] = pattern($1)
	right[exceptions] = pattern($3)
	text_of[exceptions] = $1 " -> " $3
	next
}
FILENAME == "files" {
	folder = $1
	sub(/[^\/]*$/, "", folder)
	if (!room_of($1) || folder != room[room_of($1)]) unplaced[folder] = $1
	next
}
{
	from = unit($1); to = unit($3)
	if (from == to || excepted(from, to)) next
	what = NF > 3 ? "calls " $4 "() of " $3 : "includes " $3
	where = "# " $1 ":" $2 ": " what
	if (room_of($1) > room_of($3))
		print where ", and " room[room_of($3)] " stands above " room[room_of($1)] ": move what is wanted down, " \
			"or have it handed in from above" >"upward"
	if (!((from, to) in arrow)) {
		arrow[from, to] = where
		out[from, ++outs[from]] = to
		if (outs[from] == 1) unit_at[++units] = from
		left_over[from] = left_over[to] = 1
	}
}
END {
	for (folder in unplaced)
		print "# " unplaced[folder] ": " folder " has no row in the table of rooms of CONTRIBUTING.md: " \
			"add it at its height" >"unplaced"
	# what depends on nothing that is left is in no circle
	for (changed = 1; changed;) {
		changed = 0
		for (file in left_over) {
			held = 0
			for (i = 1; i <= outs[file]; i++) if (out[file, i] in left_over) held = 1
			if (!held) { delete left_over[file]; changed = 1; break }
		}
	}
	for (u = 1; u <= units; u++) {
		file = unit_at[u]
		if (!(file in left_over) || file in told) continue
		way = circle_of(file)
		if (way == "") continue
		n = split(way, step, " ")
		print "# a circle of " n - 1 " files: move what one takes from another into the lower of them, " \
			"or below both" >"circles"
		for (i = 1; i < n; i++) {
			told[step[i]] = 1
			print arrow[step[i], step[i + 1]] >"circles"
		}
	}
	for (i = 1; i <= exceptions; i++)
		if (!needed[i]) print "# tests/install/layers.txt: " text_of[i] " is not needed there" >"unneeded"
}'

# measure SOURCE BUILD EXCEPTIONS
measure() {
	rm -f upward circles unplaced unneeded
	rooms "$1/CONTRIBUTING.md" >table
	includes "$1" >arrows
	calls "$1" "$2" >>arrows
	cp "$3" exceptions
	awk "$judge" table exceptions files arrows
}

# none FILE: it was not written; else it says why
none() {
	[ ! -s "$1" ] || { cat "$1" && return 1; }
}

# told FILE PATTERN...: each is in it
told() {
	local file=$1 pattern
	shift
	for pattern in "$@"; do
		grep -qE "$pattern" "$file" 2>/dev/null || { echo "# not told: $pattern" && cat "$file" && return 1; }
	done
}

# ---- the check itself, over a small tree with faults ----

mkdir -p tree/up tree/down tree/odd tree/objects/up tree/objects/down
cat >tree/CONTRIBUTING.md <<'END'
| room | what it is |
| --- | --- |
| `up/` | the upper one |
| `down/` | the lower one |

| folder | what it is |
| `odd/` | no room |
END
echo 'void a(void);' >tree/up/a.h
printf '#include "up/a.h"\nvoid b(void);\nvoid a(void) { b(); }\n' >tree/up/a.c
printf '#include "down/c.h"\nvoid a(void);\nvoid b(void);\nvoid c(void);\nvoid b(void) { c(); }\n' >tree/down/b.c
printf '/* c() and b() */\nvoid b(void);\nvoid c(void);\nvoid c(void) { b(); }\n' >tree/down/c.c
echo 'void c(void);' >tree/down/c.h
printf '#include "../up/a.h"\n#include "up/a.h"\n' >tree/down/d.c
for file in up/a down/b down/c; do
	${CC:-cc} -I tree -c -o "tree/objects/$file.o" "tree/$file.c" 2>err || break
done
cp tree/objects/down/c.o tree/objects/down/gone.o
: >none.txt
echo 'down/b -> down/c  a reason' >one.txt
echo 'down/b -> up/*  a reason' >idle.txt
measure tree tree/objects none.txt
check "a room above is noticed, by file and line" \
	told upward "^# down/d.c:2: includes up/a.h, and up/ stands above down/: "
check "so is a circle of calls, with each of its arrows" \
	told circles "^# a circle of 2 files" "^# down/b.c:1: includes down/c.h|^# down/b.c:4: calls c\(\)" \
	"^# down/c.c:2: calls b\(\) of down/b.c"
check "what may be is not" none unplaced
measure tree tree/objects one.txt
check "an arrow that is excepted does not count" none circles
measure tree tree/objects idle.txt
check "and an exception that is not needed is noticed" told unneeded "layers.txt: down/b -> up/\*"
mkdir tree/down/deep && cp tree/down/c.h tree/down/deep/e.h
measure tree tree/objects none.txt
check "a folder without a row is noticed" told unplaced "^# down/deep/e.h: down/deep/ has no row"

# ---- this project ----

measure "$source" "$build" "$source/tests/install/layers.txt"
enough() {
	[ "$(wc -l <table)" -ge 6 ] && [ "$(wc -l <files)" -ge 100 ] && [ "$(wc -l <wanted)" -ge 400 ]
}
check "rooms, files and calls were read" enough
check "each folder has its row in the table of rooms" none unplaced
check "no file depends on a room above its own" none upward
check "no files depend on each other in a circle" none circles
check "each exception is needed" none unneeded
reasoned() {
	! grep -vE '^(#.*|[^ ]+ -> [^ ]+  +[^ ].*|)$' "$source/tests/install/layers.txt"
}
check "and has its reason" reasoned
plan

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# words.sh - each concept has one word, the field's: comments, messages, identifiers, man pages and documents use none of the
# words on the left of the table below.
#
#   words.sh [--rooms] [PATH...]
#
# Prints each use as FILE:LINE: "TEXT": say WORD. With --rooms it prints the number of uses in each folder instead. Without a
# PATH it checks every text file of the project, and then an exception of words.txt that is not needed is a failure, too.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
exceptions=tests/analysis/words.txt

# WORDS = what to say. WORDS is an extended regular expression for whole words. Case does not matter. A blank matches any
# space, an underscore, and the end of a line.
table='
heard|hears?|hearing|unheard|listens? to = receive, read
last words = final messages
whose turn|turns? about = fair queue, next
(stands?|stood|standing|wait|waits|waiting|nobody) in( the| no)? line|(leaves?|left) the line = queue
believ(e|es|ed|ing) = trust
liars?|whose word|lies about = malicious, trust policy
mend(s|ed|ing)? = hint, fix
sentences? = error message
held grants? = orphaned grant
books = registry, accounting
settl(e|es|ed|ing) = reclaim, end, evict
(give|gives|gave|given|giving) up = evict, reclaim, cancel, return an error
plain returns?|returned plain(ly)? = unordered return
proven returns? = quiesced return
strand(s|ed|ing)? = leak
resting|records rest = free list, unused
parted = private, exposed
outdat(e|es|ed|ing) = invalidate
forg(o|oes|one|oing)|forwent = cancel
suffic(e|es|ed|ing) = satisfied, enough
lacking = unavailable, missing
'

# The project's text, without recorded runs, corpora, data, and the two files that must have the words.
files() {
	git ls-files --cached --others --exclude-standard -- "$@" |
		grep -vE '^(bench/results|tests/fuzz/corpus|tests/unit/data|tests/analysis/words\.)|^(LICENSE|tests/TESTED\.md)$|\.(svg|png|jsonl)$'
}

rooms=
if [ "${1-}" = --rooms ]; then
	rooms=yes
	shift
fi
[ $# -gt 0 ] && all= || all=yes
mapfile -t list < <(files "${@:-.}")
if [ ${#list[@]} -eq 0 ]; then
	echo "words.sh: no text file of the project: $*" >&2
	exit 1
fi

# Each line is checked together with the last word of the line above it, for words that the end of a line divides.
# shellcheck disable=SC2016 # awk's own
scan='
function trim(text) { gsub(/^ +| +$/, "", text); return text }
function plain(text) {
	if (FILENAME ~ /^man\//)
		sub(/^\.(Em|Sy|Dq|Pq|Li|It|Ss|Sh|Nd|Dv|Cm) /, "", text)
	gsub(/[ \t_]+/, " ", text)
	sub(/^ ?(\*|\/\/|#|\.\\") /, " ", text)
	return trim(text)
}
# Takes what the exceptions allow out of a line of their file.
function allowed(text,   i, at) {
	for (i = 1; i <= exceptions; i++)
		if (FILENAME ~ where[i])
			while ((at = index(text, what[i]))) {
				text = substr(text, 1, at - 1) "\001" substr(text, at + length(what[i]))
				met[i] = 1
			}
	return text
}
function report(word, say,   room) {
	found++
	if (!by_room) {
		printf "%s:%d: \"%s\": say %s\n", FILENAME, FNR, word, say
		return
	}
	room = FILENAME
	if (!match(room, /^(broker|libbroker|tests|examples)\/[^\/]+\//) && !match(room, /^[^\/]+\//))
		RLENGTH = length(room)
	uses[substr(room, 1, RLENGTH)]++
}
BEGIN {
	count = split(table, row, "\n")
	for (i = 1; i <= count; i++)
		if (split(row[i], part, / = /) == 2) {
			words++
			pattern[words] = "(^|[^a-z0-9])(" part[1] ")($|[^a-z0-9])"
			say[words] = part[2]
			any = any (words > 1 ? "|" : "") part[1]
		}
	any = "(^|[^a-z0-9])(" any ")($|[^a-z0-9])"
	while ((getline line <file) > 0)
		if (line !~ /^(#|$)/) {
			split(line, part, /  +/)
			exceptions++
			where[exceptions] = part[1]
			what[exceptions] = part[2]
			row_of[exceptions] = line
			if (part[3] == "") { print file ": an exception needs a file, a text and a reason: " line; found++ }
		}
}
FNR == 1 { last = "" }
{
	line = tolower(plain(allowed($0)))
	joined = last == "" ? line : last " " line
	if (joined ~ any)
		for (i = 1; i <= words; i++) {
			text = joined
			while (match(text, pattern[i])) {
				word = substr(text, RSTART, RLENGTH)
				end = length(joined) - length(text) + RSTART + RLENGTH - 1
				text = substr(text, RSTART + RLENGTH - (word ~ /[a-z0-9]$/ ? 0 : 1))
				gsub(/^[^a-z0-9]|[^a-z0-9]$/, "", word)
				if (end > length(last) + 1 || last == "")
					report(word, say[i])
			}
		}
	last = line ~ /[.:;]$/ ? "" : line
	sub(/.* /, "", last)
}
END {
	for (i = 1; i <= exceptions; i++)
		if (all && !met[i]) { print file ": not needed: " row_of[i]; found++ }
	for (room in uses)
		printf "%5d %s\n", uses[room], room | "sort -k2"
	exit found > 0
}'
awk -v table="$table" -v file="$exceptions" -v all="$all" -v by_room="$rooms" "$scan" "${list[@]}"

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# names.sh - what comments, man pages and documents name is there: each name() is called or defined somewhere in the code, and
# each word with an underscore is an identifier of it. Names from outside of this repository stand in names.txt, each with a
# reason, and no longer than they are needed.
#
# Code are C, CUDA, Fortran, Python, Promela, shell and make without their comments, and names of environment variables in strings. Other
# strings are neither code nor comment.
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$top_srcdir" || exit 1

files() {
	find broker libbroker bindings kernels examples tests bench man contrib docs -type f \( -name '*.[ch]' -o -name '*.hpp' -o -name '*.cc' -o -name '*.py' -o -name '*.f90' -o -name '*.inc' -o -name '*.cu' -o -name '*.in' \
		-o -name '*.sh' -o -name '*.mk' -o -name '*.pml' -o -name '*.map' -o -name '*.md' -o -name '*.[1-8]' \)
	ls ./*.md m4/gpub_*.m4 configure.ac Makefile.am bootstrap
}

# Prints "CODE name", "CALL name" and "TEXT file:line name" or "TEXT file:line name()".
# shellcheck disable=SC2016 # awk's own
scan='
function identifiers(text) {
	while (match(text, /[A-Za-z_][A-Za-z0-9_]*[ \t]*\(?/)) {
		word = substr(text, RSTART, RLENGTH)
		text = substr(text, RSTART + RLENGTH)
		called = sub(/[ \t]*\($/, "", word)
		sub(/[ \t]+$/, "", word)
		if (!(word in code)) { code[word] = 1; print "CODE", word }
		if (called && !(word in calls)) { calls[word] = 1; print "CALL", word }
	}
}
# Of the environment: their names are strings.
function variables(text,   length_before) {
	length_before = RLENGTH
	while (match(text, /[A-Z][A-Z0-9]*_[A-Z0-9_]*/)) {
		print "CODE", substr(text, RSTART, RLENGTH)
		text = substr(text, RSTART + RLENGTH)
	}
	RLENGTH = length_before
}
# Not what is part of a path or a file name, nor a prefix or an ending.
function words(text) {
	while (match(text, /[A-Za-z0-9_.\/:-]*[A-Za-z0-9_](\(\))?/)) {
		word = substr(text, RSTART, RLENGTH)
		text = substr(text, RSTART + RLENGTH)
		if (text ~ /^\([1-9]/) # a man page
			continue
		if (word ~ /^[A-Za-z][A-Za-z0-9_]*(\(\))$/ || word ~ /^[A-Za-z][A-Za-z0-9]*_[A-Za-z0-9_]*[A-Za-z0-9]$/)
			print "TEXT", FILENAME ":" FNR, word
	}
}
function c_line(line,   prose, code, mark) {
	while (line != "") {
		if (inside) {
			end = index(line, "*/")
			prose = prose " " (end ? substr(line, 1, end - 1) : line)
			line = end ? substr(line, end + 2) : ""
			inside = !end
		} else if (!match(line, /\/\*|\/\/|"|\047/)) {
			code = code line
			line = ""
		} else {
			code = code substr(line, 1, RSTART - 1) " "
			mark = substr(line, RSTART, 2)
			if (mark == "/*") {
				inside = 1
				line = substr(line, RSTART + 2)
			} else if (mark == "//") {
				prose = prose " " substr(line, RSTART + 2)
				line = ""
			} else {
				line = substr(line, RSTART + 1)
				if (!(mark ~ /^"/ ? match(line, /^([^"\\]|\\.)*"/) : match(line, /^([^\047\\]|\\.)*\047/)))
					RLENGTH = length(line)
				variables(substr(line, 1, RLENGTH))
				line = substr(line, RLENGTH + 1)
			}
		}
	}
	identifiers(code)
	words(prose)
}
# Fortran: a comment is from ! to the end of the line.
function fortran_line(line,   code, mark) {
	while (match(line, /[!"\047]/)) {
		code = code substr(line, 1, RSTART - 1) " "
		mark = substr(line, RSTART, 1)
		line = substr(line, RSTART + 1)
		if (mark == "!") {
			words(line)
			line = ""
		} else {
			match(line, mark)
			variables(substr(line, 1, RLENGTH = RSTART ? RSTART : length(line)))
			line = substr(line, RLENGTH + 1)
		}
	}
	identifiers(code line)
}
FNR == 1 { inside = 0 }
FILENAME ~ /\.(c|h|hpp|cc|cu|pml|map)$/ { c_line($0); next }
FILENAME ~ /\.(f90|inc)$/ { fortran_line($0); next }
FILENAME ~ /\.py$/ { sub(/#.*/, ""); identifiers($0); next } # with docstrings, whose names are not looked at
FILENAME ~ /\.md$/ { words($0); next }
FILENAME ~ /\.[1-8]$/ {
	if (/^\.Fn / && $2 ~ /^[a-z_0-9]+$/) print "TEXT", FILENAME ":" FNR, $2 "()"
	else if (!/^\.(Dt|Xr)/) words($0)
	next
}
/^[ \t]*(#|dnl)/ { words($0); next }
{ identifiers($0) }'
files | sort | xargs awk "$scan" >"$work/seen"

# Prints what is named and is not there, with the first place.
# shellcheck disable=SC2016 # awk's own
judge='
FILENAME == ARGV[1] { if (!/^#/ && NF) { listed[$1] = 1; example[$1] = /has its reader add$/ }; next }
$1 == "CODE" { code[$2] = 1; next }
$1 == "CALL" { call[$2] = 1; next }
{
	name = $3
	if (sub(/\(\)$/, "", name)) function_named[name] = function_named[name] ? function_named[name] : $2
	else word_named[name] = word_named[name] ? word_named[name] : $2
}
END {
	for (name in function_named)
		if (!(name in call) && !(name in listed)) print "# " function_named[name] ": there is no " name "()"
	for (name in word_named)
		if (!(name in code) && !(name in listed)) print "# " word_named[name] ": there is no " name
	for (name in listed)
		if (!example[name] && !(name in function_named && !(name in call)) && !(name in word_named && !(name in code)))
			print "# tests/install/names.txt: " name " is not needed there"
}'
known() {
	awk "$judge" tests/install/names.txt "$work/seen" | sort >"$work/out"
	cat "$work/out"
	[ -s "$work/seen" ] && [ ! -s "$work/out" ]
}
check "what comments and documents name is there" known

# The tables of tests/model/README.md: a step of a model is in that model, and what stands behind a file is in that file.
# shellcheck disable=SC2016 # awk's own
steps='
function has(file, word,   line, found) {
	while (!found && (getline line <file) > 0)
		found = line ~ "(^|[^A-Za-z0-9_])" word "($|[^A-Za-z0-9_])"
	close(file)
	return found
}
function want(files, word,   i, count, names, found) {
	count = split(files, names, " ")
	for (i = 1; i <= count && !found; i++)
		found = has(names[i], word)
	if (!found) print "# tests/model/README.md:" FNR ": there is no " word " in " files
	seen++
}
function every(text, files,   word) {
	while (match(text, /[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)+/)) {
		word = substr(text, RSTART, RLENGTH)
		text = substr(text, RSTART + RLENGTH)
		want(word ~ /^[A-Z_]+$/ ? model : files, word)
	}
}
BEGIN { while ((getline line <paths) > 0) { name = line; sub(/.*\//, "", name); path[name] = path[name] " " line } }
/^\| in (lease|owner)\.pml/ { on = 1; model = "tests/model/" $3; tables++ }
on && !/^\|/ { on = 0 }
on {
	split($0, column, "|")
	every(column[2], model " " everywhere)
	files = everywhere
	count = split(column[3], part, "`")
	for (i = 1; i <= count; i++) {
		name = part[i]
		sub(/.*\//, "", name)
		if (name in path) files = path[name]
		else every(part[i], files)
	}
}
END { if (seen < 90 || tables < 2) print "# the tables of tests/model/README.md are not found" }'
modelled() {
	find libbroker broker -name '*.[ch]' >"$work/paths"
	awk -v paths="$work/paths" -v everywhere="$(tr '\n' ' ' <"$work/paths")" "$steps" tests/model/README.md >"$work/out"
	cat "$work/out"
	[ ! -s "$work/out" ]
}
check "the steps of the model are in the code and the files that its table names" modelled

# reasoned: a name, two blanks at least, and why it may stand there
reasoned() {
	! grep -vE '^(#.*|[A-Za-z_][A-Za-z0-9_]*  +[^ ].*|)$' tests/install/names.txt
}
check "each name from outside has its reason" reasoned
plan

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# mutate.sh - do the tests notice when the code is wrong? Changes one operator, constant or statement of a line of the core at
# a time, builds, and runs the tests that concern that file until one fails. A mutant that passes all of them survived: a test
# is missing, or the line does nothing.
#
# The mutants are universalmutator's (PyPI), by the rules in c.rules; equivalent.txt lists those that no test can kill. Builds in a
# copy of the source tree, where nobody works, and runs the tests in namespaces of their own where that is allowed: a mutant may
# kill whom it likes. What does not compile without a warning, or compiles to the same code, is no mutant and is not counted.
#
# From the environment:
#   MUTATE           the program mutate
#   MUTATE_COUNT     how many mutants are tested, over all files (40)
#   MUTATE_EACH      how many mutants of each file are tested, file by file, instead of MUTATE_COUNT
#   MUTATE_SECONDS   no mutant is begun after so many seconds (3600)
#   MUTATE_SEED      decides which mutants are drawn (a new one each time, which is printed)
#   MUTATE_FILES     the files whose mutants are drawn (all of tests.txt)
#   MUTATE_LIST      a file of mutants, written as in equivalent.txt, that are tested instead of a sample
#   MUTATE_RESULTS   a file to which each verdict is appended. A mutant that has a verdict there is not tested again, so that a long
#                    run can be cut into pieces with the same seed. At the end, score.sh prints the score of each file.
#   MUTATE_TEST_SECONDS  a test that runs longer than this has noticed the mutant (120)
#   MUTATE_SANITIZED=no  survivors are not tested again under the sanitizers: quicker, but a leak is not noticed
#   MUTATE_SURVIVORS=told  survivors are printed, but are no failure
# The exit status is 1 where a mutant survived, and 2 where mutants cannot be tested.
set -uo pipefail

here=${top_srcdir:?}/tests/mutate
base=${top_builddir:?}/mutate
tree=$base/tree
count=${MUTATE_COUNT:-40}
each=${MUTATE_EACH:-}
results=${MUTATE_RESULTS:-}
seconds=${MUTATE_SECONDS:-3600}
seed=${MUTATE_SEED:-$RANDOM}
limit=${MUTATE_TEST_SECONDS:-120}
list=${MUTATE_LIST:-}
mutate=${MUTATE:-mutate}
sanitized=
declare -A counted=([killed]=0 [survived]=0 [equivalent]=0 [none]=0)
declare -A of_file=()  # mutants of a file that have a verdict, by file
declare -A verdicts=() # of earlier runs, by mutant

die() {
	echo "mutate: $1" >&2
	exit 2
}

# ---- the trees ----

# tree_update: the tree becomes a copy of the sources as they are now. A file that differs is newer than all objects then: its object
# may have been made from an earlier state after the file was changed. Others keep their times, so that they are not built again.
tree_update() {
	local new=$base/new file
	rm -rf "$new"
	mkdir -p "$tree" "$new" # and no build tree is copied
	tar -C "$top_srcdir" --exclude-tag-all=config.status --exclude=./.git --exclude=./autom4te.cache -cf - . | tar -C "$new" -xf -
	while read -r file; do
		cmp -s "$new/$file" "$tree/$file" && continue
		mkdir -p "$tree/${file%/*}"
		cp -p "$new/$file" "$tree/$file"
		case $file in
		*.[ch]) touch "$tree/$file" ;;
		esac
	done < <(cd "$new" && find . -type f)
	rm -rf "$new"
	# an end in the middle left an object of a mutant, newer than its source
	if [ -s "$base/mutated" ]; then
		touch "$tree/$(cat "$base/mutated")"
	fi
}

# tree_make FLAGS: the tree that is in $tree now. Without debug information the same code gives the same object.
tree_make() {
	tree_update
	if [ ! "$tree/Makefile" -nt "$top_builddir/config.status" ]; then
		(cd "$tree" && ./configure -q --with-cuda=no --enable-werror "$1" CFLAGS="-O1 -g0" >configured 2>&1) ||
			die "the tree is not configured: see $tree/configured"
	fi
	make -C "$tree" -s -j "$(nproc)" all >"$base/built" 2>&1 || die "the tree does not build: see $base/built"
}

# The first column of tests.txt, or what was asked for, or listed; and the tests of a file.
files_all() {
	if [ -n "$list" ]; then
		sed -n 's/^\([^#\t]*\)\t.*/\1/p' "$list" | sort -u
		return
	fi
	if [ -n "${MUTATE_FILES:-}" ]; then
		tr ' ' '\n' <<<"$MUTATE_FILES"
		return
	fi
	sed -n 's/^\([^#: ][^:]*\):.*/\1/p' "$here/tests.txt"
}

tests_of() {
	sed -n "s|^$1: *||p" "$here/tests.txt"
}

# What make is to be asked for, and the object that it makes. A header has none: all that includes it is built.
object_of() {
	local name=${1##*/}
	case $name in
	*.c) (cd "$tree" && find "${1%/*}" -maxdepth 1 -name "*-${name%.c}.lo" -o -maxdepth 1 -name "${name%.c}.lo" | head -n 1) ;;
	esac
}

code_of() {
	sed -n "s|^pic_object='\(.*\)'|${1%/*}/\1|p" "$tree/$1"
}

# ---- running ----

# A broker in a mutant's hands may signal and remove what it likes: it sees no process, no shared memory and no file in /tmp but
# those of its test. All of these are gone when the namespaces of the test are. The tree may lie below /tmp.
alone=()
alone_find() {
	local how
	for how in "" "--user --map-root-user"; do
		# A list of options.
		# shellcheck disable=SC2086
		if unshare $how --mount --pid --fork --kill-child --mount-proc mount -t tmpfs tmpfs /dev/shm 2>/dev/null; then
			# shellcheck disable=SC2206
			alone=(unshare $how --mount --pid --fork --kill-child --mount-proc)
			return
		fi
	done
	echo "# no namespaces here: the tests run among the machine's other processes"
}

# test_passes TEST[:ARGUMENT...]: builds the test, and what it may start or load, and runs it as make check does: under the
# supervisor, which is process 1 of the namespace, so that no test is. 2: it does not build.
test_passes() {
	local words
	IFS=: read -r -a words <<<"$1"
	make -C "$tree" -s -j "$(nproc)" broker/broker-run tests/supervisor tests/crash/fail-calls.la "${words[0]}" \
		>"$base/built" 2>&1 || return 2
	# shellcheck disable=SC2016
	TMPDIR=/tmp top_srcdir=$tree top_builddir=$tree GPUBROKER_MODULE_PATH=$tree/kernels "${alone[@]}" bash -c '
		[ "$1" = 0 ] || { mount -t tmpfs tmpfs /dev/shm && mount --bind "$2" /mnt && mount -t tmpfs tmpfs /tmp &&
			mkdir -p "$2" && mount --bind /mnt "$2"; } || exit
		cd "$2" && exec tests/supervisor "$3" "./$4" "${@:5}"' - ${#alone[@]} "$tree" "$limit" "${words[@]}" \
		>"$base/out" 2>&1 </dev/null || return 1
	! grep -q '^not ok' "$base/out"
}

# tests_pass FILE: else by= the first test that failed. 2: it does not build.
tests_pass() {
	local test status
	for test in $(tests_of "$1"); do
		by=$test
		test_passes "$test"
		status=$?
		[ $status -eq 0 ] || return $status
	done
}

# What the tests pass over may be a leak, or read what it must not: the same tests, under the sanitizers. 1: they notice.
sanitized_pass() {
	local tree=$base/sanitized status
	if [ -z "$sanitized" ]; then
		tree_make --enable-sanitizers
		sanitized=made
	fi
	cp "$2" "$tree/$1"
	tests_pass "$1" 2>/dev/null # bash says who was killed
	status=$?
	cp "$base/original" "$tree/$1"
	by="$by, sanitized"
	return $status
}

# ---- mutants ----

# All of a file, one a line: LINE <tab> the mutated file.
mutants_of() {
	local dir=$base/mutants/${1//\//-}
	mkdir -p "$dir"
	"$mutate" "$tree/$1" c --only "$here/c.rules" --noCheck --mutantDir "$dir" 2>&1 |
		awk '/^PROCESSING MUTANT: / { line = $3 + 0 }
		     match($0, /\[written to [^]]*\]/) { print line "\t" substr($0, RSTART + 12, RLENGTH - 13) }'
}

# One mutant of each line at most, in an order that the seed decides: FILE <tab> the mutated file. What is drawn of a file does not
# depend on which other files there are. With MUTATE_EACH, file by file, which saves building.
sample() {
	local file
	rm -rf "$base/mutants"
	for file in $(files_all); do
		mutants_of "$file" | awk -v seed="$(cksum <<<"$seed $file" | cut -d ' ' -f 1)" -v file="$file" '
			BEGIN { srand(seed) } { printf "%.9f\t%s\t%s\n", rand(), file, $0 }' | sort
	done | if [ -n "$each" ]; then cat; else sort; fi | awk -F '\t' '!seen[$2, $3]++ { print $2 "\t" $4 }'
}

# change FILE MUTANT: FILE, the line before and after, without the space before them, with tabs between
change() {
	local before after
	before=$(diff "$tree/$1" "$2" | sed -n 's/^< *//p' | sed 's/^[[:space:]]*//' | head -n 1)
	after=$(diff "$tree/$1" "$2" | sed -n 's/^> *//p' | sed 's/^[[:space:]]*//' | head -n 1)
	printf '%s\t%s\t%s' "$1" "$before" "$after"
}

line_of() {
	diff "$tree/$1" "$2" | sed -n '1s/[^0-9].*//p'
}

# Those of a list, made from the line as it stands there.
listed() {
	local file before after number=0 # and the reason is _
	mkdir -p "$base/mutants"
	while IFS=$'\t' read -r file before after _; do
		[[ $file = "#"* || -z $file ]] && continue
		number=$((number + 1))
		BEFORE=$before AFTER=$after awk '{
			at = index($0, ENVIRON["BEFORE"]); bare = $0; sub(/^[ \t]*/, "", bare)
			if (!done && bare == ENVIRON["BEFORE"]) { done = 1; print substr($0, 1, at - 1) ENVIRON["AFTER"] } else print
		} END { exit !done }' "$tree/$file" >"$base/mutants/listed.$number" || die "$file has no line '$before' any more"
		printf '%s\t%s\n' "$file" "$base/mutants/listed.$number"
	done <"$1"
}

# is_none FILE: what was made of it does not compile, or to the same object
is_none() {
	[ -n "$object" ] || return
	make -C "$tree" -s "$object" >"$base/built" 2>&1 || return 0
	cmp -s "$code" "$base/original.o"
}

# judge FILE MUTANT: what becomes of it
judge() {
	is_none "$1" && return
	tests_pass "$1" 2>/dev/null # bash says who was killed
	case $? in
	0) verdict=survived ;;
	1) verdict=killed ;;
	esac
	if [ $verdict = survived ] && [ "${MUTATE_SANITIZED:-}" != no ]; then
		sanitized_pass "$1" "$2" || verdict=killed
	fi
	[ $verdict = killed ] || by=
	if [ $verdict = survived ] && grep -qF -- "$what	" "$here/equivalent.txt"; then
		verdict=equivalent
	fi
}

# tests_hold FILE: each test of it passes without a mutant, which is tried once
declare -A held=()
tests_hold() {
	local test
	for test in $(tests_of "$1"); do
		[ -z "${held[$test]:-}" ] || continue
		test_passes "$test"
		case $? in
		1)
			grep -E '^(not ok|#|Bail)' "$base/out" | tail -n 40
			die "$test fails without a mutant: see $base/out"
			;;
		2) die "$test does not build: see $base/built" ;;
		esac
		held[$test]=yes
	done
}

# mutant_test FILE MUTANT: builds it and runs the tests of its file
mutant_test() {
	local object code=''
	object=$(object_of "$1")
	cp "$tree/$1" "$base/original"
	if [ -n "$object" ]; then
		make -C "$tree" -s "$object" >"$base/built" 2>&1
		code=$tree/$(code_of "$object")
		cp "$code" "$base/original.o"
	fi
	echo "$1" >"$base/mutated"
	cp "$2" "$tree/$1"
	judge "$1" "$2"
	cp "$base/original" "$tree/$1"
}

# mutant_try FILE MUTANT: its verdict, which an earlier run may have found, is counted, and printed if it is new
mutant_try() {
	local what line verdict=none by=''
	what=$(change "$1" "$2")
	line=$(line_of "$1" "$2")
	if [ -n "${verdicts[$line $what]:-}" ]; then
		verdict=${verdicts[$line $what]}
	else
		tests_hold "$1"
		mutant_test "$1" "$2"
		[ -z "$results" ] || printf '%s\t%s\t%s%s\n' "$verdict" "$line" "$what" "${by:+	$by}" >>"$results"
		[ "$verdict" = none ] || printf '%s\t%s\t%s%s\n' "$verdict" "$line" "$what" "${by:+	$by}"
	fi
	counted[$verdict]=$((counted[$verdict] + 1))
	[ "$verdict" = none ] || of_file[$1]=$((${of_file[$1]:-0} + 1))
}

verdicts_read() {
	local verdict line file before after
	[ -e "$results" ] || return 0
	while IFS=$'\t' read -r verdict line file before after _; do
		verdicts["$line $file	$before	$after"]=$verdict
	done <"$results"
}

# Whether FILE has as many mutants as it shall have.
has_enough() {
	[ -n "$each" ] && [ "${of_file[$1]:-0}" -ge "$each" ]
}

has_ended() {
	[ $SECONDS -ge "$seconds" ] || { [ -z "$each" ] && [ $((counted[killed] + counted[survived])) -ge "$count" ]; }
}

[ -n "$list" ] || command -v "$mutate" >/dev/null || die "universalmutator is not installed: python3 -m venv DIR && \
DIR/bin/pip install universalmutator, and set MUTATE=DIR/bin/mutate"
[ -z "$results" ] || verdicts_read
tree_make --enable-silent-rules
alone_find
echo "# seed $seed"
if [ -n "$list" ]; then
	listed "$list"
else
	sample
fi >"$base/drawn" || exit
while IFS=$'\t' read -r -u 3 file mutant; do
	has_ended && break
	has_enough "$file" || mutant_try "$file" "$mutant"
done 3<"$base/drawn"
of=$((counted[killed] + counted[survived]))
echo "# of $of mutants ${counted[killed]} were killed; ${counted[equivalent]} that no test can kill and ${counted[none]} that are none were left out"
[ $of -eq 0 ] || echo "# score: $((counted[killed] * 1000 / of / 10)).$((counted[killed] * 1000 / of % 10)) %"
[ -z "$results" ] || bash "$here/score.sh" "$results"
[ "${counted[survived]}" -eq 0 ] || [ "${MUTATE_SURVIVORS:-}" = told ]

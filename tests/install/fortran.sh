#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# fortran.sh - the Fortran module is gpubroker.h: each constant has its value, each type its size, its fields at their places and
# its first values, and each function its name and its number of arguments.
#
# The header's tables are read out of its text. A program in C and one in Fortran are made from them, and print the same.
# shellcheck disable=SC2016 # what a check evaluates expands then, not before
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

library=${top_builddir:?}/bindings/fortran
[ -e "$library/libgpubroker_fortran.la" ] || { echo "1..0 # SKIP there is no Fortran compiler (Debian: gfortran)" && exit 0; }
header=$top_srcdir/libbroker/gpubroker.h
interface=$top_srcdir/bindings/fortran/gpubroker-interface.f90
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# ---- what the header has ----

# Numbers alone: not the guard, and not the first values of a struct.
constants() {
	sed -nE 's/^#define (GPUB_[A-Z_]+)[ \t]+[^ \t{\\].*/\1/p' "$header" | grep -v -e '_INIT$' -e '^GPUB_LAYOUT_NONE$'
}

# "TYPE FIELD", one a line.
fields() {
	awk '
		/^typedef struct gpub_[a-z_]+ \{/ { type = $3; next }
		/^\}/ { type = "" }
		type != "" {
			sub(/\/\*.*/, "")
			sub(/;.*/, "")
			gsub(/\[[^]]*\]/, "")
			count = split($0, parts, ",")
			for (i = 1; i <= count; i++) {
				words = split(parts[i], word, /[ \t*]+/)
				while (words && word[words] == "") words--
				if (words) print type, word[words]
			}
		}' "$header"
}
types() {
	fields | cut -d' ' -f1 | sort -u
}

# "TYPE MACRO": the first values of a type.
inits() {
	printf '%s\n' 'gpub_layout GPUB_LAYOUT_NONE' 'gpub_spec GPUB_SPEC_INIT' 'gpub_expectation GPUB_EXPECTATION_INIT' \
		'gpub_ticket_terms GPUB_TICKET_TERMS_INIT' 'gpub_launch_config GPUB_LAUNCH_INIT'
}

# "FUNCTION ARGUMENTS": each with its number of arguments.
functions() {
	awk '/^(int|void|const char \*) *\*?gpub_[a-z_]+\(/ { text = "" ; on = 1 }
	     on { text = text $0 }
	     on && /;/ {
		on = 0
		name = text
		sub(/\(.*/, "", name)
		sub(/.*[ *]/, "", name)
		sub(/.*\(/, "", text)
		sub(/\).*/, "", text)
		print name, text == "void" ? 0 : split(text, parts, ",")
	     }' "$header" | sort
}

# The same of what the module binds.
bound() {
	sed -E ':join; /&$/ { N; s/ *&\n +/ /; b join }' "$interface" | awk '/ bind\(C/ && /(function|subroutine) / {
		name = $0
		sub(/.*(function|subroutine) /, "", name)
		arguments = name
		sub(/\(.*/, "", name)
		sub(/[^(]*\(/, "", arguments)
		sub(/\).*/, "", arguments)
		if (match($0, /name=\047[a-z_]*/))
			name = substr($0, RSTART + 6, RLENGTH - 6)
		print name, arguments == "" ? 0 : split(arguments, parts, ",")
	     }' | grep '^gpub_' | sort
}

# ---- the two programs ----

# Fortran has one name for GPUB_TIMELINE and gpub_timeline().
fortran_name() {
	if [ "$1" = GPUB_TIMELINE ]; then echo GPUB_TIMELINE_FLAG; else echo "$1"; fi
}

# Unsigned numbers of 32 bits print as Fortran has them.
c_program() {
	cat <<'END'
#include <stdio.h>
#include "gpubroker.h"
#define NUMBER(name) printf("%s %lld\n", #name, sizeof(name) == 4 ? (long long)(int)(name) : (long long)(name))
#define BYTES(name, value) \
	printf("%s", name); \
	for (unsigned i = 0; i < sizeof(value); i++) \
		printf(" %d", ((signed char *)&value)[i]); \
	puts("")
int main(void) {
END
	constants | sed 's/.*/NUMBER(&);/'
	types | sed 's/.*/printf("&: %zu\\n", sizeof(&));/'
	fields | sed -E 's/(.*) (.*)/printf("\1.\2 at %zu, %zu\\n", offsetof(\1, \2), sizeof(((\1 *)0)->\2));/'
	inits | sed -E 's/(.*) (.*)/{ \1 value = \2; BYTES("\2", value); }/'
	echo '}'
}
fortran_program() {
	local name
	echo 'program compare'
	echo 'use gpubroker'
	echo 'implicit none'
	types | sed 's/.*/type(&), target :: v_&/'
	constants | while read -r name; do
		echo "print '(a, 1x, i0)', '$name', int($(fortran_name "$name"), c_int64_t)"
	done
	types | sed "s/.*/print '(a, 1x, i0)', '&:', c_sizeof(v_&)/"
	fields | sed -E "s/(.*) (.*)/print '(a, 1x, i0, a, i0)', '\1.\2 at', \&\nat(c_loc(v_\1%\2)) - at(c_loc(v_\1)), ', ', \&\nstorage_size(v_\1%\2)\/8*elements(shape(v_\1%\2))/"
	inits | sed -E "s/(.*) (.*)/print '(a, *(1x, i0))', '\2', transfer(\2, [0_c_int8_t])/"
	echo 'contains'
	echo 'integer(c_intptr_t) function at(address)'
	echo 'type(c_ptr), intent(in) :: address'
	echo 'at = transfer(address, at)'
	echo 'end function'
	echo 'integer function elements(extents)'
	echo 'integer, intent(in) :: extents(:)'
	echo 'elements = product(extents)'
	echo 'end function'
	echo 'end program'
}

# FC and CC may be a compiler and its flags.
# shellcheck disable=SC2086
prints_of() {
	cd "$work" || return 1
	c_program >compare.c
	fortran_program >compare.f90
	$CC -I "$top_srcdir/libbroker" -o c compare.c >out 2>err && ./c >c.txt &&
		$FC -I "$library" -o fortran compare.f90 >out 2>err && ./fortran >fortran.txt
}

# Each function can be used by its name.
# shellcheck disable=SC2086
usable() {
	local name
	{
		echo 'program names'
		functions | cut -d' ' -f1 | sed 's/.*/use gpubroker, only: &/'
		echo 'end program'
	} >names.f90
	$FC -I "$library" -fsyntax-only names.f90 >out 2>err
}

# errno's number, which Fortran has no name for
errno_is() {
	local number
	number=$(sed -nE 's/.*parameter :: ENOTSUP = ([0-9]+)$/\1/p' "$top_srcdir/bindings/fortran/gpubroker.f90")
	# shellcheck disable=SC2086
	printf '#include <errno.h>\n_Static_assert(ENOTSUP == %s, "");\n' "$number" | $CC -fsyntax-only -x c - 2>err
}

check "the programs compile and run" prints_of
cd "$work" || exit 1
check "the header's tables are read" eval '[ "$(constants | wc -l)" -gt 30 ] && [ "$(types | wc -l)" = 8 ] && [ "$(functions | wc -l)" -gt 40 ]'
check "constants, sizes, places and first values are the header's" eval 'diff c.txt fortran.txt >out'
check "each function is bound, with as many arguments" eval 'diff <(functions) <(bound) >out'
check "each function is public" usable
check "ENOTSUP is its number" errno_is
plan

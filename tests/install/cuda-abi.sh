#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# cuda-abi.sh - libbroker/device/cuda-abi.h has all that the cuda device uses, and says of the CUDA driver what the toolkit's headers say.
# Builds nothing of CUDA.
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

source=$(cd "$top_srcdir" && pwd) || exit 1
build=$(cd "${top_builddir:?}" && pwd) || exit 1
header=$source/libbroker/device/cuda-abi.h
read -ra others < <(sed -n 's/^\(CPPFLAGS\|[A-Z]*_CFLAGS\) = //p' "$build/Makefile" | grep -- '^-[ID]' | tr '\n' ' ')
read -ra toolkit < <(sed -n 's/^CUDA_CPPFLAGS = //p' "$build/Makefile")
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

# As configure --with-cuda=driver has it, which the packages are built with
alone() {
	local file
	sed 's/^#define HAVE_CUDA.*//' "$build/config.h" >config.h
	printf '#define HAVE_CUDA 1\n#define HAVE_CUDA_TOOLKIT 0\n' >>config.h
	for file in "$source"/libbroker/device/cuda-*.c; do
		# shellcheck disable=SC2086
		$CC -std=gnu11 -include ./config.h -I"$source" -I"$source/libbroker" "${others[@]}" -Wall -Wextra -Werror -fsyntax-only "$file" >out 2>err || return
	done
}
check "the cuda device needs no other header of CUDA" alone
if ! grep -q '^#define HAVE_CUDA_TOOLKIT 1' "$build/config.h"; then
	skip "what the header says is what the toolkit's say" "there is no CUDA toolkit"
	plan
	exit 0
fi

# compiled ARGUMENT...: CC may be a compiler and its flags
compiled() {
	# shellcheck disable=SC2086
	$CC -std=gnu11 -Wall -Wextra -Werror -Wno-unused-local-typedefs "${toolkit[@]}" "$@" >out 2>err
}
grep -oE '\<(CU_[A-Z0-9_]+|CUDA_ERROR_[A-Z0-9_]+|CUDA_SUCCESS)\>' "$header" | sort -u >numbers
{
	grep -oE '(CU|cu)[A-Za-z0-9_]+;$' "$header"
	sed -n 's/^} \(CU.*;\)$/\1/p' "$header"
} | tr -d ';' | sort -u >types
# values HEADER NAME
values() {
	{
		echo "#include <stdio.h>"
		echo "#include $1"
		echo "int main(void) {"
		sed 's/.*/printf("& %lld\\n", (long long)&);/' numbers
		# not the kinds of options of which none is given
		grep -vxE 'CUjit_option|CUlibraryOption' types | sed 's/.*/printf("size of &: %zu\\n", sizeof(&));/'
		echo "return 0; }"
	} >"$2.c"
	compiled -o "$2" "$2.c" && "./$2" >"$2.values"
}
same_values() {
	values "\"$header\"" ours && values "<cuda.h>" theirs && [ "$(wc -l <ours.values)" -gt 80 ] && diff ours.values theirs.values >out
}
check "numbers and the sizes of types are the toolkit's" same_values

# Ours under other names, behind theirs; a line may go on in the next one
same_functions() {
	{
		echo "#include <cuda.h>"
		echo "#include <cudaTypedefs.h>"
		sed -n '/^typedef CUresult(/,/;$/p' "$header" | sed 's/PFN_cu/our_cu/'
		grep -oE 'PFN_cu[A-Za-z0-9_]+' "$header" |
			sed 's/PFN_\(.*\)/_Static_assert(__builtin_types_compatible_p(our_\1, PFN_\1), "\1");/'
	} >functions.c
	[ "$(grep -c _Static_assert functions.c)" -gt 40 ] && compiled -fsyntax-only functions.c
}
check "so are the types of its functions" same_functions
plan

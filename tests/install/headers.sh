#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# headers.sh [FOLDER] - each public header compiles alone, as C and as C++ or as C++ alone, with warnings as errors. FOLDER: where
# they are installed; without it the source tree's.
set -u

folder=${1:-$top_srcdir/libbroker}
headers=(gpubroker.h gpubroker-host.h gpubroker-cuda.h)
read -ra cuda_flags <<<"$CUDA_CPPFLAGS"
number=0

# header_alone LANGUAGE HEADER COMPILER...: one TAP point.
header_alone() {
	local language=$1 header=$2 point output
	shift 2
	number=$((number + 1))
	point="$number - $header alone as $language"
	if [ "$header" = gpubroker-cuda.h ] && [ -z "$CUDA_LIBS" ]; then
		echo "ok $point # SKIP no CUDA toolkit"
	elif output=$(echo "#include \"$header\"" |
		"$@" -Wall -Wextra -Werror -fsyntax-only -I "$folder" "${cuda_flags[@]}" - 2>&1); then
		echo "ok $point"
	else
		echo "not ok $point"
		printf '# %s\n' "${output//$'\n'/$'\n# '}"
	fi
}

echo "1..$((${#headers[@]} * 2 + 1))"
# shellcheck disable=SC2086 # CXX may be a compiler and its flags
header_alone C++11 gpubroker.hpp $CXX -std=c++11 -pedantic -x c++
for header in "${headers[@]}"; do
	# CC and CXX may be a compiler and its flags.
	# shellcheck disable=SC2086
	header_alone C "$header" $CC -std=c11 -pedantic -x c
	# shellcheck disable=SC2086
	header_alone C++ "$header" $CXX -std=c++17 -x c++
done

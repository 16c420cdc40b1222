#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# static.sh - gcc's analyzer, clang-tidy and cppcheck over every C file of broker, library, kernels and examples.
#
#   BUILD_DIR=build static.sh [FILE...]
#
# The files are compiled with the flags of that build tree, which needs to be configured and not built. Every finding is
# printed, and a failure, unless known.txt has it with its reason; a line of known.txt that fits nothing is one too, when
# all files were looked at. All three tools must be there (Debian: clang-tidy cppcheck).
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
here=$PWD/tests/analysis
build=$(realpath -m "${BUILD_DIR:-build}")
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

tidy=$(command -v clang-tidy-14 || command -v clang-tidy)
if [ -z "$tidy" ] || ! command -v cppcheck >/dev/null; then
	echo "static.sh: clang-tidy or cppcheck is missing (Debian: clang-tidy cppcheck)" >&2
	exit 1
fi
if [ ! -e "$build/config.h" ]; then
	echo "static.sh: $build is not configured: run ./bootstrap, or name another BUILD_DIR" >&2
	exit 1
fi

# Of the make variables that automake's rules compile with. Make may first say that it remade itself.
flags() {
	# For make.
	# shellcheck disable=SC2016
	make -s -C "$build" --no-print-directory \
		--eval='analysis-flags:;@echo $(DEFAULT_INCLUDES) $(DEFS) $(AM_CPPFLAGS) $(CPPFLAGS) $(AM_CFLAGS) $(MPI_CFLAGS) $(NCCL_CFLAGS)' \
		analysis-flags | tail -n 1
}

# The compiler's warnings are the build's to find; what hardens a program, clang does not know.
read -ra flags < <(flags | sed -E 's/ -(W[^ ]*|fstack-clash-protection|fcf-protection|mbranch-protection=[a-z]*)//g')
[ ${#flags[@]} -gt 5 ] || exit 1
flags=("${flags[@]/#-DPKGLIBDIR=*/-DPKGLIBDIR=\"/usr/lib/gpubroker\"}")

# Those that need CUDA, MPI or NCCL are none of a build without it.
files() {
	local file
	for file in broker/*/*.c libbroker/*/*.c kernels/*.c examples/*.c examples/*/*.c; do
		case $file in
		libbroker/device/cuda-fork.c) ;;
		libbroker/device/cuda*) grep -q '^#define HAVE_CUDA 1' "$build/config.h" || continue ;;
		examples/heat/machines-mpi.c) grep -q '^S\["MPI_TRUE"\]=""' "$build/config.status" || continue ;;
		examples/heat/machines-nccl.c) grep -q '^S\["NCCL_TRUE"\]=""' "$build/config.status" || continue ;;
		*'*'*) continue ;;
		esac
		echo "$file"
	done
}

all=
if [ $# -eq 0 ]; then
	all=yes
	mapfile -t list < <(files)
else
	list=("$@")
fi

# compiles FILE: its flags, one a line
compiles() {
	printf '%s\n' "${flags[@]}"
	[ "$1" != libbroker/common/crash-point.c ] || echo -DCRASH_POINTS_ENABLED=1
}

# gcc 12 takes what is put into a list or a hash of uthash for lost, whence no leaks: those are LeakSanitizer's and
# valgrind's to find.
analyze() {
	local arguments
	mapfile -t arguments < <(compiles "$1")
	(cd "$build" && gcc "${arguments[@]}" -O2 -fanalyzer -Wno-analyzer-malloc-leak \
		-fdiagnostics-plain-output -fdiagnostics-path-format=none -c -o /dev/null "$OLDPWD/$1") || echo "$1:0: error: gcc fails [gcc]" >&2
}

examine() {
	local arguments
	mapfile -t arguments < <(compiles "$1")
	(cd "$build" && "$tidy" --quiet --config-file="$OLDPWD/.clang-tidy" "$OLDPWD/$1" -- \
		-Xclang -analyzer-config -Xclang max-nodes=60000 "${arguments[@]}") ||
		echo "$1:0: error: clang-tidy fails [clang-tidy]" >&2
}

# All at once: the functions of other files are known then. Of system headers it is told in cppcheck.cfg. readdir and
# getpwuid are called by one thread alone: the broker's, or a tool's.
check() {
	local flag arguments=()
	for flag in "${flags[@]}"; do
		case $flag in -I/usr/*) ;; -I* | -D*) arguments+=("$flag") ;; esac
	done
	(cd "$build" && cppcheck --quiet --enable=warning,performance,portability --inline-suppr -j "$(nproc)" \
		--library=posix --library=gnu --library="$here/cppcheck.cfg" --std=c11 --max-configs=1 \
		--include=config.h "${arguments[@]}" --template='{file}:{line}:{column}: warning: {message} [{id}]' \
		--template-location='' --suppress=readdirCalled --suppress=getpwuidCalled --suppress=getpwnamCalled \
		--suppress=getgrnamCalled "${list[@]/#/$OLDPWD/}")
}

# in_turn FUNCTION: over all files, as many at a time as there are processors; what each said is kept apart
in_turn() {
	local file
	for file in "${list[@]}"; do
		while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do
			wait -n
		done
		"$1" "$file" >"$work/$1.${file//\//_}" 2>&1 &
	done
	wait
}

# Findings are alike in all three: FILE:LINE...: warning: TEXT [CHECK]. The same one of several files is one.
findings() {
	cat "$work"/*.* | sed -nE "s,$PWD/,,; s/^([^ :]+:[0-9]+)(:[0-9]+)?: (warning|error|style|note): (.*) \[([^] ]+)\]\$/\1: \3: \4 [\5]/p" |
		grep -v ': note: ' | sort -u
}

# known.txt: FILE CHECK reason. What is left over of either side is printed.
judge() {
	awk -v all="$all" -v known="$here/known.txt" '
		BEGIN { while ((getline line < known) > 0)
				if (line !~ /^#/ && split(line, word, " ") > 2) reason[word[1] " " word[2]] = line }
		{ file = $1; sub(/:.*/, "", file); check = $NF; gsub(/[][]/, "", check); sub(/,.*/, "", check)
		  key = file " " check
		  if (key in reason) { met[key] = 1; next }
		  print; bad = 1 }
		END { for (key in reason) if (all && !(key in met)) { print "known.txt: fits nothing: " reason[key]; bad = 1 }
		      exit bad }'
}

for tool in analyze examine; do
	start=$SECONDS
	in_turn $tool
	echo "static.sh: $tool: ${#list[@]} files, $((SECONDS - start)) s"
done
start=$SECONDS
check >"$work/check.all" 2>&1
echo "static.sh: check: ${#list[@]} files, $((SECONDS - start)) s"
findings >"$work/findings"
echo "static.sh: $(wc -l <"$work/findings") findings, those of known.txt among them"
judge <"$work/findings"

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# toolkits.sh - configure finds a CUDA toolkit in the shapes that NVIDIA and Debian give it, and says what is missing in
# one that it cannot use. The toolkits are made up: an nvcc that prints the profile of a real one (13.0 of NVIDIA's,
# 12.4 of Debian 13's), with the few declarations that configure compiles. Of configure it runs GPUB_CUDA alone.
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

if ! command -v autoconf >/dev/null; then
	echo "1..0 # SKIP there is no autoconf (Debian: autoconf)"
	exit 0
fi
work=$(mktemp -d) && work=$(cd "$work" && pwd -P) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
unset CUDA_HOME NVCC NVCCFLAGS CPATH

# ---- configure, reduced to the probe ----

cat >configure.ac <<-END
	AC_INIT([probe], [0])
	AC_CONFIG_SRCDIR([libbroker/gpubroker.h])
	m4_include([$top_srcdir/m4/gpub_cuda.m4])
	AC_DEFUN([AM_CONDITIONAL], [])
	AC_PROG_CC
	GPUB_CUDA
	AS_IF([test \$gpub_have_cuda = 1], [echo "nvcc=\$NVCC cppflags=\$CUDA_CPPFLAGS libs=\$CUDA_LIBS" >answer])
END
# What is known of the compiler is looked for once.
prepare() {
	autoconf && ./configure --srcdir="$top_srcdir" --with-cuda=no --cache-file=seen CC="${CC:?}" && sed -i /^ac_cv_env_/d seen
}
if ! prepare >out 2>&1; then
	check "the probe can be made" false
	plan
	exit
fi

# configured ARGUMENT...: runs it
configured() {
	rm -f answer
	cp seen cache
	./configure --srcdir="$top_srcdir" --cache-file=cache CC="$CC" "$@" >out 2>&1
}
# finds NVCC CPPFLAGS FOLDER COMMAND...: COMMAND, which runs it, finds this compiler, these flags and the runtime there
finds() {
	local wanted="nvcc=$1 cppflags=$2 libs=-L$3 -lcudart_static -lpthread -ldl -lrt"
	shift 3
	"$@" && [ "$(cat answer)" = "$wanted" ] && return
	echo "wanted: $wanted" >>out
	cat answer >>out
	return 1
}
# refuses PATTERN ARGUMENT...: configure ends with an error that has it
refuses() {
	! configured "${@:2}" && grep -qE "^configure: error: .*$1" out
}

# ---- toolkits ----

# headers FOLDER VERSION
headers() {
	mkdir -p "$1"
	echo "#define CUDA_VERSION $2" >"$1/cuda.h"
	echo 'typedef int (*PFN_cuGetProcAddress_v12000)(void);' >"$1/cudaTypedefs.h"
	echo 'int cudaRuntimeGetVersion(int *version);' >"$1/cuda_runtime_api.h"
}
# runtime FOLDER
runtime() {
	mkdir -p "$1"
	echo 'int cudaRuntimeGetVersion(int *version) { return *version; }' >runtime.c
	# CC may be a compiler and its flags.
	# shellcheck disable=SC2086
	$CC -c -o runtime.o runtime.c && ${AR:-ar} rc "$1/libcudart_static.a" runtime.o
}
# compiler FILE [CONDITION]: an nvcc whose dry run prints what is read; it compiles where CONDITION holds
compiler() {
	mkdir -p "${1%/*}"
	cat >profile
	cat >"$1" <<-END
		#!/bin/sh
		case " \$* " in
		*" --version "*) echo "nvcc: NVIDIA (R) Cuda compiler driver" ;;
		*" --dryrun "*) cat >&2 <<'PROFILE'
		$(cat profile)
		PROFILE
		;;
		*" --list-gpu-code "*) echo sm_80 ;;
		*) ${2:-true} ;;
		esac
	END
	chmod +x "$1"
}
# nvidia NAME VERSION [CONDITION]
nvidia() {
	headers "$1/targets/x86_64-linux/include" "$2"
	runtime "$1/targets/x86_64-linux/lib"
	compiler "$1/bin/nvcc" "${3-}" <<-END
		#\$ TOP=$work/$1/bin/..
		#\$ INCLUDES="-I$work/$1/bin/../targets/x86_64-linux/include"
		#\$ LIBRARIES=  "-L$work/$1/bin/../targets/x86_64-linux/lib/stubs" "-L$work/$1/bin/../targets/x86_64-linux/lib"
		#\$ gcc -E -x c++ "-I$work/$1/bin/../targets/x86_64-linux/include" "conftest.cu"
	END
	mkdir -p "$1/targets/x86_64-linux/lib/stubs"
}
# debian NAME [LINE]: the headers are where the compiler looks by itself, which CPATH stands for
debian() {
	headers "$1/usr/include" 12040
	runtime "$1/usr/lib/x86_64-linux-gnu"
	mkdir -p "$1/usr/lib/x86_64-linux-gnu/stubs"
	compiler "$1/usr/bin/nvcc" <<-END
		${2-}
		#\$ LIBRARIES=  -L$work/$1/usr/lib/x86_64-linux-gnu/stubs -L$work/$1/usr/lib/x86_64-linux-gnu
		#\$ gcc -E -x c++ "conftest.cu"
	END
}

nvidia cuda 13000
nvidia old 11080
# shellcheck disable=SC2016 # the made-up nvcc expands it
nvidia picky 12040 'case " $* " in *" -ccbin "*) ;; *) echo "unsupported GNU version" >&2; exit 1 ;; esac'
debian debian
# Where a toolkit in one folder is laid over /usr.
debian over '#$ INCLUDES="-I/usr/bin/../include"'
mkdir -p links/bin
ln -s "$work/cuda/bin/nvcc" links/bin/nvcc

found_cuda=("-isystem $work/cuda/targets/x86_64-linux/include" "$work/cuda/targets/x86_64-linux/lib")
found_debian=("" "$work/debian/usr/lib/x86_64-linux-gnu")
export -f configured

# ---- where they are looked for ----

check "NVIDIA's, by its folder" finds "$work/cuda/bin/nvcc" "${found_cuda[@]}" configured "--with-cuda=$work/cuda"
check "by CUDA_HOME" finds "$work/cuda/bin/nvcc" "${found_cuda[@]}" env "CUDA_HOME=$work/cuda" bash -c configured
check "by the path" finds "$work/cuda/bin/nvcc" "${found_cuda[@]}" env "PATH=$work/cuda/bin:$PATH" bash -c configured
check "by NVCC, which may have flags" finds "$work/cuda/bin/nvcc -O1" "${found_cuda[@]}" configured "NVCC=$work/cuda/bin/nvcc -O1"
check "by a link to its nvcc" finds "$work/links/bin/nvcc" "${found_cuda[@]}" configured "--with-cuda=$work/links"
check "Debian's, by its folder: no flag for headers that the compiler finds by itself" \
	finds "$work/debian/usr/bin/nvcc" "${found_debian[@]}" env "CPATH=$work/debian/usr/include" \
	bash -c 'configured "$@"' - "--with-cuda=$work/debian/usr"
check "by the path" finds "$work/debian/usr/bin/nvcc" "${found_debian[@]}" env "CPATH=$work/debian/usr/include" "PATH=$work/debian/usr/bin:$PATH" \
	bash -c configured
check "/usr/include is not named, even where nvcc names it" \
	finds "$work/over/usr/bin/nvcc" "" "$work/over/usr/lib/x86_64-linux-gnu" env "CPATH=$work/over/usr/include" \
	bash -c 'configured "$@"' - "--with-cuda=$work/over/usr"
check "one that is too old is passed over for the next" finds "$work/cuda/bin/nvcc" "${found_cuda[@]}" \
	env "CUDA_HOME=$work/old" "PATH=$work/cuda/bin:$PATH" bash -c configured

# ---- what is said of one that cannot be used ----

check "one that is too old is refused where it is asked for" \
	refuses "missing: a CUDA toolkit 12\.0 or newer .*not that of $work/old/bin/nvcc" "--with-cuda=$work/old"
check "a folder without nvcc, too" refuses "missing: nvcc .tried: $work/none/bin/nvcc" "--with-cuda=$work/none"
check "an nvcc that does not compile: the host compiler can be named" \
	refuses "missing: a host compiler that $work/picky/bin/nvcc accepts: .*NVCCFLAGS='-ccbin " "--with-cuda=$work/picky"
check "and with one named it does" \
	finds "$work/picky/bin/nvcc" "-isystem $work/picky/targets/x86_64-linux/include" "$work/picky/targets/x86_64-linux/lib" \
	configured "--with-cuda=$work/picky" "NVCCFLAGS=-ccbin g++-13"
guessed() {
	configured "NVCC=$work/none/nvcc" && [ ! -e answer ] &&
		grep -q "^configure: WARNING: building without the cuda device; missing: nvcc .tried: $work/none/nvcc" out
}
check "a guess that finds none goes on, and says what is missing" guessed
plan

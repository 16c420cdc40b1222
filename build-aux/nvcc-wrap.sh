#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# nvcc-wrap.sh NVCC ARGUMENT... - nvcc as libtool calls a compiler: what libtool adds for position-independent code,
# and nvcc refuses, goes to the host compiler; so does the map of folders' names.
set -eu

nvcc=$1
shift
for argument in "$@"; do
	shift
	case $argument in
	-DPIC | -fPIC | -fPIE | -ffile-prefix-map=*) set -- "$@" -Xcompiler "$argument" ;;
	*) set -- "$@" "$argument" ;;
	esac
done
exec "$nvcc" "$@"

# SPDX-License-Identifier: Apache-2.0
# gpub_cuda.m4 - the CUDA toolkit: headers, the static runtime and nvcc, from one folder, 12.0 or newer. NVTX, where it has it.
#
# The headers need to know the functions in libbroker/device/cuda.h. CUDA_NEEDED in device.h beside it is what the driver must
# support. The driver itself is opened at run time: the machine that builds needs none, and configure only says which is needed. The runtime is for programs with kernels of their
# own (examples, bench, tests): the library and the broker's programs are not linked with CUDA_LIBS.

# GPUB_TRY_CUDA(DIR): sets CUDA_CPPFLAGS, CUDA_LIBS and NVCC and empties gpub_cuda_why if DIR holds a toolkit that
# works here; otherwise gpub_cuda_why says what it lacks.
AC_DEFUN([GPUB_TRY_CUDA],
[gpub_cuda_why="cuda.h with libcudart_static.a (no toolkit in $1)"
for gpub_lib in "$1/lib64" "$1/lib" "$1/targets/$host_cpu-linux/lib" "$1/targets/sbsa-linux/lib"; do
  AS_IF([test -f "$gpub_lib/libcudart_static.a"], [], [continue])
  gpub_saved_cppflags=$CPPFLAGS
  gpub_saved_libs=$LIBS
  # System headers, as they are not ours to warn about.
  CUDA_CPPFLAGS="-isystem $1/include"
  # As -l and not by path: libtool calls an archive that is named by its path unportable.
  CUDA_LIBS="-L$gpub_lib -lcudart_static -lpthread -ldl -lrt"
  CPPFLAGS="$CPPFLAGS $CUDA_CPPFLAGS"
  LIBS="$CUDA_LIBS $LIBS"
  AC_MSG_CHECKING([for a CUDA toolkit, 12.0 or newer, in $1])
  AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>
#if CUDA_VERSION < 12000
#error too old
#endif]], [[PFN_cuGetProcAddress_v12000 find = 0; int version; return find || cudaRuntimeGetVersion(&version);]])],
    [gpub_cuda_why=nvcc
    AC_MSG_RESULT([yes])],
    [gpub_cuda_why="a CUDA toolkit 12.0 or newer whose headers and runtime can be used (not the one in $1; see config.log)"
    AC_MSG_RESULT([no])])
  CPPFLAGS=$gpub_saved_cppflags
  LIBS=$gpub_saved_libs
  AS_IF([test "$gpub_cuda_why" = nvcc], [break])
done
AS_IF([test "$gpub_cuda_why" = nvcc],
  [gpub_nvcc=${NVCC:-$1/bin/nvcc}
  # It compiles only with the host compilers it knows, so it is tried and not looked for.
  AC_MSG_CHECKING([whether $gpub_nvcc works])
  echo '__global__ void touch(int *p) { *p = 1; }' >conftest.cu
  AS_IF([$gpub_nvcc -c -o conftest.nvcc.o conftest.cu >&AS_MESSAGE_LOG_FD 2>&1],
    [NVCC=$gpub_nvcc
    gpub_cuda_why=
    AC_MSG_RESULT([yes])],
    [gpub_cuda_why="an nvcc that works with this host compiler (the toolkit is in $1; see config.log)"
    AC_MSG_RESULT([no])])
  rm -f conftest.cu conftest.nvcc.o])])

# Headers alone, which some packages of the toolkit are without.
AC_DEFUN([GPUB_NVTX],
[gpub_have_nvtx=0
AS_IF([test -n "$gpub_cuda_dir"],
  [gpub_saved_cppflags=$CPPFLAGS
  CPPFLAGS="$CPPFLAGS $CUDA_CPPFLAGS"
  AC_CHECK_HEADER([nvtx3/nvToolsExt.h], [gpub_have_nvtx=1])
  CPPFLAGS=$gpub_saved_cppflags])
AS_IF([test $gpub_have_nvtx = 1], [gpub_nvtx_summary=yes], [gpub_nvtx_summary="no, profilers are not told"])
AC_DEFINE_UNQUOTED([HAVE_NVTX], [$gpub_have_nvtx], [1 if the library makes NVTX ranges, 0 if not: for #if])
AM_CONDITIONAL([HAVE_NVTX], [test $gpub_have_nvtx = 1])])

AC_DEFUN([GPUB_CUDA],
[AC_REQUIRE([AC_CANONICAL_HOST])
AC_ARG_WITH([cuda],
  [AS_HELP_STRING([--with-cuda=guess|yes|no|DIR], [build the cuda device; guess: where a toolkit is found @<:@guess@:>@])],
  [], [with_cuda=guess])
AC_ARG_VAR([NVCC], [CUDA compiler, by default the bin/nvcc of the toolkit])
AC_ARG_VAR([NVCCFLAGS], [flags for it])

gpub_cuda_why=
gpub_cuda_dir=
AS_IF([test "$with_cuda" != no],
  [AS_CASE([$with_cuda],
    [yes|guess],
      [gpub_path_nvcc=`command -v nvcc`
      gpub_cuda_dirs="$CUDA_HOME ${gpub_path_nvcc%/bin/nvcc} /usr/local/cuda"],
    [gpub_cuda_dirs=$with_cuda])
  for gpub_dir in $gpub_cuda_dirs; do
    GPUB_TRY_CUDA([$gpub_dir])
    AS_IF([test -z "$gpub_cuda_why"], [gpub_cuda_dir=$gpub_dir; break])
  done
  AS_IF([test -z "$gpub_cuda_dir"],
    [AS_IF([test "$with_cuda" = guess],
      [AC_MSG_WARN([building without the cuda device, for want of $gpub_cuda_why])],
      [AC_MSG_ERROR([--with-cuda=$with_cuda was given, but this is missing: $gpub_cuda_why])])])])

AS_IF([test -n "$gpub_cuda_dir"],
  [gpub_have_cuda=1
  gpub_driver=`sed -n 's/^#define CUDA_NEEDED_DRIVER "\(.*\)"/\1/p' "$srcdir/libbroker/device/device.h"`
  gpub_cuda_summary="$gpub_cuda_dir; to run: NVIDIA driver $gpub_driver or newer"
  # Native code for these, where this nvcc knows them. All others from Turing on, and those yet to come, compile the
  # one PTX when it is loaded.
  NVCC_TARGETS="-gencode arch=compute_75,code=compute_75"
  for gpub_sm in 80 90 100 120; do
    AS_IF([$NVCC --list-gpu-code | grep -qx "sm_$gpub_sm"],
      [AS_VAR_APPEND([NVCC_TARGETS], [" -gencode arch=compute_$gpub_sm,code=sm_$gpub_sm"])])
  done],
  [gpub_have_cuda=0
  gpub_cuda_summary="no, the host device alone"
  CUDA_CPPFLAGS=
  CUDA_LIBS=])
AC_DEFINE_UNQUOTED([HAVE_CUDA], [$gpub_have_cuda], [1 if the cuda device is built, 0 if not: for #if])
AC_SUBST([CUDA_CPPFLAGS])
AC_SUBST([CUDA_LIBS])
AC_SUBST([NVCC_TARGETS])
AC_SUBST([with_cuda])
AM_CONDITIONAL([HAVE_CUDA], [test -n "$gpub_cuda_dir"])
GPUB_NVTX])

# SPDX-License-Identifier: Apache-2.0
# gpub_cuda.m4 - the CUDA toolkit, 12.0 or newer: its compiler, headers and static runtime. NVTX, where it has it.
#
# The headers need to know the functions in libbroker/device/cuda.h. CUDA_NEEDED in device.h beside it is what the driver
# must support. The driver itself is opened at run time: the machine that builds needs none, and configure only says
# which is needed. The runtime is for programs with kernels of their own (examples, bench, tests): the library and the
# broker's programs are not linked with CUDA_LIBS.

# GPUB_TRY_NVCC(NVCC): sets CUDA_CPPFLAGS, CUDA_LIBS and NVCC and empties gpub_cuda_why if that compiler and its toolkit
# work here; otherwise gpub_cuda_why says what is missing.
#
# nvcc is asked where its toolkit is. NVIDIA's lies in one folder, Debian's across /usr, and an nvcc may be a link or a
# wrapper: in a dry run each prints the folders of its own profile. CMake reads the same two lines.
AC_DEFUN([GPUB_TRY_NVCC],
[AC_MSG_CHECKING([for a CUDA toolkit, 12.0 or newer, with $1])
CUDA_CPPFLAGS=
CUDA_LIBS=
echo '__global__ void touch(int *p) { *p = 1; }' >conftest.cu
$1 $NVCCFLAGS --dryrun -c -o conftest.nvcc.o conftest.cu >conftest.profile 2>&1
cat conftest.profile >&AS_MESSAGE_LOG_FD
# Flags for system headers, as they are not ours to warn about. None for those that the compiler has by itself: named
# again, /usr/include comes before the headers of C++, which then do not find those of C behind them.
for gpub_word in `sed -n 's/^.. INCLUDES=//p; s/^.. LIBRARIES=//p' conftest.profile | tr -d '"'`; do
  gpub_folder=`cd "${gpub_word#-?}" 2>/dev/null && pwd`
  AS_CASE([$gpub_word:$gpub_folder],
    [*: | -I*:/usr/include | -L*/stubs:*], [],
    [-I*], [AS_VAR_APPEND([CUDA_CPPFLAGS], ["${CUDA_CPPFLAGS:+ }-isystem $gpub_folder"])],
    [-L*], [AS_VAR_APPEND([CUDA_LIBS], ["-L$gpub_folder "])])
done
# As -l and not by path: libtool calls an archive that is named by its path unportable.
AS_VAR_APPEND([CUDA_LIBS], ["-lcudart_static -lpthread -ldl -lrt"])
gpub_saved_cppflags=$CPPFLAGS
gpub_saved_libs=$LIBS
CPPFLAGS="$CPPFLAGS $CUDA_CPPFLAGS"
LIBS="$CUDA_LIBS $LIBS"
gpub_cuda_why="a CUDA toolkit 12.0 or newer whose headers and runtime can be used (not that of $1; see config.log)"
AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>
#if CUDA_VERSION < 12000
#error too old
#endif]], [[PFN_cuGetProcAddress_v12000 find = 0; int version; return find || cudaRuntimeGetVersion(&version);]])],
  [AS_IF([$1 $NVCCFLAGS -c -o conftest.nvcc.o conftest.cu >&AS_MESSAGE_LOG_FD 2>&1],
    [NVCC=$1
    gpub_cuda_why=],
    [gpub_cuda_why="a host compiler that $1 accepts: install one and name it, as in NVCCFLAGS='-ccbin g++-13' (see config.log)"])])
CPPFLAGS=$gpub_saved_cppflags
LIBS=$gpub_saved_libs
rm -f conftest.cu conftest.nvcc.o conftest.profile
AC_MSG_RESULT([${gpub_cuda_why:+no, missing: }${gpub_cuda_why:-yes}])])

# Headers alone, which some packages of the toolkit are without.
AC_DEFUN([GPUB_NVTX],
[gpub_have_nvtx=0
AS_IF([test $gpub_have_toolkit = 1],
  [gpub_saved_cppflags=$CPPFLAGS
  CPPFLAGS="$CPPFLAGS $CUDA_CPPFLAGS"
  AC_CHECK_HEADER([nvtx3/nvToolsExt.h], [gpub_have_nvtx=1])
  CPPFLAGS=$gpub_saved_cppflags])
AS_IF([test $gpub_have_nvtx = 1], [gpub_nvtx_summary=yes], [gpub_nvtx_summary="no, profilers are not told"])
AC_DEFINE_UNQUOTED([HAVE_NVTX], [$gpub_have_nvtx], [1 if the library makes NVTX ranges, 0 if not: for #if])
AM_CONDITIONAL([HAVE_NVTX], [test $gpub_have_nvtx = 1])])

AC_DEFUN([GPUB_CUDA],
[AC_ARG_WITH([cuda],
  [AS_HELP_STRING([--with-cuda=guess|yes|no|driver|DIR],
    [build the cuda device, and kernels with DIR/bin/nvcc; guess: where a toolkit is found; driver: without a toolkit,
    so the device alone @<:@guess@:>@])],
  [], [with_cuda=guess])
AC_ARG_VAR([NVCC], [CUDA compiler, whose toolkit is used])
AC_ARG_VAR([NVCCFLAGS], [flags for it])

gpub_have_toolkit=0
AS_CASE([$with_cuda], [no|driver], [],
  [AS_CASE([$with_cuda],
    [yes|guess], [gpub_nvcc_places="${CUDA_HOME:+$CUDA_HOME/bin/nvcc }`command -v nvcc || echo nvcc` /usr/local/cuda/bin/nvcc"],
    [gpub_nvcc_places=$with_cuda/bin/nvcc])
  AS_IF([test -n "$NVCC"], [gpub_nvcc_places=])
  gpub_cuda_why="nvcc (tried: ${NVCC:-$gpub_nvcc_places})"
  # The caller's NVCC may be a compiler and its flags.
  for gpub_nvcc in "$NVCC" $gpub_nvcc_places; do
    AS_IF([$gpub_nvcc --version >/dev/null 2>&1],
      [GPUB_TRY_NVCC([$gpub_nvcc])
      AS_IF([test -z "$gpub_cuda_why"], [gpub_have_toolkit=1; break])])
  done
  AS_IF([test $gpub_have_toolkit = 0],
    [AS_IF([test "$with_cuda" = guess],
      [AC_MSG_WARN([building without the cuda device; missing: $gpub_cuda_why])],
      [AC_MSG_ERROR([--with-cuda=$with_cuda was given, but this is missing: $gpub_cuda_why])])])])

gpub_have_cuda=$gpub_have_toolkit
gpub_driver=`sed -n 's/^#define CUDA_NEEDED_DRIVER "\(.*\)"/\1/p' "$srcdir/libbroker/device/device.h"`
AS_IF([test $gpub_have_toolkit = 1],
  [gpub_cuda_summary="$NVCC; to run: NVIDIA driver $gpub_driver or newer"
  # Native code for these, where this nvcc knows them. All others from Turing on, and those yet to come, compile the
  # one PTX when it is loaded.
  NVCC_TARGETS="-gencode arch=compute_75,code=compute_75"
  for gpub_sm in 80 90 100 120; do
    AS_IF([$NVCC --list-gpu-code | grep -qx "sm_$gpub_sm"],
      [AS_VAR_APPEND([NVCC_TARGETS], [" -gencode arch=compute_$gpub_sm,code=sm_$gpub_sm"])])
  done],
  [gpub_cuda_summary="no, the host device alone"
  CUDA_CPPFLAGS=
  CUDA_LIBS=])
AS_IF([test "$with_cuda" = driver],
  [gpub_have_cuda=1
  gpub_cuda_summary="the device without kernels; to run: NVIDIA driver $gpub_driver or newer"])
AC_DEFINE_UNQUOTED([HAVE_CUDA_TOOLKIT], [$gpub_have_toolkit], [1 if the toolkit's headers are used, 0 if cuda-abi.h: for #if])
AM_CONDITIONAL([HAVE_CUDA_TOOLKIT], [test $gpub_have_toolkit = 1])
AC_DEFINE_UNQUOTED([HAVE_CUDA], [$gpub_have_cuda], [1 if the cuda device is built, 0 if not: for #if])
AC_SUBST([CUDA_CPPFLAGS])
AC_SUBST([CUDA_LIBS])
AC_SUBST([NVCC_TARGETS])
AC_SUBST([with_cuda])
AM_CONDITIONAL([HAVE_CUDA], [test $gpub_have_cuda = 1])
GPUB_NVTX])

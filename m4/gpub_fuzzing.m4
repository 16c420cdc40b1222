# SPDX-License-Identifier: Apache-2.0
# gpub_fuzzing.m4 - the fuzz targets: clang's libFuzzer, and with it the sanitizers.

# After GPUB_COMPILER_FLAGS, whose list it lengthens, and before GPUB_SANITIZERS, which it asks for: without them most of
# what a fuzzer finds would go unnoticed. Everything is compiled with coverage; the targets alone link with the fuzzer.
AC_DEFUN([GPUB_FUZZING],
[AC_BEFORE([$0], [GPUB_SANITIZERS])
AC_ARG_ENABLE([fuzzing],
  [AS_HELP_STRING([--enable-fuzzing], [build for "make fuzz": libFuzzer and the sanitizers; needs CC=clang CXX=clang++])],
  [], [enable_fuzzing=no])
AS_IF([test "$enable_fuzzing" = yes],
  [gpub_saved_cflags=$CFLAGS
  CFLAGS="$CFLAGS -fsanitize=fuzzer"
  AC_MSG_CHECKING([whether $CC links with libFuzzer])
  AC_LINK_IFELSE([AC_LANG_SOURCE([[
    int LLVMFuzzerTestOneInput(const unsigned char *data, unsigned long size);
    int LLVMFuzzerTestOneInput(const unsigned char *data, unsigned long size) { return size && *data > 255; }]])],
    [AC_MSG_RESULT([yes])],
    [AC_MSG_RESULT([no])
    AC_MSG_ERROR([--enable-fuzzing needs clang and its run time: CC=clang CXX=clang++ (Debian: clang, libclang-rt-14-dev)])])
  CFLAGS=$gpub_saved_cflags
  # gcc, which the release is built with, does not know these two warnings, or has them for constant formats alone.
  AS_VAR_APPEND([GPUB_CFLAGS], [" -fsanitize=fuzzer-no-link -Wno-format-nonliteral -Wno-string-plus-int"])
  enable_sanitizers=yes])
AM_CONDITIONAL([FUZZING], [test "$enable_fuzzing" = yes])])

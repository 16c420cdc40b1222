# SPDX-License-Identifier: Apache-2.0
# gpub_compiler.m4 - warnings, hardening and sanitizers, each flag only where this compiler takes it.

# GPUB_ADD_CFLAGS(VARIABLE, FLAGS...): appends each of the blank-separated flags that compiles without a complaint.
AC_DEFUN([GPUB_ADD_CFLAGS],
[for gpub_flag in $2; do
  gpub_saved_cflags=$CFLAGS
  CFLAGS="$CFLAGS -Werror $gpub_flag"
  AC_MSG_CHECKING([whether $CC accepts $gpub_flag])
  AC_COMPILE_IFELSE([AC_LANG_PROGRAM()],
    [AC_MSG_RESULT([yes]); AS_VAR_APPEND([$1], [" $gpub_flag"])],
    [AC_MSG_RESULT([no])])
  CFLAGS=$gpub_saved_cflags
done])

# GPUB_ADD_LDFLAGS(VARIABLE, FLAGS...): the same for the linker.
AC_DEFUN([GPUB_ADD_LDFLAGS],
[for gpub_flag in $2; do
  gpub_saved_ldflags=$LDFLAGS
  LDFLAGS="$LDFLAGS $gpub_flag"
  AC_MSG_CHECKING([whether the linker accepts $gpub_flag])
  AC_LINK_IFELSE([AC_LANG_PROGRAM()],
    [AC_MSG_RESULT([yes]); AS_VAR_APPEND([$1], [" $gpub_flag"])],
    [AC_MSG_RESULT([no])])
  LDFLAGS=$gpub_saved_ldflags
done])

AC_DEFUN([GPUB_COMPILER_FLAGS],
[AC_ARG_ENABLE([werror],
  [AS_HELP_STRING([--enable-werror], [make each compiler warning an error])],
  [], [enable_werror=no])
GPUB_CFLAGS=
GPUB_ADD_CFLAGS([GPUB_CFLAGS], [dnl
  -std=gnu11 -pthread -fno-common dnl
  -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -Wvla -Wundef dnl
  -Wformat=2 -Wwrite-strings -Wpointer-arith -Wduplicated-cond])
AS_IF([test "$enable_werror" = yes], [AS_VAR_APPEND([GPUB_CFLAGS], [" -Werror"])])
# The host kernels' loops: -O2 alone does not vectorise them in every gcc; clang always does.
VECTOR_CFLAGS=
GPUB_ADD_CFLAGS([VECTOR_CFLAGS], [-ftree-vectorize -fvect-cost-model=dynamic])
AC_SUBST([VECTOR_CFLAGS])
AC_SUBST([GPUB_CFLAGS])])

# The sanitizers go to compiler and linker alike. Every finding ends the program: a test cannot pass with one. That of
# threads, which excludes the others, says what it finds and goes on: tests/analysis/threads.sh runs tests with it.
AC_DEFUN([GPUB_SANITIZERS],
[AC_ARG_ENABLE([sanitizers],
  [AS_HELP_STRING([--enable-sanitizers@<:@=address|thread@:>@],
    [build with AddressSanitizer and UndefinedBehaviorSanitizer, or with ThreadSanitizer])],
  [], [enable_sanitizers=no])
SANITIZER_FLAGS=
AS_CASE([$enable_sanitizers],
  [no], [],
  [yes|address], [enable_sanitizers=address
  SANITIZER_FLAGS="-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer"],
  [thread], [SANITIZER_FLAGS="-fsanitize=thread -fno-omit-frame-pointer"],
  [AC_MSG_ERROR([--enable-sanitizers=$enable_sanitizers: there are address, which is meant without a name, and thread])])
AS_IF([test "$enable_sanitizers" != no],
  [gpub_saved_cflags=$CFLAGS
  CFLAGS="$CFLAGS $SANITIZER_FLAGS"
  AC_MSG_CHECKING([whether $CC can link with $SANITIZER_FLAGS])
  AC_LINK_IFELSE([AC_LANG_PROGRAM()],
    [AC_MSG_RESULT([yes])],
    [AC_MSG_RESULT([no])
    AC_MSG_ERROR([--enable-sanitizers was given, but $CC cannot link with the sanitizers])])
  CFLAGS=$gpub_saved_cflags])
# gcc says with each fence that its ThreadSanitizer does not see it. No race is hidden or made up by that: what is behind
# a fence here is reached through an atomic word that orders it as well.
AS_IF([test "$enable_sanitizers" = thread], [GPUB_ADD_CFLAGS([SANITIZER_FLAGS], [-Wno-tsan])])
AC_SUBST([SANITIZER_FLAGS])
AM_CONDITIONAL([SANITIZERS], [test "$enable_sanitizers" != no])])

AC_DEFUN([GPUB_HARDENING],
[AC_REQUIRE([GPUB_SANITIZERS])
HARDENING_CPPFLAGS=
HARDENING_CFLAGS=
HARDENING_LDFLAGS=
GPUB_ADD_CFLAGS([HARDENING_CFLAGS],
  [-fstack-protector-strong -fstack-clash-protection -fcf-protection -mbranch-protection=standard])
GPUB_ADD_LDFLAGS([HARDENING_LDFLAGS], [-Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack])
# The sanitizers do what fortify does, and better; together they report falsely. A level that the builder asks for stands,
# and so does a higher one that the compiler sets by itself, as Ubuntu's does.
AC_MSG_CHECKING([whether fortify has a level of its own])
gpub_fortify=no
AS_CASE([" $CC $CPPFLAGS $CFLAGS "], [*_FORTIFY_SOURCE*], [gpub_fortify=yes],
  [AC_COMPILE_IFELSE([AC_LANG_SOURCE([[
#if !defined _FORTIFY_SOURCE || _FORTIFY_SOURCE < 2
#error lower
#endif
]])], [gpub_fortify=yes])])
AC_MSG_RESULT([$gpub_fortify])
AS_IF([test "$enable_sanitizers$gpub_fortify" = nono], [HARDENING_CPPFLAGS="-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2"])
# Without optimisation glibc makes fortify a warning, and with --enable-werror an error.
AS_CASE([" $CFLAGS "], [*" -O0 "*], [HARDENING_CPPFLAGS=], [*" -O"*], [], [HARDENING_CPPFLAGS=])
AC_SUBST([HARDENING_CPPFLAGS])
AC_SUBST([HARDENING_CFLAGS])
AC_SUBST([HARDENING_LDFLAGS])])

# SPDX-License-Identifier: Apache-2.0
# gpub_libraries.m4 - the libraries, found by compiling and linking against them.

# GPUB_FIND(VARIABLE, MODULE, HEADER, BODY, IF-FOUND, IF-NOT-FOUND)
# Sets VARIABLE_CFLAGS and VARIABLE_LIBS from pkg-config. Where only the archive of a library is installed, its own
# dependencies have to be named too: then, and only then, the flags are those of pkg-config --static.
AC_DEFUN([GPUB_FIND],
[PKG_CHECK_MODULES([$1], [$2],
  [gpub_saved_cflags=$CFLAGS
  gpub_saved_libs=$LIBS
  CFLAGS="$CFLAGS $[]$1[]_CFLAGS"
  gpub_found=no
  for gpub_static in "" --static; do
    AS_IF([test -n "$gpub_static"], [$1[]_LIBS=`$PKG_CONFIG --static --libs "$2"`])
    LIBS="$[]$1[]_LIBS $gpub_saved_libs"
    AC_MSG_CHECKING([whether a program links with $[]$1[]_LIBS])
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <$3>]], [[$4]])], [gpub_found=yes])
    AC_MSG_RESULT([$gpub_found])
    AS_IF([test $gpub_found = yes], [break])
  done
  CFLAGS=$gpub_saved_cflags
  LIBS=$gpub_saved_libs],
  [gpub_found=no])
AS_IF([test $gpub_found = yes], [$5], [$6])])

# GPUB_LIBRARY(VARIABLE, MODULE, HEADER, BODY): the same, and nothing is built without it.
AC_DEFUN([GPUB_LIBRARY],
[GPUB_FIND([$1], [$2], [$3], [$4], [],
  [AC_MSG_ERROR([$2 is missing: ./bootstrap installs it, or prints how; under a prefix, set PKG_CONFIG_PATH])])])

# For broker-status --watch alone: without it that option says so. Only the wide one draws more than ASCII.
AC_DEFUN([GPUB_CURSES],
[gpub_have_curses=0
gpub_have_wide_curses=0
GPUB_FIND([NCURSESW], [ncursesw >= 6.0], [curses.h], [return newterm(0, stdout, stdin) == 0;],
  [gpub_have_curses=1
  gpub_have_wide_curses=1
  gpub_curses_summary=yes
  CURSES_CFLAGS=$NCURSESW_CFLAGS
  CURSES_LIBS=$NCURSESW_LIBS],
  [GPUB_FIND([NCURSES], [ncurses >= 6.0], [curses.h], [return newterm(0, stdout, stdin) == 0;],
    [gpub_have_curses=1
    gpub_curses_summary="yes, in ASCII: ncurses is not the wide one"
    CURSES_CFLAGS=$NCURSES_CFLAGS
    CURSES_LIBS=$NCURSES_LIBS],
    [gpub_curses_summary="no: broker-status --watch needs ncurses (libncurses-dev)"])])
AC_SUBST([CURSES_CFLAGS])
AC_SUBST([CURSES_LIBS])
AC_DEFINE_UNQUOTED([HAVE_CURSES], [$gpub_have_curses], [1 if broker-status has --watch, 0 if not: for #if])
AC_DEFINE_UNQUOTED([HAVE_WIDE_CURSES], [$gpub_have_wide_curses], [1 if curses can draw more than ASCII, 0 if not])])

# uthash is headers alone and has no pkg-config file. Under a prefix it lies beside the other libraries' headers.
AC_DEFUN([GPUB_UTHASH],
[gpub_saved_cppflags=$CPPFLAGS
CPPFLAGS="$CPPFLAGS $EVENT_CFLAGS $CONFUSE_CFLAGS $JANSSON_CFLAGS"
AC_CHECK_HEADERS([uthash.h utarray.h], [],
  [AC_MSG_ERROR([uthash is missing: ./bootstrap installs it, or prints how; under a prefix, set CPPFLAGS=-I...])])
CPPFLAGS=$gpub_saved_cppflags])

AC_DEFUN([GPUB_CMOCKA],
[GPUB_FIND([CMOCKA], [cmocka >= 1.1.5], [cmocka.h], [return cmocka_run_group_tests_name("", (struct CMUnitTest *)0, 0, 0) == 0;],
  [gpub_cmocka_summary=yes],
  [gpub_cmocka_summary="no: make check needs cmocka"])
AM_CONDITIONAL([HAVE_CMOCKA], [test "$gpub_cmocka_summary" = yes])])

# broker-exporter is built where libmicrohttpd is. An explicit yes without it is an error.
AC_DEFUN([GPUB_EXPORTER],
[AC_ARG_ENABLE([exporter], [AS_HELP_STRING([--enable-exporter],
    [build broker-exporter, which needs libmicrohttpd: guess, yes or no (guess)])],
  [], [enable_exporter=guess])
gpub_exporter_summary="no: not wanted"
AS_IF([test "$enable_exporter" != no],
  [GPUB_FIND([MICROHTTPD], [libmicrohttpd >= 0.9.71], [microhttpd.h], [return MHD_get_version() == 0;],
    [gpub_exporter_summary=yes],
    [gpub_exporter_summary="no: it needs libmicrohttpd (Debian: libmicrohttpd-dev)"
    AS_IF([test "$enable_exporter" = yes],
      [AC_MSG_ERROR([libmicrohttpd >= 0.9.71 is missing: install libmicrohttpd-dev, or leave --enable-exporter out])])])])
AM_CONDITIONAL([EXPORTER], [test "$gpub_exporter_summary" = yes])])

# broker-run --bind needs hwloc.
AC_DEFUN([GPUB_HWLOC],
[GPUB_FIND([HWLOC], [hwloc >= 2.1], [hwloc.h], [return hwloc_get_api_version() == 0;],
  [gpub_have_hwloc=1 gpub_hwloc_summary=yes],
  [gpub_have_hwloc=0 gpub_hwloc_summary="no: it needs hwloc (Debian: libhwloc-dev)"])
AC_DEFINE_UNQUOTED([HAVE_HWLOC], [$gpub_have_hwloc], [1 if broker-run has --bind device, 0 if not: for #if])])

# SPDX-License-Identifier: Apache-2.0
# gpub_crash_points.m4 - places at which a test can have a client die, stop or end (libbroker/common/crash-point.h).

AC_DEFUN([GPUB_CRASH_POINTS],
[AC_ARG_ENABLE([crash-points],
  [AS_HELP_STRING([--enable-crash-points], [for make check-crash: build in the places where clients can be made to crash])],
  [], [enable_crash_points=no])
AS_IF([test "$enable_crash_points" = yes],
  [AC_DEFINE([CRASH_POINTS_ENABLED], [1], [Define to 1 to build in the crash points: never in a release.])])
AM_CONDITIONAL([CRASH_POINTS], [test "$enable_crash_points" = yes])])

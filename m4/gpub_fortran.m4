# SPDX-License-Identifier: Apache-2.0
# gpub_fortran.m4 - the Fortran module and its example are built where there is a compiler. Nothing else needs one.

# GPUB_FORTRAN_COMPILER: before LT_INIT, which asks the compiler that it finds.
AC_DEFUN([GPUB_FORTRAN_COMPILER],
[AC_ARG_WITH([fortran], [AS_HELP_STRING([--with-fortran],
    [build the Fortran module: auto, yes or no (auto); FC is the compiler])],
  [], [with_fortran=auto])
AC_PROG_FC])

# GPUB_FORTRAN: after GPUB_SANITIZERS. A compiler has to know assumed texts of Fortran 2018, and the sanitizers of the C code.
AC_DEFUN([GPUB_FORTRAN],
[gpub_fortran_summary="no: not wanted"
AS_IF([test "$with_fortran" != no],
  [AC_LANG_PUSH([Fortran])
  gpub_fortran_summary="no: it needs a compiler for Fortran 2018 (Debian: gfortran)"
  gpub_saved_fcflags=$FCFLAGS
  FCFLAGS="$FCFLAGS $SANITIZER_FLAGS"
  AS_IF([test -n "$FC"],
    [AC_FC_SRCEXT([f90], [], [:])
    AC_MSG_CHECKING([whether $FC can build the Fortran module])
    AC_LINK_IFELSE([AC_LANG_SOURCE([[
program try
  use, intrinsic :: iso_c_binding
  implicit none
  character(len=:), allocatable, target :: text
  type(c_ptr) :: address
  text = 'why'
  address = c_loc(text)
  if (.not. c_associated(address)) error stop text
end program]])], [gpub_fortran_summary=yes])
    AC_MSG_RESULT([$gpub_fortran_summary])])
  FCFLAGS=$gpub_saved_fcflags
  AS_IF([test "$gpub_fortran_summary" = yes],
    [AC_FC_MODULE_EXTENSION
    AC_FC_MODULE_FLAG
    AC_FC_MODULE_OUTPUT_FLAG])
  AC_LANG_POP([Fortran])
  AS_IF([test "$with_fortran/$gpub_fortran_summary" != yes/yes && test "$with_fortran" = yes],
    [AC_MSG_ERROR([--with-fortran: no compiler for Fortran 2018 works: install gfortran, set FC, or leave --with-fortran out])])])
AM_CONDITIONAL([FORTRAN], [test "$gpub_fortran_summary" = yes])])

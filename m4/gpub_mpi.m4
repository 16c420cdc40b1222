# SPDX-License-Identifier: Apache-2.0
# gpub_mpi.m4 - MPI and NCCL, with which examples/heat spreads over several machines. No product needs them.

# GPUB_MPI: MPI_CFLAGS and MPI_LIBS, as the compiler driver mpicc tells them, so that one compiler makes all of heat.
AC_DEFUN([GPUB_MPI],
[AC_ARG_WITH([mpi], [AS_HELP_STRING([--with-mpi], [build heat --mpi: guess, yes or no (guess)])], [], [with_mpi=guess])
AC_ARG_VAR([MPICC], [mpicc, which tells the flags of MPI])
gpub_have_mpi=0
gpub_mpi_summary="no: not wanted"
AS_IF([test "$with_mpi" != no && test "$cross_compiling" = no], [
  gpub_mpi_summary="no: it needs mpicc (Debian: libopenmpi-dev)"
  AC_CHECK_PROGS([MPICC], [mpicc])
  AS_IF([test -n "$MPICC"], [
    MPI_CFLAGS=`$MPICC --showme:compile 2>/dev/null` && MPI_LIBS=`$MPICC --showme:link 2>/dev/null` || {
      # MPICH prints its whole command line; without the compiler's name it is flags.
      MPI_CFLAGS=`$MPICC -compile_info 2>/dev/null | sed 's/^@<:@^ @:>@* //'`
      MPI_LIBS=`$MPICC -link_info 2>/dev/null | sed 's/^@<:@^ @:>@* //'`
    }
    gpub_saved_cflags=$CFLAGS
    gpub_saved_libs=$LIBS
    CFLAGS="$CFLAGS $MPI_CFLAGS"
    LIBS="$MPI_LIBS $LIBS"
    AC_MSG_CHECKING([whether a program links with $MPI_LIBS])
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <mpi.h>]], [[return MPI_Init(0, 0);]])],
      [gpub_have_mpi=1 gpub_mpi_summary=yes], [gpub_mpi_summary="no: no program links with what $MPICC tells"])
    AC_MSG_RESULT([$gpub_mpi_summary])
    CFLAGS=$gpub_saved_cflags
    LIBS=$gpub_saved_libs])])
AS_IF([test "$with_mpi" = yes && test $gpub_have_mpi = 0],
  [AC_MSG_ERROR([--with-mpi was asked for, and heat --mpi cannot be built: $gpub_mpi_summary])])
AC_SUBST([MPI_CFLAGS])
AC_SUBST([MPI_LIBS])
AM_CONDITIONAL([MPI], [test $gpub_have_mpi = 1])])

# GPUB_NCCL: heat --nccl opens libnccl.so.2 when it is asked for. To build it, nccl.h, CUDA's headers and MPI are needed.
AC_DEFUN([GPUB_NCCL],
[AC_REQUIRE([GPUB_MPI])
AC_ARG_WITH([nccl], [AS_HELP_STRING([--with-nccl=DIR],
    [build heat --nccl: guess, yes, no, or a prefix with include/nccl.h (guess)])], [], [with_nccl=guess])
gpub_nccl_summary="no: not wanted"
gpub_have_nccl=no
AS_IF([test "$with_nccl" != no], [
  gpub_nccl_summary="no: it needs nccl.h, MPI and a CUDA toolkit"
  NCCL_CFLAGS=$CUDA_CPPFLAGS
  AS_CASE([$with_nccl], [guess|yes], [], [AS_VAR_APPEND([NCCL_CFLAGS], [" -isystem $with_nccl/include"])])
  gpub_saved_cppflags=$CPPFLAGS
  CPPFLAGS="$CPPFLAGS $NCCL_CFLAGS"
  AC_MSG_CHECKING([whether nccl.h compiles])
  AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <nccl.h>]], [[return (int)sizeof(ncclUniqueId) == 0;]])], [gpub_have_nccl=yes])
  AC_MSG_RESULT([$gpub_have_nccl])
  CPPFLAGS=$gpub_saved_cppflags
  AS_IF([test $gpub_have_mpi = 0], [gpub_have_nccl=no])
  AS_IF([test $gpub_have_nccl = yes], [gpub_nccl_summary=yes],
    [AS_CASE([$with_nccl], [guess], [],
      [AC_MSG_ERROR([--with-nccl was asked for, and heat --nccl cannot be built: $gpub_nccl_summary])])])])
AC_SUBST([NCCL_CFLAGS])
AM_CONDITIONAL([NCCL], [test $gpub_have_nccl = yes])])

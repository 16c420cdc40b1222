# SPDX-License-Identifier: Apache-2.0
# gpub_prefix_map.m4 - the folders that a build is made from and in do not reach its objects: in any folder they have the same bytes.

# After GPUB_CUDA. PREFIX_MAP is for compilers, also behind nvcc, whose temporary files have the names of its objects by
# NVCC_TEMPORARIES, and not its pid.
AC_DEFUN([GPUB_PREFIX_MAP],
[PREFIX_MAP=
GPUB_ADD_CFLAGS([PREFIX_MAP], [-ffile-prefix-map=/folder=.])
# Of those that fit a name, the last one is used: the build folder may be in that of the sources. The sources have their names
# from there, whether configure was called by an absolute or by a relative path.
AS_IF([test -n "$PREFIX_MAP"],
  [PREFIX_MAP='-ffile-prefix-map=$(top_srcdir)/= -ffile-prefix-map=$(abs_top_srcdir)/= -ffile-prefix-map=$(abs_top_builddir)=.'])
AC_SUBST([PREFIX_MAP])
NVCC_TEMPORARIES=
AS_IF([test "$gpub_have_toolkit" = 1 && $NVCC --help | grep -q -e --objdir-as-tempdir],
  [NVCC_TEMPORARIES=--objdir-as-tempdir])
AC_SUBST([NVCC_TEMPORARIES])])

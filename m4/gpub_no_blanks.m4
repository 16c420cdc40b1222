# SPDX-License-Identifier: Apache-2.0
# gpub_no_blanks.m4 - no folder that make or libtool is given has a blank in its name: they would take it for two.

AC_DEFUN([GPUB_NO_BLANKS],
[for gpub_folder in \
  "the folder of the sources:`cd "$srcdir" && pwd`" "the build folder:`pwd`" "--prefix:$prefix" "--exec-prefix:$exec_prefix" \
  "--bindir:$bindir" "--sbindir:$sbindir" "--libdir:$libdir" "--includedir:$includedir" "--mandir:$mandir" \
  "--datarootdir:$datarootdir" "--docdir:$docdir" "--sysconfdir:$sysconfdir" "--with-pkgconfigdir:$with_pkgconfigdir"; do
  [gpub_what=${gpub_folder%%:*} gpub_folder=${gpub_folder#*:}]
  AS_CASE([$gpub_folder],
    [*@<:@@<:@:space:@:>@@:>@*],
    [AC_MSG_ERROR([$gpub_what is '$gpub_folder', which has a blank in it. make and libtool cannot work with such a name: choose another folder.])])
done])

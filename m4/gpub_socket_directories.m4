# SPDX-License-Identifier: Apache-2.0

# GPUB_SOCKET_DIRECTORIES
# -----------------------
# Where root can appoint another user to serve everybody: a client trusts a server of a user that is neither its own nor
# root only in one of these directories (SECURITY.md). The C macro SOCKET_DIRECTORIES is their list, with colons between.
AC_DEFUN([GPUB_SOCKET_DIRECTORIES],
[AC_ARG_WITH([socket-directories],
  [AS_HELP_STRING([--with-socket-directories=LIST],
    [where a server may run as another user than root, DIR:DIR... (/run/gpubroker, which covers /run/gpubroker-NAME)])],
  [], [with_socket_directories=/run/gpubroker])
AS_CASE([:$with_socket_directories:],
  [*:[[!/]]*:* | *::* | */:*],
    [AC_MSG_ERROR([--with-socket-directories is a list of absolute paths, DIR:DIR..., without a / at their ends])])
AC_DEFINE_UNQUOTED([SOCKET_DIRECTORIES], ["$with_socket_directories"],
  [where a client may trust a server of another user: absolute paths with colons between them])
])

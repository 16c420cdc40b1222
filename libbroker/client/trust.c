/* SPDX-License-Identifier: Apache-2.0 */
/* trust.c - see trust.h */
#include "trust.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/environment.h"
#include "common/error.h"

#define PATH_SIZE sizeof(((struct sockaddr_un *)0)->sun_path)

static int directory_stat(const char *path, char directory[PATH_SIZE], struct stat *st)
{
	char *slash;

	strcpy(directory, path);
	slash = strrchr(directory, '/');
	if (!slash)
		strcpy(directory, ".");
	else
		slash[slash == directory] = 0;
	return stat(directory, st) ? error_set(-errno, "the socket's directory %s cannot be read: %m", directory) : 0;
}

/*
 * Checks the directory of the socket at `path`. -EPERM: users other than root and the server's user may write the
 * directory, and so could have put the socket there.
 */
static int directory_check(const char *path, uid_t server)
{
	char directory[PATH_SIZE];
	struct stat st;
	int error = directory_stat(path, directory, &st);

	if (error)
		return error;
	if ((st.st_uid && st.st_uid != server) || st.st_mode & (S_IWGRP | S_IWOTH))
		return error_set(-EPERM, "users other than the broker's may write the socket's directory %s: keep the "
					 "socket in one that only that user can write",
				 directory);
	return 0;
}

/*
 * Whether the path is in one of SOCKET_DIRECTORIES, or in such a directory with a suffix, as /run/gpubroker-NAME. A
 * directory elsewhere that root made for a user does not appoint the user as a broker, because each user has a home
 * directory and a /run/user/UID.
 */
static bool place_is_named(const char *path)
{
	const char *list = SOCKET_DIRECTORIES;
	size_t length;

	if (strstr(path, "/../"))
		return false;
	for (; *list; list += length + (list[length] == ':')) {
		length = strcspn(list, ":");
		if (!strncmp(path, list, length) && (path[length] == '/' || path[length] == '-'))
			return true;
	}
	return false;
}

/*
 * Whether root has appointed the server's user: has made the socket's directory in a place of place_is_named(), and
 * given it to that user, as systemd does. All directories above it must be root's, and writable by root only.
 */
static bool server_is_appointed(const char *path, uid_t server)
{
	char directory[PATH_SIZE];
	struct stat st;
	char *slash;

	if (!place_is_named(path))
		return false;
	strcpy(directory, path);
	slash = strrchr(directory, '/');
	*slash = 0;
	if (lstat(directory, &st) || !S_ISDIR(st.st_mode) || st.st_uid != server || st.st_mode & (S_IWGRP | S_IWOTH))
		return false;
	while ((slash = strrchr(directory, '/'))) {
		slash[slash == directory] = 0;
		if (lstat(directory, &st) || !S_ISDIR(st.st_mode) || st.st_uid || st.st_mode & (S_IWGRP | S_IWOTH))
			return false;
		if (slash == directory)
			return true;
	}
	return false;
}

/*
 * Whether the server runs as this program's user. False in a program with more rights than the user who started it, if
 * the server runs as that user, even if the uids are equal, as with set-group-ID.
 */
static bool is_own_user(uid_t server)
{
	return server == geteuid() && !(environment_is_untrusted() && server == getuid());
}

int trust_check(int sock, const char *path)
{
	struct ucred server;
	socklen_t size = sizeof server;

	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &server, &size))
		return error_set(-errno, "the server cannot be identified: %m");
	if (server.uid && !is_own_user(server.uid) && !server_is_appointed(path, server.uid))
		return error_set(-EPERM,
				 "the server at %s is not trusted: it runs as uid %u, neither %s nor root, and its "
				 "directory is not one that root made for it in " SOCKET_DIRECTORIES,
				 path, server.uid, environment_is_untrusted() ? "this program's user" : "this user");
	return directory_check(path, server.uid);
}

int trust_check_place(const char *path)
{
	char directory[PATH_SIZE];
	struct stat st;
	int error = directory_stat(path, directory, &st);

	if (error)
		return error;
	if (st.st_uid && !is_own_user(st.st_uid) && !server_is_appointed(path, st.st_uid))
		return error_set(-EPERM,
				 "no broker at %s would be trusted: its directory belongs to uid %u, neither this user "
				 "nor root, and is not one that root made in " SOCKET_DIRECTORIES,
				 path, st.st_uid);
	return directory_check(path, st.st_uid);
}

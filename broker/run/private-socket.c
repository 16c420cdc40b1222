/* SPDX-License-Identifier: Apache-2.0 */
/* private-socket.c - see private-socket.h */
#include "private-socket.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "broker/core/names.h"
#include "common/error.h"
#include "common/socket.h"

/*
 * Makes a listening socket at path. Returns its descriptor, or a negative errno; sets *own to lstat() of the socket's
 * file.
 */
static int listen_at(const char *path, struct stat *own)
{
	int fd = socket_listen(path, 0600), error;

	if (fd < 0 || !lstat(path, own))
		return fd;
	error = error_set(-errno, "the socket %s was removed while it was made: %m", path);
	close(fd);
	return error;
}

int private_socket_make(struct private_socket *socket, const char *name, const char *file)
{
	int error;

	socket->fd = -1;
	error = leftovers_directory_make(&socket->directory, name);
	if (error)
		return error;
	snprintf(socket->path, sizeof socket->path, "%s/%s", socket->directory.path, file);
	socket->fd = listen_at(socket->path, &socket->own);
	if (socket->fd >= 0)
		return 0;
	leftovers_directory_remove(&socket->directory);
	return socket->fd;
}

int private_socket_identify(const struct private_socket *socket)
{
	return socket->own.st_ino ? leftovers_identify(socket->path, &socket->own) : -ENOENT;
}

/* Sets the path that the socket was bound to. Returns its last '/', or NULL with the error message set. */
static char *bound_path(int fd, char *path, size_t size)
{
	struct sockaddr_un sun = { 0 };
	socklen_t length = sizeof sun - 1;
	char *name;

	if (getsockname(fd, (struct sockaddr *)&sun, &length) || sun.sun_family != AF_UNIX ||
	    snprintf(path, size, "%s", sun.sun_path) >= (int)size || !(name = strrchr(path, '/'))) {
		error_set(-ENOTSOCK, "a private socket cannot be taken over: it has no path");
		return NULL;
	}
	return name;
}

int private_socket_adopt(struct private_socket *socket, const struct private_socket_kept *kept)
{
	struct private_socket last = { .fd = kept->fd };
	char *name = bound_path(kept->fd, last.path, sizeof last.path);
	int error;

	if (!name)
		return -ENOTSOCK;
	if (kept->file >= 0 && fstat(kept->file, &last.own))
		return error_set(-errno, "the socket %s cannot be taken over: %m", last.path);
	*name = 0;
	error = leftovers_directory_adopt(&last.directory, last.path, kept->directory, kept->lock);
	*name = '/';
	if (!error)
		*socket = last;
	return error;
}

int private_socket_restore(struct private_socket *socket, int *former)
{
	int error = leftovers_directory_restore(&socket->directory), fd;
	struct stat own;

	if (error < 0)
		return error;
	if (leftovers_leads_to(socket->path, &socket->own))
		return 0;
	unlink(socket->path); /* removes another file at the path, if there is one: this user put it there */
	fd = listen_at(socket->path, &own);
	if (fd < 0)
		return fd;
	*former = socket->fd;
	socket->fd = fd;
	socket->own = own;
	return 1;
}

void private_socket_undo(struct private_socket *socket, int former)
{
	close(socket->fd);
	socket->fd = former;
	/* all zeroes, because no path leads to the former socket any more */
	memset(&socket->own, 0, sizeof socket->own);
}

void private_socket_watch(const struct private_socket *socket, struct names *names)
{
	names_path(names, "%s", socket->path);
	names_path(names, "%s/lock", socket->directory.path);
	names_path(names, "%s", socket->directory.path);
}

void private_socket_close(const struct private_socket *socket)
{
	if (socket->fd < 0)
		return;
	close(socket->fd);
	close(socket->directory.lock);
	if (socket->directory.fd >= 0)
		close(socket->directory.fd);
}

void private_socket_remove(struct private_socket *socket)
{
	if (socket->fd < 0)
		return;
	close(socket->fd);
	socket->fd = -1;
	leftovers_directory_remove(&socket->directory);
}

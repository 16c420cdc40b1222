/* SPDX-License-Identifier: Apache-2.0 */
/* socket.c - see socket.h */
#include "socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "activation.h"
#include "broker/status/leftovers.h"
#include "common/error.h"
#include "common/socket.h"
#include "configuration.h"

#define PATH_SIZE (sizeof(((struct brokerd_socket *)0)->path) + sizeof(".lock"))

/* ---- the directory ---- */

/* Checks that only root and the broker's user can write the directory: others could replace the socket. */
static int directory_check(const char *directory)
{
	struct stat st;

	if (stat(directory, &st))
		return error_set(-errno, "the socket's directory %s cannot be read: %m", directory);
	if (!S_ISDIR(st.st_mode))
		return error_set(-ENOTDIR, "%s is no directory: choose another place for the socket", directory);
	if ((st.st_uid && st.st_uid != geteuid()) || st.st_mode & (S_IWGRP | S_IWOTH))
		return error_set(-EPERM, "users other than the broker's may write the socket's directory %s: keep the "
					 "socket in one that only that user can write", directory);
	return 0;
}

static int directory_prepare(const char *path)
{
	char directory[sizeof(((struct brokerd_socket *)0)->path)];
	const char *end = strrchr(path, '/');
	mode_t before;
	int error = 0;

	snprintf(directory, sizeof directory, "%.*s", end == path ? 1 : (int)(end - path), path);
	before = umask(0022);
	if (mkdir(directory, 0755) && errno != EEXIST)
		error = error_set(-errno, "the socket's directory %s cannot be made: %m; make it, or choose another "
					  "place", directory);
	umask(before);
	return error ? error : directory_check(directory);
}

/* ---- the lock ---- */

static bool still_named(int fd, const char *path)
{
	struct stat own;

	return !fstat(fd, &own) && leftovers_leads_to(path, &own);
}

static void lock_path(const char *path, char lock[PATH_SIZE])
{
	snprintf(lock, PATH_SIZE, "%s.lock", path);
}

/*
 * Locks the lock file of the socket at path. Returns its descriptor or negative errno with the error message. The
 * kernel releases the lock when the process ends. If another process removed the file before it was locked, the lock is
 * useless, so makes another file.
 */
static int lock_take(const char *path)
{
	char lock[PATH_SIZE];
	int fd;

	lock_path(path, lock);
	for (;;) {
		fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd < 0)
			return error_set(-errno, "the lock %s cannot be made: %m", lock);
		if (leftovers_lock(fd)) {
			close(fd);
			return error_set(-EADDRINUSE, "another brokerd serves %s: stop it, or choose another socket",
					 path);
		}
		if (still_named(fd, lock))
			return fd;
		close(fd);
	}
}

static void lock_drop(int fd, const char *path)
{
	char lock[PATH_SIZE];

	lock_path(path, lock);
	if (still_named(fd, lock))
		unlink(lock);
	close(fd);
}

/* ---- the socket of a dead broker ---- */

/*
 * Tries to connect to the socket at path. Returns 0 or the negative errno of socket(2) or connect(2). Does not wait,
 * because the queue of a living, busy broker may be full.
 */
static int try_connect(const char *path)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error;

	if (sock < 0)
		return -errno;
	memcpy(sun.sun_path, path, strlen(path) + 1);
	error = connect(sock, (struct sockaddr *)&sun, sizeof sun) ? -errno : 0;
	close(sock);
	return error;
}

/* Removes the socket of a dead broker at path, if there is one. Fails if path is something else, or is listened at. */
static int stale_remove(const char *path)
{
	struct stat st;

	if (lstat(path, &st))
		return errno == ENOENT ? 0 : error_set(-errno, "%s cannot be read: %m", path);
	if (!S_ISSOCK(st.st_mode))
		return error_set(-EEXIST, "%s exists and is no socket: remove it, or choose another place", path);
	if (try_connect(path) != -ECONNREFUSED)
		return error_set(-EADDRINUSE,
				 "another process listens at %s already: stop it, or choose another socket", path);
	if (unlink(path))
		return error_set(-errno, "the socket %s of a dead broker cannot be removed: %m", path);
	return 0;
}

/* ---- the socket ---- */

static int let_in(const struct brokerd_config *config)
{
	if (config->group != BROKERD_NO_GROUP && chown(config->socket, (uid_t)-1, config->group))
		return error_set(-errno, "the socket cannot be given to group %u: %m; let the broker's user be in that "
					 "group", config->group);
	if (chmod(config->socket, config->mode))
		return error_set(-errno, "the mode of the socket %s cannot be set: %m", config->socket);
	return 0;
}

static int own_listen(struct brokerd_socket *own, const struct brokerd_config *config)
{
	mode_t before;
	int error = stale_remove(config->socket);

	if (error)
		return error;
	before = umask(0177);
	own->fd = socket_listen(config->socket, 0600);
	umask(before);
	if (own->fd < 0)
		return own->fd;
	error = let_in(config);
	if (!error && lstat(config->socket, &own->file))
		error = error_set(-errno, "the socket %s was removed while it was made: %m", config->socket);
	if (error) {
		close(own->fd);
		unlink(config->socket);
	}
	return error;
}

static int own_open(struct brokerd_socket *own, const struct brokerd_config *config)
{
	int error = directory_prepare(config->socket);

	if (error)
		return error;
	strcpy(own->path, config->socket);
	own->lock = lock_take(own->path);
	if (own->lock < 0)
		return own->lock;
	error = own_listen(own, config);
	if (error)
		lock_drop(own->lock, own->path);
	return error;
}

/* Sets path and file of a passed socket. In path "@" replaces the NUL with which an abstract name starts. */
static void passed_name(struct brokerd_socket *passed)
{
	struct sockaddr_un sun = { 0 };
	socklen_t size = sizeof sun;

	if (getsockname(passed->fd, (struct sockaddr *)&sun, &size))
		size = 0;
	if (size > offsetof(struct sockaddr_un, sun_path) && !*sun.sun_path)
		*sun.sun_path = '@';
	memcpy(passed->path, sun.sun_path, sizeof passed->path - 1);
	if (lstat(passed->path, &passed->file))
		memset(&passed->file, 0, sizeof passed->file);
}

int brokerd_socket_open(struct brokerd_socket *socket, const struct brokerd_config *config)
{
	memset(socket, 0, sizeof *socket);
	socket->lock = -1;
	socket->fd = activation_take();
	if (socket->fd == -ENOENT)
		return own_open(socket, config);
	if (socket->fd < 0)
		return socket->fd;
	passed_name(socket);
	return 0;
}

int brokerd_socket_identify(const struct brokerd_socket *socket)
{
	return socket->file.st_ino ? leftovers_identify(socket->path, &socket->file) : -ENOENT;
}

static bool is_listening(int fd)
{
	int listens = 0;
	socklen_t size = sizeof listens;

	return !getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) && listens;
}

int brokerd_socket_adopt(struct brokerd_socket *socket, int fd, int lock, int file)
{
	struct brokerd_socket last = { .fd = fd, .lock = lock };

	if (!is_listening(fd))
		return error_set(-ENOTSOCK, "the socket of the last brokerd cannot be taken over: it does not listen");
	passed_name(&last);
	memset(&last.file, 0, sizeof last.file);
	if (file >= 0 && fstat(file, &last.file))
		return error_set(-errno, "the socket %s cannot be taken over: %m", last.path);
	if (lock >= 0 && leftovers_lock(lock))
		return error_set(-EADDRINUSE, "the socket %s cannot be taken over: another process has its lock",
				 last.path);
	*socket = last;
	return 0;
}

/* Checks that a passed socket's path leads to it, if it has a file. Only the service manager can make it again. */
static int passed_check(const struct brokerd_socket *passed)
{
	if (!passed->file.st_ino || leftovers_leads_to(passed->path, &passed->file))
		return 0;
	return error_set(-ENOENT, "the socket %s was removed, and was passed on by a service manager, which alone can "
				  "make it again: restart its unit (systemctl restart gpubroker.socket)", passed->path);
}

static int lock_restore(struct brokerd_socket *own)
{
	char lock[PATH_SIZE];
	int fd;

	lock_path(own->path, lock);
	if (still_named(own->lock, lock))
		return 0;
	fd = lock_take(own->path);
	if (fd < 0)
		return fd;
	close(own->lock);
	own->lock = fd;
	return 0;
}

int brokerd_socket_restore(struct brokerd_socket *own, const struct brokerd_config *config, int *former)
{
	struct brokerd_socket again;
	int error;

	if (own->lock < 0)
		return passed_check(own);
	error = directory_prepare(own->path);
	if (!error)
		error = lock_restore(own);
	if (error || leftovers_leads_to(own->path, &own->file))
		return error;
	again = *own;
	error = own_listen(&again, config);
	if (error)
		return error;
	*former = own->fd;
	*own = again;
	return 1;
}

void brokerd_socket_undo(struct brokerd_socket *own, int former)
{
	close(own->fd);
	own->fd = former;
	memset(&own->file, 0, sizeof own->file); /* all zeroes, because no path leads to the former socket any more */
}

void brokerd_socket_close(struct brokerd_socket *socket)
{
	close(socket->fd);
	if (socket->lock < 0)
		return;
	if (leftovers_leads_to(socket->path, &socket->file))
		unlink(socket->path);
	lock_drop(socket->lock, socket->path);
}

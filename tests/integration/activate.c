/* SPDX-License-Identifier: Apache-2.0 */
/*
 * activate.c - passes sockets on as a service manager does, for brokerd.sh:
 *
 *     activate [pid=PID] [names=NAME:...] [KIND=PATH ...] -- COMMAND [ARGUMENT ...]
 *
 * KIND: packets (a listening socket of whole packets), stream (a listening one of bytes), silent (one of packets that
 * does not listen), file. They become descriptors 3, 4 and so on, in this order. PID is this process's unless given.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int socket_at(const char *path, int type, int listening)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int sock = socket(AF_UNIX, type, 0);

	snprintf(sun.sun_path, sizeof sun.sun_path, "%s", path);
	if (sock < 0 || bind(sock, (struct sockaddr *)&sun, sizeof sun) || (listening && listen(sock, 10)))
		return -1;
	return sock;
}

static int make(const char *kind, const char *path)
{
	if (!strcmp(kind, "packets"))
		return socket_at(path, SOCK_SEQPACKET, 1);
	if (!strcmp(kind, "stream"))
		return socket_at(path, SOCK_STREAM, 1);
	if (!strcmp(kind, "silent"))
		return socket_at(path, SOCK_SEQPACKET, 0);
	return open(path, O_RDWR | O_CREAT, 0600);
}

static int pass(const char *kind, const char *path, int fd)
{
	int made = make(kind, path);

	if (made < 0 || (made != fd && (dup2(made, fd) < 0 || close(made))))
		return -1;
	return 0;
}

int main(int argc, char **argv)
{
	char count[16], pid[16];
	int passed = 0;

	(void)argc;
	/* what the shell left open there is not passed on */
	for (int fd = 3; fd < 20; fd++)
		close(fd);
	snprintf(pid, sizeof pid, "%d", getpid());
	while (*++argv && strcmp(*argv, "--")) {
		char *value = strchr(*argv, '=');

		if (!value)
			return 99;
		*value++ = 0;
		if (!strcmp(*argv, "pid"))
			snprintf(pid, sizeof pid, "%s", value);
		else if (!strcmp(*argv, "names"))
			setenv("LISTEN_FDNAMES", value, 1);
		else if (pass(*argv, value, 3 + passed++))
			return 99;
	}
	snprintf(count, sizeof count, "%d", passed);
	setenv("LISTEN_FDS", count, 1);
	setenv("LISTEN_PID", pid, 1);
	if (*argv)
		execv(argv[1], argv + 1);
	return 99;
}

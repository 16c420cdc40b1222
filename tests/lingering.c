/* SPDX-License-Identifier: Apache-2.0 */
/* lingering.c - see lingering.h */
#include "tests/lingering.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

/* Gives the socket another end, and returns that; or -1. */
static int connect_far(int near)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof at;
	int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), far = -1;

	if (server < 0)
		return -1;
	if (!bind(server, (struct sockaddr *)&at, size) && !listen(server, 1) &&
	    !getsockname(server, (struct sockaddr *)&at, &size) && !connect(near, (struct sockaddr *)&at, size))
		far = accept4(server, NULL, NULL, SOCK_CLOEXEC);
	close(server);
	return far;
}

int lingering_socket(int *far, int seconds)
{
	struct linger linger = { .l_onoff = 1, .l_linger = seconds };
	int near = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), accepted;
	static const char much[1 << 16];

	if (near < 0)
		return -1;
	accepted = setsockopt(near, SOL_SOCKET, SO_LINGER, &linger, sizeof linger) ? -1 : connect_far(near);
	if (accepted < 0) {
		close(near);
		return -1;
	}
	while (send(near, much, sizeof much, MSG_DONTWAIT) > 0)
		;
	*far = accepted;
	return near;
}

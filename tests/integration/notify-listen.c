/* SPDX-License-Identifier: Apache-2.0 */
/*
 * notify-listen.c - a service manager's socket, for brokerd.sh: prints what is sent to the datagram socket that it
 * makes, one message a line, its lines separated by blanks.
 *
 *     notify-listen /PATH | @NAME
 *
 * Prints "listening" first. Ends when it is killed, or after three minutes.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int listen_at(const char *address)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	size_t length = strlen(address);
	int sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (sock < 0 || length >= sizeof sun.sun_path)
		return -1;
	memcpy(sun.sun_path, address, length);
	if (*address == '@')
		sun.sun_path[0] = 0;
	else
		length++;
	return bind(sock, (struct sockaddr *)&sun, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)) ? -1 :
														   sock;
}

int main(int argc, char **argv)
{
	char text[2048];
	int sock = argc == 2 ? listen_at(argv[1]) : -1;
	ssize_t got;

	alarm(180);
	if (sock < 0) {
		perror("notify-listen");
		return 1;
	}
	setlinebuf(stdout);
	puts("listening");
	while ((got = recv(sock, text, sizeof text - 1, 0)) >= 0) {
		text[got] = 0;
		for (char *c = text; *c; c++)
			if (*c == '\n')
				*c = ' ';
		puts(text);
	}
	return 1;
}

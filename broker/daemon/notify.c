/* SPDX-License-Identifier: Apache-2.0 */
/* notify.c - see notify.h */
#include "notify.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "broker/base/log.h"

#define MESSAGE_MAX 512

/*
 * Connects a socket to the path, or to the abstract name with '@' in place of its NUL. Returns the descriptor or
 * negative errno.
 */
static int connect_to(const char *address)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	size_t length = strlen(address);
	int fd, error;

	if ((*address != '/' && *address != '@') || length < 2)
		return -EAFNOSUPPORT;
	if (length >= sizeof sun.sun_path)
		return -ENAMETOOLONG;
	memcpy(sun.sun_path, address, length);
	if (*address == '@')
		sun.sun_path[0] = 0;
	else
		length++;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (!connect(fd, (struct sockaddr *)&sun, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)))
		return fd;
	error = -errno;
	close(fd);
	return error;
}

/* Returns half of the watchdog's interval in microseconds; 0: no watchdog watches this process. */
static uint64_t watchdog_interval(void)
{
	const char *interval = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");

	if (!interval || (pid && strtol(pid, NULL, 10) != getpid()))
		return 0;
	return strtoull(interval, NULL, 10) / 2;
}

void notify_open(struct notify *notify)
{
	const char *address = getenv("NOTIFY_SOCKET");

	*notify = (struct notify){ .fd = -1 };
	if (address && *address) {
		notify->fd = connect_to(address);
		if (notify->fd < 0)
			log_say("the service manager at NOTIFY_SOCKET '%.100s' cannot be reached: %s", address,
				strerror(-notify->fd));
		else
			notify->watchdog_us = watchdog_interval();
	}
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
}

void notify_close(struct notify *notify)
{
	if (notify->fd >= 0)
		close(notify->fd);
	notify->fd = -1;
}

static void send_text(const struct notify *notify, const char *text)
{
	if (notify->fd >= 0 && send(notify->fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		log_line("the service manager did not get a message: %m");
}

void notify_send(const struct notify *notify, enum notify_state state, unsigned seconds, const char *format, ...)
{
	static const char *const names[] = { "READY=1", "RELOADING=1", "STOPPING=1" };
	char text[MESSAGE_MAX], status[400], more[64] = "";
	struct timespec now;
	va_list args;

	va_start(args, format);
	vsnprintf(status, sizeof status, format, args);
	va_end(args);
	status[strcspn(status, "\n")] = 0;
	/* the service manager needs the time to know that only a later READY=1 ends this reload */
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (state == NOTIFY_RELOADING)
		snprintf(more, sizeof more, "\nMONOTONIC_USEC=%lld",
			 (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000);
	if (state == NOTIFY_STOPPING)
		snprintf(more, sizeof more, "\nEXTEND_TIMEOUT_USEC=%u000000", seconds);
	snprintf(text, sizeof text, "%s%s\nSTATUS=%s", names[state], more, status);
	send_text(notify, text);
}

void notify_alive(const struct notify *notify)
{
	send_text(notify, "WATCHDOG=1");
}

/* SPDX-License-Identifier: Apache-2.0 */
/* weather.c - see weather.h */
#include "weather.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/socket.h"

static bool is_there(const char *path)
{
	struct stat st;

	return !stat(path, &st);
}

/* A socket has its name a moment before it accepts connections. */
static bool accepts(const struct broker_process *broker)
{
	struct sockaddr_un sun;
	int fd = socket_address(broker->address, &sun) ? -1 : socket_connect(&sun);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

bool broker_weather(const struct broker_process *broker, unsigned which)
{
	const int signals[] = { SIGUSR1, SIGIO, SIGALRM, SIGVTALRM, SIGPROF, SIGXCPU, SIGRTMIN };
	const unsigned count = sizeof signals / sizeof *signals;
	char path[64];

	which %= WEATHERS;
	snprintf(path, sizeof path, "/dev/shm/gpubroker.%s", broker->instance);
	if (which < count)
		return !kill(broker->pid, signals[which]) && !kill(server_of(broker->pid), signals[which]);
	if (which == count)
		return !unlink(path) && SOON(is_there(path));
	return which > count + 1 || (!unlink(broker->address + strlen("unix:")) && SOON(accepts(broker)));
}

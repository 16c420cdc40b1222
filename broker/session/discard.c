/* SPDX-License-Identifier: Apache-2.0 */
/* discard.c - see discard.h */
#include "discard.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/error.h"
#include "common/socket.h"
#include "common/thread.h"

#define ENOUGH_MAX  4096 /* a quarter of what fits into a pipe */
#define ENOUGH_PART 8    /* of the descriptors that the process may have */

/* Ends when the broker closed its end of the pipe and everything in the pipe is closed. */
static void *discard_main(void *argument)
{
	int pipe = (int)(intptr_t)argument, fd;

	while (read(pipe, &fd, sizeof fd) == sizeof fd)
		close(fd);
	close(pipe);
	return NULL;
}

/* Clients that connected before the listener refused descriptors can still send some. */
static bool somebody_waits(int listener)
{
	struct pollfd p = { .fd = listener, .events = POLLIN };

	return poll(&p, 1, 0) != 0;
}

int discard_start(struct discard *discard, int listener)
{
	memset(discard, 0, sizeof *discard);
	return socket_refuse_descriptors(listener) && !somebody_waits(listener) ? 0 : discard_start_always(discard);
}

static unsigned enough(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur / ENOUGH_PART > ENOUGH_MAX)
		return ENOUGH_MAX;
	return (unsigned)limit.rlim_cur / ENOUGH_PART;
}

int discard_start_always(struct discard *discard)
{
	int ends[2], error;

	if (pipe2(ends, O_CLOEXEC))
		return error_set(-errno, "no pipe could be made: %m");
	if (fcntl(ends[1], F_SETFL, O_NONBLOCK))
		error = error_set(-errno, "the pipe cannot be made non-blocking: %m");
	else
		error = thread_start(&discard->thread, discard_main, (void *)(intptr_t)ends[0]);
	if (error) {
		close(ends[0]);
		close(ends[1]);
		return error;
	}
	discard->pipe = ends[1];
	discard->enough = enough();
	discard->needed = true;
	return 0;
}

void discard_stop(struct discard *discard)
{
	struct timespec deadline;

	if (!discard->needed)
		return;
	discard->needed = false;
	close(discard->pipe);
	clock_gettime(CLOCK_REALTIME, &deadline);
	deadline.tv_sec++;
	if (pthread_timedjoin_np(discard->thread, NULL, &deadline))
		pthread_detach(discard->thread);
}

/* With those of the packet that comes last. */
unsigned discard_most(const struct discard *discard)
{
	return discard->needed ? discard->enough + SOCKET_DESCRIPTORS_MAX : 0;
}

void discard_close(struct discard *discard, const int *fds, unsigned count)
{
	/* at most SOCKET_DESCRIPTORS_MAX, so all or none are written */
	if (count && discard->needed && write(discard->pipe, fds, count * sizeof *fds) < 0)
		return; /* a full pipe leaves them open: better than a loop that hangs */
}

bool discard_is_full(const struct discard *discard)
{
	int bytes = 0;

	if (!discard->needed || ioctl(discard->pipe, FIONREAD, &bytes))
		return false;
	return (unsigned)bytes >= discard->enough * sizeof(int);
}

bool discard_message(struct discard *discard, int sock)
{
	struct wire_message message;
	struct socket_extra extra;
	int error;

	if (discard_is_full(discard))
		return false;
	error = socket_receive(sock, &message, &extra, false, MSG_DONTWAIT);
	discard_close(discard, extra.unwanted, extra.unwanted_count);
	/* an empty message comes with its sender, the end of file does not */
	return error != -EAGAIN && (error != -ECONNRESET || extra.has_sender);
}

void discard_socket(struct discard *discard, int sock)
{
	/* after the shutdown nothing more can be sent to it */
	if (discard->needed && !shutdown(sock, SHUT_RDWR))
		while (discard_message(discard, sock))
			;
	close(sock);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* discard.c - see discard.h */
#include "discard.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/socket.h"
#include "common/thread.h"

#define ENOUGH_MAX  4096 /* descriptors that wait: then none are fetched that could stay where they are; or a */
#define ENOUGH_PART 8    /* part of those that the process may have */

/* The next one; -1: it is over. */
static int discard_next(struct discard *discard)
{
	int fd = -1;

	pthread_mutex_lock(&discard->lock);
	while (!discard->count && !discard->stopping)
		pthread_cond_wait(&discard->work, &discard->lock);
	if (discard->count)
		fd = discard->fds[--discard->count];
	pthread_mutex_unlock(&discard->lock);
	return fd;
}

static void *discard_main(void *argument)
{
	int fd;

	while ((fd = discard_next(argument)) >= 0)
		close(fd);
	return NULL;
}

/* Who connected before the listener refused descriptors can still send some. */
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

/* Of a process that may have few, they must not be most. */
static unsigned enough(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur / ENOUGH_PART > ENOUGH_MAX)
		return ENOUGH_MAX;
	return (unsigned)limit.rlim_cur / ENOUGH_PART;
}

int discard_start_always(struct discard *discard)
{
	int error;

	discard->enough = enough();
	pthread_mutex_init(&discard->lock, NULL);
	pthread_cond_init(&discard->work, NULL);
	error = thread_start(&discard->thread, discard_main, discard);
	discard->needed = !error;
	return error;
}

void discard_stop(struct discard *discard)
{
	struct timespec deadline;

	if (!discard->needed)
		return;
	pthread_mutex_lock(&discard->lock);
	discard->stopping = true;
	pthread_cond_signal(&discard->work);
	pthread_mutex_unlock(&discard->lock);
	clock_gettime(CLOCK_REALTIME, &deadline);
	deadline.tv_sec++;
	if (pthread_timedjoin_np(discard->thread, NULL, &deadline))
		pthread_detach(discard->thread);
	else
		free(discard->fds);
	discard->needed = false;
}

/* With those of the packet that comes last. */
unsigned discard_most(const struct discard *discard)
{
	return discard->needed ? discard->enough + SOCKET_DESCRIPTORS_MAX : 0;
}

/* -ENOMEM. Locked. */
static int discard_grow(struct discard *discard, unsigned count)
{
	unsigned room = 2 * (discard->count + count);
	int *fds = room > discard->room ? realloc(discard->fds, room * sizeof *fds) : discard->fds;

	if (!fds)
		return -ENOMEM;
	discard->fds = fds;
	discard->room = room > discard->room ? room : discard->room;
	return 0;
}

void discard_close(struct discard *discard, const int *fds, unsigned count)
{
	if (!count)
		return;
	pthread_mutex_lock(&discard->lock);
	if (discard->count + count > discard->room && discard_grow(discard, count)) {
		/* left open: rather a descriptor less than a loop that hangs */
		pthread_mutex_unlock(&discard->lock);
		return;
	}
	memcpy(discard->fds + discard->count, fds, count * sizeof *fds);
	discard->count += count;
	pthread_cond_signal(&discard->work);
	pthread_mutex_unlock(&discard->lock);
}

static bool takes_more(struct discard *discard)
{
	bool more;

	if (!discard->needed)
		return true;
	pthread_mutex_lock(&discard->lock);
	more = discard->count < discard->enough;
	pthread_mutex_unlock(&discard->lock);
	return more;
}

bool discard_message(struct discard *discard, int sock)
{
	struct wire_message message;
	struct socket_extra extra;
	int error;

	if (!takes_more(discard))
		return false;
	error = socket_receive(sock, &message, &extra, false, MSG_DONTWAIT);
	discard_close(discard, extra.unwanted, extra.unwanted_count);
	/* an empty message has its sender beside it, the end of file has not */
	return error != -EAGAIN && (error != -ECONNRESET || extra.has_sender);
}

void discard_socket(struct discard *discard, int sock)
{
	/* nothing more can be sent, so that what is there is all */
	if (discard->needed && !shutdown(sock, SHUT_RDWR))
		while (discard_message(discard, sock))
			;
	close(sock);
}

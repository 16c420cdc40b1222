/* SPDX-License-Identifier: Apache-2.0 */
/* link.c - see link.h */
#include "link.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/error.h"

/*
 * A sleep of the service thread that has no timeout ends after link->look_ms milliseconds, which grows from
 * LOOK_FIRST_MS to LOOK_LAST_MS, to check the descriptors again. The program may close all descriptors between the
 * check and the sleep, or a child that was made without atfork handlers may keep copies of them, and then nothing wakes
 * the thread.
 */
#define LOOK_FIRST_MS 250
#define LOOK_LAST_MS  64000

#define TRIES 3 /* calls of epoll_ctl(2) at most, because the kernel may be short of memory for a moment */

void link_init(struct link *link)
{
	link->sock = link->trip[0] = link->trip[1] = OWNED_FD_NONE;
	link->watch = -1;
	atomic_store(&link->lost, false);
	link->fresh = false;
	link->look_ms = LOOK_FIRST_MS;
}

/* ---- what is wrong ---- */

const char *link_lost_text(const struct link *link)
{
	return atomic_load(&link->lost) ? OWNED_FD_LOST : "the broker is gone: connect to a new one";
}

int link_lost_error(const struct link *link)
{
	return error_set(-ECONNRESET, "%s", link_lost_text(link));
}

int link_check(struct link *link)
{
	if (!atomic_load(&link->lost) && owned_fd_stands(&link->sock))
		return 0;
	atomic_store(&link->lost, true);
	return link_lost_error(link);
}

bool link_is_fresh(struct link *link)
{
	link->fresh = link->fresh || !link_check(link);
	return link->fresh;
}

/*
 * Whether link->watch still names the library's epoll. An epoll's file has no inode of its own, but no other epoll has
 * the library's socket in it. So an attempt to add the socket fails with EEXIST, without an effect, only if the epoll
 * is the library's.
 */
static bool watch_stands(const struct link *link)
{
	struct epoll_event none = { 0 };

	if (link->watch < 0 || !owned_fd_stands(&link->sock))
		return false;
	for (int tries = 0; tries < TRIES; tries++) {
		if (!epoll_ctl(link->watch, EPOLL_CTL_ADD, link->sock.fd, &none)) {
			epoll_ctl(link->watch, EPOLL_CTL_DEL, link->sock.fd, NULL);
			return false;
		}
		if (errno != ENOMEM)
			return errno == EEXIST;
	}
	return false;
}

bool link_stands(struct link *link)
{
	bool stands = !atomic_load(&link->lost) && watch_stands(link) && owned_fd_stands(&link->trip[0]);

	if (!stands)
		atomic_store(&link->lost, true);
	return stands;
}

/* ---- the service thread's sleep ---- */

static int no_descriptor(void)
{
	return error_set(-errno, "no descriptor is left in this process to watch the broker with: %m");
}

static int watch_make(struct link *link)
{
	struct epoll_event event = { .events = EPOLLIN };
	int error, watch = epoll_create1(EPOLL_CLOEXEC);

	if (watch < 0)
		return no_descriptor();
	if (epoll_ctl(watch, EPOLL_CTL_ADD, link->sock.fd, &event)) {
		error = no_descriptor();
		close(watch);
		return error;
	}
	link->watch = watch;
	return 0;
}

int link_watch(struct link *link)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return no_descriptor();
	owned_fd_take(&link->trip[0], pair[0]);
	owned_fd_take(&link->trip[1], pair[1]);
	return watch_make(link);
}

/*
 * EPOLL_CTL_MOD changes the library's epoll, or fails without an effect, because no other epoll has the library's
 * socket in it.
 */
bool link_watch_for(struct link *link, uint32_t events)
{
	struct epoll_event event = { .events = events };

	return !epoll_ctl(link->watch, EPOLL_CTL_MOD, link->sock.fd, &event);
}

/*
 * Sleeps until `fd` can be read, the program has closed trip[1], or timeout_ms milliseconds have passed. If the program
 * closes all descriptors meanwhile, poll(2) still has both files, and trip[0] reports the end of trip[1]. Reads
 * nothing, so no harm is done if the numbers name files of the program. *ready: whether fd can be read. Returns the
 * result of poll(2).
 */
static int sleep_on(struct link *link, int fd, int timeout_ms, bool *ready)
{
	struct pollfd on[2] = { { .fd = fd, .events = POLLIN }, { .fd = link->trip[0].fd } };
	int count = poll(on, 2, timeout_ms);

	if (on[1].revents)
		atomic_store(&link->lost, true);
	*ready = on[0].revents & POLLIN;
	return count;
}

bool link_sleep(struct link *link, int timeout_ms)
{
	bool ready;
	int count = sleep_on(link, link->watch, timeout_ms < 0 ? link->look_ms : timeout_ms, &ready);

	if (count || timeout_ms >= 0)
		link->look_ms = LOOK_FIRST_MS;
	else if (link->look_ms < LOOK_LAST_MS)
		link->look_ms *= 4;
	return ready;
}

bool link_await(struct link *link, int timeout_ms)
{
	bool ready;

	sleep_on(link, link->sock.fd, timeout_ms, &ready);
	return ready;
}

uint32_t link_events(const struct link *link)
{
	struct epoll_event event = { 0 };

	epoll_wait(link->watch, &event, 1, 0);
	return event.events;
}

/* ---- the end ---- */

void link_shutdown(struct link *link, int how)
{
	if (owned_fd_stands(&link->sock))
		shutdown(link->sock.fd, how);
	else if (owned_fd_stands(&link->trip[1]))
		shutdown(link->trip[1].fd, SHUT_RDWR);
}

/* Closes link->watch first, because watch_stands() needs the socket. */
void link_close(struct link *link)
{
	if (watch_stands(link))
		close(link->watch);
	link->watch = -1;
	owned_fd_close(&link->sock);
	owned_fd_close(&link->trip[0]);
	owned_fd_close(&link->trip[1]);
}

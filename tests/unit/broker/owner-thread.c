/* SPDX-License-Identifier: Apache-2.0 */
/* owner-thread.c - see owner-thread.h */
#include "owner-thread.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/thread.h"
#include "device/host.h"

struct service owner_thread_service;
const struct device *owner_thread_device;
bool (*owner_thread_starts)(void);
bool owner_thread_crashes;

static pthread_t thread;
static bool is_joined;
static int owners_end;

static void *serve(void *argument)
{
	(void)argument;
	if ((!owner_thread_starts || owner_thread_starts()) &&
	    !owner_serve_setup(&owner_thread_service, owners_end)) {
		if (owner_thread_device)
			owner_thread_service.device = owner_thread_device;
		owner_serve_lanes(&owner_thread_service, owners_end);
	}
	owner_leave();
	close(owners_end);
	return NULL;
}

static void *serve_lanes(void *argument)
{
	(void)argument;
	owner_serve_lanes(&owner_thread_service, owners_end);
	close(owners_end);
	return NULL;
}

static void join(void)
{
	if (!is_joined)
		pthread_join(thread, NULL);
	is_joined = true;
}

static bool has_ended(const struct owner_link *link)
{
	return poll(&(struct pollfd){ .fd = link->ended, .events = POLLIN }, 1, 0) == 1;
}

static void end(struct owner_link *link)
{
	if (link->sock < 0)
		return;
	link->crashed = has_ended(link);
	link->killed = link->crashed && !owner_thread_crashes;
	if (link->crashed)
		owner_link_drop(link);
	else
		owner_link_close(link);
	join();
}

static int begin_by(struct owner_link *link, void *(*function)(void *))
{
	eventfd_t ends;
	int error;

	(void)eventfd_read(link->ended, &ends);
	owners_end = owner_link_open(link);
	if (owners_end < 0)
		return owners_end;
	error = thread_start(&thread, function, NULL);
	is_joined = error;
	if (!error)
		return 0;
	close(owners_end);
	close(link->sock);
	link->sock = -1;
	return error;
}

static int begin(struct owner_link *link)
{
	return begin_by(link, serve);
}

static int open_place(struct owner_link *link)
{
	*link = (struct owner_link){ .sock = -1 };
	link->ended = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return link->ended < 0 ? -errno : 0;
}

static void close_place(struct owner_link *link)
{
	if (link->ended >= 0)
		close(link->ended);
	link->ended = -1;
}

/* Does not end it: owner_thread_die() and owner_thread_gone() do. */
static void kill_not(struct owner_link *link)
{
	(void)link;
}

const struct owner_place owner_thread = { open_place, begin, kill_not, end, close_place };

int owner_thread_begin_with(struct owner_link *link, const struct device *device, unsigned devices)
{
	struct owner_facts facts;
	int error;

	owner_thread_service = (struct service){ .device = device, .facts.count = devices };
	error = open_place(link);
	if (!error)
		error = begin_by(link, serve_lanes);
	if (error)
		return error;
	error = owner_link_lanes(link, devices + 1);
	while (!error && (error = owner_link_answer(link, &facts)) == -EAGAIN)
		error = poll(NULL, 0, 1);
	if (error)
		end(link);
	return error;
}

void owner_thread_use(const struct device *device)
{
	for (unsigned i = 0; i < owner_thread_service.started; i++)
		owner_thread_service.server[i].owner.device = device;
}

/* The broker's ends are shut down, because the owner's are closed by its threads at any time. Both ends notice. */
void owner_thread_die(const struct owner_link *link)
{
	shutdown(link->sock, SHUT_RDWR);
	for (unsigned i = 0; i < link->lanes; i++)
		shutdown(link->lane[i], SHUT_RDWR);
}

void owner_thread_gone(const struct owner_link *link)
{
	join();
	host_end_owner();
	eventfd_write(link->ended, 1);
}

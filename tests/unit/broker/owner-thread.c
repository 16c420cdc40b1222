/* SPDX-License-Identifier: Apache-2.0 */
/* owner-thread.c - see owner-thread.h */
#include "owner-thread.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "common/thread.h"

struct service owner_thread_service;

static pthread_t thread;
static int owners_end;

static void *serve(void *argument)
{
	(void)argument;
	owner_serve(&owner_thread_service, owners_end);
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

static void end(struct owner_link *link)
{
	if (link->sock < 0)
		return;
	owner_link_close(link);
	pthread_join(thread, NULL);
}

static int begin_by(struct owner_link *link, void *(*function)(void *))
{
	int error;

	owners_end = owner_link_open(link);
	if (owners_end < 0)
		return owners_end;
	error = thread_start(&thread, function, NULL);
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
	*link = (struct owner_link){ .parent = -1, .ended = -1, .sock = -1 };
	return 0;
}

/* A thread cannot be killed: it carries out what it has. */
static void do_nothing(struct owner_link *link)
{
	(void)link;
}

const struct owner_place owner_thread = { open_place, begin, do_nothing, end, do_nothing };

int owner_thread_begin_with(struct owner_link *link, const struct device *device, unsigned devices)
{
	struct owner_facts facts;
	int error;

	owner_thread_service = (struct service){ .device = device };
	(void)open_place(link);
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

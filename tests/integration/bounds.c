/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bounds.c - the bounds of a lease, on the host device: a copy that leaves its buffer is refused, and what runs over a
 * buffer's end is found, whatever the buffer's size and whoever its neighbours are.
 *
 * A process that is found ends by SIGABRT, with a report, so each such case is a puppet of its own.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "harness.h"

static struct broker_process broker;

static int do_make(const struct order *order)
{
	gpub_spec spec = GPUB_SPEC_INIT;

	spec.size = order->size;
	spec.flags = order->flags;
	return gpub_create(client, order->name, &spec);
}

static int copy_at(const gpub_lease *at, uint64_t from, uint64_t size)
{
	static char host[1 << 21];
	int to = gpub_copy_on(client, (char *)at->ptr + from, host, size, work);
	int back = gpub_copy_on(client, host, (const char *)at->ptr + from, size, work);
	int error = gpub_stream_sync(work);

	return to == back ? (to ? to : error) : -EPROTO;
}

/* Copies both ways that keep to the lease, then such as do not. */
static int do_copies(const struct order *order)
{
	const gpub_lease *u = &lease[0];
	if (u->size != order->size || copy_at(u, 0, u->size) || copy_at(u, u->size - 1, 1))
		return -1;
	if (copy_at(u, 0, u->size + 1) != -EINVAL || !strstr(gpub_strerror_last(), "behind the end of 'u"))
		return -2;
	if (copy_at(u, u->size, 1) != -EINVAL || copy_at(u, u->size - 1, 2) != -EINVAL)
		return -3;
	return copy_at(u, 0, UINT64_MAX) == -EINVAL ? 0 : -4;
}

/* One byte behind the buffer: by a kernel that is given its address (value 0), or by this process itself. */
static int do_overrun(const struct order *order)
{
	const gpub_lease *u = &lease[0];

	if (!order->value)
		return late_write((uint64_t *)((char *)u->ptr + (u->size & ~(uint64_t)7)), 1, 0) ?
			       -1 : gpub_stream_sync(work);
	((volatile char *)u->ptr)[u->size]++;
	return 0;
}

static int do_release(const struct order *order)
{
	int error = gpub_return(&lease[0]);

	(void)order;
	return error ? error : gpub_trim(client);
}

/* An access to the buffer after its last lease was returned, its name taken away, and the mapping trimmed. */
static int do_use_late(const struct order *order)
{
	volatile char *ptr = lease[0].ptr;
	int error = gpub_unlink(client, order->name);

	if (!error)
		error = do_release(order);
	return error ? error : ++*ptr;
}

/* The signal that ended it while it did that; 0: it did it. */
static int ended_by(struct puppet *puppet, struct order order)
{
	int status = 0;
	char first;

	puppet_tell(puppet, order);
	if (recv(puppet->sock, &first, 1, MSG_PEEK) > 0)
		return receive(puppet);
	waitpid(puppet->pid, &status, 0);
	return WIFSIGNALED(status) ? WTERMSIG(status) : -1;
}

/*
 * Makes a buffer of that size, and a process of its own that has it open: what ends that process leaves its marks
 * behind the buffer. Returns an order with the buffer's name.
 */
static struct order start_with(struct puppet *puppet, struct puppet *owner, uint64_t size, unsigned flags)
{
	static unsigned number;
	struct order order = { .run = do_make, .size = size, .flags = flags };

	snprintf(order.name, sizeof order.name, "u%u", number++);
	puppet_tell(owner, order);
	receive(owner);
	puppet_start(puppet, &broker);
	ask(puppet, do_connect);
	ask(puppet, do_stream);
	order.run = do_acquire;
	puppet_tell(puppet, order);
	if (receive(puppet))
		bail_out("a buffer of %llu bytes cannot be had: %s", (unsigned long long)size, puppet->last.text);
	return order;
}

static void size_is_kept(struct puppet *owner, uint64_t size, unsigned flags)
{
	const char *what = flags ? " alone" : "";
	struct order order;
	struct puppet one;
	int signal;

	start_with(&one, owner, size, flags);
	POINT(!ask(&one, do_copies, .size = size), "copies keep to %llu bytes%s (%d)", (unsigned long long)size, what,
	      one.last.result);
	signal = ended_by(&one, (struct order){ .run = do_overrun });
	POINT(signal == SIGABRT, "a kernel that writes behind %llu bytes%s is stopped (%d)", (unsigned long long)size,
	      what, signal);
	start_with(&one, owner, size, flags);
	signal = ended_by(&one, (struct order){ .run = do_overrun, .value = 1 });
	if (!signal)
		signal = ended_by(&one, (struct order){ .run = do_release });
	POINT(signal == SIGABRT, "a store behind %llu bytes%s is found at once, or when they are closed (%d)",
	      (unsigned long long)size, what, signal);
	order = start_with(&one, owner, size, flags);
	order.run = do_use_late;
	signal = ended_by(&one, order);
	POINT(signal == SIGABRT, "a use of %llu bytes%s after they were closed is reported (%d)",
	      (unsigned long long)size, what, signal);
}

int main(void)
{
	static const uint64_t sizes[] = { 1,	100,   192,   193,   255,   256,   1000,    1024,   4095,
					  4096, 32704, 32705, 32768, 65536, 65537, 1000000, 1048576 };
	struct puppet owner;

	harness_begin("bounds", 120);
	broker_start(&broker, "host");
	puppet_start(&owner, &broker);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		size_is_kept(&owner, sizes[i], 0);
	size_is_kept(&owner, 256, GPUB_DEDICATED);
	size_is_kept(&owner, 4096, GPUB_DEDICATED);
	puppet_end(&owner);
	broker_end(&broker);
	return harness_end();
}

/* SPDX-License-Identifier: Apache-2.0 */
/* receiver.c - see receiver.h */
#include "receiver.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cache.h"
#include "client.h"
#include "clock.h"
#include "common/error.h"
#include "common/now.h"
#include "common/socket.h"
#include "messages.h"

#define SPIN_US        25     /* how long to poll, in microseconds: longer than a broker on another processor needs */
#define SPIN_PAUSES    10     /* limit on spin.misses, with each of which spin.pause doubles */
#define LOOK_US        200000 /* limit on a read, after which the reader checks its deadline and the link */
#define WATCH_TRIES    100    /* attempts to set the watch's events, which take a tenth of a second together */
#define WATCH_PAUSE_US 1000   /* pause between two attempts */

/* For the reader: ends the waits of all callers, because no more messages will come. Returns -ECONNRESET. */
static int reading_end(struct gpub_client *client)
{
	client->over = true;
	/*
	 * a shutdown wakes the service thread, which then exits; if the link is lost, the broker must see the end, too
	 */
	link_shutdown(&client->link, atomic_load(&client->link.lost) ? SHUT_RDWR : SHUT_RD);
	messages_ended(client);
	return -ECONNRESET;
}

/* For the reader: calls reading_end() if the program has closed a descriptor of the link. */
static void end_if_lost(struct gpub_client *client)
{
	if (!client->over && !link_stands(&client->link))
		reading_end(client);
}

/*
 * For the reader: sets which events of the socket wake the service thread. False: the link is lost, or memory is short.
 */
static bool watch_for(struct gpub_client *client, uint32_t events)
{
	return link_is_fresh(&client->link) && link_watch_for(&client->link, events);
}

/*
 * As watch_for(), for a reader that ends. Then watch_for() must succeed, or no thread would read any more. So if the
 * kernel stays short of memory, the socket is shut down. The watch is level-triggered, so messages that have come
 * meanwhile wake the service thread at once.
 */
static void watch_on(struct gpub_client *client, uint32_t events)
{
	for (int tries = 0; !watch_for(client, events); tries++) {
		end_if_lost(client);
		if (atomic_load(&client->link.lost))
			return; /* end_if_lost() has woken the service thread */
		if (tries == WATCH_TRIES) {
			/* epoll always reports a hang-up, so the thread wakes */
			link_shutdown(&client->link, SHUT_RDWR);
			return;
		}
		usleep(WATCH_PAUSE_US);
	}
}

int receiver_init(struct gpub_client *client)
{
	struct timeval patience = { .tv_usec = LOOK_US };

	client->over = false;
	client->chunks.count = 0;
	if (!client->packet)
		client->packet = malloc(sizeof *client->packet);
	if (!client->packet)
		return error_set(-ENOMEM, "out of memory for a client");
	setsockopt(client->link.sock.fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	return link_watch(&client->link);
}

bool receiver_begin(struct gpub_client *client)
{
	if (pthread_mutex_trylock(&client->reading))
		return false;
	client->link.fresh = false;
	if (!client->over && watch_for(client, 0))
		return true;
	end_if_lost(client);
	pthread_mutex_unlock(&client->reading);
	return false;
}

/*
 * If NOTICEs have come, the service thread must retire or close what they name. EPOLLOUT wakes it at once, because the
 * socket can be written.
 */
void receiver_end(struct gpub_client *client)
{
	uint32_t events = EPOLLIN;

	if (atomic_load(&client->newly_due))
		events |= EPOLLOUT;
	watch_on(client, events);
	pthread_mutex_unlock(&client->reading);
}

/*
 * Handles all messages of a packet. A packet with a descriptor has one message. False: a message was invalid, or was
 * LEFT, the last message of the connection.
 */
static bool handle_packet(struct gpub_client *client, const struct socket_packet *packet)
{
	bool more = true;

	for (unsigned i = 0; more && i < packet->count; i++) {
		int fd = i ? -1 : packet->extra.fd;

		if (packet->message[i].type == WIRE_GRANT) /* it takes long to open memory */
			client->link.fresh = false;
		more = !socket_packet_check(packet, i);
		if (more)
			more = messages_handle(client, &packet->message[i], fd);
		else if (fd >= 0)
			close(fd);
	}
	return more;
}

/*
 * Reads and handles one packet. flags: as for recvmsg(2). -EAGAIN: no packet has come, with MSG_DONTWAIT, or within
 * LOOK_US. -ECONNRESET: no more messages will come.
 */
static int read_some(struct gpub_client *client, int flags)
{
	int error = socket_receive_packet(client->link.sock.fd, client->packet, true, flags);

	if (error == -EAGAIN)
		return error;
	/* reading also ends after LEFT, for which handle_packet() returns false */
	return !error && handle_packet(client, client->packet) ? 0 : reading_end(client);
}

static int read_sleeping(struct gpub_client *client)
{
	int error = read_some(client, 0);

	client->link.fresh = false;
	return error;
}

/*
 * Polls for the next packet for SPIN_US, then sleeps. Most answers come soon, and a sleep costs more than polling for a
 * few microseconds. Polling finds no answer if the broker has no processor to itself, sleeps, or waits for others.
 * After such a miss this function sleeps at once for the next answers, for twice as many with each miss. *spin counts
 * for one type of request, because how long a drain takes says nothing about the next stat. An answer that the first
 * poll finds does not reset the misses, because on one processor the broker must have run before the poll.
 */
static int read_soon(struct gpub_client *client, struct spin *spin)
{
	uint64_t until;
	int error;

	if (!link_is_fresh(&client->link))
		return reading_end(client);
	if (spin->pause) {
		spin->pause--;
		return read_sleeping(client);
	}
	error = read_some(client, MSG_DONTWAIT);
	if (error != -EAGAIN)
		return error;
	until = now_ns(CLOCK_MONOTONIC) + SPIN_US * 1000;
	do
		error = read_some(client, MSG_DONTWAIT);
	while (error == -EAGAIN && now_ns(CLOCK_MONOTONIC) < until);
	if (error != -EAGAIN) {
		spin->misses = 0;
		return error;
	}
	spin->misses += spin->misses < SPIN_PAUSES;
	spin->pause = 1u << spin->misses;
	return read_sleeping(client);
}

/* After a read that found no packet: sleeps until one has come, checks the link, and reads. Results as read_some(). */
static int read_late(struct gpub_client *client)
{
	if (!link_is_fresh(&client->link))
		return reading_end(client);
	client->link.fresh = false;
	if (!link_await(&client->link, LOOK_US / 1000))
		return -EAGAIN;
	return link_is_fresh(&client->link) ? read_some(client, MSG_DONTWAIT) : reading_end(client);
}

/*
 * Whether answered() says that the request is answered. First retires what is due, because the answer may depend on
 * that (a drain of the buffer), and the service thread does not while this thread is the reader.
 */
static bool retire_and_look(struct gpub_client *client, bool (*answered)(struct gpub_client *, void *), void *context)
{
	bool done;

	pthread_mutex_lock(&client->lock);
	if (client->due || client->wanted)
		cache_retire(client, false);
	done = answered(client, context);
	pthread_mutex_unlock(&client->lock);
	return done;
}

void receiver_read_until(struct gpub_client *client, enum wire_type asked,
			 bool (*answered)(struct gpub_client *, void *), void *context, const struct timespec *deadline)
{
	int error = 0;

	do
		error = error == -EAGAIN ? read_late(client) : read_soon(client, &client->spin[asked]);
	while (!retire_and_look(client, answered, context) && error != -ECONNRESET && !client_past(deadline));
}

bool receiver_serve(struct gpub_client *client, int timeout_ms)
{
	bool ready = link_stands(&client->link) && link_sleep(&client->link, timeout_ms), over;

	pthread_mutex_lock(&client->reading);
	client->link.fresh = false;
	end_if_lost(client);
	if (!client->over && ready && link_events(&client->link) & EPOLLOUT)
		watch_on(client, EPOLLIN);
	if (!client->over)
		read_some(client, MSG_DONTWAIT);
	over = client->over;
	pthread_mutex_unlock(&client->reading);
	return !over;
}

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

#define SPIN_US        25     /* longer than a broker on another processor takes to answer; a sleep costs more */
#define SPIN_PAUSES    10     /* limit on spin.misses: the pause doubles with each */
#define LOOK_US        200000 /* limit on a read: so late a reader may notice a passed deadline or a lost link */
#define WATCH_TRIES    100    /* with WATCH_PAUSE_US: a tenth of a second */
#define WATCH_PAUSE_US 1000

/* For the reader: no message comes any more, so no caller may wait for an answer from now on. Returns -ECONNRESET. */
static int reading_end(struct gpub_client *client)
{
	client->over = true;
	/* ends the service thread; if the link is lost, the broker must see the end, too */
	link_shutdown(&client->link, atomic_load(&client->link.lost) ? SHUT_RDWR : SHUT_RD);
	messages_ended(client);
	return -ECONNRESET;
}

/* For the reader. */
static void end_if_lost(struct gpub_client *client)
{
	if (!client->over && !link_stands(&client->link))
		reading_end(client);
}

/* For the reader: sets which events wake the service thread. False: the link is lost, or memory is short. */
static bool watch_for(struct gpub_client *client, uint32_t events)
{
	return link_is_fresh(&client->link) && link_watch_for(&client->link, events);
}

/*
 * As watch_for(), which must succeed, or no thread would read: if the kernel stays short of memory, the socket is
 * shut down. The watch is level-triggered: messages that have come meanwhile wake the service thread at once.
 */
static void watch_on(struct gpub_client *client, uint32_t events)
{
	for (int tries = 0; !watch_for(client, events); tries++) {
		end_if_lost(client);
		if (atomic_load(&client->link.lost))
			return; /* the service thread was woken */
		if (tries == WATCH_TRIES) {
			link_shutdown(&client->link, SHUT_RDWR); /* a hang-up is always reported */
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

/* If notices have come, the service thread must retire what they name: EPOLLOUT wakes it at once. */
void receiver_end(struct gpub_client *client)
{
	uint32_t events = EPOLLIN;

	if (atomic_load(&client->newly_due))
		events |= EPOLLOUT;
	watch_on(client, events);
	pthread_mutex_unlock(&client->reading);
}

/*
 * Handles all messages of a packet. A descriptor belongs to the first message, which is then the only one. False: a
 * message was invalid, or was the last one.
 */
static bool handle_packet(struct gpub_client *client, const struct socket_packet *packet)
{
	bool more = true;

	for (unsigned i = 0; more && i < packet->count; i++) {
		int fd = i ? -1 : packet->extra.fd;

		if (packet->message[i].type == WIRE_GRANT) /* opening memory takes long */
			client->link.fresh = false;
		more = !socket_packet_check(packet, i);
		if (more)
			more = messages_handle(client, &packet->message[i], fd);
		else if (fd >= 0)
			close(fd);
	}
	return more;
}

/* Reads and handles one packet. -EAGAIN: none has come (within LOOK_US, unless MSG_DONTWAIT). -ECONNRESET: the end. */
static int read_some(struct gpub_client *client, int flags)
{
	int error = socket_receive_packet(client->link.sock.fd, client->packet, true, flags);

	if (error == -EAGAIN)
		return error;
	/* LEFT, too, ends the reading */
	return !error && handle_packet(client, client->packet) ? 0 : reading_end(client);
}

static int read_sleeping(struct gpub_client *client)
{
	int error = read_some(client, 0);

	client->link.fresh = false;
	return error;
}

/*
 * Polls for the next packet for SPIN_US, then sleeps. Most answers come soon, and a sleep costs more than polling for
 * a few microseconds. After a miss (the broker has no processor to itself, sleeps, or waits for others) the next
 * answers are slept for at once, twice as many with each miss. Each type of request has its own count: a drain says
 * nothing about the next stat. An answer that the first poll finds is not counted as a hit: on one processor the
 * broker ran in between.
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

/* After a read that found nothing: sleeps, checks that the number is still the socket's, and reads. */
static int read_late(struct gpub_client *client)
{
	if (!link_is_fresh(&client->link))
		return reading_end(client);
	client->link.fresh = false;
	if (!link_await(&client->link, LOOK_US / 1000))
		return -EAGAIN;
	return link_is_fresh(&client->link) ? read_some(client, MSG_DONTWAIT) : reading_end(client);
}

/* Whether the request is answered. Retires what is due, as no other thread does: the answer may depend on it. */
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
	while (!retire_and_look(client, answered, context) && error != -ECONNRESET &&
	       !(error && client_past(deadline)));
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

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

#define SPIN_US        25     /* longer than a broker on another processor needs, shorter than a sleep costs */
#define SPIN_PAUSES    10     /* the pause doubles so often with misses in a row */
#define LOOK_US        200000 /* how late a reader may notice that its deadline has passed */
#define WATCH_TRIES    100    /* a tenth of a second */
#define WATCH_PAUSE_US 1000

/* Level-triggered: messages that arrived without events wake the service thread as soon as events are set again. */
static int watch(struct gpub_client *client, int operation, uint32_t events)
{
	struct epoll_event event = { .events = events };

	return epoll_ctl(client->watch, operation, client->sock, &event);
}

/*
 * It must succeed, or no thread would read. The kernel may be short of memory for a moment; after that the socket is shut down.
 */
static void watch_on(struct gpub_client *client, uint32_t events)
{
	for (int tries = 0; watch(client, EPOLL_CTL_MOD, events); tries++) {
		if (tries == WATCH_TRIES) {
			shutdown(client->sock, SHUT_RDWR); /* a hang-up is always reported */
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
	client->watch = epoll_create1(EPOLL_CLOEXEC);
	if (client->watch < 0 || watch(client, EPOLL_CTL_ADD, EPOLLIN))
		return error_set(-errno, "no descriptor is left in this process to watch the broker with: %m");
	setsockopt(client->sock, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	return 0;
}

bool receiver_begin(struct gpub_client *client)
{
	if (pthread_mutex_trylock(&client->reading))
		return false;
	if (!client->over && !watch(client, EPOLL_CTL_MOD, 0))
		return true;
	pthread_mutex_unlock(&client->reading);
	return false;
}

/* If notices came meanwhile, the service thread must retire what they name: EPOLLOUT wakes it at once. */
void receiver_end(struct gpub_client *client)
{
	uint32_t events = EPOLLIN;

	pthread_mutex_lock(&client->lock);
	if (client->newly_due)
		events |= EPOLLOUT;
	pthread_mutex_unlock(&client->lock);
	watch_on(client, events);
	pthread_mutex_unlock(&client->reading);
}

/* A descriptor comes with a message that is alone in its packet. False: one was the last message. */
static bool handle_packet(struct gpub_client *client, const struct socket_packet *packet)
{
	bool more = true;

	for (unsigned i = 0; more && i < packet->count; i++) {
		int fd = i ? -1 : packet->extra.fd;

		more = !socket_packet_check(packet, i);
		if (more)
			more = messages_handle(client, &packet->message[i], fd);
		else if (fd >= 0)
			close(fd);
	}
	return more;
}

/* -EAGAIN: no message is there, or came in LOOK_US. -ECONNRESET: none will come. */
static int read_some(struct gpub_client *client, int flags)
{
	int error = socket_receive_packet(client->sock, client->packet, true, flags);

	if (error == -EAGAIN)
		return error;
	if (!error && handle_packet(client, client->packet))
		return 0;
	/* also after LEFT: no thread reads on, so present and later callers must not wait for answers */
	client->over = true;
	shutdown(client->sock, SHUT_RD); /* and the service thread ends */
	messages_ended(client);
	return -ECONNRESET;
}

/*
 * Most answers come soon, and to sleep costs more than to poll for a few microseconds. After a miss (the broker has no
 * processor to itself, sleeps, or waits for others) the next answers are slept for, twice as many with each miss. Each
 * type of request has its own count: a drain says nothing about the next stat. An answer that is there at the first
 * poll is no hit: on one processor the broker ran in between.
 */
static int read_soon(struct gpub_client *client, struct spin *spin)
{
	uint64_t until;
	int error;

	if (spin->pause) {
		spin->pause--;
		return read_some(client, 0);
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
	return read_some(client, 0);
}

/* While a caller reads, the service thread does not retire what is due, and the caller's answer may depend on that. */
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

void receiver_read_until(struct gpub_client *client, enum wire_type asked, bool (*answered)(struct gpub_client *, void *),
			 void *context, const struct timespec *deadline)
{
	int error;

	do
		error = read_soon(client, &client->spin[asked]);
	while (!retire_and_look(client, answered, context) && error != -ECONNRESET && !(error && client_past(deadline)));
}

bool receiver_serve(struct gpub_client *client, int timeout_ms)
{
	struct epoll_event event = { 0 };
	bool over;

	epoll_wait(client->watch, &event, 1, timeout_ms);
	pthread_mutex_lock(&client->reading);
	if (event.events & EPOLLOUT)
		watch_on(client, EPOLLIN);
	if (!client->over)
		read_some(client, MSG_DONTWAIT);
	over = client->over;
	pthread_mutex_unlock(&client->reading);
	return !over;
}

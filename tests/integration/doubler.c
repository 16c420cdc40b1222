/* SPDX-License-Identifier: Apache-2.0 */
/* doubler.c - see doubler.h */
#include "doubler.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

#define KEPT         16   /* packets that DOUBLER_RUNS may send again */
#define MAPPINGS_MAX 65536

/* A packet of the broker, with its descriptor (-1: none). */
struct packet {
	size_t              length;
	int                 fd;
	struct wire_message message[SOCKET_PACKET_MAX];
};

/* What was seen of a mapping. */
struct seen {
	uint64_t id;
	unsigned grants, closes; /* GRANTs with a handle place that were sent to the client; CLOSEDs that it sent */
};

static struct sockaddr_un broker_at;
static char address[SOCKET_ADDRESS_SIZE];
static enum doubler_how how;
static int listener, client_side, broker_side;
static pthread_t from_client, from_broker;
static struct doubler_counts counts;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of `seen` */
static struct seen seen[MAPPINGS_MAX];
static unsigned seen_count;

static struct packet kept[KEPT]; /* the last `kept_count` packets, the oldest first */
static unsigned kept_count;

/* ---- counting ---- */

static struct seen *seen_of(uint64_t id)
{
	for (unsigned i = seen_count; i-- > 0;)
		if (seen[i].id == id)
			return &seen[i];
	return NULL;
}

/* Called before the GRANT is sent, so before the client can answer it. */
static void count_grant(const struct wire_grant *grant)
{
	struct seen *mapping;

	if (grant->place == WIRE_NO_HANDLE)
		return;
	pthread_mutex_lock(&lock);
	mapping = seen_of(grant->mapping);
	if (!mapping) {
		if (seen_count == MAPPINGS_MAX)
			abort();
		mapping = &seen[seen_count++];
		*mapping = (struct seen){ .id = grant->mapping };
		counts.opened++;
	}
	mapping->grants++;
	pthread_mutex_unlock(&lock);
}

static void count_closed(uint64_t id)
{
	struct seen *mapping;

	pthread_mutex_lock(&lock);
	mapping = seen_of(id);
	if (!mapping || mapping->closes == mapping->grants) {
		counts.false_ones++;
	} else {
		counts.closed += !mapping->closes;
		counts.excess += mapping->closes > 0;
		mapping->closes++;
	}
	pthread_mutex_unlock(&lock);
}

/* ---- passing on ---- */

/* Receives a packet. Returns false at the end of the connection. */
static bool take(int sock, struct packet *packet)
{
	union socket_control control;
	struct iovec io = { .iov_base = packet->message, .iov_len = sizeof packet->message };
	struct msghdr msg = {
		.msg_iov = &io, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes
	};
	const struct cmsghdr *c;
	ssize_t got;

	do
		got = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	while (got < 0 && errno == EINTR);
	if (got <= 0)
		return false;
	packet->length = (size_t)got;
	packet->fd = -1;
	c = CMSG_FIRSTHDR(&msg);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		memcpy(&packet->fd, CMSG_DATA(c), sizeof packet->fd);
	return true;
}

/* Sends a packet; or does nothing if the other side has gone. */
static void pass(int sock, const struct packet *packet)
{
	union socket_control control;
	struct iovec io = { .iov_base = (void *)packet->message, .iov_len = packet->length };
	struct msghdr msg = { .msg_iov = &io, .msg_iovlen = 1 };

	socket_attach(&msg, &control, packet->fd);
	sendmsg(sock, &msg, MSG_NOSIGNAL);
}

static unsigned count_of(const struct packet *packet)
{
	return (unsigned)(packet->length / WIRE_SIZE);
}

static void to_client(const struct packet *packet)
{
	for (unsigned i = 0; i < count_of(packet); i++)
		if (packet->message[i].type == WIRE_GRANT)
			count_grant(&packet->message[i].grant);
	pass(client_side, packet);
}

static void repeat(const struct packet *packet)
{
	for (unsigned i = 0; i < count_of(packet); i++)
		counts.types[packet->message[i].type]++;
	counts.repeated += count_of(packet);
	counts.descriptors += packet->fd >= 0;
	to_client(packet);
}

static void drop(struct packet *packet)
{
	if (packet->fd >= 0)
		close(packet->fd);
	packet->fd = -1;
}

/* Takes over the packet's descriptor. */
static void keep(const struct packet *packet)
{
	if (kept_count == KEPT) {
		drop(&kept[0]);
		memmove(&kept[0], &kept[1], sizeof kept - sizeof kept[0]);
		kept_count--;
	}
	kept[kept_count++] = *packet;
}

/*
 * After one packet in four, sends some of the last packets again: not between a MEMORY and its GRANT, because a broker
 * owes both or none.
 */
static void repeat_run(void)
{
	static unsigned state = 1;
	const struct packet *last = &kept[kept_count - 1];

	state = state * 1103515245 + 12345;
	if (state >> 16 & 3 || last->message[count_of(last) - 1].type == WIRE_MEMORY)
		return;
	for (unsigned i = kept_count - (state >> 20) % kept_count - 1; i < kept_count; i++)
		repeat(&kept[i]);
}

static void *pass_answers(void *argument)
{
	struct packet packet;
	bool greeted = false;

	(void)argument;
	while (take(broker_side, &packet)) {
		to_client(&packet);
		if (!greeted || how == DOUBLER_PLAIN) {
			greeted |= packet.message[0].type == WIRE_WELCOME;
			drop(&packet);
		} else if (how == DOUBLER_EACH) {
			repeat(&packet);
			drop(&packet);
		} else {
			keep(&packet);
			repeat_run();
		}
	}
	shutdown(client_side, SHUT_RDWR);
	while (kept_count)
		drop(&kept[--kept_count]);
	return NULL;
}

static void *pass_requests(void *argument)
{
	struct packet packet;

	(void)argument;
	client_side = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	broker_side = socket_connect(&broker_at);
	if (client_side < 0 || broker_side < 0 || pthread_create(&from_broker, NULL, pass_answers, NULL))
		abort();
	while (take(client_side, &packet)) {
		for (unsigned i = 0; i < count_of(&packet); i++)
			if (packet.message[i].type == WIRE_CLOSED)
				count_closed(packet.message[i].grant_id.mapping);
		pass(broker_side, &packet);
		drop(&packet);
	}
	shutdown(broker_side, SHUT_RDWR);
	pthread_join(from_broker, NULL);
	return NULL;
}

/* ---- beginning and end ---- */

const char *doubler_start(const char *broker, enum doubler_how manner)
{
	static unsigned number;
	char path[sizeof broker_at.sun_path];

	if (socket_address(broker, &broker_at))
		abort();
	how = manner;
	counts = (struct doubler_counts){ 0 };
	seen_count = 0;
	snprintf(path, sizeof path, "%s/doubler-%d-%u", harness_directory(), getpid(), number++);
	snprintf(address, sizeof address, "unix:%s", path);
	listener = socket_listen(path, 0600);
	if (listener < 0 || pthread_create(&from_client, NULL, pass_requests, NULL))
		abort();
	return address;
}

const struct doubler_counts *doubler_end(void)
{
	pthread_join(from_client, NULL);
	close(listener);
	close(client_side);
	close(broker_side);
	unlink(address + strlen("unix:"));
	return &counts;
}

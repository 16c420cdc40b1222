/* SPDX-License-Identifier: Apache-2.0 */
/* process.c - see process.h */
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "packet.h"
#include "serve.h"

#define AGAIN_MS 1 /* before another attempt to send to an owner that has not read all that earlier brokers sent */

/* Makes a socket pair. Stores the broker's end and returns the owner's, or a negative errno with the error message. */
static int pair_make(int *brokers)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return error_set(-errno, "no sockets for the process that owns the devices: %m");
	fcntl(pair[0], F_SETFL, O_NONBLOCK);
	*brokers = pair[0];
	return pair[1];
}

int owner_link_open(struct owner_link *link)
{
	int owners = pair_make(&link->sock);

	link->lanes = link->awaited = 0;
	link->broker = 0;
	if (owners < 0)
		link->sock = -1;
	return owners;
}

static int ended(void)
{
	return error_set(-ECONNRESET, "the process that owns the devices ended while they started; a line above may "
				      "say why");
}

/* A new socket is never full. */
static int not_sent(int error)
{
	return error == -EAGAIN ? error_set(-ENOMEM, "the kernel has no memory for the process that owns the devices") :
				  ended();
}

int owner_link_setup(struct owner_link *link, const struct owner_setup *setup)
{
	int error = packet_send(link->sock, setup, sizeof *setup, -1, MSG_DONTWAIT);

	if (error)
		return not_sent(error);
	link->awaited++;
	return 0;
}

/* Receives what the owner has answered to the brokers before. The owner may wait for that. */
static void discard_answers(int sock)
{
	struct owner_answer answer;
	int fd;

	while (!packet_receive(sock, &answer, sizeof answer, &fd, MSG_DONTWAIT))
		continue;
}

int owner_link_come(struct owner_link *link, int sock, uint64_t broker)
{
	const struct owner_request request = { .kind = REQUEST_BROKER, .broker = broker };
	int error;

	link->sock = sock;
	link->lanes = link->awaited = 0;
	link->broker = broker;
	discard_answers(sock);
	error = packet_send(sock, &request, sizeof request, -1, MSG_DONTWAIT);
	if (error)
		return error == -EAGAIN ? -EAGAIN : ended();
	link->awaited++;
	return 0;
}

/* Makes a lane, and sends the owner its end. */
static int lane_make(struct owner_link *link)
{
	const struct owner_request request = { .kind = REQUEST_LANE, .lane = link->lanes };
	int owners = pair_make(&link->lane[link->lanes]), error;

	if (owners < 0)
		return owners;
	error = packet_send(link->sock, &request, sizeof request, owners, MSG_DONTWAIT);
	close(owners);
	if (error) {
		close(link->lane[link->lanes]);
		return not_sent(error);
	}
	link->lanes++;
	link->awaited++;
	return 0;
}

int owner_link_lanes(struct owner_link *link, unsigned count)
{
	int error = 0;

	while (!error && link->lanes < count)
		error = lane_make(link);
	return error;
}

int owner_link_answer(struct owner_link *link, struct owner_facts *facts)
{
	struct owner_answer answer;
	int error, fd;

	while (link->awaited) {
		error = packet_receive(link->sock, &answer, sizeof answer, &fd, MSG_DONTWAIT);
		if (error)
			return error == -EAGAIN ? -EAGAIN : ended();
		if (answer.broker != link->broker)
			continue; /* an earlier broker ended before it received this */
		if (answer.error)
			return error_set(answer.error, "%s", answer.text);
		link->pid = answer.pid;
		if (answer.facts.count)
			*facts = answer.facts;
		link->awaited--;
	}
	return 0;
}

static int wait_for_answers(struct owner_link *link, struct owner_facts *facts)
{
	struct pollfd readable = { .fd = link->sock, .events = POLLIN };
	int error;

	while ((error = owner_link_answer(link, facts)) == -EAGAIN)
		poll(&readable, 1, -1);
	return error;
}

/* Receives the facts, and makes the lanes. error: that of the step before. */
static int make_lanes(struct owner_link *link, int error, struct owner_facts *facts)
{
	if (!error)
		error = wait_for_answers(link, facts);
	if (!error)
		error = owner_link_lanes(link, facts->count + 1);
	return error ? error : wait_for_answers(link, facts);
}

int owner_link_start(struct owner_link *link, const struct owner_setup *setup, struct owner_facts *facts)
{
	return make_lanes(link, owner_link_setup(link, setup), facts);
}

int owner_link_join(struct owner_link *link, int sock, uint64_t broker, struct owner_facts *facts)
{
	int error;

	while ((error = owner_link_come(link, sock, broker)) == -EAGAIN)
		poll(NULL, 0, AGAIN_MS);
	return make_lanes(link, error, facts);
}

void owner_link_close_lanes(struct owner_link *link)
{
	while (link->lanes)
		close(link->lane[--link->lanes]);
}

void owner_link_drop(struct owner_link *link)
{
	owner_link_close_lanes(link);
	close(link->sock);
	link->sock = -1;
}

void owner_link_close(struct owner_link *link)
{
	struct pollfd readable = { .fd = link->sock, .events = POLLIN };
	char rest[64];
	ssize_t got;

	/* the close of a socket with unread answers would end the owner's receives before it has read all orders */
	for (unsigned i = 0; i < link->lanes; i++)
		shutdown(link->lane[i], SHUT_WR);
	shutdown(link->sock, SHUT_WR);
	while ((got = recv(link->sock, rest, sizeof rest, 0)) > 0 ||
	       (got < 0 && (errno == EAGAIN || errno == EINTR)))
		if (got < 0)
			poll(&readable, 1, -1);
	owner_link_drop(link);
}

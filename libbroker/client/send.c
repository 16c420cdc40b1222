/* SPDX-License-Identifier: Apache-2.0 */
/* send.c - see send.h */
#include "send.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client.h"
#include "common/error.h"
#include "common/socket.h"

#define SEND_TRIES    1000 /* further attempts to send a message, which take a second together */
#define SEND_PAUSE_US 1000 /* pause before each of them */

/*
 * Tries again while the kernel is short of memory. If it stays so, shuts the connection down, because a caller would
 * wait without end for the answer to a message that was never sent. The reader sees the shutdown, and wakes all
 * waiters.
 */
int call_send(struct gpub_client *client, const struct wire_message *message)
{
	int error = socket_send(client->link.sock.fd, message, -1, 0);

	for (int tries = 0; error && error != -ECONNRESET && tries < SEND_TRIES; tries++) {
		usleep(SEND_PAUSE_US);
		error = link_check(&client->link);
		if (!error)
			error = socket_send(client->link.sock.fd, message, -1, 0);
	}
	if (!error)
		return 0;
	link_shutdown(&client->link, SHUT_RDWR);
	return link_lost_error(&client->link);
}

int call_send_many(struct gpub_client *client, const struct wire_message *messages, unsigned count)
{
	int error = 0, sock = client->link.sock.fd;
	unsigned sent = 0;

	while (!error && sent < count) {
		int got = socket_send_many(sock, &messages[sent], count - sent, SOCKET_PACKET_MAX, 0);

		/* if the kernel accepts no message of the rest at once, the next one is sent alone, by call_send() */
		if (got > 0)
			sent += (unsigned)got;
		else
			error = call_send(client, &messages[sent++]);
	}
	return error;
}

/* Sends a message that has no answer. Ignores errors, because the reader will find that the connection has ended. */
static void tell(struct gpub_client *client, const struct wire_message *message)
{
	if (!link_check(&client->link))
		call_send(client, message);
}

void call_closed(struct gpub_client *client, uint64_t mapping)
{
	struct wire_message message;
	SAVE_ERROR();

	wire_init(&message, WIRE_CLOSED, 0);
	message.grant_id.mapping = mapping;
	tell(client, &message);
}

void call_cancel(struct gpub_client *client, uint64_t request)
{
	struct wire_message message;
	SAVE_ERROR();

	wire_init(&message, WIRE_CANCEL, request);
	tell(client, &message);
}

void call_quiesced(struct gpub_client *client, uint64_t mapping, uint64_t serial)
{
	struct wire_message message;
	SAVE_ERROR();

	wire_init(&message, WIRE_QUIESCED, 0);
	message.grant_id.mapping = mapping;
	message.grant_id.serial = serial;
	tell(client, &message);
}

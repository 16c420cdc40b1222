/* SPDX-License-Identifier: Apache-2.0 */
/* send.c - see send.h */
#include "send.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client.h"
#include "common/error.h"
#include "common/socket.h"

#define SEND_TRIES    1000 /* with SEND_PAUSE_US: a second */
#define SEND_PAUSE_US 1000

/*
 * If the kernel stays short of memory, the connection is shut down, because a caller would wait without end for a
 * request or a CLOSED that was never sent. The service thread sees the shutdown, and wakes all waiters.
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

		/* what the kernel does not accept at once is sent as a single message */
		if (got > 0)
			sent += (unsigned)got;
		else
			error = call_send(client, &messages[sent++]);
	}
	return error;
}

/* Sends a message that has no answer. If that fails, the broker or the socket is gone, as the reader will find. */
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

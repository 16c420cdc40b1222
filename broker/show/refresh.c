/* SPDX-License-Identifier: Apache-2.0 */
/* refresh.c - see refresh.h */
#include "refresh.h"

#include <errno.h>
#include <string.h>

#include "client/call.h"
#include "client/client.h"
#include "client/clock.h"
#include "client/connect.h"
#include "client/trust.h"
#include "common/socket.h"

/* more than the broker takes: it waits 200 ms for answers, and may first wait for those of an earlier round */
unsigned refresh_seconds = 5;

static int ask(struct gpub_client *client, const struct shown *shown)
{
	struct timespec deadline = client_deadline((int)refresh_seconds * 1000);
	struct wire_message request, reply;

	if (strcmp(client->board.header->instance, shown->instance))
		return error_set(-ESTALE, "another broker listens where '%s' did", shown->instance);
	wire_init(&request, WIRE_REFRESH, 0);
	return call_broker(client, &request, &reply, NULL, &deadline);
}

int shown_refresh(const struct shown *shown)
{
	const char *address = shown_address(shown);
	struct gpub_client *client;
	struct sockaddr_un sun;
	int error;

	if (!shown->trusted || !address)
		return error_set(-ENOENT, "the status file does not say where its broker listens");
	error = socket_address(address, &sun);
	if (!error)
		error = trust_check_place(sun.sun_path);
	if (!error)
		error = client_connect_within(&client, address, refresh_seconds);
	if (error)
		return error;
	error = ask(client, shown);
	gpub_disconnect(client);
	return error;
}

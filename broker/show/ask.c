/* SPDX-License-Identifier: Apache-2.0 */
/* ask.c - see ask.h */
#include "ask.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "client/client.h"
#include "client/connect.h"
#include "client/manage.h"

int shown_ask(struct shown *shown, struct gpub_client *client)
{
	bool all;
	int file, error = client_snapshot(client, &file, &all);

	if (error)
		return error;
	error = shown_read_answer(shown, client->board.header->instance, file);
	close(file);
	if (error)
		return error;
	shown->owner = client->broker;
	shown->partial = !all;
	return 0;
}

int shown_ask_default(struct shown *shown, const char *instance)
{
	gpub_client *client;
	int error = client_connect_bare(&client, NULL);

	if (error)
		return error;
	if (instance && strcmp(instance, client->board.header->instance))
		error = error_set(-ENOENT, "the broker at the default address is another one: '%s'",
				  client->board.header->instance);
	else
		error = shown_ask(shown, client);
	gpub_disconnect(client);
	return error;
}

static int ask_once(struct shown *shown, const char *instance)
{
	static int silent;
	int error = silent ? silent : shown_ask_default(shown, instance);

	if (error != -ENOENT)
		silent = error;
	return error;
}

int shown_read_or_ask(struct shown *shown, const char *instance)
{
	int error = shown_read(shown, instance);
	SAVE_ERROR();

	return (error == -EACCES || error == -ENOENT) && !ask_once(shown, instance) ? 0 : error;
}

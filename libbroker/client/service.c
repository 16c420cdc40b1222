/* SPDX-License-Identifier: Apache-2.0 */
/* service.c - see service.h */
#include "service.h"

#include <errno.h>

#include "cache.h"
#include "client.h"
#include "common/thread.h"
#include "receiver.h"
#include "timeline-end.h"

#define RETIRE_FIRST_MS 1
#define RETIRE_LAST_MS  128

/*
 * Retires and closes what is due. Returns the pause, in milliseconds, before the next attempt, which is needed because
 * a return wakes no thread. The pause doubles with each attempt, and a new NOTICE makes it the shortest again. pause:
 * the result of the last call. Returns -1 if there is nothing that this thread can retire or close.
 */
static int retire_pause(struct gpub_client *client, int pause)
{
	bool again;

	pthread_mutex_lock(&client->lock);
	again = (client->due || client->wanted) && cache_retire(client, false);
	if (client->newly_due)
		pause = -1;
	client->newly_due = false;
	pthread_mutex_unlock(&client->lock);
	if (!again)
		return -1;
	return pause < 0 ? RETIRE_FIRST_MS : pause < RETIRE_LAST_MS ? pause * 2 : RETIRE_LAST_MS;
}

static void *service_main(void *argument)
{
	struct gpub_client *client = argument;
	int pause = -1;
	HOLD_CANCELLATION();

	while (receiver_serve(client, pause))
		pause = retire_pause(client, pause);
	timelines_end_orphaned(client);
	return NULL;
}

int service_start(struct gpub_client *client)
{
	return thread_start(&client->service, service_main, client);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* create.c - see create.h */
#include "create.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "client/call.h"
#include "client/clock.h"
#include "common/wire.h"

/*
 * Sends a CREATE itself instead of calling gpub_create(), which numbers devices as this process sees them, and must
 * start CUDA for that. Here devices have the broker's own numbers, as in broker-status.
 */
int ctl_create(gpub_client *client, const struct create_order *order)
{
	/*
	 * -ENOMEM means a timeout, or that there can never be enough memory: the broker says the latter at once, before
	 * `late`
	 */
	struct timespec late = client_deadline(order->wait_ms / 2);
	struct wire_message request, reply;
	int error;

	wire_init(&request, WIRE_CREATE, 0);
	strcpy(request.create.name, order->name);
	request.create.size = order->amount.size;
	request.create.layout = order->amount.layout;
	request.create.device = order->amount.device;
	request.create.mode = order->mode;
	request.create.flags = order->flags;
	request.create.reserve = order->amount.reserve;
	request.create.timeout_ms = order->wait_ms;
	error = call_broker(client, &request, &reply, NULL, NULL);
	return error == -ENOMEM && order->wait_ms && client_past(&late) ? -ETIMEDOUT : error;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* call.c - see call.h */
#include "call.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <utlist.h>

#include "client.h"
#include "common/crash-point.h"
#include "common/error.h"
#include "receiver.h"
#include "send.h"
#include "trace.h"

static bool client_lost(const struct gpub_client *client)
{
	return atomic_load(&client->guard->state) == CLIENT_LOST;
}

static bool is_answered(struct gpub_client *client, bool (*answered)(struct gpub_client *, void *), void *context)
{
	bool done;

	pthread_mutex_lock(&client->lock);
	done = answered(client, context);
	pthread_mutex_unlock(&client->lock);
	return done;
}

int call_exchange(struct gpub_client *client, const struct wire_message *messages, unsigned count,
		  bool (*answered)(struct gpub_client *, void *), void *context, const struct timespec *deadline)
{
	int error, late = 0;
	bool reads;

	pthread_mutex_unlock(&client->lock);
	CRASH_POINT(request_begin);
	reads = receiver_begin(client);
	error = reads ? 0 : link_check(&client->link);
	if (!error)
		error = count == 1 ? call_send(client, messages) : call_send_many(client, messages, count);
	CRASH_POINT(request_sent);
	if (reads && !error && !is_answered(client, answered, context))
		receiver_read_until(client, messages->type, answered, context, deadline);
	if (reads)
		receiver_end(client);
	pthread_mutex_lock(&client->lock);
	while (!error && !late && !answered(client, context) && !client_lost(client))
		late = deadline ? pthread_cond_timedwait(&client->changed, &client->lock, deadline) :
				  pthread_cond_wait(&client->changed, &client->lock);
	if (error || answered(client, context))
		return error;
	if (late)
		return error_set(-ETIMEDOUT, "the broker does not answer: it is stopped or overloaded");
	return link_lost_error(&client->link);
}

static bool has_reply(struct gpub_client *client, void *context)
{
	const struct call *call = context;

	(void)client;
	return call->done;
}

static int call_make(struct gpub_client *client, struct wire_message *request, struct call *call,
		     const struct timespec *deadline)
{
	int error;
	TRACE("%s", wire_type_name(request->type));

	pthread_mutex_lock(&client->lock);
	call->number = request->request = ++client->next_number << RECORD_NUMBER_BITS;
	LL_PREPEND(client->calls, call);
	error = call_exchange(client, request, 1, has_reply, call, deadline);
	LL_DELETE(client->calls, call);
	pthread_mutex_unlock(&client->lock);
	return error;
}

static int call_result(const struct call *call, struct wire_message *reply)
{
	CRASH_POINT(reply_taken);
	if (call->reply.type == WIRE_REFUSED)
		return error_set(call->reply.refused.error, "%s", call->reply.refused.text);
	*reply = call->reply;
	return 0;
}

int call_broker(struct gpub_client *client, struct wire_message *request, struct wire_message *reply, int *fd,
		const struct timespec *deadline)
{
	struct call call = { .fd = -1, .file = -1 };
	int error = call_make(client, request, &call, deadline);

	if (fd)
		*fd = call.fd;
	else if (call.fd >= 0)
		close(call.fd);
	return error ? error : call_result(&call, reply);
}

int call_for_file(struct gpub_client *client, struct wire_message *request, struct wire_message *reply, int file,
		  const struct timespec *deadline)
{
	struct call call = { .fd = -1, .file = file };
	int error = call_make(client, request, &call, deadline);

	if (call.fd >= 0)
		close(call.fd);
	if (!error && call.error)
		error = error_set(call.error, "the broker's answer cannot be kept: %s", strerror(-call.error));
	return error ? error : call_result(&call, reply);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* call.c - see call.h */
#include "call.h"

#include <errno.h>
#include <unistd.h>

#include "client.h"
#include "common/crash-point.h"
#include "common/error.h"
#include "reader.h"
#include "send.h"
#include "trace.h"

static void call_remove(struct gpub_client *client, struct call *call)
{
	struct call **link = &client->calls;

	while (*link != call)
		link = &(*link)->next;
	*link = call->next;
}

static bool client_lost(const struct gpub_client *client)
{
	return atomic_load(&client->guard->state) == CLIENT_LOST;
}

static bool is_answered(struct gpub_client *client, void *context)
{
	const struct call *call = context;
	bool answered;

	pthread_mutex_lock(&client->lock);
	answered = call->done;
	pthread_mutex_unlock(&client->lock);
	return answered;
}

static int call_wait(struct gpub_client *client, struct call *call, const struct wire_message *request,
		     const struct timespec *deadline)
{
	int error, late = 0;
	bool reads;

	pthread_mutex_lock(&client->lock);
	call->next = client->calls;
	client->calls = call;
	pthread_mutex_unlock(&client->lock);
	CRASH_POINT(request_begin);
	reads = reader_begin(client);
	error = call_send(client, request);
	CRASH_POINT(request_sent);
	if (reads && !error)
		reader_read_until(client, request->type, is_answered, call, deadline);
	if (reads)
		reader_end(client);
	pthread_mutex_lock(&client->lock);
	while (!error && !late && !call->done && !client_lost(client))
		late = deadline ? pthread_cond_timedwait(&client->changed, &client->lock, deadline) :
				  pthread_cond_wait(&client->changed, &client->lock);
	call_remove(client, call);
	pthread_mutex_unlock(&client->lock);
	if (!error && !call->done && late)
		error = error_set(-ETIMEDOUT, "the broker does not answer: it is stopped, or has too much to do");
	else if (!error && !call->done)
		error = error_set(-ECONNRESET, "the broker went away before it answered: connect to a new one");
	return error;
}

int call_broker(struct gpub_client *client, struct wire_message *request, struct wire_message *reply, int *fd,
		const struct timespec *deadline)
{
	struct call call = { .fd = -1 };
	int error;
	TRACE("%s", wire_type_name(request->type));

	pthread_mutex_lock(&client->lock);
	call.number = request->request = ++client->next_number << RECORD_NUMBER_BITS;
	pthread_mutex_unlock(&client->lock);
	error = call_wait(client, &call, request, deadline);
	if (fd)
		*fd = call.fd;
	else if (call.fd >= 0)
		close(call.fd);
	if (error)
		return error;
	CRASH_POINT(reply_taken);
	if (call.reply.type == WIRE_REFUSED)
		return error_set(call.reply.refused.error, "%s", call.reply.refused.text);
	*reply = call.reply;
	return 0;
}

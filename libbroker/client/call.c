/* SPDX-License-Identifier: Apache-2.0 */
/* call.c - see call.h */
#include "call.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <utlist.h>

#include "client.h"
#include "clock.h"
#include "common/crash-point.h"
#include "common/error.h"
#include "common/name.h"
#include "common/thread.h"
#include "interrupt.h"
#include "receiver.h"
#include "send.h"
#include "trace.h"

/* limit, in milliseconds, on an answer that is a file; the broker sends it only in this user's share of its time */
#define FILE_MS 60000

/* how long, in milliseconds, a request for a file that the broker refuses with -EAGAIN is made again; and each pause */
#define FILE_AGAIN_MS 1000
#define FILE_PAUSE_MS 10

static bool client_lost(const struct gpub_client *client)
{
	return atomic_load(&client->guard->state) == CLIENT_LOST;
}

/* The arguments of call_exchange(). */
struct exchange {
	struct gpub_client        *client;
	const struct wire_message *messages;
	unsigned                   count;
	bool (*answered)(struct gpub_client *, void *);
	void                      *context;
};

/*
 * Waits until the exchange is answered, the connection is lost, or the time `until` (NULL: no limit) has come. reads:
 * this thread is the reader, and has seen since it became the reader that the exchange is not answered; it stops being
 * the reader here. Returns true if the time has come. Returns with client->lock held.
 */
static bool wait_until(const struct exchange *exchange, bool reads, const struct timespec *until)
{
	struct gpub_client *client = exchange->client;
	int late = 0;

	if (reads) {
		receiver_read_until(client, exchange->messages->type, exchange->answered, exchange->context, until);
		receiver_end(client);
	}
	pthread_mutex_lock(&client->lock);
	while (!late && !exchange->answered(client, exchange->context) && !client_lost(client))
		late = until ? pthread_cond_timedwait(&client->changed, &client->lock, until) :
			       pthread_cond_wait(&client->changed, &client->lock);
	return late;
}

/*
 * Makes this thread the reader, unless another thread is the reader, or the exchange is answered. Returns whether this
 * thread is the reader. Not for the first wait of an exchange, because no other thread can have received the answer to
 * a message that the reader has sent.
 */
static bool read_again(const struct exchange *exchange)
{
	struct gpub_client *client = exchange->client;
	bool answered;

	if (!receiver_begin(client))
		return false;
	pthread_mutex_lock(&client->lock);
	answered = exchange->answered(client, exchange->context);
	pthread_mutex_unlock(&client->lock);
	if (answered)
		receiver_end(client);
	return !answered;
}

/*
 * After an interrupt: tells the broker to cancel the requests, and waits for the answers, until GRACE_MS have passed or
 * the interrupt function interrupts again. Tells the broker repeatedly, because a request on which a device thread
 * works can be cancelled only after the device's attempt has failed and the request has begun to wait. Returns with
 * client->lock held.
 */
static void wait_cancelled(const struct exchange *exchange)
{
	struct timespec last = client_deadline(GRACE_MS), part;
	bool late;

	for (;;) {
		for (unsigned i = 0; i < exchange->count; i++)
			call_cancel(exchange->client, exchange->messages[i].request);
		part = client_deadline(INTERRUPT_MS);
		late = wait_until(exchange, read_again(exchange), &part);
		if (!late || client_past(&last))
			return;
		pthread_mutex_unlock(&exchange->client->lock);
		if (interrupt_ask())
			break;
	}
	pthread_mutex_lock(&exchange->client->lock);
}

/*
 * Waits for the exchange, and calls the interrupt function from time to time. Returns 0 if the exchange is answered, or
 * the connection is lost; else -ETIMEDOUT or -EINTR. Returns with client->lock held.
 */
static int wait_in_parts(const struct exchange *exchange, bool reads, const struct timespec *deadline)
{
	struct timespec part;

	while (wait_until(exchange, reads, interrupt_part(deadline, &part))) {
		if (client_past(deadline))
			return error_set(-ETIMEDOUT, "the broker does not answer: it is stopped or overloaded");
		pthread_mutex_unlock(&exchange->client->lock);
		if (interrupt_ask()) {
			wait_cancelled(exchange);
			return interrupt_refuse();
		}
		reads = read_again(exchange);
	}
	return 0;
}

int call_exchange(struct gpub_client *client, const struct wire_message *messages, unsigned count,
		  bool (*answered)(struct gpub_client *, void *), void *context, const struct timespec *deadline)
{
	const struct exchange exchange = { client, messages, count, answered, context };
	bool reads;
	int error;

	pthread_mutex_unlock(&client->lock);
	CRASH_POINT(request_begin);
	reads = receiver_begin(client);
	error = reads ? 0 : link_check(&client->link);
	if (!error)
		error = count == 1 ? call_send(client, messages) : call_send_many(client, messages, count);
	CRASH_POINT(request_sent);
	if (error && reads)
		receiver_end(client);
	if (error)
		pthread_mutex_lock(&client->lock);
	else
		error = wait_in_parts(&exchange, reads, deadline);
	if (error || answered(client, context))
		return error;
	return link_lost_error(&client->link);
}

static bool has_reply(struct gpub_client *client, void *context)
{
	const struct call *call = context;

	(void)client;
	return call->done;
}

/* Returns 0 if the broker knows the request. -ENOSYS, error message set: the broker's protocol is older. */
static int check_known(const struct gpub_client *client, const struct wire_row *request)
{
	if (request->since <= client->revision)
		return 0;
	return error_set(-ENOSYS, "the broker does not know %s, which came with revision %u of the protocol: it speaks "
				  "revision %u: upgrade the broker",
			 request->name, request->since, client->revision);
}

static int call_make(struct gpub_client *client, struct wire_message *request, struct call *call,
		     const struct timespec *deadline)
{
	const struct wire_row *row = wire_row(request->type);
	int error = check_known(client, row);
	TRACE("%s", row->name);

	if (error)
		return error;

	pthread_mutex_lock(&client->lock);
	call->number = request->request = ++client->next_number << RECORD_NUMBER_BITS;
	LL_PREPEND(client->calls, call);
	error = call_exchange(client, request, 1, has_reply, call, deadline);
	if (error == -EINTR && call->done && call->reply.type != WIRE_REFUSED)
		error = 0; /* the broker had done the request before it got the cancel */
	LL_DELETE(client->calls, call);
	pthread_mutex_unlock(&client->lock);
	return error;
}

static int call_result(const struct call *call, const struct wire_message *request, struct wire_message *reply)
{
	const struct wire_row *asked = wire_row(request->type);

	CRASH_POINT(reply_taken);
	if (call->reply.type == WIRE_REFUSED)
		return error_set(call->reply.refused.error, "%s", call->reply.refused.text);
	if (call->reply.type != asked->answer)
		return error_set(-EPROTO, "the broker answered %s with %s: use broker and library of one release",
				 asked->name, wire_row(call->reply.type)->name);
	*reply = call->reply;
	return 0;
}

int call_broker(struct gpub_client *client, struct wire_message *request, struct wire_message *reply, int *fd,
		const struct timespec *deadline)
{
	struct call call = { .fd = -1, .file = -1 };
	int error = call_make(client, request, &call, deadline);

	if (!error)
		error = call_result(&call, request, reply);
	if (call.fd >= 0 && (error || !fd)) {
		close(call.fd);
		call.fd = -1;
	}
	if (fd)
		*fd = call.fd;
	return error;
}

int call_named(struct gpub_client *client, enum wire_type type, const char *name, struct wire_message *reply)
{
	struct wire_message request;
	int error = client_check(client);
	HOLD_CANCELLATION();

	if (!error)
		error = name_check(name);
	if (error)
		return error;
	wire_init(&request, type, 0);
	strcpy(request.name.name, name);
	return call_broker(client, &request, reply, NULL, NULL);
}

/* Makes the request once. Empties the file first, in which an earlier attempt may have left parts of its answer. */
static int call_into(struct gpub_client *client, struct wire_message *request, int file, struct wire_view *view)
{
	struct timespec last = client_deadline(FILE_MS);
	struct call call = { .fd = -1, .file = file };
	struct wire_message reply;
	int error = ftruncate(file, 0) ? error_set(-errno, "no place for the broker's answer: %m") :
					 call_make(client, request, &call, &last);

	if (call.fd >= 0)
		close(call.fd);
	if (!error)
		error = call_result(&call, request, &reply);
	if (error)
		return error;
	if (!call.error && ftruncate(file, (off_t)reply.view.size))
		call.error = -errno;
	*view = reply.view;
	return call.error ? error_set(call.error, "the broker's answer cannot be kept: %s", strerror(-call.error)) : 0;
}

/* Makes the request again, until FILE_AGAIN_MS have passed, while the broker refuses it with -EAGAIN. */
static int call_into_again(struct gpub_client *client, struct wire_message *request, int file, struct wire_view *view)
{
	struct timespec last = client_deadline(FILE_AGAIN_MS);
	int error;

	for (;;) {
		error = call_into(client, request, file, view);
		if (error != -EAGAIN || client_past(&last))
			return error;
		error = interrupt_ask();
		if (error)
			return error;
		usleep(FILE_PAUSE_MS * 1000);
	}
}

int call_for_file(struct gpub_client *client, struct wire_message *request, int *file, struct wire_view *view)
{
	int error, fd = memfd_create("gpubroker-answer", MFD_CLOEXEC);

	if (fd < 0)
		return error_set(-errno, "no place for the broker's answer: %m");
	error = call_into_again(client, request, fd, view);
	if (error)
		close(fd);
	else
		*file = fd;
	return error;
}

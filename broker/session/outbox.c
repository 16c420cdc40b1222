/* SPDX-License-Identifier: Apache-2.0 */
/* outbox.c - see outbox.h */
#include "outbox.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/sockios.h>
#include <utlist.h>

#include "broker/users/accounting.h"
#include "common/error.h"

#define UNREAD_MAX      1024 /* largest number of messages that wait, beside those that owner.due() allows */
#define DESCRIPTORS_MAX 512  /* largest number of waiting messages with a descriptor that outbox_check() allows */

/* A message that waits. */
struct outgoing {
	struct wire_message message;
	int                 fd; /* copy of the descriptor to send; -1: none */
	/* charges for the message's memory, and for the copy of the descriptor */
	struct charge       queued, descriptor;
	struct outgoing    *prev, *next; /* links in the list box->first */
};

static void failed(struct outbox *box, const char *reason)
{
	box->owner.failed(box->owner.context, reason);
}

static void outgoing_free(struct outbox *box, struct outgoing *out)
{
	if (out->fd >= 0)
		close(out->fd);
	charge_release(&out->descriptor, box->owner.accounting);
	charge_release(&out->queued, box->owner.accounting);
	free(out);
}

static void outgoing_done(struct outbox *box, struct outgoing *out)
{
	DL_DELETE(box->first, out);
	box->count--;
	box->descriptors -= out->fd >= 0;
	outgoing_free(box, out);
}

/* Returns true if the peer has read everything. SIOCOUTQ counts the unread bytes and the kernel's own data for them. */
static bool is_read(const struct outbox *box)
{
	int bytes;

	return !ioctl(box->sock, SIOCOUTQ, &bytes) && bytes < WIRE_SIZE;
}

/*
 * Sends a message now. The kernel counts unread descriptors, of all sessions together, against the broker's limit of
 * open files (unix(7), ETOOMANYREFS). So a session may have at most OUTBOX_UNREAD unread, for which it is charged.
 * -EAGAIN: the socket has no room, or the peer must read its descriptors first.
 */
static int send_to(struct outbox *box, const struct wire_message *message, int descriptor)
{
	int error;

	if (descriptor >= 0 && box->unread && is_read(box))
		box->unread = 0;
	if (descriptor >= 0 && box->unread == OUTBOX_UNREAD)
		return -EAGAIN;
	error = socket_send(box->sock, message, descriptor, MSG_DONTWAIT);
	box->unread += !error && descriptor >= 0;
	return error;
}

/*
 * Sends the messages that wait. The event is edge-triggered: it comes each time the peer has read, also if there was
 * room before.
 */
static void on_writable(evutil_socket_t sock, short what, void *argument)
{
	struct outbox *box = argument;

	(void)sock;
	(void)what;
	while (box->first) {
		int error = send_to(box, &box->first->message, box->first->fd);

		if (error == -EAGAIN)
			return;
		if (error && error != -ECONNRESET) {
			failed(box, "it cannot be sent to");
			return;
		}
		outgoing_done(box, box->first);
	}
	event_del(box->writing);
	if (!box->wanted)
		return;
	box->wanted = false;
	box->owner.room(box->owner.context);
}

/* Has on_writable() called when the peer has read. Without memory for this, nothing would be sent any more. */
static void watch(struct outbox *box)
{
	if (event_add(box->writing, NULL))
		failed(box, "the broker is out of memory");
}

/* Relies on POLLOUT, which the kernel reports when at most a quarter of the socket's buffer is used. */
bool outbox_has_room(struct outbox *box)
{
	struct pollfd p = { .fd = box->sock, .events = POLLOUT };

	if (!box->first && poll(&p, 1, 0) == 1)
		return true;
	box->wanted = true;
	watch(box);
	return false;
}

/* Returns how many messages with a descriptor can be sent now without waiting. */
static unsigned descriptors_leave(struct outbox *box)
{
	struct pollfd p = { .fd = box->sock, .events = POLLOUT };

	if (box->first || poll(&p, 1, 0) != 1)
		return 0;
	if (box->unread && is_read(box))
		box->unread = 0; /* noted now, because is_read() will be false after the next message */
	return OUTBOX_UNREAD - box->unread;
}

int outbox_check(struct outbox *box, unsigned descriptors)
{
	unsigned leave = descriptors ? descriptors_leave(box) : 0, wait = descriptors > leave ? descriptors - leave : 0;
	struct charge charge = { 0 };
	int error;

	if (!wait)
		return 0;
	if (box->descriptors + wait > DESCRIPTORS_MAX)
		return error_set(-EDQUOT,
				 "%u descriptors of memory and timelines wait for this process to read them, %u more "
				 "would, and it may leave %u unread: acquire fewer buffers at once",
				 box->descriptors, wait, DESCRIPTORS_MAX);
	error = charge_take(&charge, box->owner.accounting, box->owner.uid, RESOURCE_DESCRIPTORS, wait);
	charge_release(&charge, box->owner.accounting);
	return error;
}

static bool is_full(struct outbox *box)
{
	return box->count >= UNREAD_MAX && box->count >= UNREAD_MAX + box->owner.due(box->owner.context);
}

/*
 * Fills in *out for a message that is to wait, and charges for it. Returns NULL, or the reason why the message, or its
 * descriptor, cannot wait.
 */
static const char *outgoing_fill(struct outbox *box, struct outgoing *out, const struct wire_message *message,
				 int descriptor)
{
	const struct outbox_owner *owner = &box->owner;

	out->fd = -1;
	if (charge_try(&out->queued, owner->accounting, owner->uid, RESOURCE_QUEUED, sizeof *out))
		return "it does not read what it is sent, and its user may leave no more unread";
	out->message = *message;
	if (descriptor < 0)
		return NULL;
	if (charge_try(&out->descriptor, owner->accounting, owner->uid, RESOURCE_DESCRIPTORS, 1))
		return "it does not read what it is sent, and its user may have no more descriptors wait";
	out->fd = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
	return out->fd >= 0 ? NULL : "no descriptors are left for what it is sent (raise the limit, ulimit -n)";
}

static void enqueue(struct outbox *box, const struct wire_message *message, int descriptor)
{
	struct outgoing *out;
	const char *reason;

	if (is_full(box)) {
		failed(box, "it does not read what it is sent");
		return;
	}
	out = calloc(1, sizeof *out);
	if (!out) {
		failed(box, "the broker is out of memory");
		return;
	}
	reason = outgoing_fill(box, out, message, descriptor);
	if (reason) {
		outgoing_free(box, out);
		failed(box, reason);
		return;
	}
	DL_APPEND(box->first, out);
	box->count++;
	box->descriptors += descriptor >= 0;
	watch(box);
}

static void answering(const struct outbox *box)
{
	if (box->owner.answering)
		box->owner.answering(box->owner.context);
}

/*
 * Sends the staged messages as one packet, or queues them to wait. If the outbox fails meanwhile, drops the messages
 * that are left.
 */
static void staged_send(struct outbox *box)
{
	struct staged *staged = box->staged;
	unsigned count = staged->count;

	staged->count = 0;
	answering(box);
	if (!count || (!box->first && socket_send_many(box->sock, staged->message, count, count, MSG_DONTWAIT) > 0))
		return;
	for (unsigned i = 0; i < count && !box->stopped; i++)
		enqueue(box, &staged->message[i], -1);
}

static void stage(struct outbox *box, const struct wire_message *message)
{
	if (box->staged->count == SOCKET_PACKET_MAX)
		staged_send(box);
	if (!box->stopped)
		box->staged->message[box->staged->count++] = *message;
}

static void send_now(struct outbox *box, const struct wire_message *message, int descriptor)
{
	int error = -EAGAIN;

	if (message->type != WIRE_NOTICE)
		answering(box);
	if (!box->first)
		error = send_to(box, message, descriptor);
	/* after -ECONNRESET the peer has closed the socket: the owner handles the hang-up when it reads the socket */
	if (error == -EAGAIN)
		enqueue(box, message, descriptor);
	else if (error && error != -ECONNRESET)
		failed(box, "it cannot be sent to");
}

void outbox_send(struct outbox *box, const struct wire_message *message, int descriptor)
{
	if (box->staged && descriptor < 0) {
		stage(box, message);
		return;
	}
	if (box->staged)
		staged_send(box); /* the staged messages are sent first, to keep the order */
	if (!box->stopped)
		send_now(box, message, descriptor);
}

void outbox_begin(struct outbox *box, struct staged *staged)
{
	staged->count = 0;
	box->staged = staged;
}

void outbox_end(struct outbox *box)
{
	staged_send(box);
	box->staged = NULL;
}

int outbox_open(struct outbox *box, struct event_base *base, int sock, const struct outbox_owner *owner)
{
	*box = (struct outbox){ .owner = *owner, .sock = sock };
	box->writing = event_new(base, sock, EV_WRITE | EV_ET | EV_PERSIST, on_writable, box);
	return box->writing ? 0 : error_set(-ENOMEM, "the broker is out of memory");
}

void outbox_stop(struct outbox *box)
{
	box->stopped = true;
	if (box->staged)
		box->staged->count = 0;
	while (box->first)
		outgoing_done(box, box->first);
	if (box->writing)
		event_del(box->writing);
}

void outbox_close(struct outbox *box)
{
	outbox_stop(box);
	if (box->writing)
		event_free(box->writing);
	box->writing = NULL;
}

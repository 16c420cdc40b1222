/* SPDX-License-Identifier: Apache-2.0 */
/* outbox.c - see outbox.h */
#include "outbox.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/sockios.h>
#include <utlist.h>

#include "broker/users/accounting.h"
#include "common/error.h"

#define UNREAD_MAX      1024 /* largest number of messages that wait, beside those that owner.due() allows */
#define DESCRIPTORS_MAX 512  /* largest number of waiting messages with a descriptor that outbox_check() allows */
#define SPARES          64   /* structs that are there for messages at the beginning, and are kept */

/* A message that is not sent yet. */
struct outgoing {
	struct wire_message message;
	int                 fd; /* copy of the descriptor to send; -1: none */
	bool                leaves; /* it has a descriptor and is counted in box->leaving */
	bool                promised; /* it is counted in tracking->promised */
	uint64_t            session, order; /* for its note */
	struct tracked      tracked;
	/* charges for the message's memory, and for the copy of the descriptor, while the message waits for room */
	struct charge       queued, descriptor;
	struct outgoing    *prev, *next; /* links in the list box->first */
};

static void failed(struct outbox *box, const char *reason)
{
	box->owner.failed(box->owner.context, reason);
}

/* ---- the structs ---- */

static struct outgoing *outgoing_new(struct outboxes *outboxes)
{
	struct outgoing *out = outboxes->spare;

	if (!out)
		return calloc(1, sizeof *out);
	outboxes->spare = out->next;
	outboxes->spares--;
	out->queued = out->descriptor = (struct charge){ 0 };
	out->tracked = (struct tracked){ 0 };
	return out;
}

/* Whether the message has a key or a ticket, which shall not stay in memory. */
static bool is_secret(const struct outgoing *out)
{
	return out->message.type == WIRE_WELCOME || out->message.type == WIRE_TICKET;
}

static void outgoing_free(struct outbox *box, struct outgoing *out)
{
	struct outboxes *outboxes = box->owner.outboxes;

	if (out->fd >= 0)
		close(out->fd);
	if (is_secret(out))
		explicit_bzero(&out->message, sizeof out->message);
	charge_release(&out->descriptor, box->owner.accounting);
	charge_release(&out->queued, box->owner.accounting);
	if (outboxes->spares == SPARES) {
		free(out);
		return;
	}
	out->next = outboxes->spare;
	outboxes->spare = out;
	outboxes->spares++;
}

/* Has the ledger keep the room for the message that outbox_send() has reserved. */
static void promise(struct outbox *box, struct outgoing *out)
{
	out->promised = box->owner.tracking;
	if (out->promised)
		box->owner.tracking->promised++;
}

static void promise_end(struct outbox *box, struct outgoing *out)
{
	if (out->promised)
		box->owner.tracking->promised--;
	out->promised = false;
}

static void outgoing_done(struct outbox *box, struct outgoing *out)
{
	promise_end(box, out);
	DL_DELETE(box->first, out);
	box->count--;
	box->descriptors -= out->fd >= 0;
	box->leaving -= out->leaves;
	tracked_end(box->owner.tracking, &out->tracked);
	outgoing_free(box, out);
}

int outboxes_init(struct outboxes *outboxes)
{
	*outboxes = (struct outboxes){ 0 };
	while (outboxes->spares < SPARES) {
		struct outgoing *out = calloc(1, sizeof *out);

		if (!out)
			return error_set(-ENOMEM, "the broker is out of memory");
		out->next = outboxes->spare;
		outboxes->spare = out;
		outboxes->spares++;
	}
	return 0;
}

void outboxes_deinit(struct outboxes *outboxes)
{
	while (outboxes->spare) {
		struct outgoing *out = outboxes->spare;

		outboxes->spare = out->next;
		free(out);
	}
	outboxes->spares = 0;
}

/* ---- which outboxes have something to send ---- */

/* Has outboxes_send() try to send the messages. */
static void note_change(struct outbox *box)
{
	if (box->is_changed)
		return;
	box->is_changed = true;
	DL_APPEND(box->owner.outboxes->changed, box);
}

static void forget_change(struct outbox *box)
{
	if (box->is_changed)
		DL_DELETE(box->owner.outboxes->changed, box);
	box->is_changed = false;
}

/* ---- what the socket takes ---- */

/* Returns true if the peer has read everything. SIOCOUTQ counts the unread bytes and the kernel's own data for them. */
static bool is_read(const struct outbox *box)
{
	int bytes;

	return !ioctl(box->sock, SIOCOUTQ, &bytes) && bytes < WIRE_SIZE;
}

bool outbox_is_bound(const struct wire_message *message, int fd)
{
	return message->type == WIRE_VIEW || (message->type == WIRE_DONE && fd >= 0);
}

static void tell_of_sent(struct outbox *box, const struct outgoing *out)
{
	if (box->owner.sent && outbox_is_bound(&out->message, out->fd))
		box->owner.sent(box->owner.context, out->message.request);
}

/*
 * Sends the first message. The kernel counts unread descriptors, of all sessions together, against the broker's limit
 * of open files (unix(7), ETOOMANYREFS). So a session may have at most OUTBOX_UNREAD unread, for which it is charged.
 * -EAGAIN: the socket has no room, or the peer must read its descriptors first.
 */
static int send_first(struct outbox *box)
{
	const struct outgoing *out = box->first;
	int error;

	if (out->fd >= 0 && box->unread && is_read(box))
		box->unread = 0;
	if (out->fd >= 0 && box->unread == OUTBOX_UNREAD)
		return -EAGAIN;
	error = socket_send(box->sock, &out->message, out->fd, MSG_DONTWAIT);
	box->unread += !error && out->fd >= 0;
	if (!error)
		tell_of_sent(box, out);
	/* after -ECONNRESET the peer has closed the socket: the owner handles the hang-up when it reads the socket */
	if (!error || error == -ECONNRESET)
		outgoing_done(box, box->first);
	return error == -ECONNRESET ? 0 : error;
}

/* Sends the first messages as one packet, if there are several that fit in one. Returns how many were sent. */
static unsigned send_packet(struct outbox *box)
{
	struct wire_message *packet = box->owner.outboxes->packet;
	const struct outgoing *out;
	unsigned count = 0;

	for (out = box->first; out && out->fd < 0 && !is_secret(out) && count < SOCKET_PACKET_MAX; out = out->next)
		packet[count++] = out->message;
	if (count < 2 || socket_send_many(box->sock, packet, count, count, MSG_DONTWAIT) <= 0)
		return 0;
	for (unsigned i = 0; i < count; i++) {
		tell_of_sent(box, box->first);
		outgoing_done(box, box->first);
	}
	return count;
}

/* Returns 0 when all messages are sent, or -EAGAIN: the others wait for room; or another error of the socket. */
static int send_all(struct outbox *box)
{
	int error = 0;

	while (box->first && !error)
		if (!box->packs || !send_packet(box))
			error = send_first(box);
	return error;
}

/* Has on_writable() called when the peer has read. Without memory for this, nothing would be sent any more. */
static void watch(struct outbox *box)
{
	if (event_add(box->writing, NULL))
		failed(box, "the broker is out of memory");
}

/* Called when the socket had room and no message waits. */
static void unwatch(struct outbox *box)
{
	bool wanted = box->wanted;

	event_del(box->writing);
	box->has_room = box->wanted = false;
	if (wanted)
		box->owner.room(box->owner.context);
}

/* Charges the user for a message that waits. Returns NULL, or the reason why it cannot wait. */
static const char *charge_waiting(struct outbox *box, struct outgoing *out)
{
	const struct outbox_owner *owner = &box->owner;

	if (!out->queued.account &&
	    charge_try(&out->queued, owner->accounting, owner->uid, RESOURCE_QUEUED, sizeof *out))
		return "it does not read what it is sent, and its user may leave no more unread";
	if (out->fd >= 0 && !out->descriptor.account &&
	    charge_try(&out->descriptor, owner->accounting, owner->uid, RESOURCE_DESCRIPTORS, 1))
		return "it does not read what it is sent, and its user may have no more descriptors wait";
	box->leaving -= out->leaves;
	out->leaves = false;
	return NULL;
}

/* ---- what is noted ---- */

/* Whether somebody waits for the message, and another broker can send it, too. */
static bool is_owed(const struct outgoing *out)
{
	switch (out->message.type) {
	case WIRE_CHALLENGE:
	case WIRE_NOTICE:
	case WIRE_INQUIRE:
	case WIRE_PART:
		return false;
	default:
		return !outbox_is_bound(&out->message, out->fd);
	}
}

/* Gives the message a slot, so that the next commit writes it into the ledger. Does nothing if it was given one. */
static void note(struct outbox *box, struct outgoing *out)
{
	bool promised = out->promised;

	promise_end(box, out); /* tracked_begin() leaves promised slots alone */
	if (promised && is_owed(out))
		tracked_begin(box->owner.tracking, &out->tracked, TRACKED_OWED);
}

/* Called for what waits for room: another packet may be in hand when it is sent. */
static void commit_soon(struct outbox *box)
{
	if (box->owner.tracking)
		box->owner.tracking->urgent = true;
}

static void note_all(struct outbox *box)
{
	struct outgoing *out;

	DL_FOREACH(box->first, out)
		note(box, out);
}

/* Leaves out outboxes that wait for room: block() and outbox_send() have noted their messages. */
void outboxes_note(struct outboxes *outboxes)
{
	struct outbox *box;

	DL_FOREACH(outboxes->changed, box)
		if (!box->blocked)
			note_all(box);
}

/* ---- waiting for room ---- */

/* Lets the messages that are left wait for room. */
static void block(struct outbox *box)
{
	const char *reason = NULL;
	struct outgoing *out;

	DL_FOREACH(box->first, out)
		if (!reason)
			reason = charge_waiting(box, out);
	if (!box->blocked) {
		note_all(box);
		commit_soon(box);
	}
	box->blocked = true;
	if (reason)
		failed(box, reason);
	else
		watch(box);
}

/* Sends the messages, and returns whether none is left and the outbox goes on. */
static bool flush(struct outbox *box)
{
	int error = send_all(box);

	if (error == -EAGAIN)
		block(box);
	else if (error)
		failed(box, "it cannot be sent to");
	else
		box->blocked = false;
	return !error;
}

void outboxes_send(struct outboxes *outboxes)
{
	while (outboxes->changed) {
		struct outbox *box = outboxes->changed;

		forget_change(box);
		if (flush(box) && box->has_room)
			unwatch(box);
	}
}

/*
 * Has the messages sent with those of the other outboxes, because what the last ones tell of may not be published yet.
 * The event is edge-triggered: it comes each time the peer has read, also if there was room before.
 */
static void on_writable(evutil_socket_t sock, short what, void *argument)
{
	struct outbox *box = argument;

	(void)sock;
	(void)what;
	box->has_room = true;
	note_change(box);
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

/* Returns how many messages with a descriptor leave without waiting, beside those that are to leave already. */
static unsigned descriptors_leave(struct outbox *box)
{
	struct pollfd p = { .fd = box->sock, .events = POLLOUT };

	if (box->blocked || poll(&p, 1, 0) != 1)
		return 0;
	if (box->unread && is_read(box))
		box->unread = 0; /* noted now, because is_read() will be false after the next message */
	return box->unread + box->leaving < OUTBOX_UNREAD ? OUTBOX_UNREAD - box->unread - box->leaving : 0;
}

int outbox_check(struct outbox *box, unsigned descriptors)
{
	unsigned leave = descriptors ? descriptors_leave(box) : 0, wait = descriptors > leave ? descriptors - leave : 0;
	struct charge charge = { 0 };
	int error;

	if (!wait)
		return 0;
	if (box->descriptors - box->leaving + wait > DESCRIPTORS_MAX)
		return error_set(-EDQUOT,
				 "%u descriptors of memory and timelines wait for this process to read them, %u more "
				 "would, and it may leave %u unread: acquire fewer buffers at once",
				 box->descriptors - box->leaving, wait, DESCRIPTORS_MAX);
	error = charge_take(&charge, box->owner.accounting, box->owner.uid, RESOURCE_DESCRIPTORS, wait);
	charge_release(&charge, box->owner.accounting);
	return error;
}

/* ---- messages ---- */

static bool is_full(struct outbox *box)
{
	return box->count >= UNREAD_MAX && box->count >= UNREAD_MAX + box->owner.due(box->owner.context);
}

/*
 * Gives the message a copy of its descriptor. Charges for it now if it will have to wait, so that what outbox_check()
 * allowed can be sent. Returns NULL, or the reason why it cannot wait.
 */
static const char *take_descriptor(struct outbox *box, struct outgoing *out, int descriptor)
{
	const struct outbox_owner *owner = &box->owner;

	out->leaves = descriptors_leave(box) > 0;
	box->leaving += out->leaves;
	if (!out->leaves && charge_try(&out->descriptor, owner->accounting, owner->uid, RESOURCE_DESCRIPTORS, 1))
		return "it does not read what it is sent, and its user may have no more descriptors wait";
	out->fd = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
	return out->fd >= 0 ? NULL : "no descriptors are left for what it is sent (raise the limit, ulimit -n)";
}

/* Fills in a message. Returns NULL, or the reason why it can neither be sent nor wait. */
static const char *outgoing_fill(struct outbox *box, struct outgoing *out, const struct wire_message *message,
				 int descriptor)
{
	const char *reason = NULL;

	out->message = *message;
	out->session = box->owner.session;
	out->order = box->owner.outboxes->order++;
	out->fd = -1;
	out->leaves = false;
	if (descriptor >= 0)
		reason = take_descriptor(box, out, descriptor);
	if (!reason && box->blocked)
		reason = charge_waiting(box, out);
	return reason;
}

void outbox_note(const struct tracked *owed, struct owed_record *record)
{
	const struct outgoing *out = (const struct outgoing *)((const char *)owed - offsetof(struct outgoing, tracked));

	*record = (struct owed_record){ .session = out->session, .order = out->order, .message = out->message };
	if (out->message.type == WIRE_WELCOME)
		memset(record->message.welcome.key, 0, sizeof record->message.welcome.key);
}

void outbox_send(struct outbox *box, const struct wire_message *message, int descriptor)
{
	struct outgoing *out;
	const char *reason;

	if (box->stopped)
		return;
	if (is_full(box)) {
		failed(box, "it does not read what it is sent");
		return;
	}
	out = tracking_reserve(box->owner.tracking, 1) ? NULL : outgoing_new(box->owner.outboxes);
	if (!out) {
		failed(box, "the broker is out of memory");
		return;
	}
	reason = outgoing_fill(box, out, message, descriptor);
	if (reason) {
		box->leaving -= out->leaves;
		outgoing_free(box, out);
		failed(box, reason);
		return;
	}
	DL_APPEND(box->first, out);
	box->count++;
	box->descriptors += out->fd >= 0;
	promise(box, out);
	if (box->blocked) {
		note(box, out);
		commit_soon(box);
	} else {
		note_change(box);
	}
}

void outbox_pack(struct outbox *box)
{
	box->packs = true;
}

/* ---- begin and end ---- */

int outbox_open(struct outbox *box, struct event_base *base, int sock, const struct outbox_owner *owner)
{
	*box = (struct outbox){ .owner = *owner, .sock = sock };
	box->writing = event_new(base, sock, EV_WRITE | EV_ET | EV_PERSIST, on_writable, box);
	return box->writing ? 0 : error_set(-ENOMEM, "the broker is out of memory");
}

void outbox_stop(struct outbox *box)
{
	box->stopped = true;
	while (box->first)
		outgoing_done(box, box->first);
	forget_change(box);
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

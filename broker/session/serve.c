/* SPDX-License-Identifier: Apache-2.0 */
/* serve.c - see serve.h */
#include "serve.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/socket.h>

#include "broker/base/context.h"
#include "common/crash-point.h"
#include "common/error.h"
#include "common/now.h"
#include "common/socket.h"
#include "discard.h"
#include "fair-queue.h"
#include "greeting.h"
#include "outbox.h"
#include "restore.h"
#include "session-end.h"
#include "session.h"

#define CRASHES_MAX 2 /* brokers in a row that may crash at one message */

/* ---- reading ---- */

enum read_result {
	READ_PACKET, /* a packet was read, or a step was done, and there may be more to do */
	READ_NONE,   /* the socket has no packet or, for a task, no room for messages */
	READ_LAST    /* the session has hung up, is disconnected or freed; the caller does not use it any more */
};

/* Handles an error of a read: the client closed its end of the socket, or sent something wrong. */
static enum read_result read_failed(struct session *session, int error)
{
	if (error == -ECONNRESET && session_socket_is_closed(session))
		session_hang_up(session);
	else if (session->state == SESSION_GREETING)
		greeting_reject(session, -EPROTO);
	else if (error == -ECONNRESET && session->place.dead)
		session_disconnect(session, "its process is dead, and another one has its socket");
	else
		session_disconnect(session, error_text());
	return READ_LAST;
}

static enum read_result take_greeting(struct session *session, const struct socket_packet *packet)
{
	int error = socket_packet_check(packet, 0);

	session->broker->sessions->done = packet->count;
	fair_count(&session->place, COST_GREETING);
	if (!error && packet->count > 1)
		error = error_set(-EPROTO, "it sent more than its greeting before it was welcomed");
	if (!error)
		error = greeting_take(session, packet->message, &packet->extra);
	if (error)
		greeting_reject(session, error);
	return error || session->state == SESSION_DISCONNECTED ? READ_LAST : READ_PACKET;
}

/*
 * Returns -EPROTO for messages of another process than the session's, such as a forked child with the inherited socket.
 */
static int check_sender(const struct session *session, const struct socket_extra *extra)
{
	if (extra->has_sender && extra->sender.pid != session->pid)
		return error_set(-EPROTO, "another process used its socket");
	return 0;
}

/* Whether the message answers an INQUIRE that the session has not answered yet. */
static bool is_owed(const struct session *session, const struct wire_message *message)
{
	return wire_row(message->type)->traits & WIRE_OWED && session->inquired.answer == ANSWER_OWED;
}

/* Handles the messages of a packet. If it has several, the client understands such packets. */
static enum read_result take_messages(struct session *session, const struct socket_packet *packet)
{
	struct sessions *sessions = session->broker->sessions;
	int error = 0;

	if (packet->count > 1)
		outbox_pack(&session->outbox);
	for (unsigned i; (i = sessions->done) < packet->count && session->state != SESSION_DISCONNECTED && !error;) {
		sessions->done++;
		error = socket_packet_check(packet, i);
		if (error)
			break;
		if (is_owed(session, &packet->message[i]))
			fair_count_work(&session->place, COST_MESSAGE);
		else
			fair_count(&session->place, COST_MESSAGE);
		/* set again, because the last handler may have worked for another session */
		CRASH_POINT_PEER(session->pid);
		CRASH_POINT(request_received);
		error = check_sender(session, &packet->extra);
		if (!error)
			error = sessions->hooks->message(session, &packet->message[i]);
	}
	if (error)
		session_disconnect(session, error_text());
	return session->state == SESSION_DISCONNECTED ? READ_LAST : READ_PACKET;
}

/*
 * Makes the hand ready for a packet of the session. What was in it is handled, and noted if it has changed something; a
 * broker that dies from here on leaves either nothing in hand or the whole packet.
 */
static void open_hand(struct session *session)
{
	struct sessions *sessions = session->broker->sessions;
	struct hand *hand = sessions->hand;

	sessions_commit(session->broker);
	socket_packet_clear(&hand->packet);
	atomic_signal_fence(memory_order_seq_cst);
	hand->session = session->id;
	hand->number++;
	hand->crashes = 0;
	sessions->done = 0;
	atomic_signal_fence(memory_order_seq_cst);
}

/*
 * Reads a packet from the socket into *packet, and has its descriptors closed. Returns -EPROTO for a packet with
 * descriptors; the packet stays in the socket if discard_admits() returns false.
 */
static int take_packet(struct session *session, struct socket_packet *packet)
{
	struct discard *discard = session->broker->discard;
	bool admitted = discard_admits(discard, session->who.uid, session->fd);
	int error;

	if (admitted)
		open_hand(session);
	error = admitted ? socket_receive_packet(session->fd, packet, false, MSG_DONTWAIT) : 0;

	if (error == -EAGAIN)
		return error;
	if (admitted)
		discard_close(discard, session->who.uid, packet->extra.unwanted, packet->extra.unwanted_count);
	if (!error && (!admitted || packet->extra.unwanted_count))
		error = error_set(-EPROTO, "it sent descriptors, which no client has to send");
	return error;
}

static enum read_result receive(struct session *session, struct socket_packet *packet)
{
	int error = take_packet(session, packet);

	if (error == -EAGAIN)
		return READ_NONE;
	if (error)
		return read_failed(session, error);
	session->broker->received = now_ns(CLOCK_MONOTONIC);
	session->broker->sessions->open = true;
	return READ_PACKET;
}

/* Does a step of the session's task. Drops the task if it is done, the process is dead, or the client has hung up. */
static enum read_result proceed(struct session *session)
{
	bool done = session->place.dead || session_socket_is_closed(session);

	if (!done && !outbox_has_room(&session->outbox))
		return READ_NONE;
	if (!done)
		done = session->task->step(session);
	if (done)
		session_drop_task(session);
	return session->state == SESSION_DISCONNECTED ? READ_LAST : READ_PACKET;
}

static enum read_result read_next(struct session *session, struct socket_packet *packet)
{
	enum read_result result = receive(session, packet);

	if (result != READ_PACKET)
		return result;
	return session->state == SESSION_GREETING ? take_greeting(session, packet) : take_messages(session, packet);
}

/* Whether the session goes on after what it was sent. The send disconnects a session that does not read. */
static enum read_result send_answers(struct session *session, enum read_result result)
{
	sessions_send(session->broker);
	return session->state == SESSION_DISCONNECTED ? READ_LAST : result;
}

static void session_read(struct session *session)
{
	struct socket_packet *packet = &session->broker->sessions->hand->packet;
	enum read_result result = READ_PACKET;

	while (result == READ_PACKET && fair_allows(&session->place)) {
		result = session->task ? proceed(session) : read_next(session, packet);
		if (result == READ_PACKET)
			result = send_answers(session, result);
	}
	if (result == READ_PACKET)
		session_wait(session);
	else if (result == READ_NONE && session->state == SESSION_GREETING && greeting_expect(session))
		greeting_reject(session, -ENOMEM);
}

/* ---- discarding ---- */

/*
 * Ends the requests of a disconnected session, and shuts down the broker's direction of the socket, so that the client
 * reads an end of file. Shuts down nothing if the client has shut down its own direction: with both directions shut
 * down the broker would take the socket for one that the client has closed (invariant 9).
 */
static void begin_discarding(struct session *session)
{
	struct pollfd p = { .fd = session->fd, .events = POLLRDHUP };

	session->discarding = true;
	session_drop_task(session);
	if (poll(&p, 1, 0) == 0)
		shutdown(session->fd, SHUT_WR);
	session->due |= DUE_SILENCE;
	session_do_due(session);
	broker_changed(session->broker);
}

/*
 * Sets a timer to read again, because a packet that discard_admits() left in the socket makes no new event. If there is
 * no memory for the timer, reads again when the user's turn comes.
 */
static void discard_later(struct session *session)
{
	static const struct timeval pause = { .tv_usec = 100000 };

	if (!event_add(session->reading, &pause))
		return;
	fair_count_work(&session->place, COST_MESSAGE); /* so that the pass ends if there is still no memory */
	session_wait(session);
}

/*
 * Receives and discards what a disconnected client sends, until the client hangs up. A message may carry a descriptor
 * of the other end of this socket; as long as the message is not received, the socket does not hang up.
 */
static void discard(struct session *session)
{
	bool admitted = true, more = true;

	if (!session->discarding)
		begin_discarding(session);
	event_remove_timer(session->reading);
	while (more && fair_allows(&session->place)) {
		admitted = discard_admits(session->broker->discard, session->who.uid, session->fd);
		more = admitted && discard_message(session->broker->discard, session->who.uid, session->fd);
		if (more)
			fair_count(&session->place, COST_MESSAGE);
	}
	if (session_socket_is_closed(session))
		session_hang_up(session);
	else if (more)
		session_wait(session);
	else if (!admitted)
		discard_later(session);
}

/* ---- serving a session ---- */

/*
 * Does the next work of a session. The callback of the socket's event; session_accept() and sessions_serve() call it.
 */
static void session_serve(evutil_socket_t fd, short what, void *argument)
{
	struct session *session = argument;

	(void)fd;
	if (session->due && !session_do_due(session))
		return;
	if (session->place.ending)
		session_end_mappings(session);
	else if (session->fd < 0)
		session_prove_again(session);
	else if (session->state == SESSION_ARRIVED)
		greeting_begin(session, session_serve);
	else if (session->state == SESSION_DISCONNECTED)
		discard(session);
	else if (what & EV_TIMEOUT && session->state == SESSION_GREETING && !session->place.waits)
		greeting_late(session);
	else
		session_read(session);
}

void sessions_blame(struct broker *broker)
{
	struct sessions *sessions = broker->sessions;
	struct hand *hand = sessions->hand;

	if (hand->crashed != sessions->done)
		hand->crashes = 0;
	hand->crashed = sessions->done;
	hand->crashes++;
}

static int check_crashes(const struct sessions *sessions)
{
	const struct hand *hand = sessions->hand;

	if (hand->crashes < CRASHES_MAX || hand->crashed != sessions->done)
		return 0;
	return error_set(-EPROTO, "%u brokers in a row have crashed at its message", CRASHES_MAX);
}

void sessions_resume_hand(struct broker *broker)
{
	struct sessions *sessions = broker->sessions;
	struct session *session = session_find(broker, sessions->hand->session);
	int error = socket_packet_again(&sessions->hand->packet);

	if (!session || session->state == SESSION_DISCONNECTED || error == -EAGAIN)
		return;
	if (!error)
		error = check_crashes(sessions);
	if (error)
		session_disconnect(session, error_text());
	else
		take_messages(session, &sessions->hand->packet);
	sessions->open = true;
	sessions_commit(broker);
}

int session_accept(struct broker *broker, int fd, int reserved)
{
	int error;
	struct session *session = greeting_arrive(broker, fd, reserved, &error);

	if (!session)
		return error;
	session_serve(fd, 0, session);
	return 0;
}

int session_resume(struct broker *broker, const struct session_record *record, const struct session_descriptors *kept)
{
	struct session *session;
	int error = session_restore(broker, record, kept, session_serve, &session);

	if (error)
		return error;
	if (!session->hung_up)
		session_wait(session);
	return 0;
}

void sessions_resume_ends(struct broker *broker)
{
	struct session *session, *next;

	HASH_ITER(hh, broker->sessions->by_id, session, next)
		if (session->before && session->hung_up)
			session_hang_up(session);
}

bool sessions_serve(struct broker *broker)
{
	struct fair_entry *place;

	fair_pass_begin(broker->queue);
	while ((place = fair_pass_next(broker->queue)))
		session_serve(-1, 0, (char *)place - offsetof(struct session, place));
	return fair_pass_end(broker->queue);
}

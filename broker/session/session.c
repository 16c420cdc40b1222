/* SPDX-License-Identifier: Apache-2.0 */
/* session.c - see session.h */
#include "session.h"

#include <errno.h>
#include <poll.h>
#include <sodium.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "broker/base/context.h"
#include "broker/base/log.h"
#include "broker/registry/board-owner.h"
#include "broker/registry/grants.h"
#include "broker/registry/registry.h"
#include "broker/registry/timeline.h"
#include "broker/users/accounting.h"
#include "broker/users/identity.h"
#include "common/crash-point.h"
#include "common/error.h"
#include "common/socket.h"
#include "discard.h"
#include "fair-queue.h"
#include "outbox.h"
#include "proof.h"
#include "refusal.h"

#define GREETING_SECONDS 10
#define DESCRIPTORS      2 /* of one: its socket, its pidfd */

static const struct timeval greeting_time = { .tv_sec = GREETING_SECONDS };

struct session *session_find(struct broker *broker, uint64_t id)
{
	struct session *session;

	HASH_FIND(hh, broker->sessions->by_id, &id, sizeof id, session);
	return session;
}

bool session_maps(const struct session *session)
{
	return HASH_COUNT(session->grants.by_id) > session->grants.held;
}

bool session_is_welcome(const struct session *session)
{
	return session->state != SESSION_ARRIVED && session->state != SESSION_GREETING;
}

/* It waits in its user's queue, and its socket is not watched meanwhile. */
static void session_wait(struct session *session)
{
	if (session->reading && !session->place.waits)
		event_del(session->reading);
	fair_wait(&session->place);
}

/* ---- sending ---- */

/* One notice for each buffer that it uses and one for each grant may come at any time, and that is not its fault. */
static unsigned notices_due(void *context)
{
	const struct session *session = context;

	return HASH_COUNT(session->grants.by_id) + session->grants.used;
}

static void on_answering(void *context)
{
	const struct session *session = context;

	broker_publish(session->broker);
}

static void on_unsent(void *context, const char *reason)
{
	session_cut(context, reason);
}

void session_send(struct session *session, const struct wire_message *message, int fd)
{
	if (session->fd >= 0 && session->state != SESSION_CUT)
		outbox_send(&session->outbox, message, fd);
}

void session_done(struct session *session, uint64_t request, int fd)
{
	struct wire_message message;

	wire_init(&message, WIRE_DONE, request);
	session_send(session, &message, fd);
}

static void count_refusal(struct counters *counters, int error)
{
	switch (-error) {
	case ENOENT:
		counters->refused_no_name++;
		break;
	case ETIMEDOUT:
		counters->refused_timeout++;
		break;
	case EEXIST:
		counters->refused_exists++;
		break;
	case EACCES:
		counters->refused_access++;
		break;
	case ENOMEM:
		counters->refused_memory++;
		break;
	case EDQUOT:
		counters->refused_quota++;
		break;
	case EKEYREJECTED:
	case EKEYEXPIRED:
	case ESTALE:
		counters->refused_ticket++;
		break;
	default:
		counters->refused_other++;
	}
}

void session_refuse(struct session *session, uint64_t request, int error, const char *text)
{
	struct wire_message message;

	count_refusal(&session->broker->counters, error);
	broker_changed(session->broker);
	wire_refuse(&message, request, error, text);
	session_send(session, &message, -1);
	CRASH_POINT(refused);
}

/* ---- the end ---- */

static void session_close_socket(struct session *session)
{
	if (session->fd < 0)
		return;
	fair_drop(&session->place);
	if (session->reading)
		event_free(session->reading);
	session->reading = NULL;
	outbox_close(&session->outbox);
	discard_socket(session->broker->discard, session->fd);
	session->fd = -1;
	tracked_changed(session->broker->tracking, &session->tracked);
}

static void session_free(struct session *session)
{
	struct broker *broker = session->broker;

	session_close_socket(session);
	if (session->death)
		event_free(session->death);
	if (session->cutting)
		event_free(session->cutting);
	proof_end(&session->proof);
	if (session->pidfd >= 0) {
		close(session->pidfd);
		fair_count(&session->place, COST_SESSION_END);
	}
	broker->sessions->arrived -= session->state == SESSION_ARRIVED;
	fair_leave(&session->place);
	HASH_DEL(broker->sessions->by_id, session);
	tracked_end(session->broker->tracking, &session->tracked);
	grants_forget(broker->registry, &session->grants);
	timelines_forget(&session->timelines);
	registry_disown(&session->ephemerals);
	charge_release(&session->greeting, broker->accounting);
	charge_release(&session->descriptors, broker->accounting);
	charge_release(&session->charge, broker->accounting);
	identity_clear(&session->who);
	sodium_free(session->key);
	free(session);
}

/* What its end means for others, once: it maps nothing that is believed any more. */
static void session_over(struct session *session)
{
	if (session->over || !session_is_welcome(session))
		return;
	session->over = true;
	session->broker->sessions->hooks->end(session, session_maps(session) || session->state != SESSION_LEAVING);
}

/* There may be thousands: their end takes from its user's share, as their beginning did. */
static void session_end_grants(struct session *session)
{
	struct broker *broker = session->broker;

	while (session->grants.by_id && fair_allows(&session->place)) {
		struct grant *grant = session->grants.by_id;

		fair_count(&session->place, COST_GRANT_END * (1 + grant->used / USES_PER_COST));
		broker->counters.grants_died++;
		grant_over(broker->registry, grant);
	}
	if (session->grants.by_id) {
		session_wait(session);
	} else {
		CRASH_POINT(session_ended);
		session_free(session);
	}
	broker_changed(broker);
}

static void session_end(struct session *session)
{
	struct broker *broker = session->broker;
	bool maps = session_maps(session);

	CRASH_POINT_PEER(session->pid);
	CRASH_POINT(session_ends);
	session->place.ending = true;
	if (session_is_welcome(session)) {
		log_detail("session %llu (pid %d, %s) %s", (unsigned long long)session->id, session->pid,
			   session->command, maps ? "died" : "left");
		session_over(session);
		if (maps)
			broker->counters.sessions_died++;
		else
			broker->counters.sessions_left++;
	}
	session_end_grants(session);
}

static struct session *session_of_proof(struct proof *proof)
{
	return (struct session *)((char *)proof - offsetof(struct session, proof));
}

static struct proof *proof_find(struct broker *broker, uint64_t id)
{
	struct session *session = session_find(broker, id);

	return session ? &session->proof : NULL;
}

static void on_proven(struct proof *proof)
{
	session_end(session_of_proof(proof));
}

/* Its grants stay, and all else is as at its end. */
static void on_unproven(struct proof *proof, const char *text)
{
	struct session *session = session_of_proof(proof);

	log_line("pid %d (%s) died and what it mapped stays allocated: %s", session->pid, session->command, text);
	session_over(session);
	tracked_changed(session->broker->tracking, &session->tracked);
	broker_changed(session->broker);
}

void session_prove(struct session *session)
{
	static const struct proof_hooks hooks = { proof_find, on_proven, on_unproven };
	struct proof *proof = &session->proof;

	proof->broker = session->broker;
	proof->hooks = &hooks;
	proof->id = session->id;
	proof->uid = session->who.uid;
	proof->pid = session->pid;
	tracked_changed(session->broker->tracking, &session->tracked);
	proof_begin(proof);
}

/*
 * Invariant 9: only pidfd and hang-up together are death, and then the devices are asked. A hang-up alone is the end of a
 * session that has nothing mapped; with a grant open, or held, it proves nothing, for the process may live on with its
 * mapping.
 */
static void session_settle(struct session *session)
{
	struct broker *broker = session->broker;

	if (session->hung_up && !session_maps(session))
		session_over(session);
	if (session->hung_up && !session->grants.by_id)
		session_end(session);
	else if (session->hung_up && session->place.dead)
		session_prove(session);
	broker_changed(broker);
}

static void on_death(evutil_socket_t fd, short what, void *argument)
{
	struct session *session = argument;

	(void)fd;
	(void)what;
	CRASH_POINT_PEER(session->pid);
	CRASH_POINT(died);
	session->place.dead = true;
	tracked_changed(session->broker->tracking, &session->tracked);
	event_del(session->death); /* it stays readable */
	/* its final messages are few, and behind them is the hang-up: they are read first of what its user waits for */
	if (session->place.waits || (session->fd >= 0 && (session->state == SESSION_OPEN ||
						      session->state == SESSION_LEAVING))) {
		fair_drop(&session->place);
		session_wait(session);
	}
	session_settle(session);
}

static bool socket_hung_up(int fd)
{
	struct pollfd p = { .fd = fd };

	return poll(&p, 1, 0) == 1 && p.revents & POLLHUP;
}

static void session_hang_up(struct session *session)
{
	CRASH_POINT_PEER(session->pid);
	CRASH_POINT(hung_up);
	session->hung_up = true;
	session_close_socket(session);
	session->broker->sessions->hooks->silent(session);
	session_settle(session);
}

/*
 * Nothing is read any more: only the hang-up counts, and edges, lest the end of file keep the loop busy. What still
 * comes is thrown away all the same: a descriptor in it may be the other end of this very socket, which would never
 * hang up as long as it waits here to be received.
 */
static void session_discard(struct session *session)
{
	bool more = true;

	while (more && fair_allows(&session->place)) {
		more = discard_message(session->broker->discard, session->fd);
		if (more)
			fair_count(&session->place, COST_MESSAGE);
	}
	if (socket_hung_up(session->fd))
		session_hang_up(session);
	else if (more)
		session_wait(session);
	else if (!event_pending(session->reading, EV_READ, NULL))
		event_add(session->reading, NULL);
}

static void on_discardable(evutil_socket_t fd, short what, void *argument)
{
	(void)fd;
	(void)what;
	session_discard(argument);
}

static void session_linger(struct session *session)
{
	struct pollfd p = { .fd = session->fd, .events = POLLRDHUP };

	/*
	 * The peer shall see an end of file. But once both sides are shut down the socket reports a hang-up
	 * though the peer still has it open, so not where the peer shut its side down itself.
	 */
	if (poll(&p, 1, 0) == 0)
		shutdown(session->fd, SHUT_WR);
	event_assign(session->reading, session->broker->base, session->fd, EV_READ | EV_ET | EV_PERSIST, on_discardable,
		     session);
	event_add(session->reading, NULL);
}

static void on_cut(evutil_socket_t fd, short what, void *argument)
{
	struct session *session = argument;

	(void)fd;
	(void)what;
	session_linger(session);
	session->broker->sessions->hooks->silent(session);
	broker_changed(session->broker);
}

/*
 * Whoever sends may cut, also in the middle of the books: so this marks the session alone, and what follows
 * for the books is done in the loop's next step, by on_cut().
 */
void session_cut(struct session *session, const char *reason)
{
	if (session->state == SESSION_CUT)
		return;
	log_line("session %llu (pid %d, %s) is cut off: %s", (unsigned long long)session->id, session->pid,
		 session->command, reason);
	session->broker->counters.sessions_cut++;
	if (!session_is_welcome(session))
		tracked_begin(session->broker->tracking, &session->tracked, TRACKED_SESSION);
	session->state = SESSION_CUT;
	tracked_changed(session->broker->tracking, &session->tracked);
	fair_drop(&session->place);
	outbox_stop(&session->outbox);
	event_del(session->reading);
	event_active(session->cutting, 0, 0);
}

/* ---- the greeting ---- */

static void session_read(struct session *session);

static void on_readable(evutil_socket_t fd, short what, void *argument)
{
	(void)fd;
	(void)what;
	session_read(argument);
}

/* From now on there is no hurry. An event that was added with a time keeps it, so this is one that never was. */
static void watch_messages(struct session *session)
{
	event_del(session->reading);
	event_assign(session->reading, session->broker->base, session->fd, EV_READ | EV_PERSIST, on_readable, session);
	event_add(session->reading, NULL);
}

static void session_welcome(struct session *session)
{
	struct broker *broker = session->broker;
	struct wire_message message;

	wire_init(&message, WIRE_WELCOME, 0);
	message.welcome.session = session->id;
	memcpy(message.welcome.key, session->key, WIRE_KEY_SIZE);
	message.welcome.user = session->who.uid;
	message.welcome.broker = geteuid();
	session->state = SESSION_OPEN;
	tracked_begin(broker->tracking, &session->tracked, TRACKED_SESSION);
	charge_release(&session->greeting, broker->accounting);
	broker->counters.sessions_opened++;
	log_detail("session %llu is open: pid %d (%s), uid %u", (unsigned long long)session->id, session->pid,
		   session->command, session->who.uid);
	watch_messages(session);
	session_send(session, &message, broker->board->fd);
	CRASH_POINT(welcome_sent);
	sodium_memzero(&message, sizeof message);
	broker_changed(broker);
}

/* 0, or why this greeting is not taken. */
static int greeting_check(struct session *session, const struct wire_message *message,
			  const struct socket_extra *extra)
{
	if (message->type != WIRE_HELLO ||
	    sodium_memcmp(message->hello.nonce, session->nonce, sizeof session->nonce))
		return error_set(-EPROTO, "the greeting is not an answer to the challenge");
	if (!extra->has_sender || extra->sender.pid != session->pid || !identity_alive(session->pidfd))
		return error_set(-EPROTO, "the process that connected is not the one that greets: connect anew "
					  "after a fork");
	return charge_take(&session->charge, session->broker->accounting, session->who.uid, RESOURCE_SESSIONS, 1);
}

/* It was never welcomed, so it holds nothing that could outlive it: unlike one that is cut, it goes at once. */
static void session_reject(struct session *session, int error)
{
	connection_refuse(session->broker, session->fd, error);
	session_free(session);
}

static int session_greet(struct session *session, const struct wire_message *message, const struct socket_extra *extra)
{
	int error = greeting_check(session, message, extra);

	CRASH_POINT_PEER(session->pid);
	CRASH_POINT(greeting_heard);
	if (error)
		return error;
	session->proof.mps = message->hello.flags & WIRE_HELLO_MPS;
	session_welcome(session);
	return 0;
}

/* ---- reading ---- */

enum read_result {
	READ_PACKET, /* and there may be more */
	READ_NONE,   /* there is no more now */
	READ_LAST    /* nothing is read of it any more, or it is gone */
};

/* It sent something wrong, or nothing any more. */
static enum read_result session_fail(struct session *session, int error)
{
	if (error == -ECONNRESET && socket_hung_up(session->fd))
		session_hang_up(session);
	else if (session->state == SESSION_GREETING)
		session_reject(session, -EPROTO);
	else
		session_cut(session, error_text());
	return READ_LAST;
}

/* Behind it there is nothing yet: no client sends more before it is welcome. */
static enum read_result session_take_greeting(struct session *session, const struct socket_packet *packet)
{
	int error = socket_packet_check(packet, 0);

	fair_count(&session->place, COST_GREETING);
	if (!error && packet->count > 1)
		error = error_set(-EPROTO, "it said more than its greeting before it was welcome");
	if (error)
		return session_fail(session, error);
	error = session_greet(session, packet->message, &packet->extra);
	if (error)
		session_reject(session, error);
	return error || session->state == SESSION_CUT ? READ_LAST : READ_NONE;
}

/* A session is one process: what a forked child sends over the inherited socket is not its parent's. */
static int check_sender(const struct session *session, const struct socket_extra *extra)
{
	if (extra->has_sender && extra->sender.pid != session->pid)
		return error_set(-EPROTO, "another process used its socket");
	return 0;
}

/* The answers are sent together, behind the last message, which may cut it off as well. */
static enum read_result session_take_messages(struct session *session, const struct socket_packet *packet)
{
	const struct session_hooks *hooks = session->broker->sessions->hooks;
	int error = 0;

	if (packet->count > 1)
		session->outbox.packed = SOCKET_PACKET_MAX; /* it understands packets, then */
	outbox_begin(&session->outbox, &session->broker->sessions->staged);
	for (unsigned i = 0; i < packet->count && session->state != SESSION_CUT && !error; i++) {
		error = socket_packet_check(packet, i);
		if (error)
			break;
		fair_count(&session->place, COST_MESSAGE);
		CRASH_POINT_PEER(session->pid); /* a handler may have been busy with another one */
		CRASH_POINT(request_heard);
		error = check_sender(session, &packet->extra);
		if (!error)
			error = hooks->message(session, &packet->message[i]);
	}
	if (error)
		session_cut(session, error_text());
	outbox_end(&session->outbox);
	return session->state == SESSION_CUT ? READ_LAST : READ_PACKET;
}

/* One packet. What came with it is closed: no client has descriptors to send. */
static enum read_result session_receive(struct session *session, struct socket_packet *packet)
{
	int error = socket_receive_packet(session->fd, packet, false, MSG_DONTWAIT);

	if (error == -EAGAIN)
		return READ_NONE;
	discard_close(session->broker->discard, packet->extra.unwanted, packet->extra.unwanted_count);
	if (!error && packet->extra.unwanted_count)
		error = error_set(-EPROTO, "it sent descriptors, which no client has to send");
	if (error)
		return session_fail(session, error);
	session->broker->received = true;
	return READ_PACKET;
}

static void session_read(struct session *session)
{
	struct socket_packet *packet = &session->broker->sessions->packet;
	enum read_result result = READ_PACKET;

	while (result == READ_PACKET && fair_allows(&session->place)) {
		result = session_receive(session, packet);
		if (result == READ_PACKET)
			result = session->state == SESSION_GREETING ? session_take_greeting(session, packet) :
								      session_take_messages(session, packet);
	}
	if (result == READ_PACKET)
		session_wait(session);
	else if (result == READ_NONE && session->place.dead && session->state == SESSION_OPEN)
		/* all that it sent is read, and no hang-up is behind it; whoever has the socket may get its pid, too */
		session_cut(session, "its process is dead, and another one has its socket");
	else if (result == READ_NONE && !event_pending(session->reading, EV_READ, NULL))
		event_add(session->reading, session->state == SESSION_GREETING ? &greeting_time : NULL);
}

static void on_greeting(evutil_socket_t fd, short what, void *argument)
{
	struct session *session = argument;

	(void)fd;
	if (what & EV_TIMEOUT) {
		error_set(-EPROTO, "no greeting came within %d seconds", GREETING_SECONDS);
		session_reject(session, -EPROTO);
	} else {
		session_read(session);
	}
}

/* ---- before the greeting ---- */

static int session_make_key(struct session *session)
{
	session->key = sodium_malloc(WIRE_KEY_SIZE);
	if (!session->key)
		return error_set(-ENOMEM, "the broker is out of memory");
	randombytes_buf(session->key, WIRE_KEY_SIZE);
	return 0;
}

static int session_identify(struct session *session)
{
	int error = identity_of_peer(session->fd, &session->pid, &session->who);

	if (error)
		return error;
	session->pidfd = identity_pidfd(session->fd, session->pid);
	if (session->pidfd < 0)
		return session->pidfd;
	identity_command(session->pid, session->command);
	return 0;
}

static int session_watch(struct session *session)
{
	const struct outbox_owner owner = { .due = notices_due,
					    .failed = on_unsent,
					    .answering = on_answering,
					    .context = session,
					    .accounting = session->broker->accounting,
					    .uid = session->who.uid };
	struct event_base *base = session->broker->base;

	session->reading = event_new(base, session->fd, EV_READ | EV_PERSIST, on_greeting, session);
	session->death = event_new(base, session->pidfd, EV_READ | EV_PERSIST, on_death, session);
	session->cutting = event_new(base, -1, 0, on_cut, session);
	if (!session->reading || !session->death || !session->cutting ||
	    outbox_open(&session->outbox, base, session->fd, &owner) || event_add(session->reading, &greeting_time) ||
	    event_add(session->death, NULL))
		return error_set(-ENOMEM, "the broker is out of memory");
	return 0;
}

static void session_challenge(struct session *session)
{
	struct wire_message message;

	randombytes_buf(session->nonce, sizeof session->nonce);
	wire_init(&message, WIRE_CHALLENGE, 0);
	memcpy(message.hello.nonce, session->nonce, sizeof session->nonce);
	session_send(session, &message, -1);
	CRASH_POINT(challenge_sent);
}

/* Who it is that arrived, and the challenge. Whoever went while it waited costs nothing more. */
static void session_begin(struct session *session)
{
	int error;

	if (!fair_allows(&session->place)) {
		session_wait(session);
		return;
	}
	if (socket_hung_up(session->fd)) {
		fair_count(&session->place, COST_GONE);
		session_free(session);
		return;
	}
	fair_count(&session->place, COST_CONNECTION);
	/* since Linux 6.16 one that connected before the listener was set up does not take after it */
	socket_stamp_senders(session->fd);
	error = session_identify(session);
	if (!error)
		error = session_make_key(session);
	if (!error)
		error = session_watch(session);
	if (error) {
		session_reject(session, error);
		return;
	}
	session->broker->sessions->arrived--;
	session->state = SESSION_GREETING;
	CRASH_POINT_PEER(session->pid);
	CRASH_POINT(accepted);
	session_challenge(session);
}

/* All that is known without the process, and cheaply. */
static int session_enter(struct session *session)
{
	struct broker *broker = session->broker;
	struct accounting *accounting = broker->accounting;
	int error = identity_user(session->fd, &session->who.uid);

	if (!error)
		error = charge_take(&session->greeting, accounting, session->who.uid, RESOURCE_GREETINGS, 1);
	if (!error)
		error = charge_take(&session->descriptors, accounting, session->who.uid, RESOURCE_DESCRIPTORS,
				    DESCRIPTORS);
	if (!error)
		error = fair_join(broker->queue, &session->place, session->who.uid);
	if (error)
		return error;
	session->id = ++broker->sessions->next_id;
	HASH_ADD(hh, broker->sessions->by_id, id, sizeof session->id, session);
	if (table_added(session))
		return 0;
	fair_leave(&session->place);
	return error_set(-ENOMEM, "the broker is out of memory");
}

int session_accept(struct broker *broker, int fd)
{
	struct session *session = calloc(1, sizeof *session);
	int error;

	if (!session)
		return error_set(-ENOMEM, "the broker is out of memory");
	session->broker = broker;
	session->fd = fd;
	session->pidfd = -1;
	error = session_enter(session);
	if (error) {
		charge_release(&session->descriptors, broker->accounting);
		charge_release(&session->greeting, broker->accounting);
		free(session);
		return error;
	}
	broker->sessions->arrived++;
	session_begin(session);
	return 0;
}

/* ---- what there is to do for it ---- */

static void session_serve(struct session *session)
{
	if (session->place.ending)
		session_end_grants(session);
	else if (session->state == SESSION_ARRIVED)
		session_begin(session);
	else if (session->state == SESSION_CUT)
		session_discard(session);
	else
		session_read(session);
}

bool sessions_serve(struct broker *broker)
{
	struct fair_entry *place;

	fair_pass_begin(broker->queue);
	while ((place = fair_pass_next(broker->queue)))
		session_serve((struct session *)((char *)place - offsetof(struct session, place)));
	return fair_pass_end(broker->queue);
}

void sessions_deinit(struct broker *broker)
{
	struct session *session, *next;

	/* their grants stay: what a living process maps is not freed because the broker goes */
	HASH_ITER(hh, broker->sessions->by_id, session, next)
		session_free(session);
}

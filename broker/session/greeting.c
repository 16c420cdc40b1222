/* SPDX-License-Identifier: Apache-2.0 */
/* greeting.c - see greeting.h */
#include "greeting.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "broker/base/context.h"
#include "broker/base/master-key.h"
#include "broker/base/events.h"
#include "broker/base/log.h"
#include "broker/base/process-start.h"
#include "broker/memory/memory.h"
#include "broker/registry/board-owner.h"
#include "broker/users/accounting.h"
#include "broker/users/identity.h"
#include "common/crash-point.h"
#include "common/error.h"
#include "common/export.h"
#include "common/socket.h"
#include "fair-queue.h"
#include "session-end.h"
#include "session.h"

#define GREETING_SECONDS 10

_Static_assert(SESSION_DESCRIPTORS == OUTBOX_UNREAD,
	       "what the kernel holds for sessions is no more than what they are charged with");

/* ---- refusing ---- */

/*
 * Sends a REFUSED with error_text() to the connection fd, and makes an event of it. who: the client; all zeroes: the
 * client is not known yet.
 */
static void refusal_send(struct broker *broker, int fd, int error, const struct event_party *who)
{
	struct wire_message message;

	broker->counters.sessions_refused++;
	broker_changed(broker);
	broker_publish(broker);
	wire_refuse(&message, 0, error, error_text());
	socket_send(fd, &message, -1, MSG_DONTWAIT);
	event_happened(broker,
		       &(struct broker_event){
			       .kind = EVENT_CONNECTION_REFUSED, .error = error, .actor = *who, .text = error_text() });
}

void connection_refuse(struct broker *broker, int fd, int error)
{
	static const struct event_party nobody;

	refusal_send(broker, fd, error, &nobody);
}

void greeting_reject(struct session *session, int error)
{
	const struct event_party who = SESSION_PARTY(session);

	refusal_send(session->broker, session->fd, error, &who);
	session_free(session);
}

/* ---- the connection ---- */

/*
 * Finds the user of the session's socket, charges the user for the connection and its descriptors, and enters the
 * session in the fair queue and in the table of sessions. On failure enters it in neither, and leaves the charges to
 * the caller.
 */
static int session_enter(struct session *session)
{
	struct broker *broker = session->broker;
	struct accounting *accounting = broker->accounting;
	int error = identity_user(session->fd, &session->who.uid);

	if (!error)
		error = charge_take(&session->greeting, accounting, session->who.uid, RESOURCE_GREETINGS, 1);
	if (!error)
		error = charge_take(&session->descriptors, accounting, session->who.uid, RESOURCE_DESCRIPTORS,
				    SESSION_DESCRIPTORS);
	if (!error)
		error = fair_join(broker->queue, &session->place, session->who.uid);
	if (error)
		return error;
	session->id = session->mappings.session = ++broker->sessions->next_id;
	session->since = time(NULL);
	HASH_ADD(hh, broker->sessions->by_id, id, sizeof session->id, session);
	if (table_added(session))
		return 0;
	fair_leave(&session->place);
	return error_set(-ENOMEM, "the broker is out of memory");
}

struct session *greeting_arrive(struct broker *broker, int fd, int reserved, int *error)
{
	struct session *session = calloc(1, sizeof *session);

	if (!session) {
		*error = error_set(-ENOMEM, "the broker is out of memory");
		return NULL;
	}
	session->broker = broker;
	session->fd = fd;
	session->reserved = reserved;
	session->pidfd = -1;
	session->rank = RANK_NONE;
	*error = session_enter(session);
	if (*error) {
		charge_release(&session->descriptors, broker->accounting);
		charge_release(&session->greeting, broker->accounting);
		free(session);
		return NULL;
	}
	broker->sessions->arrived++;
	return session;
}

/* ---- what each session has ---- */

int session_make_key(struct session *session)
{
	session->key = sodium_malloc(WIRE_KEY_SIZE);
	if (!session->key)
		return error_set(-ENOMEM, "the broker is out of memory");
	master_key_derive(session->broker->master, MASTER_SESSION, session->id, session->key, WIRE_KEY_SIZE);
	return 0;
}

static bool event_begin(struct event *event)
{
	return event && !event_add(event, NULL);
}

int session_watch(struct session *session, event_callback_fn ready)
{
	struct event_base *base = session->broker->base;

	session->death = event_new(base, session->pidfd, EV_READ | EV_PERSIST, session_on_death, session);
	if (!event_begin(session->death))
		goto no_memory;
	if (session->fd < 0)
		return 0;
	session->reading = event_new(base, session->fd, EV_READ | EV_ET | EV_PERSIST, ready, session);
	if (event_begin(session->reading) && !session_open_outbox(session))
		return 0;
no_memory:
	return error_set(-ENOMEM, "the broker is out of memory");
}

/* ---- the challenge ---- */

/*
 * Sets the session's process, user and pidfd. Opens the pidfd last, because the functions before it need the reserved
 * descriptor, too.
 */
static int identify(struct session *session)
{
	int error = identity_of_peer(session->fd, &session->pid, &session->who);

	close(session->reserved);
	session->reserved = -1;
	if (error)
		return error;
	identity_command(session->pid, session->command);
	session->start = process_start((uint64_t)session->pid, NULL);
	session->pidfd = identity_pidfd(session->fd, session->pid);
	return session->pidfd < 0 ? session->pidfd : 0;
}

static void challenge(struct session *session)
{
	struct wire_message message;

	randombytes_buf(session->nonce, sizeof session->nonce);
	wire_init(&message, WIRE_CHALLENGE, 0);
	memcpy(message.hello.nonce, session->nonce, sizeof session->nonce);
	wire_hello_fill(&message.hello);
	session_send(session, &message, -1);
	CRASH_POINT(challenge_sent);
}

void greeting_begin(struct session *session, event_callback_fn ready)
{
	int error;

	if (!fair_allows(&session->place)) {
		session_wait(session);
		return;
	}
	if (session_socket_is_closed(session)) {
		fair_count(&session->place, COST_GONE);
		session_free(session);
		return;
	}
	fair_count(&session->place, COST_CONNECTION);
	/* since Linux 6.16 a socket whose peer connected before the listener was set up does not inherit SO_PASSCRED */
	socket_stamp_senders(session->fd);
	error = identify(session);
	if (!error)
		error = session_make_key(session);
	if (!error)
		error = session_watch(session, ready);
	if (!error)
		error = greeting_expect(session);
	if (error) {
		greeting_reject(session, error);
		return;
	}
	session->broker->sessions->arrived--;
	session->state = SESSION_GREETING;
	CRASH_POINT_PEER(session->pid);
	CRASH_POINT(accepted);
	challenge(session);
}

int greeting_expect(struct session *session)
{
	static const struct timeval time = { .tv_sec = GREETING_SECONDS };

	return event_add(session->reading, &time) ? error_set(-ENOMEM, "the broker is out of memory") : 0;
}

/* ---- the greeting ---- */

/* Checks the greeting, agrees on the revision of the protocol, and charges the user for the session. */
static int check(struct session *session, const struct wire_message *message, const struct socket_extra *extra)
{
	const struct broker *broker = session->broker;
	int revision, error;

	if (message->type != WIRE_HELLO ||
	    sodium_memcmp(message->hello.nonce, session->nonce, sizeof session->nonce))
		return error_set(-EPROTO, "the greeting is not an answer to the challenge");
	if (!extra->has_sender || extra->sender.pid != session->pid || !identity_alive(session->pidfd))
		return error_set(-EPROTO, "the process that connected is not the one that greets: connect anew "
					  "after a fork");
	revision = wire_agree(&message->hello, "library", "broker");
	if (revision < 0)
		return revision;
	session->revision = (unsigned)revision;
	session->own_pid = message->hello.pid;
	error = tracking_reserve(broker->tracking, 1);
	if (error)
		return error;
	return charge_take(&session->charge, broker->accounting, session->who.uid, RESOURCE_SESSIONS, 1);
}

static void welcome(struct session *session)
{
	struct broker *broker = session->broker;
	struct wire_message message;

	wire_init(&message, WIRE_WELCOME, 0);
	message.welcome.session = session->id;
	memcpy(message.welcome.key, session->key, WIRE_KEY_SIZE);
	message.welcome.user = session->who.uid;
	message.welcome.broker = geteuid();
	session->state = SESSION_OPEN;
	session->opened = true;
	tracked_begin(broker->tracking, &session->tracked, TRACKED_SESSION);
	charge_release(&session->greeting, broker->accounting);
	event_remove_timer(session->reading);
	broker->counters.sessions_opened++;
	log_detail("session %llu is open: pid %d (%s), uid %u, revision %u of the protocol",
		   (unsigned long long)session->id, session->pid, session->command, session->who.uid,
		   session->revision);
	session_send(session, &message, broker->board->fd);
	CRASH_POINT(welcome_sent);
	sodium_memzero(&message, sizeof message);
	broker_changed(broker);
}

int greeting_take(struct session *session, const struct wire_message *message, const struct socket_extra *extra)
{
	int error = check(session, message, extra);

	CRASH_POINT_PEER(session->pid);
	CRASH_POINT(greeting_received);
	if (error)
		return error;
	session->proof.mps = message->hello.flags & WIRE_HELLO_MPS;
	session->answers = message->hello.flags & WIRE_HELLO_WAITS;
	session->rank = message->hello.flags & WIRE_HELLO_RANK ? message->hello.rank : RANK_NONE;
	welcome(session);
	return 0;
}

void greeting_late(struct session *session)
{
	error_set(-EPROTO, "no greeting came within %d seconds", GREETING_SECONDS);
	greeting_reject(session, -EPROTO);
}

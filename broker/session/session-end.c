/* SPDX-License-Identifier: Apache-2.0 */
/* session-end.c - see session-end.h */
#include "session-end.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "broker/base/context.h"
#include "broker/base/events.h"
#include "broker/base/log.h"
#include "broker/memory/jobs.h"
#include "broker/memory/memory.h"
#include "broker/registry/mappings.h"
#include "broker/registry/registry.h"
#include "broker/registry/timeline.h"
#include "broker/users/accounting.h"
#include "broker/users/identity.h"
#include "common/crash-point.h"
#include "discard.h"
#include "fair-queue.h"
#include "outbox.h"
#include "session.h"

static void close_socket(struct session *session)
{
	if (session->fd < 0)
		return;
	fair_drop(&session->place);
	session_drop_task(session);
	if (session->reading)
		event_free(session->reading);
	session->reading = NULL;
	outbox_close(&session->outbox);
	discard_socket(session->broker->discard, session->fd);
	session->fd = -1;
	tracked_changed(session->broker->tracking, &session->tracked);
}

void session_free(struct session *session)
{
	struct broker *broker = session->broker;

	close_socket(session);
	if (session->death)
		event_free(session->death);
	if (session->proof.again)
		event_free(session->proof.again);
	if (session->reserved >= 0)
		close(session->reserved);
	if (session->pidfd >= 0) {
		close(session->pidfd);
		fair_count(&session->place, COST_SESSION_END);
	}
	broker->sessions->arrived -= session->state == SESSION_ARRIVED;
	broker->sessions->before -= session->before;
	pending_forget(&broker->sessions->pendings, &session->pending);
	fair_leave(&session->place);
	HASH_DEL(broker->sessions->by_id, session);
	tracked_end(broker->tracking, &session->tracked);
	mappings_free(broker->registry, &session->mappings);
	timelines_forget(&session->timelines);
	while (session->ephemerals)
		registry_disown(session->ephemerals);
	charge_release(&session->greeting, broker->accounting);
	charge_release(&session->descriptors, broker->accounting);
	charge_release(&session->charge, broker->accounting);
	identity_clear(&session->who);
	sodium_free(session->key);
	free(session);
}

void sessions_deinit(struct broker *broker)
{
	struct session *session, *next;

	HASH_ITER(hh, broker->sessions->by_id, session, next)
		session_free(session);
	outboxes_deinit(&broker->sessions->outboxes);
	pendings_deinit(&broker->sessions->pendings);
}

/* number of questions after a death with the first pause between them, about a second in all; then the pauses grow */
#define SOON 100

/* ---- the end ---- */

/*
 * Does one piece of the work of the lowest bit in session->due. Returns its cost, or 0 if the work of this bit is done.
 */
static unsigned do_piece(struct session *session)
{
	const struct session_hooks *hooks = session->broker->sessions->hooks;
	unsigned kind = session->due & -session->due;
	unsigned cost = kind == DUE_EXPIRY  ? hooks->expire(session) :
			kind == DUE_SILENCE ? hooks->silence(session) :
					      hooks->end(session);

	if (!cost)
		session->due &= ~kind;
	return cost;
}

bool session_do_due(struct session *session)
{
	session->place.urgent = session->due;
	while (session->due && fair_allows(&session->place))
		fair_count_work(&session->place, do_piece(session));
	session->place.urgent = session->due;
	if (session->due)
		session_wait(session);
	return !session->due;
}

/*
 * Sets DUE_SILENCE and DUE_END in session->due, if they were not set for the session's end before and the session is
 * welcome. Called when its client has hung up without open mappings, or its process is dead.
 */
static void owe_end(struct session *session)
{
	if (session->ends || !session_is_welcome(session))
		return;
	session->ends = true;
	session->died = session_maps(session) || session->state != SESSION_LEAVING;
	session->due |= DUE_SILENCE | DUE_END;
}

void session_end_mappings(struct session *session)
{
	struct broker *broker = session->broker;

	while (session->mappings.by_id && fair_allows(&session->place)) {
		struct mapping *mapping = session->mappings.by_id;

		fair_count_work(&session->place, COST_MAPPING_END * (1 + mapping->grant_count / GRANTS_PER_COST));
		broker->counters.mappings_died++;
		mapping_end(broker->registry, mapping);
	}
	if (session->mappings.by_id) {
		session_wait(session);
	} else {
		CRASH_POINT(session_ended);
		session_free(session);
		if (broker->memory->doubted && !broker->sessions->before)
			registry_trust(broker->registry);
	}
	broker_changed(broker);
}

static void tell_of_end(struct session *session, bool maps)
{
	struct broker_event event = { .kind = EVENT_DEATH, .actor = SESSION_PARTY(session) };

	if (!maps) {
		log_detail("session %llu (pid %d, %s) left", (unsigned long long)session->id, session->pid,
			   session->command);
		return;
	}
	event.detail = HASH_COUNT(session->mappings.by_id);
	event_happened(session->broker, &event);
	if (session->proof.asked <= SOON)
		return;
	event.kind = EVENT_RECLAIMED;
	event.detail = (uint32_t)(event_clock() - session->proof.since_ms);
	event_happened(session->broker, &event);
}

/* Counts the end of a session. A session that was disconnected in its greeting was never counted as opened. */
static void count_end(const struct session *session, bool maps)
{
	struct counters *counters = &session->broker->counters;

	if (maps)
		counters->sessions_died++;
	else if (session->opened)
		counters->sessions_left++;
}

static void session_end(struct session *session)
{
	bool maps = session_maps(session);

	CRASH_POINT_PEER(session->pid);
	CRASH_POINT(session_ends);
	if (session_is_welcome(session) && !session->place.ending) {
		tell_of_end(session, maps);
		owe_end(session);
		count_end(session, maps);
	}
	session->place.ending = true;
	if (session_do_due(session))
		session_end_mappings(session);
}

/* ---- proof of death ---- */

/*
 * Why the devices are asked: the pidfd and the hang-up can both be too early. A client that forked a child and closed
 * the socket in both leaves the child the GPU's descriptors, and with them its running kernels. Under MPS a server may
 * still run the kernels. If the driver lists processes, it lists a dead one until its work is torn down (facts.md),
 * which takes 50 to 200 ms. If a child keeps the work, the pauses between two questions grow, so that the thread that
 * asks is free for other sessions. Pauses are in microseconds.
 */
#define PAUSE_US     10000
#define PAUSE_MAX_US 5000000

static void ask(struct session *session);

static void on_again(evutil_socket_t fd, short what, void *argument)
{
	(void)fd;
	(void)what;
	ask(argument);
}

void session_prove_again(struct session *session)
{
	if (!session->proof.at_once)
		return;
	fair_count_work(&session->place, COST_SESSION_END); /* so that the pass ends if there is still no memory */
	ask(session);
}

/*
 * Called when no device can prove that the work of a dead session has ended: ends everything of the session but its
 * mappings, which stay.
 */
static void session_unproven(struct session *session, const char *text)
{
	session->proof.state = PROOF_IMPOSSIBLE;
	event_happened(session->broker,
		       &(struct broker_event){ .kind = EVENT_UNPROVEN, .actor = SESSION_PARTY(session), .text = text });
	owe_end(session);
	session_do_due(session);
	tracked_changed(session->broker->tracking, &session->tracked);
	broker_changed(session->broker);
}

/*
 * Sets the timer by which the devices are asked again. If there is no memory for the timer, puts the session into the
 * fair queue, so that they are asked when its user's turn comes.
 */
static void ask_later(struct session *session)
{
	struct proof *proof = &session->proof;
	struct timeval pause = { .tv_sec = proof->pause_us / 1000000, .tv_usec = proof->pause_us % 1000000 };

	if (!proof->again)
		proof->again = evtimer_new(session->broker->base, on_again, session);
	proof->at_once = !proof->again || evtimer_add(proof->again, &pause);
	if (proof->at_once)
		session_wait(session);
}

/* Called when the devices were not done: makes the pauses longer, and an event if there were many of them. */
static void count_question(struct session *session)
{
	struct proof *proof = &session->proof;

	if (++proof->asked == SOON + 1)
		event_happened(session->broker,
			       &(struct broker_event){ .kind = EVENT_TEARDOWN, .actor = SESSION_PARTY(session) });
	if (proof->asked > SOON)
		proof->pause_us = 2 * proof->pause_us < PAUSE_MAX_US ? 2 * proof->pause_us : PAUSE_MAX_US;
}

static void on_answer(struct job *job)
{
	struct session *session = session_find(job->context, job->session);

	if (session && job->outcome.error == -EBUSY) {
		count_question(session);
		ask_later(session);
	} else if (session && job->outcome.error) {
		session_unproven(session, job->outcome.text);
	} else if (session) {
		session_end(session);
	}
	free(job);
}

static void ask(struct session *session)
{
	struct job *job = calloc(1, sizeof *job);

	session->proof.at_once = false;
	if (!job) {
		ask_later(session);
		return;
	}
	job->order.kind = ORDER_GONE;
	job->order.uid = session->who.uid;
	job->order.pid = session->pid;
	job->order.mps = session->proof.mps;
	job->session = session->id;
	job->done = on_answer;
	job->context = session->broker;
	jobs_submit(session->broker->jobs, job);
}

void session_prove(struct session *session)
{
	struct proof *proof = &session->proof;

	if (proof->state != PROOF_NONE)
		return;
	proof->state = PROOF_ASKING;
	proof->pause_us = PAUSE_US;
	proof->since_ms = event_clock();
	tracked_changed(session->broker->tracking, &session->tracked);
	ask(session);
}

/* ---- hang-up and death ---- */

/* Whether the process may map memory, also because what the broker before this one knew of it is damaged. */
static bool may_map(const struct session *session)
{
	return session->mappings.by_id || (session->before && session->broker->memory->doubted);
}

/*
 * Ends the session, or begins the proof of death, if its conditions hold. A hang-up alone does not end a session with
 * mappings, not even with orphaned ones, because the process may live on with a mapping.
 */
static void end_if_over(struct session *session)
{
	struct broker *broker = session->broker;

	if (session->hung_up && !session_maps(session))
		owe_end(session);
	if (session->hung_up && !may_map(session)) {
		session_end(session);
	} else {
		session_do_due(session);
		if (session->hung_up && session->place.dead)
			session_prove(session);
	}
	broker_changed(broker);
}

void session_hang_up(struct session *session)
{
	CRASH_POINT_PEER(session->pid);
	CRASH_POINT(hung_up);
	session->hung_up = true;
	close_socket(session);
	session->due |= DUE_SILENCE;
	end_if_over(session);
}

/*
 * Shuts the socket down for reading, because a forked child may still have it: the kernel then accepts nothing more
 * from the child, so the messages in the socket are the last ones of the process. They are read before other work of
 * its user, because the hang-up is seen only after them. Does not shut down the socket of a disconnected session: the
 * broker shuts down its own direction, and with both directions shut down the socket would report a hang-up.
 */
void session_on_death(evutil_socket_t fd, short what, void *argument)
{
	struct session *session = argument;

	(void)fd;
	(void)what;
	CRASH_POINT_PEER(session->pid);
	CRASH_POINT(died);
	session->place.dead = true;
	tracked_changed(session->broker->tracking, &session->tracked);
	event_del(session->death); /* the pidfd stays readable */
	if (session->fd >= 0 && session->state != SESSION_DISCONNECTED)
		shutdown(session->fd, SHUT_RD);
	if (session->place.waits || (session->fd >= 0 && (session->state == SESSION_OPEN ||
							  session->state == SESSION_LEAVING))) {
		fair_drop(&session->place);
		session_wait(session);
	}
	end_if_over(session);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-session-end.c - how a session ends: what of it ends at its hang-up, at its death and at the proof of its death,
 * in which order and how often, and that nothing of it is left.
 *
 * Clients are in this process, so a test calls session_on_death() itself. Real deaths are test-session-death.c's, the
 * proof is test-session-end-proof.c's. session-harness.h makes the broker and its clients.
 */
#include "session-harness.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "broker/request/inquiry.h"
#include "broker/session/session-end.h"

#define SHARE 16 /* cost of the work for a user in a pass: fair-queue.c's */

static void one_pass(void)
{
	broker_pass(&broker, false);
}

/* The pidfd of the session's process is readable. */
static void die(struct session *session)
{
	session_on_death(-1, EV_READ, session);
}

static void part_now(struct peer *peer)
{
	part(peer);
	one_pass();
}

/* ---- the work that is due ---- */

static char story[64];           /* the pieces of work that were done: x expire, s silence, e end */
static unsigned pieces[3], cost; /* how many of each are left, and what each costs */
static const struct session *ended; /* the session of the last piece of its end, and how it ended */
static bool ended_died;

static unsigned piece(int kind, const char *word)
{
	if (!pieces[kind])
		return 0;
	pieces[kind]--;
	strcat(story, word);
	return cost;
}

static unsigned expire(struct session *session)
{
	(void)session;
	return piece(0, "x");
}

static unsigned silence(struct session *session)
{
	(void)session;
	return piece(1, "s");
}

static unsigned end(struct session *session)
{
	ended = session;
	ended_died = session->died;
	return piece(2, "e");
}

static const struct session_hooks *hooks_before;

static void expect_story(const char *expected)
{
	assert_string_equal(story, expected);
	story[0] = 0;
}

/* From now on this program does the pieces of work that are due. */
static void take_work(unsigned of_expiry, unsigned of_silence, unsigned of_end, unsigned of_each)
{
	static struct session_hooks hooks;

	hooks_before = broker.sessions->hooks;
	hooks = *hooks_before;
	hooks.expire = expire;
	hooks.silence = silence;
	hooks.end = end;
	broker.sessions->hooks = &hooks;
	pieces[0] = of_expiry;
	pieces[1] = of_silence;
	pieces[2] = of_end;
	cost = of_each;
	story[0] = 0;
	ended = NULL;
}

static void begin_share(struct session *session)
{
	fair_allows(&session->place);
	session->place.user->work = 0;
}

static void test_the_lowest_bit_is_done_first(void **state)
{
	struct peer peer = join();
	struct session *session = session_of(&peer);

	(void)state;
	take_work(2, 1, 3, 1);
	begin_share(session);
	session->due = DUE_END | DUE_SILENCE | DUE_EXPIRY;
	assert_true(session_do_due(session));
	expect_story("xxseee");
	assert_int_equal(session->due, 0);
	assert_false(session->place.urgent);
	assert_false(session->place.waits);
	assert_int_equal(session->place.user->work, 6);
	session->due = DUE_SILENCE;
	pieces[0] = pieces[1] = pieces[2] = 1;
	assert_true(session_do_due(session));
	expect_story("s");
	broker.sessions->hooks = hooks_before;
	part(&peer);
}

static void invariant_5_work_beyond_the_share_waits_as_urgent(void **state)
{
	struct peer peer = join();
	struct session *session = session_of(&peer);

	(void)state;
	take_work(0, 5, 0, SHARE / 2);
	begin_share(session);
	session->due = DUE_SILENCE;
	assert_false(session_do_due(session));
	expect_story("ss");
	assert_int_equal(session->due, DUE_SILENCE);
	assert_true(session->place.urgent);
	assert_true(session->place.waits);
	one_pass();
	expect_story("ss");
	assert_true(session->place.urgent);
	one_pass();
	expect_story("s");
	assert_int_equal(session->due, 0);
	assert_false(session->place.urgent);
	assert_false(session->place.waits);
	broker.sessions->hooks = hooks_before;
	part(&peer);
}

/* A user whose requests are limited may have none left. */
static void test_work_that_is_due_takes_no_token(void **state)
{
	struct peer peer = join();
	struct session *session = session_of(&peer);
	struct fair_user *user = session->place.user;

	(void)state;
	take_work(0, 3, 0, 1);
	broker.accounting->quotas.fallback.requests = 1;
	begin_share(session);
	user->tokens = -100;
	session->due = DUE_SILENCE;
	assert_true(session_do_due(session));
	expect_story("sss");
	assert_in_range((int)-user->tokens, 50, 100); /* a second brings one */
	broker.accounting->quotas.fallback.requests = QUOTA_NONE;
	broker.sessions->hooks = hooks_before;
	part(&peer);
}

/* ---- hang-up ---- */

static void test_a_hang_up_without_mappings_ends_all(void **state)
{
	struct peer peer = join();
	struct session *session = session_of(&peer);
	int fd = session->fd, pidfd = session->pidfd;

	(void)state;
	take_work(0, 1, 1, 1);
	part_now(&peer);
	expect_story("se");
	assert_ptr_equal(ended, session);
	assert_true(ended_died);
	assert_null(broker.sessions->by_id);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	assert_int_equal(fcntl(pidfd, F_GETFD), -1);
	assert_int_equal(broker.counters.sessions_left, 1);
	assert_int_equal(broker.counters.sessions_died, 0);
	assert_int_equal(events_of(EVENT_DEATH), 0);
	assert_null(broker.accounting->accounts);
	broker.sessions->hooks = hooks_before;
}

static void test_a_hang_up_with_mappings_ends_the_requests_alone(void **state)
{
	struct peer peer = join();
	struct session *session = session_of(&peer);
	uint64_t id = peer.session;

	(void)state;
	expect_done(&peer, WIRE_CREATE, "a");
	acquire(&peer, "a");
	take_work(0, 1, 1, 1);
	broker.changed = false;
	part(&peer);
	session_hang_up(session);
	expect_story("s");
	assert_true(broker.changed);
	assert_true(session->hung_up);
	assert_int_equal(session->fd, -1);
	assert_null(session->reading);
	assert_false(session->ends);
	assert_int_equal(session->proof.state, PROOF_NONE);
	assert_int_equal(HASH_COUNT(session->mappings.by_id), 1);
	pieces[1] = 1;
	die(session);
	expect_story(""); /* what is due at its end waits for the proof */
	assert_int_equal(session->proof.state, PROOF_ASKING);
	EXPECT_SOON(!session_find(&broker, id));
	expect_story("se");
	assert_true(ended_died);
	assert_int_equal(broker.counters.mappings_died, 1);
	assert_int_equal(broker.counters.sessions_died, 1);
	assert_int_equal(broker.counters.sessions_left, 0);
	assert_int_equal(event_last(EVENT_DEATH)->detail, 1);
	assert_int_equal(event_last(EVENT_DEATH)->actor.session, id);
	assert_int_equal(events_of(EVENT_RECLAIMED), 0); /* for a death that took long */
	assert_int_equal(events_of(EVENT_TEARDOWN), 0);
	broker.sessions->hooks = hooks_before;
}

/* Its process may still have the mapping, though nobody trusts the session to say when that ends. */
static void invariant_9_orphaned_mappings_outlast_the_end_of_the_rest(void **state)
{
	struct peer owner = join_as(4001), peer = join_as(4002);
	struct session *session = session_of(&peer);
	struct wire_grant grant;

	(void)state;
	create_with_mode(&owner, "a", 0666);
	grant = acquire(&peer, "a");
	send_closed(peer.sock, grant.mapping);
	EXPECT_SOON(broker.counters.mappings_held == 1);
	take_work(0, 1, 1, 1);
	part(&peer);
	session_hang_up(session);
	expect_story("se");
	assert_ptr_equal(ended, session);
	assert_true(session->ends);
	assert_int_equal(session->proof.state, PROOF_NONE);
	assert_int_equal(broker.counters.sessions_left, 0);
	pieces[2] = 1;
	run_passes();
	assert_ptr_equal(session_find(&broker, peer.session), session);
	die(session);
	EXPECT_SOON(!session_find(&broker, peer.session));
	expect_story(""); /* the end came once */
	assert_int_equal(broker.counters.mappings_died, 1);
	assert_int_equal(broker.counters.sessions_left, 1);
	broker.sessions->hooks = hooks_before;
	part(&owner);
}

/* A client that hangs up in its greeting was no session yet. */
static void test_a_hang_up_in_the_greeting_ends_no_session(void **state)
{
	int sock = dial();

	(void)state;
	assert_int_equal(receive_message(sock).type, WIRE_CHALLENGE);
	take_work(0, 0, 1, 1);
	close(sock);
	one_pass();
	assert_null(broker.sessions->by_id);
	expect_story("");
	assert_int_equal(broker.counters.sessions_left, 0);
	assert_int_equal(broker.counters.sessions_refused, 0);
	assert_int_equal(greeting(), 0);
	broker.sessions->hooks = hooks_before;
}

/* If the kernel has no memory for the challenge, the session is disconnected before its welcome. */
static void test_a_session_cut_before_its_welcome_was_never_opened(void **state)
{
	struct session *session;
	int sock = dial();

	(void)state;
	assert_int_equal(receive_message(sock).type, WIRE_CHALLENGE);
	session = broker.sessions->by_id;
	session_disconnect(session, "it cannot be sent to");
	assert_int_equal(broker.counters.sessions_cut, 1);
	expect_end(sock);
	assert_int_equal(greeting(), 1);
	close(sock);
	EXPECT_SOON(!broker.sessions->by_id);
	assert_int_equal(greeting(), 0);
	assert_int_equal(broker.counters.sessions_opened, 0);
	assert_int_equal(broker.counters.sessions_left, 0);
	assert_int_equal(broker.counters.sessions_died, 0);
}

/* How the session ends, as the end of its timelines needs to know. */
static bool died_of(enum session_state session_state, bool maps)
{
	struct peer peer = join();
	struct session *session = session_of(&peer);
	bool died;

	if (maps)
		acquire(&peer, "a");
	session->state = session_state;
	if (session_state == SESSION_DISCONNECTED)
		session->discarding = true;
	take_work(0, 0, 1, 1);
	part(&peer);
	session_hang_up(session);
	if (maps)
		die(session);
	EXPECT_SOON(!session_find(&broker, peer.session));
	expect_story("e");
	died = ended_died;
	broker.sessions->hooks = hooks_before;
	return died;
}

static void test_only_who_left_without_mappings_has_not_died(void **state)
{
	struct peer owner = join();

	(void)state;
	expect_done(&owner, WIRE_CREATE, "a");
	assert_false(died_of(SESSION_LEAVING, false));
	assert_true(died_of(SESSION_LEAVING, true));
	assert_true(died_of(SESSION_OPEN, false));
	assert_true(died_of(SESSION_OPEN, true));
	assert_true(died_of(SESSION_DISCONNECTED, false));
	assert_true(died_of(SESSION_DISCONNECTED, true));
	part(&owner);
}

/* ---- death ---- */

/* Whether the broker's end of the socket still takes what the client sends. */
static bool may_send(const struct peer *peer)
{
	struct wire_message message = named(WIRE_STAT, 1, "a");

	return !socket_send(peer->sock, &message, -1, MSG_DONTWAIT);
}

/* A forked child may have the socket: what it sends from then on is not the process's. */
static void invariant_9_after_the_death_the_socket_takes_nothing(void **state)
{
	struct peer peer = join();
	struct session *session = session_of(&peer);

	(void)state;
	broker.changed = false;
	die(session);
	assert_true(session->place.dead);
	assert_true(broker.changed);
	assert_false(event_pending(session->death, EV_READ, NULL));
	assert_false(may_send(&peer));
	assert_true(session->place.waits); /* to be read to its end */
	assert_int_equal(session->proof.state, PROOF_NONE);
	assert_int_equal(HASH_COUNT(broker.sessions->by_id), 1);
	part(&peer);
	EXPECT_SOON(!broker.sessions->by_id);
}

/* What a disconnected client sends is discarded; its socket must not look as if it had hung up. */
static void test_the_death_of_a_disconnected_client_leaves_its_socket(void **state)
{
	struct peer peer = join();
	struct session *session = session_of(&peer);

	(void)state;
	session_disconnect(session, "for a test");
	EXPECT_SOON(session->discarding);
	run_passes();
	assert_false(session->place.waits);
	die(session);
	assert_true(may_send(&peer));
	assert_false(session->place.waits);
	run_passes();
	assert_ptr_equal(session_find(&broker, peer.session), session);
	part(&peer);
	EXPECT_SOON(!broker.sessions->by_id);
}

/* It is served before others of its user. */
static void invariant_5_the_dead_come_first(void **state)
{
	struct peer first = join(), second = join();
	struct session *living = session_of(&first), *dead = session_of(&second);

	(void)state;
	session_wait(living);
	session_wait(dead);
	assert_ptr_equal(living->place.user->queue.items, &living->place.item);
	die(dead);
	assert_true(dead->place.waits);
	assert_ptr_equal(living->place.user->queue.items, &dead->place.item);
	part(&first);
	part(&second);
}

static void test_a_leaving_session_is_read_to_its_end(void **state)
{
	struct peer peer = join();
	struct session *session = session_of(&peer);

	(void)state;
	session->state = SESSION_LEAVING;
	die(session);
	assert_true(session->place.waits);
	assert_false(may_send(&peer));
	part(&peer);
}

/* The hang-up is the other half of a death, in whichever order they come. */
static void invariant_9_a_death_is_proven_when_both_have_come(void **state)
{
	struct peer peer = join();
	struct session *session = session_of(&peer);

	(void)state;
	expect_done(&peer, WIRE_CREATE, "a");
	acquire(&peer, "a");
	die(session);
	run_passes();
	assert_int_equal(session->proof.state, PROOF_NONE);
	assert_int_equal(broker.counters.mappings_died, 0);
	part(&peer);
	EXPECT_SOON(!broker.sessions->by_id);
	assert_int_equal(broker.counters.mappings_died, 1);
}

/*
 * A process that hangs up and dies is one end, also if its work takes some passes and the death is seen between them.
 */
static void test_a_death_during_the_end_is_counted_once(void **state)
{
	struct peer peer = join();
	struct session *session = session_of(&peer);

	(void)state;
	take_work(0, 0, 3, SHARE);
	part(&peer);
	begin_share(session);
	session_hang_up(session);
	expect_story("e");
	assert_int_equal(session->due, DUE_END);
	die(session);
	EXPECT_SOON(!broker.sessions->by_id);
	expect_story("ee");
	assert_int_equal(broker.counters.sessions_left, 1);
	broker.sessions->hooks = hooks_before;
}

/* ---- the end of mappings ---- */

static void invariant_5_mappings_end_within_the_share(void **state)
{
	static const char *const names[] = { "a", "b", "c" };
	struct peer owner = join(), peer = join_as(4001);
	struct session *session = session_of(&peer);

	(void)state;
	for (int i = 0; i < 3; i++) {
		create_with_mode(&owner, names[i], 0666); /* each in an allocation of its own */
		acquire(&peer, names[i]);
	}
	part(&owner);
	part(&peer);
	session_hang_up(session);
	session->place.dead = session->place.ending = true;
	begin_share(session);
	session->place.user->work = SHARE - 1;
	broker.changed = false;
	session_end_mappings(session);
	assert_int_equal(broker.counters.mappings_died, 1);
	assert_true(broker.changed);
	assert_true(session->place.waits);
	assert_ptr_equal(session_find(&broker, peer.session), session);
	assert_int_equal(HASH_COUNT(session->mappings.by_id), 2);
	EXPECT_SOON(!broker.sessions->by_id);
	assert_int_equal(broker.counters.mappings_died, 3);
}

/* Each mapping costs as much as a message, and as much again for every sixteen grants that end with it. */
static void test_a_mapping_with_many_grants_costs_more(void **state)
{
	struct peer owner = join(), peer = join_as(4001);
	struct session *session = session_of(&peer);
	struct fair_user *user = session->place.user;
	struct wire_message create;
	unsigned grants = 2 * GRANTS_PER_COST + 1;
	char name[8];

	(void)state;
	for (unsigned i = 0; i < grants; i++) {
		snprintf(name, sizeof name, "b%u", i);
		create = named(WIRE_CREATE, 77, name);
		create.create.mode = 0666;
		create.create.size = 100; /* side by side in one allocation */
		assert_int_equal(answer_to(&owner, &create).type, WIRE_DONE);
		acquire(&peer, name);
	}
	assert_int_equal(HASH_COUNT(session->mappings.by_id), 1);
	assert_int_equal(session->mappings.grant_count, grants);
	user->entries++; /* keeps the user */
	part(&peer);
	session_hang_up(session);
	session->place.dead = session->place.ending = true;
	begin_share(session);
	session_end_mappings(session);
	assert_null(session_find(&broker, peer.session));
	assert_int_equal(user->work, 3 + COST_SESSION_END);
	assert_int_equal(broker.counters.mappings_died, 1);
	user->entries--;
	part(&owner);
}

/* ---- the free ---- */

static unsigned drops;

static void drop(struct session_task *task)
{
	(void)task;
	drops++;
}

static bool step_never(struct session *session)
{
	(void)session;
	return false;
}

static void test_a_free_gives_back_all_but_the_mappings(void **state)
{
	struct session_task task = { .step = step_never, .drop = drop };
	struct peer peer = join();
	struct session *session = session_of(&peer);
	struct wire_message create = named(WIRE_CREATE, 77, "a");
	struct buffer *buffer;
	uint32_t slot = session->tracked.number;
	int pidfd = session->pidfd, fd = session->fd;

	(void)state;
	create.create.flags = GPUB_EPHEMERAL | GPUB_TIMELINE;
	assert_int_equal(answer_to(&peer, &create).type, WIRE_DONE);
	buffer = registry_find(broker.registry, "a");
	acquire(&peer, "a");
	assert_ptr_equal(buffer->ephemerals, &session->ephemerals);
	assert_ptr_equal(buffer->timeline->creator, &session->timelines);
	session->task = &task;
	drops = 0;
	session->proof.again = evtimer_new(broker.base, session_on_death, session);
	inquiry_forget(session); /* its caller's work, since it acquired a timeline */
	session_free(session);
	assert_int_equal(drops, 1);
	assert_null(broker.sessions->by_id);
	assert_null(broker.tracking->at[slot - 1]);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	assert_int_equal(fcntl(pidfd, F_GETFD), -1);
	assert_int_equal(used(geteuid(), RESOURCE_SESSIONS), 0);
	assert_int_equal(used(geteuid(), RESOURCE_GREETINGS), 0);
	assert_null(buffer->ephemerals);
	assert_null(buffer->timeline->creator);
	/* the memory is not freed, and nobody can end its mapping any more */
	assert_int_equal(buffer->state, BUFFER_LIVE);
	assert_int_equal(broker.counters.mappings_died, 0);
	assert_true(fair_queue_is_empty(broker.queue));
	expect_end(peer.sock);
	part(&peer);
	broker_end_now();
}

/* What identifying the process cost to undo is counted, for a connection that came so far. */
static void test_a_connection_that_was_not_identified_costs_nothing_to_end(void **state)
{
	struct peer peer = join();
	struct session *session = session_of(&peer);
	struct fair_user *user = session->place.user;

	(void)state;
	user->entries++;
	begin_share(session);
	event_free(session->death);
	session->death = NULL;
	close(session->pidfd);
	session->pidfd = -1;
	session_free(session);
	assert_int_equal(user->work, 0);
	user->entries--;
	fair_queue_deinit(broker.queue); /* its user has no entry left that would free it */
	assert_int_equal(fair_queue_init(broker.queue, broker.base, broker.accounting), 0);
	part(&peer);
}

/* In every state, as the broker ends. */
static void test_the_brokers_end_frees_all_sessions(void **state)
{
	struct peer open = join(), leaving = join(), cut = join(), hung = join();
	int greeting_sock = dial();

	(void)state;
	assert_int_equal(receive_message(greeting_sock).type, WIRE_CHALLENGE);
	expect_done(&open, WIRE_CREATE, "a");
	acquire(&open, "a");
	acquire(&hung, "a");
	session_of(&leaving)->state = SESSION_LEAVING;
	session_disconnect(session_of(&cut), "for a test");
	part(&hung);
	run_passes();
	assert_int_equal(HASH_COUNT(broker.sessions->by_id), 5);
	sessions_deinit(&broker);
	assert_null(broker.sessions->by_id);
	assert_int_equal(broker.sessions->arrived, 0);
	assert_int_equal(greeting(), 0);
	assert_int_equal(used(geteuid(), RESOURCE_SESSIONS), 0);
	assert_int_equal(broker.counters.mappings_died, 0);
	assert_int_equal(broker.counters.sessions_left, 0);
	broker_end_now();
	part(&open);
	part(&leaving);
	part(&cut);
	close(greeting_sock);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_the_lowest_bit_is_done_first),
		ON(invariant_5_work_beyond_the_share_waits_as_urgent),
		ON(test_work_that_is_due_takes_no_token),
		ON(test_a_hang_up_without_mappings_ends_all),
		ON(test_a_hang_up_with_mappings_ends_the_requests_alone),
		ON(invariant_9_orphaned_mappings_outlast_the_end_of_the_rest),
		ON(test_a_hang_up_in_the_greeting_ends_no_session),
		ON(test_a_session_cut_before_its_welcome_was_never_opened),
		ON(test_only_who_left_without_mappings_has_not_died),
		ON(invariant_9_after_the_death_the_socket_takes_nothing),
		ON(test_the_death_of_a_disconnected_client_leaves_its_socket),
		ON(invariant_5_the_dead_come_first),
		ON(test_a_leaving_session_is_read_to_its_end),
		ON(invariant_9_a_death_is_proven_when_both_have_come),
		ON(test_a_death_during_the_end_is_counted_once),
		ON(invariant_5_mappings_end_within_the_share),
		ON(test_a_mapping_with_many_grants_costs_more),
		ON(test_a_free_gives_back_all_but_the_mappings),
		ON(test_a_connection_that_was_not_identified_costs_nothing_to_end),
		ON(test_the_brokers_end_frees_all_sessions),
	};

	return cmocka_run_group_tests_name("session end", tests, harness_group_setup, harness_group_teardown);
}

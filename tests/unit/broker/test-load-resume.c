/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-load-resume.c - a broker is killed at one message, and the next one goes on: whatever the moment, the message
 * takes effect once, and is answered.
 *
 * The living broker is not killed; a copy of its ledger at that moment is loaded. So both have answered the client in
 * the end, and both must be equal. successor.h is the world.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "successor.h"

#include "broker/registry/mappings.h"
#include "broker/session/session-end.h"

static int setup(void **state)
{
	int error = harness_setup(state);

	if (!error)
		successor_note();
	return error;
}

static int teardown(void **state)
{
	successor_forget();
	return harness_teardown(state);
}

/* ---- both brokers answer ---- */

static enum successor_moment moment;

/* Receives an answer, whoever has sent it. Notices are skipped. */
static struct wire_message next_answer(struct peer *peer)
{
	struct wire_message answer;
	struct socket_extra extra;

	do {
		assert_int_equal(receive_with(peer->sock, &answer, &extra), 0);
		if (extra.fd >= 0)
			close(extra.fd);
	} while (answer.type == WIRE_NOTICE);
	return answer;
}

/* The message is answered by both in the same way. Returns the answer of the living broker. */
static struct wire_message expect_twice(struct peer *peer, const struct wire_message *message)
{
	struct wire_message first, second;

	successor_kill_at(moment);
	say(peer->sock, message);
	first = next_answer(peer);
	run_passes();
	successor_expect_same_effect();
	second = next_answer(peer);
	assert_int_equal(first.type, second.type);
	assert_int_equal(first.request, second.request);
	if (message->type != WIRE_ISSUE || moment != KILL_RECEIVED) /* each ticket is another one */
		assert_memory_equal(&first, &second, sizeof first);
	successor_end();
	return first;
}

static void expect_type(struct peer *peer, const struct wire_message *message, enum wire_type type)
{
	struct wire_message answer = expect_twice(peer, message);

	if (answer.type != type)
		print_message("%s: error %d: %s\n", wire_row(message->type)->name,
			      answer.type == WIRE_REFUSED ? answer.refused.error : 0,
			      answer.type == WIRE_REFUSED ? answer.refused.text : "");
	assert_int_equal(answer.type, type);
}

static void expect_done_twice(struct peer *peer, enum wire_type type, const char *name)
{
	struct wire_message message = named(type, 9, name);

	expect_type(peer, &message, WIRE_DONE);
}

/* ---- messages ---- */

static struct wire_message create_of(const char *name, unsigned flags)
{
	struct wire_message message = named(WIRE_CREATE, 8, name);

	message.create.size = 1000;
	message.create.flags = flags;
	return message;
}

static void make(struct peer *peer, const char *name, unsigned flags)
{
	struct wire_message message = create_of(name, flags);

	assert_int_equal(answer_to(peer, &message).type, WIRE_DONE);
}

static void at_each_message(struct peer *peer)
{
	struct wire_message message, answer;
	struct wire_grant grant;

	make(peer, "first", 0); /* the memory for those that follow */
	message = create_of("a", 0);
	expect_type(peer, &message, WIRE_DONE);
	message.request = 11;
	expect_type(peer, &message, WIRE_REFUSED);
	message = named(WIRE_STAT, 12, "a");
	expect_type(peer, &message, WIRE_INFO);
	message = named(WIRE_ACQUIRE, 13, "a");
	answer = expect_twice(peer, &message);
	assert_int_equal(answer.type, WIRE_GRANT);
	grant = answer.grant;
	message.request = 14;
	expect_type(peer, &message, WIRE_GRANT);
	wire_init(&message, WIRE_RIGHTS, 15);
	message.rights = (struct wire_rights){ grant.mapping, grant.serial, GPUB_WRITE };
	expect_type(peer, &message, WIRE_DONE);
	message = named(WIRE_CHANGE, 16, "a");
	message.change.what = WIRE_CHANGE_MODE;
	message.change.mode = 0600;
	expect_type(peer, &message, WIRE_DONE);
	message = named(WIRE_ISSUE, 17, "a");
	message.issue.rights = GPUB_READ;
	message.issue.uid = geteuid();
	message.issue.once = 1;
	answer = expect_twice(peer, &message);
	assert_int_equal(answer.type, WIRE_TICKET);
	wire_init(&message, WIRE_REDEEM, 18);
	message.redeem.ticket = answer.ticket;
	expect_type(peer, &message, WIRE_GRANT);
	message.request = 19; /* spent */
	expect_type(peer, &message, WIRE_REFUSED);
	message = named(WIRE_RENAME, 20, "a");
	strcpy(message.rename.to, "b");
	expect_type(peer, &message, WIRE_DONE);
	make(peer, "c", 0);
	expect_done_twice(peer, WIRE_SEAL, "c");
	expect_done_twice(peer, WIRE_UNLINK, "c");
	message = named(WIRE_NEWER, 21, "b");
	expect_type(peer, &message, WIRE_INFO);
	expect_done_twice(peer, WIRE_UNLINK, "b");
	message = named(WIRE_UNLINK, 22, "b");
	expect_type(peer, &message, WIRE_REFUSED);
}

static void take_all_back(struct peer *peer)
{
	ask(peer, WIRE_UNLINK, "first");
	bury(peer);
	EXPECT_SOON(!session_find(&broker, peer->session));
}

static void test_a_kill_before_a_message_is_handled(void **state)
{
	struct peer peer = join();

	(void)state;
	moment = KILL_RECEIVED;
	at_each_message(&peer);
	take_all_back(&peer);
}

static void test_a_kill_before_the_answer_is_sent(void **state)
{
	struct peer peer = join();

	(void)state;
	moment = KILL_COMMITTED;
	at_each_message(&peer);
	take_all_back(&peer);
}

/* What has no answer takes effect once, too. */
static void test_a_kill_at_what_is_not_answered(void **state)
{
	static const enum wire_type types[] = { WIRE_QUIESCED, WIRE_CLOSED };
	struct peer peer = join();

	(void)state;
	make(&peer, "first", 0);
	for (moment = KILL_RECEIVED; moment < KILL_MOMENTS; moment++)
		for (unsigned i = 0; i < 2; i++) {
			struct wire_grant grant = acquire(&peer, "first");
			struct wire_message message;

			wire_init(&message, types[i], 0);
			message.grant_id.mapping = grant.mapping;
			message.grant_id.serial = grant.serial;
			successor_kill_at(moment);
			say(peer.sock, &message);
			EXPECT_SOON(successor_is_killed());
			run_passes();
			successor_expect_same_effect();
			successor_end();
		}
	ask(&peer, WIRE_UNLINK, "first");
	part(&peer);
}

/* What comes before the last message of a list is not noted, so the client has to ask the next broker again. */
static void test_a_list_that_was_not_sent_is_refused(void **state)
{
	struct wire_message message = named(WIRE_LIST, 9, "*"), answer;
	struct peer peer = join();

	(void)state;
	make(&peer, "a", 0);
	moment = KILL_COMMITTED;
	successor_kill_at(moment);
	say(peer.sock, &message);
	do
		answer = receive_message(peer.sock);
	while (answer.type == WIRE_PART);
	assert_int_equal(answer.type, WIRE_VIEW);
	run_passes();
	successor_expect_same_effect();
	answer = receive_message(peer.sock);
	assert_int_equal(answer.type, WIRE_REFUSED);
	assert_int_equal(answer.request, message.request);
	assert_int_equal(answer.refused.error, -EAGAIN);
	successor_end();
	ask(&peer, WIRE_UNLINK, "a");
	part(&peer);
}

/* The session is there as soon as its welcome is noted, and gets the welcome from the next broker. */
static void test_a_kill_before_a_welcome_is_sent(void **state)
{
	struct wire_message message, first, second;
	int sock = dial();

	(void)state;
	moment = KILL_COMMITTED;
	message = receive_message(sock);
	assert_int_equal(message.type, WIRE_CHALLENGE);
	message = hello_to(&message);
	successor_kill_at(moment);
	say(sock, &message);
	first = receive_message(sock);
	assert_int_equal(first.type, WIRE_WELCOME);
	run_passes();
	successor_expect_same_effect();
	second = receive_message(sock);
	assert_int_equal(second.type, WIRE_WELCOME);
	assert_int_equal(first.welcome.session, second.welcome.session);
	assert_int_equal(session_find(&successor, first.welcome.session)->state, SESSION_OPEN);
	successor_end();
	close(sock);
	EXPECT_SOON(!session_find(&broker, first.welcome.session));
}

/* ---- keys ---- */

/* What the successor has sealed in the board is opened by the key that the client got from the living broker. */
static void test_a_handle_of_the_successor_is_opened_by_the_key_of_before(void **state)
{
	struct peer peer = join();
	struct device_handle handle;
	struct wire_message message = named(WIRE_ACQUIRE, 13, "a"), answer;
	const struct mapping *mapping;
	struct seal_terms terms;

	(void)state;
	make(&peer, "a", 0);
	moment = KILL_RECEIVED;
	answer = expect_twice(&peer, &message);
	mapping = mappings_find(&session_of(&peer)->mappings, answer.grant.mapping);
	assert_non_null(mapping);
	terms = board_grant_terms(peer.board.header, peer.session, &answer.grant);
	assert_int_equal(handle_unseal(&handle, &terms, &peer.board.handles[answer.grant.place], peer.welcome.key),
			 0);
	assert_memory_equal(&handle, &mapping->allocation->handle, sizeof handle);
	take_all_back(&peer);
}

/* ---- requests that wait ---- */

static void go_on(struct loaded *loaded)
{
	broker_publish(&broker);
	assert_int_equal(successor_load(ledger_fd(&note.ledger), loaded), 0);
	assert_int_equal(loaded->damaged, 0);
	assert_int_equal(load_resume(&successor, false), 0);
}

static void test_a_request_that_waits_waits_on_with_the_time_that_is_left(void **state)
{
	struct peer peer = join();
	struct wire_message message = named(WIRE_ACQUIRE, 5, "later"), answer;
	const struct wait *wait;
	struct loaded loaded;

	(void)state;
	message.acquire.timeout_ms = 60000;
	say(peer.sock, &message);
	EXPECT_SOON(broker.waiting->count == 1);
	session_of(&peer)->pending->received_ms -= 20000;
	tracked_changed(broker.tracking, &session_of(&peer)->pending->tracked);
	go_on(&loaded);
	assert_int_equal(successor.waiting->count, 1);
	wait = successor.waiting->waiters->waits;
	assert_int_equal(wait->key.request, 5);
	assert_true(wait->expires.ms < broker.waiting->waiters->waits->expires.ms - 19000);
	assert_true(wait->expires.ms > broker.waiting->waiters->waits->expires.ms - 21000);
	waiting_deinit(&successor);
	successor_end();
	make(&peer, "other", 0);
	message = named(WIRE_RENAME, 6, "other");
	strcpy(message.rename.to, "later");
	say(peer.sock, &message);
	for (unsigned i = 0; i < 2; i++) {
		answer = next_answer(&peer);
		assert_true(answer.type == WIRE_DONE || (answer.type == WIRE_GRANT && answer.request == 5));
	}
	assert_null(session_of(&peer)->pending);
	ask(&peer, WIRE_UNLINK, "later");
	bury(&peer);
}

/* The next buffer of that name is not drained in its place. */
static void test_a_drain_awaits_the_buffer_that_it_unlinked(void **state)
{
	struct peer peer = join(), holder = join();
	struct wire_message message = named(WIRE_DRAIN, 5, "a");
	struct loaded loaded;

	(void)state;
	make(&peer, "a", 0);
	acquire(&holder, "a");
	message.drain.timeout_ms = -1;
	say(peer.sock, &message);
	EXPECT_SOON(broker.waiting->count == 1);
	make(&holder, "a", 0);
	go_on(&loaded);
	assert_int_equal(successor.waiting->count, 1);
	assert_non_null(registry_find(successor.registry, "a"));
	assert_int_equal(successor.counters.buffers_unlinked, broker.counters.buffers_unlinked);
	waiting_deinit(&successor);
	successor_end();
	bury(&holder);
	assert_int_equal(next_answer(&peer).type, WIRE_DONE);
	ask(&peer, WIRE_UNLINK, "a");
	part(&peer);
}

/* ---- what is noted of answers ---- */

/* What has changed nothing is handled again. */
static void test_a_question_costs_no_commit(void **state)
{
	struct peer peer = join();
	uint64_t before;

	(void)state;
	make(&peer, "a", 0);
	run_passes();
	before = note.ledger.commit;
	for (unsigned i = 0; i < 10; i++) {
		struct wire_message stat = named(WIRE_STAT, 20 + i, "a");

		assert_int_equal(answer_to(&peer, &stat).type, WIRE_INFO);
	}
	run_passes();
	assert_int_equal(note.ledger.commit, before);
	ask(&peer, WIRE_UNLINK, "a");
	assert_int_not_equal(note.ledger.commit, before);
	part(&peer);
}

/* The next broker may find no reason to refuse, as after a reload with other quotas. */
static void test_a_refused_request_is_not_handled_again(void **state)
{
	struct peer peer = join();
	struct wire_message message = create_of("a", 0), answer;
	uint64_t limit = broker.accounting->quotas.fallback.limit[RESOURCE_BUFFERS];
	struct loaded loaded;

	(void)state;
	broker.accounting->quotas.fallback.limit[RESOURCE_BUFFERS] = 0;
	answer = answer_to(&peer, &message);
	assert_int_equal(answer.type, WIRE_REFUSED);
	broker.accounting->quotas.fallback.limit[RESOURCE_BUFFERS] = limit;
	go_on(&loaded);
	assert_null(registry_find(successor.registry, "a"));
	assert_true(successor.counters.refused_quota == broker.counters.refused_quota);
	successor_end();
	bury(&peer);
}

static void expect_waiting_noted(unsigned count)
{
	struct peer peer = join();
	const struct session *session = session_of(&peer);
	struct loaded loaded;

	fill_queue(&peer, count);
	run_passes();
	assert_int_equal(successor_load(ledger_fd(&note.ledger), &loaded), 0);
	assert_int_equal(session->outbox.count, count);
	assert_int_equal(session_find(&successor, peer.session)->outbox.count, count);
	successor_end();
	bury(&peer);
}

/* Another packet may be in hand before they are sent. */
static void test_answers_that_wait_for_room_are_noted(void **state)
{
	(void)state;
	expect_waiting_noted(1);
	expect_waiting_noted(5);
}

/* ---- the next ledger ---- */

static void test_a_damaged_ledger_is_replaced(void **state)
{
	struct peer peer = join();

	(void)state;
	make(&peer, "a", 0);
	expect_replaced_ledger(true);
	ask(&peer, WIRE_UNLINK, "a");
	part(&peer);
}

/* As after a user who had all that its quotas allow. */
static void test_a_ledger_that_is_far_too_large_is_replaced(void **state)
{
	struct peer peer = join();

	(void)state;
	make(&peer, "a", 0);
	assert_int_equal(ledger_reserve(&note.ledger, 100000), 0);
	expect_replaced_ledger(false);
	ask(&peer, WIRE_UNLINK, "a");
	part(&peer);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = { TEST(test_a_kill_before_a_message_is_handled),
					    TEST(test_a_kill_before_the_answer_is_sent),
					    TEST(test_a_kill_at_what_is_not_answered),
					    TEST(test_a_list_that_was_not_sent_is_refused),
					    TEST(test_a_kill_before_a_welcome_is_sent),
					    TEST(test_a_handle_of_the_successor_is_opened_by_the_key_of_before),
					    TEST(test_a_request_that_waits_waits_on_with_the_time_that_is_left),
					    TEST(test_a_drain_awaits_the_buffer_that_it_unlinked),
					    TEST(test_a_question_costs_no_commit),
					    TEST(test_a_refused_request_is_not_handled_again),
					    TEST(test_answers_that_wait_for_room_are_noted),
					    TEST(test_a_damaged_ledger_is_replaced),
					    TEST(test_a_ledger_that_is_far_too_large_is_replaced) };

	return cmocka_run_group_tests_name("load and go on", tests, harness_group_setup, harness_group_teardown);
}

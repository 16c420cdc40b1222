/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-inquiry.c - who is asked what it waits for, which of the answers are trusted, and when a REFRESH is answered.
 *
 * session-harness.h is the world; its peers are asked by hand, and answer what no library would.
 */
#include "session-harness.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "broker/request/inquiry.h"
#include "broker/session/session.h"

#define REFRESH 77
#define ASKED   4002 /* a user */
#define TIMERS  64   /* more than libevent's first heap has room for */

static void create(struct peer *peer, const char *name, unsigned flags)
{
	struct wire_message message = named(WIRE_CREATE, 1, name);

	message.create.flags = flags;
	assert_int_equal(answer_to(peer, &message).type, WIRE_DONE);
}

static struct wire_grant hold(struct peer *peer, const char *name)
{
	struct wire_grant grant = acquire(peer, name);

	session_of(peer)->answers = true; /* harness peers greet as an older library */
	return grant;
}

static void say_refresh(struct peer *peer)
{
	struct wire_message message;

	wire_init(&message, WIRE_REFRESH, REFRESH);
	say(peer->sock, &message);
}

static void expect_asked(struct peer *peer)
{
	assert_int_equal(receive_message(peer->sock).type, WIRE_INQUIRE);
}

static void expect_silence(struct peer *peer)
{
	struct wire_message message;

	run_passes();
	assert_int_equal(received_already(peer->sock, &message), 0);
}

static void expect_refreshed(struct peer *peer)
{
	struct wire_message message = receive_message(peer->sock);

	assert_int_equal(message.type, WIRE_DONE);
	assert_int_equal(message.request, REFRESH);
}

static struct wire_message waits(unsigned count, const struct wire_grant *grant, uint64_t value)
{
	struct wire_message message;

	wire_init(&message, WIRE_WAITS, 0);
	message.waits.count = count;
	for (unsigned i = 0; i < count && i < WIRE_WAITS_MAX; i++)
		message.waits.wait[i] = (struct wire_wait){
			.mapping = grant->mapping, .serial = grant->serial, .value = value + i, .age_ms = 5000
		};
	return message;
}

static unsigned reported(const struct peer *peer)
{
	const struct reported_wait *wait;
	unsigned count = 0;

	for (wait = session_of(peer)->inquired.waits; wait; wait = wait->next)
		count++;
	return count;
}

static void test_only_who_has_mapped_a_timeline_is_asked(void **state)
{
	struct peer asker = join(), other = join(), holder = join();
	struct wire_grant grant;
	struct wire_message answer;

	(void)state;
	create(&asker, "plain", 0);
	create(&asker, "t", GPUB_TIMELINE);
	hold(&other, "plain");
	say_refresh(&asker);
	expect_refreshed(&asker);
	grant = hold(&holder, "t");
	say_refresh(&asker);
	expect_asked(&holder);
	expect_silence(&other);
	expect_silence(&asker);
	answer = waits(1, &grant, 4);
	say(holder.sock, &answer);
	expect_refreshed(&asker);
	assert_int_equal(reported(&holder), 1);
	assert_int_equal(session_of(&holder)->inquired.waits->value, 4);
	assert_int_equal(session_of(&holder)->inquired.answer, ANSWER_GIVEN);
	assert_false(session_of(&holder)->inquired.partial);
	hang_up_dying(&holder);
	hang_up_dying(&other);
	part(&asker);
}

/* A library that does not know the question is not sent a message that it does not know. */
static void test_an_older_library_is_not_asked(void **state)
{
	struct peer asker = join(), old = join();

	(void)state;
	create(&asker, "t", GPUB_TIMELINE);
	acquire(&old, "t");
	say_refresh(&asker);
	expect_refreshed(&asker);
	expect_silence(&old);
	assert_int_equal(session_of(&old)->inquired.answer, ANSWER_UNKNOWN);
	hang_up_dying(&old);
	part(&asker);
}

static void invariant_5_a_process_that_never_answers_is_not_waited_for(void **state)
{
	struct peer asker = join(), holder = join();
	struct wire_grant grant;
	struct wire_message answer;

	(void)state;
	create(&asker, "t", GPUB_TIMELINE);
	grant = hold(&holder, "t");
	for (int round = 0; round < 3; round++) {
		say_refresh(&asker);
		expect_refreshed(&asker);
	}
	assert_int_equal(session_of(&holder)->inquired.answer, ANSWER_OWED);
	expect_asked(&holder);
	expect_silence(&holder); /* it was asked once: its socket does not fill */
	answer = waits(1, &grant, 9);
	say(holder.sock, &answer);
	EXPECT_SOON(session_of(&holder)->inquired.answer == ANSWER_GIVEN);
	assert_int_equal(reported(&holder), 1);
	hang_up_dying(&holder);
	part(&asker);
}

static void test_claims_are_checked(void **state)
{
	struct peer asker = join(), holder = join(), malicious = join();
	struct wire_grant grant, plain, own;
	struct wire_message answer;

	(void)state;
	create(&asker, "t", GPUB_TIMELINE);
	create(&asker, "u", GPUB_TIMELINE);
	create(&asker, "plain", 0);
	grant = hold(&holder, "t");
	own = hold(&malicious, "u");
	plain = hold(&malicious, "plain");
	say_refresh(&asker);
	expect_asked(&holder);
	expect_asked(&malicious);
	/* another session's mapping; none; no timeline; another buffer's number; and one that is true */
	answer = waits(5, &grant, 1);
	answer.waits.wait[1].mapping = 12345;
	answer.waits.wait[2].mapping = plain.mapping;
	answer.waits.wait[2].serial = plain.serial;
	answer.waits.wait[3].mapping = own.mapping;
	answer.waits.wait[3].serial = grant.serial;
	answer.waits.wait[4].mapping = own.mapping;
	answer.waits.wait[4].serial = own.serial;
	answer.waits.wait[4].age_ms = UINT64_MAX;
	say(malicious.sock, &answer);
	answer = waits(0, &grant, 0);
	say(holder.sock, &answer);
	expect_refreshed(&asker);
	assert_int_equal(reported(&malicious), 1);
	assert_true(session_of(&malicious)->inquired.waits->serial == own.serial);
	assert_true(session_of(&malicious)->inquired.waits->since_ms > 1600000000000ull);
	hang_up_dying(&malicious);
	hang_up_dying(&holder);
	part(&asker);
}

/* What comes behind the last message begins another answer, which replaces this one. */
static void test_an_answer_is_bounded(void **state)
{
	struct peer asker = join(), holder = join();
	struct wire_grant grant;
	struct wire_message answer;

	(void)state;
	create(&asker, "t", GPUB_TIMELINE);
	grant = hold(&holder, "t");
	say_refresh(&asker);
	expect_asked(&holder);
	answer = waits(WIRE_WAITS_MAX, &grant, 1);
	answer.waits.more = 1;
	for (int i = 0; i < WIRE_WAITS_ANSWER; i++)
		say(holder.sock, &answer);
	expect_refreshed(&asker);
	assert_int_equal(reported(&holder), WIRE_WAITS_MAX * WIRE_WAITS_ANSWER);
	assert_true(session_of(&holder)->inquired.partial); /* its last message says that there are others */
	say(holder.sock, &answer);
	EXPECT_SOON(reported(&holder) == WIRE_WAITS_MAX);
	assert_false(session_of(&holder)->inquired.partial);
	assert_int_equal(session_of(&holder)->inquired.messages, 1);
	hang_up_dying(&holder);
	part(&asker);
}

/* A broker and its successor may have sent the same INQUIRE. The later answer is shown, and none is waited for. */
static void test_an_answer_that_comes_twice_is_taken_twice(void **state)
{
	struct peer asker = join(), holder = join();
	struct wire_grant grant;
	struct wire_message answer;

	(void)state;
	create(&asker, "t", GPUB_TIMELINE);
	grant = hold(&holder, "t");
	say_refresh(&asker);
	expect_asked(&holder);
	answer = waits(2, &grant, 4);
	say(holder.sock, &answer);
	expect_refreshed(&asker);
	answer = waits(1, &grant, 9);
	say(holder.sock, &answer);
	EXPECT_SOON(reported(&holder) == 1);
	assert_int_equal(session_of(&holder)->inquired.waits->value, 9);
	assert_int_equal(session_of(&holder)->inquired.answer, ANSWER_GIVEN);
	expect_silence(&asker);
	say_refresh(&asker);
	expect_asked(&holder);
	say(holder.sock, &answer);
	expect_refreshed(&asker);
	assert_int_equal(broker.counters.sessions_cut, 0);
	hang_up_dying(&holder);
	part(&asker);
}

static void expect_cut_by(struct wire_message message)
{
	unsigned cut = (unsigned)broker.counters.sessions_cut;
	struct peer malicious = join();

	say(malicious.sock, &message);
	EXPECT_SOON(broker.counters.sessions_cut == cut + 1);
	bury(&malicious);
}

/* The first answers no INQUIRE, because it has said that it knows none; the others' answers are malformed. */
static void invariant_5_a_false_answer_ends_its_session(void **state)
{
	struct wire_grant none = { 0 };
	struct peer peer = join();
	struct wire_message message;

	(void)state;
	expect_cut_by(waits(1, &none, 1));
	message = waits(0, &none, 1);
	message.waits.count = WIRE_WAITS_MAX + 1;
	expect_cut_by(message);
	message.waits.count = 0;
	message.waits.more = 2;
	expect_cut_by(message);
	wire_init(&message, WIRE_INQUIRE, 0);
	expect_cut_by(message);
	expect_served(&peer);
	part(&peer);
}

static void test_one_refresh_at_a_time(void **state)
{
	struct peer asker = join(), holder = join(), other = join();
	struct wire_message message;

	(void)state;
	create(&asker, "t", GPUB_TIMELINE);
	hold(&holder, "t");
	say_refresh(&asker);
	expect_asked(&holder);
	say_refresh(&asker);
	message = receive_message(asker.sock);
	assert_int_equal(message.type, WIRE_REFUSED);
	assert_int_equal(message.refused.error, -EBUSY);
	/* whoever asks during a round is answered by the next one, and who goes is forgotten */
	say_refresh(&other);
	run_pass();
	part(&other);
	expect_refreshed(&asker);
	part(&asker);
	hang_up_dying(&holder);
}

/* What a session reported goes with it, also in the middle of a round. */
static void test_sessions_end_while_they_are_asked(void **state)
{
	struct peer asker = join(), first = join(), second = join();
	struct wire_message message;

	(void)state;
	create(&asker, "t", GPUB_TIMELINE);
	hold(&first, "t");
	hold(&second, "t");
	say_refresh(&asker);
	expect_asked(&first);
	expect_asked(&second);
	/* its LEAVE crosses the question */
	wire_init(&message, WIRE_LEAVE, 5);
	say(first.sock, &message);
	assert_int_equal(receive_message(first.sock).type, WIRE_LEFT);
	message = waits(0, &(struct wire_grant){ 0 }, 0);
	say(first.sock, &message);
	hang_up_dying(&second);
	expect_refreshed(&asker);
	assert_int_equal(broker.counters.sessions_cut, 0);
	hang_up_dying(&first);
	part(&asker);
}

/* What others had a user asked is no request of its own. */
static void invariant_5_a_refresh_takes_nothing_of_the_quotas_of_those_asked(void **state)
{
	static struct user_quota user = { .uid = ASKED };
	struct quotas quotas = { .users = &user, .count = 1 };
	struct peer asker = join(), holder = join_as(ASKED);
	struct wire_message message;
	struct wire_grant grant;

	(void)state;
	create(&holder, "t", GPUB_TIMELINE);
	grant = hold(&holder, "t");
	quota_init(&quotas.fallback);
	quota_init(&user.quota);
	user.quota.requests = 2;
	broker_configure(&broker, &quotas, &broker.config->creators);
	say_refresh(&asker);
	expect_asked(&holder);
	for (int i = 0; i < WIRE_WAITS_ANSWER; i++) {
		message = waits(WIRE_WAITS_MAX, &grant, 1);
		message.waits.more = i < WIRE_WAITS_ANSWER - 1;
		say(holder.sock, &message);
	}
	expect_refreshed(&asker);
	message = named(WIRE_STAT, 5, "t");
	say(holder.sock, &message);
	run_passes();
	assert_true(received_already(holder.sock, &message));
	quota_init(&user.quota);
	broker_configure(&broker, &quotas, &broker.config->creators);
	hang_up_dying(&holder);
	part(&asker);
}

/* libevent's allocations, which a test makes fail. */
static bool no_memory;

static void *allocate(void *bytes, size_t size)
{
	return no_memory ? NULL : realloc(bytes, size);
}

static void ignore(evutil_socket_t fd, short what, void *argument)
{
	(void)fd;
	(void)what;
	(void)argument;
}

/* Where there is no memory for the timer, nobody who owes an answer is waited for, and no pause is made. */
static void test_a_round_without_a_timer_ends(void **state)
{
	static const struct timeval day = { .tv_sec = 86400 };
	struct peer asker = join(), holder = join();
	struct event *timers[TIMERS];
	unsigned count = 0;

	(void)state;
	create(&asker, "t", GPUB_TIMELINE);
	hold(&holder, "t");
	no_memory = true;
	for (int error = 0; !error && count < TIMERS; count++) {
		timers[count] = evtimer_new(broker.base, ignore, NULL);
		error = event_add(timers[count], &day);
	}
	assert_true(count < TIMERS);
	say_refresh(&asker);
	expect_refreshed(&asker);
	assert_int_equal(broker.inquiry->state, INQUIRY_IDLE);
	no_memory = false;
	while (count)
		event_free(timers[--count]);
	hang_up_dying(&holder);
	part(&asker);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_only_who_has_mapped_a_timeline_is_asked),
		ON(test_an_older_library_is_not_asked),
		ON(invariant_5_a_process_that_never_answers_is_not_waited_for),
		ON(test_claims_are_checked),
		ON(test_an_answer_is_bounded),
		ON(test_an_answer_that_comes_twice_is_taken_twice),
		ON(invariant_5_a_false_answer_ends_its_session),
		ON(test_one_refresh_at_a_time),
		ON(test_sessions_end_while_they_are_asked),
		ON(invariant_5_a_refresh_takes_nothing_of_the_quotas_of_those_asked),
		ON(test_a_round_without_a_timer_ends),
	};

	event_set_mem_functions(malloc, allocate, free);
	return cmocka_run_group_tests_name("inquiry", tests, harness_group_setup, harness_group_teardown);
}

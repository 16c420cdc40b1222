/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-waiting.c - requests that wait for a name or a drain are answered in order and in time, or refused if late.
 *
 * A real registry and loop, without listener and device threads. Each session is one end of a socket pair, made by
 * hand; the test reads the answers from the other end.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <sodium.h>

#include "broker/core/broker.h"
#include "broker/registry/grants.h"
#include "broker/request/drains.h"
#include "broker/request/ending.h"
#include "broker/request/name-waits.h"
#include "broker/request/waiting.h"
#include "broker/request/waking.h"
#include "broker/session/session-end.h"
#include "common/error.h"
#include "common/socket.h"

static int fake_count(void)
{
	return 1;
}

static int fake_info(int ordinal, struct device_info *info)
{
	(void)ordinal;
	*info = (struct device_info){ .memory = 1u << 30, .granule = 2u << 20 };
	return 0;
}

static const struct device fake = { .kind = DEVICE_HOST, .name = "fake", .count = fake_count, .info = fake_info };
static struct broker broker;
static struct core parts;
static struct session sessions[3];
static int peers[3];

static void session_make(unsigned i)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	sessions[i] = (struct session){ .broker = &broker,
					.id = i + 1,
					.state = SESSION_OPEN,
					.fd = pair[0],
					.outbox.sock = pair[0],
					.pidfd = -1,
					.who.uid = getuid(),
					.who.gid = getgid(),
					.key = sodium_malloc(WIRE_KEY_SIZE) };
	assert_non_null(sessions[i].key);
	assert_int_equal(fair_join(broker.queue, &sessions[i].place, getuid()), 0);
	HASH_ADD(hh, broker.sessions->by_id, id, sizeof sessions[i].id, &sessions[i]);
	peers[i] = pair[1];
}

static void ignore_notice(void *context, struct grant *grant, uint64_t serial)
{
	(void)context, (void)grant, (void)serial;
}

static bool clean_none(void *context, struct allocation *allocation, uint32_t range, uint64_t serial)
{
	(void)context, (void)allocation, (void)range, (void)serial;
	return false;
}

static bool answers_drains;

static void release(void *context, struct allocation *allocation)
{
	struct buffer *buffers = registry_released(broker.registry, allocation);
	uint64_t serial;

	(void)context;
	allocation_free(allocation);
	while ((serial = registry_forget(broker.registry, &buffers)))
		if (answers_drains)
			drain_ended(&broker, serial);
}

static int setup(void **state)
{
	static const struct session_hooks session_hooks = { .expire = ending_expire };
	static const struct registry_hooks hooks = { ignore_notice, NULL };
	const struct memory_orders orders = { clean_none, release, &broker };

	(void)state;
	if (sodium_init() < 0)
		return -1;
	answers_drains = false;
	memset(&parts, 0, sizeof parts);
	broker_join(&broker, &parts);
	parts.sessions.hooks = &session_hooks;
	broker.base = event_base_new();
	accounting_init(broker.accounting);
	if (fair_queue_init(broker.queue, broker.base, broker.accounting))
		return -1;
	memory_init(broker.memory, broker.accounting, &orders);
	if (board_create(broker.board, "test", &fake, 8, 8) ||
	    registry_init(broker.registry, broker.memory, broker.board->board.words, 8, 8, &hooks, &broker))
		return -1;
	for (unsigned i = 0; i < 3; i++)
		session_make(i);
	return 0;
}

static void session_unmake(unsigned i)
{
	HASH_DEL(broker.sessions->by_id, &sessions[i]);
	fair_leave(&sessions[i].place);
	grants_forget(broker.registry, &sessions[i].grants);
	sodium_free(sessions[i].key);
	close(sessions[i].fd);
	close(peers[i]);
}

static int teardown(void **state)
{
	unsigned left = broker.waiting->count;

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		session_unmake(i);
	fair_queue_deinit(broker.queue);
	registry_deinit(broker.registry);
	memory_deinit(broker.memory);
	board_destroy(broker.board);
	accounting_deinit(broker.accounting);
	tracking_deinit(broker.tracking);
	event_base_free(broker.base);
	return left != 0;
}

/* ---- shorthands ---- */

static void loop_for(int ms)
{
	struct timeval end = { .tv_usec = ms * 1000 };

	event_base_loopexit(broker.base, &end);
	event_base_dispatch(broker.base);
	fair_pass_begin(broker.queue);
	for (unsigned i = 0; i < 3; i++)
		session_do_due(&sessions[i]);
}

static void forget(unsigned i)
{
	while (waiting_forget(&broker, sessions[i].id))
		;
}

static void wait_for_name(unsigned i, uint64_t request, const char *name, int timeout_ms)
{
	struct wire_acquire acquire = { .rights = GPUB_READ, .timeout_ms = timeout_ms };

	strcpy(acquire.name, name);
	assert_int_equal(name_wait_acquire(&broker, sessions[i].id, request, &acquire), 0);
}

static struct buffer *make_live(const char *name)
{
	struct buffer_spec spec = { .name = name, .size = 1, .span = 2u << 20, .owner = getuid(), .mode = 0600 };
	struct buffer *buffer;

	assert_int_equal(registry_reserve(broker.registry, &spec, &buffer), 0);
	registry_live(broker.registry, buffer);
	return buffer;
}

/* The next answer to that session: its type and, for a refusal, errno. 0: none came. */
static unsigned answer(unsigned i, struct wire_message *message)
{
	struct socket_extra extra;
	int error = socket_receive(peers[i], message, &extra, false, MSG_DONTWAIT);

	assert_true(!error || error == -EAGAIN);
	return error ? 0 : message->type;
}

static struct wire_message expect_answer(unsigned i, enum wire_type type, uint64_t request)
{
	struct wire_message message = { 0 };

	assert_int_equal(answer(i, &message), type);
	assert_int_equal(message.request, request);
	return message;
}

static void expect_silence(unsigned i)
{
	assert_int_equal(answer(i, &(struct wire_message){ 0 }), 0);
}

/* ---- acquires ---- */

static void test_name_wakes_all_who_wait_for_it_oldest_first_each_session_with_one_grant(void **state)
{
	struct wire_message first, second, again;

	(void)state;
	wait_for_name(0, 10, "a", -1);
	wait_for_name(1, 11, "b", -1);
	wait_for_name(2, 12, "a", 60000);
	wait_for_name(0, 13, "a", -1);
	assert_int_equal(broker.waiting->count, 4);
	make_live("a");
	waking_name(&broker, "a");
	assert_int_equal(answer(0, &first), WIRE_GRANT);
	assert_int_equal(first.request, 10);
	assert_int_equal(answer(2, &second), WIRE_GRANT);
	assert_true(second.grant.grant == first.grant.grant + 1);
	assert_int_equal(answer(0, &again), WIRE_GRANT);
	assert_int_equal(again.request, 13);
	assert_true(again.grant.grant == first.grant.grant && again.grant.place == WIRE_NO_HANDLE);
	expect_silence(1);
	assert_int_equal(broker.waiting->count, 1);
	assert_int_equal(broker.registry->grant_count, 2);
	forget(1);
}

static void test_acquire_expires_once_and_in_time(void **state)
{
	struct wire_message message;

	(void)state;
	wait_for_name(0, 10, "a", 200);
	wait_for_name(1, 11, "a", -1);
	loop_for(10);
	expect_silence(0);
	loop_for(300);
	assert_int_equal(answer(0, &message), WIRE_REFUSED);
	assert_int_equal(message.request, 10);
	assert_int_equal(message.refused.error, -ETIMEDOUT);
	assert_non_null(strstr(message.refused.text, "'a'"));
	assert_int_equal(broker.counters.refused_timeout, 1);
	make_live("a");
	waking_name(&broker, "a");
	expect_silence(0);
	expect_answer(1, WIRE_GRANT, 11);
	loop_for(40);
	expect_silence(1);
}

/* A session has numbers of its own. */
static void test_a_cancel_ends_one_wait(void **state)
{
	struct wire_message message;

	(void)state;
	wait_for_name(0, 10, "a", -1);
	wait_for_name(0, 11, "a", -1);
	wait_for_name(1, 10, "a", 60000);
	waiting_cancel(&broker, sessions[0].id, 10);
	message = expect_answer(0, WIRE_REFUSED, 10);
	assert_int_equal(message.refused.error, -ETIMEDOUT);
	waiting_cancel(&broker, sessions[0].id, 10);
	waiting_cancel(&broker, sessions[0].id, 12);
	waiting_cancel(&broker, sessions[2].id, 11);
	expect_silence(0);
	expect_silence(1);
	assert_int_equal(broker.waiting->count, 2);
	make_live("a");
	waking_name(&broker, "a");
	expect_answer(0, WIRE_GRANT, 11);
	expect_answer(1, WIRE_GRANT, 10);
	waiting_cancel(&broker, sessions[0].id, 11);
	expect_silence(0);
}

/* Rights are looked at when the buffer is there, and refused like any other's. */
static void test_woken_acquire_may_be_refused(void **state)
{
	struct wire_message message;
	struct buffer *buffer;

	(void)state;
	sessions[0].who.uid = getuid() + 1;
	wait_for_name(0, 10, "a", -1);
	buffer = make_live("a");
	waking_name(&broker, "a");
	assert_int_equal(answer(0, &message), WIRE_REFUSED);
	assert_int_equal(message.refused.error, -EACCES);
	assert_int_equal(buffer->allocation->open, 0);
}

static void test_forgotten_acquires_get_nothing(void **state)
{
	(void)state;
	wait_for_name(0, 10, "a", 20);
	wait_for_name(1, 11, "a", 20);
	wait_for_name(0, 12, "b", -1);
	forget(0);
	assert_int_equal(broker.waiting->count, 1);
	loop_for(50);
	expect_silence(0);
	expect_answer(1, WIRE_REFUSED, 11);
	wait_for_name(0, 13, "a", -1);
	wait_for_name(2, 14, "a", -1);
	waiting_forget_all(&broker);
	assert_int_equal(broker.waiting->count, 0);
}

/* A session that is gone when its acquire is served is skipped. */
static void test_gone_session_is_passed_over(void **state)
{
	struct wire_acquire acquire = { .name = "a", .rights = GPUB_READ, .timeout_ms = -1 };

	(void)state;
	assert_int_equal(name_wait_acquire(&broker, 99, 10, &acquire), 0);
	acquire.timeout_ms = 10;
	strcpy(acquire.name, "b");
	assert_int_equal(name_wait_acquire(&broker, 99, 11, &acquire), 0);
	wait_for_name(0, 12, "a", -1);
	make_live("a");
	waking_name(&broker, "a");
	expect_answer(0, WIRE_GRANT, 12);
	assert_int_equal(broker.registry->grant_count, 1);
	loop_for(30);
	assert_int_equal(broker.waiting->count, 0);
}

/* Nobody would receive the grant, so none is made. */
static void test_session_cut_off_is_passed_over(void **state)
{
	(void)state;
	wait_for_name(0, 10, "a", -1);
	wait_for_name(1, 11, "a", -1);
	sessions[0].state = SESSION_DISCONNECTED;
	make_live("a");
	waking_name(&broker, "a");
	expect_silence(0);
	expect_answer(1, WIRE_GRANT, 11);
	assert_int_equal(broker.registry->grant_count, 1);
}

/* One session's flood ends at its limit, is dropped with it, and leaves the others their places in the queue. */
static void invariant_5_waits_are_bounded(void **state)
{
	struct wire_acquire acquire = { .rights = GPUB_READ, .timeout_ms = 60000 };

	(void)state;
	for (unsigned i = 0; i < 1024; i++) {
		snprintf(acquire.name, sizeof acquire.name, "n%u", i % 7);
		assert_int_equal(name_wait_acquire(&broker, sessions[0].id, i, &acquire), 0);
	}
	assert_int_equal(name_wait_acquire(&broker, sessions[0].id, 1, &acquire), -EDQUOT);
	assert_non_null(strstr(error_text(), "1024 acquires wait and this one has 1024"));
	strcpy(acquire.name, "other");
	assert_int_equal(name_wait_acquire(&broker, sessions[0].id, 1, &acquire), -EDQUOT);
	wait_for_name(1, 11, "n3", -1);
	forget(0);
	assert_int_equal(broker.waiting->count, 1);
	wait_for_name(0, 12, "n3", -1);
	make_live("n3");
	waking_name(&broker, "n3");
	expect_answer(1, WIRE_GRANT, 11);
	expect_answer(0, WIRE_GRANT, 12);
	assert_null(broker.waiting->names);
	assert_null(broker.waiting->waiters);
	assert_null(broker.waiting->by_request);
}

/* ---- questions for a newer buffer ---- */

static void wait_for_newer(unsigned i, uint64_t request, const char *name, uint64_t generation, int timeout_ms)
{
	struct wire_newer newer = { .generation = generation, .timeout_ms = timeout_ms };

	strcpy(newer.name, name);
	assert_int_equal(name_wait_newer(&broker, sessions[i].id, request, &newer), 0);
}

static void test_a_question_is_answered_when_the_name_is_anothers(void **state)
{
	struct buffer *buffer = make_live("a"), *next = make_live("next");
	uint64_t generation = buffer->serial;
	struct wire_message told;

	(void)state;
	wait_for_newer(0, 10, "a", generation, -1);
	wait_for_newer(1, 11, "b", 0, -1);
	wait_for_name(2, 12, "b", -1);
	registry_unlink(broker.registry, buffer);
	registry_rename(broker.registry, next, "a");
	waking_name(&broker, "a");
	told = expect_answer(0, WIRE_INFO, 10);
	assert_true(told.info.generation == next->serial && told.info.generation > generation);
	expect_silence(1);
	registry_rename(broker.registry, next, "b");
	waking_name(&broker, "b");
	expect_answer(1, WIRE_INFO, 11);
	expect_answer(2, WIRE_GRANT, 12);
	assert_null(broker.waiting->names);
	assert_null(broker.waiting->waiters);
}

static void test_a_question_expires_once_and_in_time(void **state)
{
	uint64_t generation = make_live("a")->serial;
	struct wire_refused refused;

	(void)state;
	wait_for_newer(0, 10, "a", generation, 100);
	wait_for_newer(1, 11, "a", generation, 60000);
	loop_for(5);
	expect_silence(0);
	loop_for(200);
	refused = expect_answer(0, WIRE_REFUSED, 10).refused;
	assert_int_equal(refused.error, -ETIMEDOUT);
	assert_non_null(strstr(refused.text, "no newer buffer 'a' appeared within 100 ms"));
	waking_name(&broker, "a");
	expect_silence(0);
	expect_answer(1, WIRE_INFO, 11);
}

#define ASKING 40 /* more than are answered in one step, twice */

/*
 * Whoever is told asks for the next at once, while others are still to be told: it waits for the next buffer, and is
 * not told of this one again. Else a few dozen readers of one name would keep a broker busy for ever.
 */
static void invariant_5_who_asks_again_waits_for_the_next(void **state)
{
	uint64_t generation = make_live("a")->serial;
	struct wire_message message;
	unsigned told = 0, passes = 0;
	bool more = true;

	(void)state;
	for (unsigned i = 0; i < ASKING; i++)
		wait_for_newer(0, i, "a", 0, -1);
	waking_name(&broker, "a");
	for (; more && passes < ASKING; passes++) {
		for (; answer(0, &message); told++)
			wait_for_newer(0, message.request, "a", generation, -1);
		more = waking_more(&broker);
	}
	while (answer(0, &message))
		told++;
	assert_false(more);
	assert_int_equal(told, ASKING);
	/* those that are left wait in the order in which they came, and the first is not passed over */
	wait_for_newer(1, 11, "a", generation, -1);
	forget(0);
	waking_name(&broker, "a");
	expect_answer(1, WIRE_INFO, 11);
	assert_null(broker.waiting->names);
}

static unsigned count_answers(unsigned i)
{
	struct wire_message message;
	unsigned count = 0;

	while (answer(i, &message))
		count++;
	return count;
}

/* Some of each name in turn: a crowd that waits for one holds up nobody else's. */
static void invariant_5_names_take_turns(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2 * ASKING; i++)
		wait_for_newer(i % 2, i, i % 2 ? "b" : "a", 0, -1);
	make_live("a");
	make_live("b");
	waking_name(&broker, "a");
	waking_name(&broker, "b");
	for (unsigned pass = 0; pass < 2; pass++) {
		assert_int_equal(count_answers(0), 16);
		assert_int_equal(count_answers(1), 16);
		assert_true(waking_more(&broker));
		assert_int_equal(waking_more(&broker), pass == 0);
	}
	assert_int_equal(count_answers(0) + count_answers(1), 2 * (ASKING - 32));
	assert_null(broker.waiting->names);
}

/*
 * A name that is gone before all were told is waited for, by those who were not. Who leaves, the last of them as well,
 * takes nobody along.
 */
static void test_who_is_left_waits_for_the_next_of_the_name(void **state)
{
	struct buffer *buffer = make_live("a");

	(void)state;
	for (unsigned i = 0; i < ASKING; i++)
		wait_for_newer(i == ASKING - 1 ? 1 : 0, i, "a", 0, -1);
	waking_name(&broker, "a");
	wait_for_newer(2, 12, "a", 0, -1);
	forget(1);
	registry_unlink(broker.registry, buffer);
	while (waking_more(&broker))
		;
	expect_silence(2);
	make_live("a");
	waking_name(&broker, "a");
	while (waking_more(&broker))
		;
	expect_answer(2, WIRE_INFO, 12);
	expect_silence(1);
	assert_null(broker.waiting->names);
}

/* ---- drains ---- */

/* A buffer that is about to be unlinked, and a session that waits for its end. */
static struct buffer *drain(unsigned i, uint64_t request, int timeout_ms)
{
	struct buffer *buffer = make_live("a");

	assert_int_equal(drain_wait(&broker, buffer, sessions[i].id, request, timeout_ms), 0);
	assert_int_equal(broker.waiting->count, 1);
	return buffer;
}

static void test_a_drain_is_answered_once_by_the_free_alone(void **state)
{
	struct buffer *buffer = drain(0, 10, -1);

	(void)state;
	make_live("b");
	waking_name(&broker, "a");
	drain_ended(&broker, registry_find(broker.registry, "b")->serial);
	loop_for(10);
	expect_silence(0);
	drain_ended(&broker, buffer->serial);
	expect_answer(0, WIRE_DONE, 10);
	assert_int_equal(broker.waiting->count, 0);
	drain_ended(&broker, buffer->serial);
	expect_silence(0);
}

static void test_a_drain_expires_once_and_in_time(void **state)
{
	struct buffer *buffer = drain(0, 10, 100);
	struct wire_message message;

	(void)state;
	loop_for(5);
	expect_silence(0);
	loop_for(200);
	assert_int_equal(answer(0, &message), WIRE_REFUSED);
	assert_int_equal(message.request, 10);
	assert_int_equal(message.refused.error, -ETIMEDOUT);
	assert_non_null(strstr(message.refused.text, "'a'"));
	assert_int_equal(broker.waiting->count, 0);
	assert_null(broker.waiting->drains);
	drain_ended(&broker, buffer->serial);
	expect_silence(0);
}

static void test_a_drain_that_ends_in_time_does_not_expire(void **state)
{
	struct buffer *buffer = drain(0, 10, 20);

	(void)state;
	drain_ended(&broker, buffer->serial);
	expect_answer(0, WIRE_DONE, 10);
	loop_for(50);
	expect_silence(0);
	assert_int_equal(broker.counters.refused_timeout, 0);
}

static void test_drains_of_the_gone_and_the_cut_are_passed_over(void **state)
{
	struct buffer *buffer = make_live("a"), *late = make_live("b"), *cut = make_live("c");

	(void)state;
	assert_int_equal(drain_wait(&broker, buffer, 99, 10, -1), 0);
	assert_int_equal(drain_wait(&broker, late, 99, 11, 10), 0);
	assert_int_equal(drain_wait(&broker, cut, sessions[0].id, 12, 10), 0);
	sessions[0].state = SESSION_DISCONNECTED;
	drain_ended(&broker, buffer->serial);
	loop_for(30);
	expect_silence(0);
	assert_int_equal(broker.waiting->count, 0);
	assert_int_equal(broker.counters.refused_timeout, 0);
}

/* The session is gone: nobody waits any more, though the buffer is there yet. Others' drains go on. */
static void test_a_gone_sessions_drain_is_dropped(void **state)
{
	struct buffer *buffer = drain(0, 10, 20), *others = make_live("b");

	(void)state;
	assert_int_equal(drain_wait(&broker, others, sessions[1].id, 11, -1), 0);
	forget(0);
	assert_int_equal(broker.waiting->count, 1);
	drain_ended(&broker, buffer->serial);
	loop_for(40);
	expect_silence(0);
	waiting_forget_all(&broker);
	drain_ended(&broker, others->serial);
	expect_answer(1, WIRE_DONE, 11);
}

static void test_a_forgotten_drain_is_not_answered(void **state)
{
	(void)state;
	drain(0, 10, 10);
	waiting_deinit(&broker);
	assert_null(broker.waiting->drains);
	assert_int_equal(broker.waiting->count, 0);
	loop_for(30);
	expect_silence(0);
}

/* As when a job zeroes the buffer's range: the wait goes on without the buffer, and is answered or expires. */
static void test_a_drain_outlives_its_buffer(void **state)
{
	struct buffer *answered = drain(0, 10, -1), *expiring = make_live("b");
	uint64_t serial = answered->serial;

	(void)state;
	assert_int_equal(drain_wait(&broker, expiring, sessions[1].id, 11, 10), 0);
	registry_unlink(broker.registry, answered);
	registry_unlink(broker.registry, expiring);
	assert_null(broker.registry->serials);
	expect_silence(0);
	drain_ended(&broker, serial);
	expect_answer(0, WIRE_DONE, 10);
	loop_for(30);
	expect_answer(1, WIRE_REFUSED, 11);
	assert_null(broker.waiting->drains);
}

static void test_a_free_answers_the_drain(void **state)
{
	struct buffer *buffer = drain(0, 10, -1);

	(void)state;
	answers_drains = true;
	registry_unlink(broker.registry, buffer);
	expect_answer(0, WIRE_DONE, 10);
	assert_null(broker.waiting->drains);
}

static void test_a_stop_ends_all_waits_but_drains(void **state)
{
	struct buffer *first = drain(0, 10, -1), *second = make_live("b");

	(void)state;
	wait_for_name(0, 11, "c", -1);
	wait_for_name(1, 12, "c", -1);
	assert_int_equal(drain_wait(&broker, second, sessions[1].id, 13, -1), 0);
	assert_int_equal(broker.waiting->count, 4);
	waiting_forget_all(&broker);
	assert_int_equal(broker.waiting->count, 2);
	assert_null(broker.waiting->names);
	assert_int_equal(expect_answer(0, WIRE_REFUSED, 11).refused.error, -ENOENT);
	assert_int_equal(expect_answer(1, WIRE_REFUSED, 12).refused.error, -ENOENT);
	drain_ended(&broker, first->serial);
	drain_ended(&broker, second->serial);
	expect_answer(0, WIRE_DONE, 10);
	expect_answer(1, WIRE_DONE, 13);
}

#define ON(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_name_wakes_all_who_wait_for_it_oldest_first_each_session_with_one_grant),
		ON(test_acquire_expires_once_and_in_time),
		ON(test_a_cancel_ends_one_wait),
		ON(test_woken_acquire_may_be_refused),
		ON(test_forgotten_acquires_get_nothing),
		ON(test_gone_session_is_passed_over),
		ON(test_session_cut_off_is_passed_over),
		ON(invariant_5_waits_are_bounded),
		ON(test_a_question_is_answered_when_the_name_is_anothers),
		ON(test_a_question_expires_once_and_in_time),
		ON(invariant_5_who_asks_again_waits_for_the_next),
		ON(invariant_5_names_take_turns),
		ON(test_who_is_left_waits_for_the_next_of_the_name),
		ON(test_a_drain_is_answered_once_by_the_free_alone),
		ON(test_a_drain_expires_once_and_in_time),
		ON(test_a_drain_that_ends_in_time_does_not_expire),
		ON(test_drains_of_the_gone_and_the_cut_are_passed_over),
		ON(test_a_gone_sessions_drain_is_dropped),
		ON(test_a_forgotten_drain_is_not_answered),
		ON(test_a_drain_outlives_its_buffer),
		ON(test_a_free_answers_the_drain),
		ON(test_a_stop_ends_all_waits_but_drains),
	};

	return cmocka_run_group_tests_name("waiting", tests, NULL, NULL);
}

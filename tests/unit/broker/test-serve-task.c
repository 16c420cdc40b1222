/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-serve-task.c - the task of a session: its steps are done while the share and the socket have room, before more
 * is read, until it is done or nobody is left to get what it sends.
 *
 * The first message of a client makes a task, whose steps are this program's. session-harness.h makes the broker and
 * its clients.
 */
#include "session-harness.h"

#include "broker/session/session-end.h"

#define SHARE 16 /* cost of the work for a user in a pass: fair-queue.c's */

static unsigned handled; /* number of messages */
static struct session_task task;

static int handle(struct session *session, const struct wire_message *message)
{
	session_done(session, message->request, -1);
	if (!handled++)
		session->task = &task;
	return 0;
}

static const struct session_hooks hooks = { handle, hook_none, hook_none, hook_none };

static int setup(void **state)
{
	int error = harness_setup(state);

	handled = 0;
	if (!error)
		broker.sessions->hooks = &hooks;
	return error;
}

static void one_pass(void)
{
	broker_pass(&broker, false);
}

static void say_request(const struct peer *peer, uint64_t number)
{
	struct wire_message message = named(WIRE_STAT, number, "a");

	say(peer->sock, &message);
}

static void part_and_end(struct peer *peer)
{
	part(peer);
	EXPECT_SOON(!session_find(&broker, peer->session));
}

static unsigned steps, steps_left, drops;

static bool step(struct session *session)
{
	struct wire_message message;

	assert_true(fair_allows(&session->place));
	steps++;
	fair_count(&session->place, SHARE);
	wire_init(&message, WIRE_DONE, 1000 + steps);
	session_send(session, &message, -1);
	return !--steps_left;
}

static void drop(struct session_task *of)
{
	assert_ptr_equal(of, &task);
	drops++;
}

/* The first message of the peer makes a task with so many steps. */
static void begin_task(const struct peer *peer, unsigned count)
{
	task = (struct session_task){ step, drop };
	steps = drops = 0;
	steps_left = count;
	say_request(peer, 1);
	EXPECT_SOON(handled == 1);
}

static void test_a_task_is_done_before_more_is_read(void **state)
{
	struct peer peer = join();
	struct session *session = session_of(&peer);

	(void)state;
	say_request(&peer, 1);
	task = (struct session_task){ step, drop };
	steps = drops = 0;
	steps_left = 3;
	say_request(&peer, 2);
	assert_int_equal(receive_message(peer.sock).request, 1);
	for (unsigned i = 1; i <= 3; i++) {
		assert_int_equal(handled, 1);
		assert_int_equal(receive_message(peer.sock).request, 1000 + i);
	}
	assert_int_equal(receive_message(peer.sock).request, 2);
	assert_int_equal(handled, 2);
	assert_int_equal(steps, 3);
	assert_int_equal(drops, 1);
	assert_null(session->task);
	assert_null(session->outbox.first);
	part(&peer);
}

static void test_the_task_of_a_client_that_hangs_up_is_dropped(void **state)
{
	struct peer peer = join();

	(void)state;
	begin_task(&peer, 1000);
	part(&peer);
	steps = 0;
	EXPECT_SOON(!session_find(&broker, peer.session));
	assert_int_equal(drops, 1);
	assert_in_range(steps, 0, 1);
}

/* Who gets its answers is dead, though a child may have the socket. */
static void test_the_task_of_a_dead_process_is_dropped(void **state)
{
	struct peer peer = join();
	struct session *session = session_of(&peer);
	unsigned before;

	(void)state;
	begin_task(&peer, 1000);
	session_on_death(-1, EV_READ, session);
	before = steps;
	one_pass();
	one_pass();
	assert_int_equal(drops, 1);
	assert_int_equal(steps, before);
	part_and_end(&peer);
}

static void invariant_5_a_task_waits_for_room_in_the_socket(void **state)
{
	struct wire_message message;
	struct peer peer = join();
	struct session *session = session_of(&peer);
	unsigned before;

	(void)state;
	begin_task(&peer, 100000);
	for (unsigned passes = 0; passes < 100000 && !session->outbox.wanted; passes++)
		one_pass();
	assert_true(session->outbox.wanted);
	before = steps;
	for (int i = 0; i < 20; i++)
		one_pass();
	assert_int_equal(steps, before);
	assert_false(session->place.waits);
	assert_int_equal(session->outbox.count, 0);
	assert_int_equal(drops, 0);
	while (received_already(peer.sock, &message))
		;
	EXPECT_SOON(steps > before);
	part_and_end(&peer);
	assert_int_equal(drops, 1);
}

static bool step_and_disconnect(struct session *session)
{
	steps++;
	session_disconnect(session, "its task does not like it");
	return false;
}

static void test_a_task_that_disconnects_its_client_is_dropped(void **state)
{
	struct peer peer = join();

	(void)state;
	task = (struct session_task){ step_and_disconnect, drop };
	steps = drops = 0;
	say_request(&peer, 1);
	say_request(&peer, 2);
	assert_int_equal(receive_message(peer.sock).request, 1);
	expect_end(peer.sock);
	assert_int_equal(steps, 1);
	assert_int_equal(drops, 1);
	assert_int_equal(handled, 1);
	part_and_end(&peer);
}

#define SERVE(name) cmocka_unit_test_setup_teardown(name, setup, harness_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SERVE(test_a_task_is_done_before_more_is_read),
		SERVE(test_the_task_of_a_client_that_hangs_up_is_dropped),
		SERVE(test_the_task_of_a_dead_process_is_dropped),
		SERVE(invariant_5_a_task_waits_for_room_in_the_socket),
		SERVE(test_a_task_that_disconnects_its_client_is_dropped),
	};

	return cmocka_run_group_tests_name("tasks", tests, harness_group_setup, harness_group_teardown);
}

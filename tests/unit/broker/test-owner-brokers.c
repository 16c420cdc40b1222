/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-owner-brokers.c - an owner whose broker has died, and the next one: what the owner lists, that no order is
 * carried out twice, and that no outcome and no descriptor is lost, wherever the broker died.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "broker/owner/packet.h"
#include "common/error.h"
#include "tests/lingering.h"
#include "tests/unit/broker/brokers-harness.h"

#define ADOPTED 40 /* number of memory that the order takes over */
#define MEMORY  50 /* number of memory that is there */
#define ORDER   60 /* number of the order that is looked at */
#define LATER   70 /* numbers of orders that follow */

static const enum order_kind kinds[] = { ORDER_ALLOCATE, ORDER_ADOPT, ORDER_ZERO, ORDER_RELEASE,
					 ORDER_ROOM,	 ORDER_GONE,  ORDER_NAMES };

#define KINDS (sizeof kinds / sizeof *kinds)

static struct list lists[DEVICES + 1];
static unsigned open_before; /* descriptors */

/* ---- orders ---- */

static struct outcome answered(const struct order *order)
{
	struct outcome outcome;

	order_send(order, -1);
	outcome = outcome_receive(order_lane(order));
	assert_int_equal(outcome.number, order->number);
	if (outcome.descriptor >= 0)
		close(outcome.descriptor);
	return outcome;
}

static struct order order_for(enum order_kind kind)
{
	struct order order = order_of(kind, ORDER, kind == ORDER_ADOPT ? ADOPTED : MEMORY);

	order.exported = EXPORT_VMM;
	order.acknowledged = MEMORY;
	return order;
}

/* Sends the order, with a descriptor where it needs one, which nobody but the owner has then. */
static void send_it(const struct order *order)
{
	int descriptor = order->kind == ORDER_ADOPT ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1;

	order_send(order, descriptor);
	if (descriptor >= 0)
		close(descriptor);
}

/* Makes memory on a device. */
static void make(unsigned device, uint64_t number)
{
	struct order order = order_of(ORDER_ALLOCATE, number, 0);

	order.exported = EXPORT_VMM;
	order.device = device;
	assert_int_equal(answered(&order).error, 0);
}

/* An owner with acknowledged memory. */
static int setup(void **state)
{
	struct order room = order_of(ORDER_ROOM, MEMORY + 1, 0);
	int error = brokers_setup(state);

	if (error)
		return error;
	make(0, MEMORY);
	room.acknowledged = MEMORY;
	assert_int_equal(answered(&room).room, 7);
	open_before = descriptors();
	return 0;
}

/* ---- what the next broker is told ---- */

static void lists_receive(void)
{
	for (unsigned i = 0; i <= QUESTIONS; i++)
		list_receive(i, &lists[i]);
}

static bool lists_memory(uint64_t number)
{
	for (unsigned i = 0; i < lists[0].memories; i++)
		if (lists[0].memory[i].memory == number)
			return true;
	return false;
}

static void expect_listed(const struct order *order, bool done)
{
	assert_int_equal(lists_memory(MEMORY), !(done && order->kind == ORDER_RELEASE));
	assert_int_equal(lists_memory(ORDER), done && order->kind == ORDER_ALLOCATE);
	assert_int_equal(lists_memory(ADOPTED), done && order->kind == ORDER_ADOPT);
	for (unsigned i = 0; i < lists[0].memories; i++) {
		const struct listed *memory = &lists[0].memory[i];

		assert_int_equal(memory->exported, EXPORT_VMM);
		assert_int_equal(memory->size, memory->memory == MEMORY ? MEMORY : ORDER);
		assert_int_equal(memory->outcome.descriptor, -1);
	}
}

static void expect_owed(const struct order *order)
{
	const struct listed *listed = lists[0].outcome;
	uint64_t handle;

	assert_int_equal(lists[0].outcomes, 1);
	assert_int_equal(listed->order, order->kind);
	assert_int_equal(listed->memory, order->memory);
	assert_int_equal(listed->outcome.number, ORDER);
	assert_int_equal(listed->outcome.error, 0);
	assert_int_equal(listed->outcome.descriptor >= 0, order->kind == ORDER_ALLOCATE);
	memcpy(&handle, listed->outcome.handle.bytes, sizeof handle);
	assert_int_equal(handle, order->kind == ORDER_ALLOCATE ? ORDER : 0);
}

/* done: the order was carried out. owed: and its outcome is not acknowledged. */
static void expect_lists(const struct order *order, bool done, bool owed)
{
	lists_receive();
	expect_listed(order, done);
	assert_int_equal(memories_made(), lists[0].memories);
	if (owed && order_is_kept(order->kind))
		expect_owed(order);
	else
		assert_int_equal(lists[0].outcomes, 0);
	for (unsigned i = 1; i <= QUESTIONS; i++)
		assert_int_equal(lists[i].memories + lists[i].outcomes, 0);
}

/* ---- the next broker goes on ---- */

/* It sends the order if it was not done, and orders in all lanes. What the order left is released. */
static void go_on(const struct order *order, bool done)
{
	static const enum order_kind later[] = { ORDER_ALLOCATE, ORDER_ZERO, ORDER_RELEASE, ORDER_GONE };
	uint64_t left = order->kind == ORDER_ALLOCATE ? ORDER : order->kind == ORDER_ADOPT ? ADOPTED : 0;
	struct order next;
	struct outcome outcome;

	if (!done || !order_is_kept(order->kind)) {
		send_it(order);
		outcome = outcome_receive(order_lane(order));
		assert_int_equal(outcome.error, order->kind == ORDER_GONE ? -EBUSY : 0);
		if (outcome.descriptor >= 0)
			close(outcome.descriptor);
	}
	if (order->kind == ORDER_ALLOCATE || order->kind == ORDER_ADOPT || order->kind == ORDER_ZERO)
		assert_int_equal(runs_of(ORDER), 1);
	for (unsigned i = 0; i < sizeof later / sizeof *later; i++) {
		next = order_of(later[i], LATER + i, LATER);
		next.acknowledged = i ? LATER + i - 1 : ORDER;
		assert_int_equal(answered(&next).error, later[i] == ORDER_GONE ? -EBUSY : 0);
	}
	next = order_of(ORDER_RELEASE, LATER + 9, left);
	if (left)
		assert_int_equal(answered(&next).error, 0);
	assert_int_equal(memories_made(), order->kind != ORDER_RELEASE);
	assert_int_equal(descriptors(), open_before - (order->kind == ORDER_RELEASE));
}

static void for_each_kind(void (*test)(const struct order *order))
{
	struct order order;

	for (unsigned i = 0; i < KINDS; i++) {
		order = order_for(kinds[i]);
		assert_int_equal(setup(NULL), 0);
		test(&order);
		assert_int_equal(brokers_teardown(NULL), 0);
	}
}

/* ---- the points at which a broker dies ---- */

/* The owner is busy with an order before this one. */
static void dies_before_it_is_received(const struct order *order)
{
	unsigned lane = order_lane(order);
	struct order before = order_of(lane == QUESTIONS ? ORDER_NAMES : ORDER_ROOM, ORDER - 1, 0);

	before.acknowledged = MEMORY;
	gate_close(lane);
	order_send(&before, -1);
	gate_reached(lane);
	send_it(order);
	broker_dies();
	broker_comes();
	gate_open(lane);
	expect_lists(order, false, false);
	assert_int_equal(runs_of(ORDER), 0);
	go_on(order, false);
}

static void test_what_was_not_begun_is_dropped(void **state)
{
	(void)state;
	for_each_kind(dies_before_it_is_received);
}

static void dies_while_it_is_carried_out(const struct order *order)
{
	unsigned lane = order_lane(order);

	gate_close(lane);
	send_it(order);
	gate_reached(lane);
	broker_dies();
	broker_comes();
	outcome_none(lane);
	gate_open(lane);
	expect_lists(order, true, true);
	go_on(order, true);
}

static void test_what_was_begun_is_finished(void **state)
{
	(void)state;
	for_each_kind(dies_while_it_is_carried_out);
}

/* The owner closes its end of a lane after an answer that it could not send. */
static void dies_before_it_is_answered(const struct order *order)
{
	unsigned lane = order_lane(order);
	int watched = fcntl(broker.lane[lane], F_DUPFD_CLOEXEC, 3);

	gate_close(lane);
	send_it(order);
	gate_reached(lane);
	shutdown(watched, SHUT_RD); /* nothing can be sent to this end any more */
	broker_dies();
	gate_open(lane);
	assert_int_equal(poll(&(struct pollfd){ .fd = watched }, 1, 5000), 1);
	close(watched);
	broker_comes();
	expect_lists(order, true, true);
	go_on(order, true);
}

static void test_an_answer_that_cannot_be_sent_is_kept(void **state)
{
	(void)state;
	for_each_kind(dies_before_it_is_answered);
}

static void dies_before_it_receives_the_answer(const struct order *order)
{
	send_it(order);
	outcome_waits(order_lane(order));
	broker_dies();
	broker_comes();
	expect_lists(order, true, true);
	go_on(order, true);
}

static void test_an_answer_that_was_not_received_is_kept(void **state)
{
	(void)state;
	for_each_kind(dies_before_it_receives_the_answer);
}

static void receive_answer(const struct order *order)
{
	struct outcome outcome = outcome_receive(order_lane(order));

	assert_int_equal(outcome.descriptor >= 0, order->kind == ORDER_ALLOCATE);
	if (outcome.descriptor >= 0)
		close(outcome.descriptor);
}

static void dies_before_it_acknowledges(const struct order *order)
{
	send_it(order);
	receive_answer(order);
	broker_dies();
	broker_comes();
	expect_lists(order, true, true);
	go_on(order, true);
}

static void test_an_outcome_that_is_not_acknowledged_is_kept(void **state)
{
	(void)state;
	for_each_kind(dies_before_it_acknowledges);
}

static void dies_when_it_has_acknowledged(const struct order *order)
{
	struct order room = order_of(ORDER_ROOM, ORDER + 1, 0);

	send_it(order);
	receive_answer(order);
	room.acknowledged = ORDER;
	assert_int_equal(answered(&room).room, 7);
	broker_dies();
	broker_comes();
	expect_lists(order, true, false);
	go_on(order, true);
}

static void test_an_outcome_that_is_acknowledged_is_not_listed(void **state)
{
	(void)state;
	for_each_kind(dies_when_it_has_acknowledged);
}

/* ---- brokers ---- */

/* The outcome is owed until one of them acknowledges it. Some die before they have read anything. */
static void test_ten_brokers_in_a_row(void **state)
{
	const struct order order = order_for(ORDER_ALLOCATE);

	(void)state;
	send_it(&order);
	outcome_waits(0);
	for (unsigned i = 0; i < 10; i++) {
		broker_dies();
		broker_comes();
		if (i % 3)
			expect_lists(&order, true, true);
	}
	broker_dies();
	broker_comes();
	expect_lists(&order, true, true);
	go_on(&order, true);
}

static void say(const struct owner_request *request, int descriptor)
{
	assert_int_equal(packet_send(owners_socket, request, sizeof *request, descriptor, MSG_DONTWAIT), 0);
}

/* It has said that it comes, and sent some lanes. The next one finds answers in the socket that are not its own. */
static void test_brokers_that_die_while_they_join(void **state)
{
	int pair[2];

	(void)state;
	broker_dies();
	for (unsigned i = 0; i < 100; i++) {
		say(&(struct owner_request){ .kind = REQUEST_BROKER, .broker = 1000 + i }, -1);
		for (unsigned lane = 0; lane < i % (DEVICES + 2); lane++) {
			assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
			say(&(struct owner_request){ .kind = REQUEST_LANE, .lane = lane }, pair[1]);
			close(pair[0]);
			close(pair[1]);
		}
		if (i % 10)
			continue;
		broker_comes();
		lists_receive();
		assert_int_equal(lists[0].memories, 1);
		broker_dies();
	}
	broker_comes();
	lists_receive(); /* so each thread has closed the lane that it had before */
	assert_int_equal(descriptors(), open_before);
}

/* Nobody has read what the owner has answered to them, so the owner waits, and has not read what they have sent. */
static void test_a_broker_finds_a_full_socket(void **state)
{
	struct owner_request request = { .kind = REQUEST_BROKER, .broker = 1000 };
	unsigned full = 0;
	int error;

	(void)state;
	broker_dies();
	while (full < 20) {
		error = packet_send(owners_socket, &request, sizeof request, -1, MSG_DONTWAIT);
		full = error ? full + 1 : 0;
		if (error)
			poll(NULL, 0, 1);
	}
	assert_int_equal(error, -EAGAIN);
	broker_comes();
	lists_receive();
	assert_int_equal(lists[0].memories, 1);
}

/* Its process takes a while to end. What it has sent last counts no more than what others have not begun. */
static void test_a_broker_that_closes_its_lanes_late(void **state)
{
	struct order order = order_for(ORDER_ZERO);
	int late = fcntl(broker.lane[0], F_DUPFD_CLOEXEC, 3);

	(void)state;
	broker_dies();
	broker_comes();
	lists_receive();
	assert_int_equal(lists[0].memories, 1);
	assert_int_equal(packet_send(late, &order, sizeof order, -1, MSG_DONTWAIT), -ECONNRESET);
	close(late);
	go_on(&order, false);
}

static void refused(unsigned lane, int sock)
{
	const struct owner_request request = { .kind = REQUEST_LANE, .lane = lane };
	struct owner_facts unused = { 0 };
	int error;

	assert_int_equal(packet_send(broker.sock, &request, sizeof request, sock, MSG_DONTWAIT), 0);
	broker.awaited++;
	while ((error = owner_link_answer(&broker, &unused)) == -EAGAIN)
		poll(NULL, 0, 1);
	assert_int_equal(error, -EPROTO);
	broker.awaited = 0;
}

static void test_lanes_come_in_their_order(void **state)
{
	(void)state;
	broker_dies();
	broker_comes();
	lists_receive();
	refused(DEVICES, STDIN_FILENO);
	refused(DEVICES + 2, STDIN_FILENO);
	refused(DEVICES + 1, -1);
	assert_int_equal(descriptors(), open_before);
	make(0, ORDER); /* its lanes go on */
}

/* The other device serves the next broker at once, and each later one. */
static void test_a_device_that_hangs_delays_no_other(void **state)
{
	const struct order order = order_for(ORDER_ZERO);

	(void)state;
	gate_close(0);
	send_it(&order);
	gate_reached(0);
	for (unsigned i = 0; i < 3; i++) {
		broker_dies();
		broker_comes();
		list_receive(1, &lists[1]);
		list_receive(QUESTIONS, &lists[QUESTIONS]);
		assert_int_equal(lists[1].memories, i);
		assert_int_equal(lists[1].outcomes, i);
		make(1, LATER + i);
		outcome_none(0);
	}
	gate_open(0);
	list_receive(0, &lists[0]);
	expect_listed(&order, true);
	expect_owed(&order);
	assert_int_equal(descriptors(), open_before + 3); /* of the memory that was made */
}

/* A RELEASE without an outcome of the ALLOCATE being acknowledged: nothing is left that opens the memory. */
static void test_released_memory_is_not_to_be_opened(void **state)
{
	struct order release = order_of(ORDER_RELEASE, ORDER, LATER);

	(void)state;
	make(0, LATER);
	assert_int_equal(answered(&release).error, 0);
	broker_dies();
	broker_comes();
	lists_receive();
	assert_int_equal(lists[0].outcomes, 2);
	assert_int_equal(lists[0].outcome[0].outcome.number, LATER);
	assert_int_equal(lists[0].outcome[0].outcome.descriptor, -1);
	assert_memory_equal(&lists[0].outcome[0].outcome.handle, &(struct device_handle){ { 0 } },
			    sizeof(struct device_handle));
	assert_int_equal(lists[0].outcome[1].outcome.number, ORDER);
}

/* The close of the last descriptor is what frees memory, so it is done when the broker is told. */
static void test_a_release_closes_its_descriptor_before_the_answer(void **state)
{
	struct order release = order_of(ORDER_RELEASE, ORDER, MEMORY);
	int far, descriptor = lingering_socket(&far, 10);

	(void)state;
	assert_true(descriptor >= 0);
	gate_close(0);
	order_send(&release, descriptor);
	close(descriptor);
	gate_open(0);
	outcome_none(0);
	close(far);
	assert_int_equal(outcome_receive(0).error, 0);
}

/* The broker that was told may have died before it handled that. */
static void test_lost_names_are_told_again(void **state)
{
	struct order names = order_of(ORDER_NAMES, ORDER, 0);

	(void)state;
	names_lose();
	assert_true(answered(&names).renamed);
	assert_false(answered(&names).renamed);
	names_lose();
	assert_true(answered(&names).renamed);
	for (unsigned i = 0; i < 2; i++) {
		broker_dies();
		broker_comes();
	}
	lists_receive();
	assert_true(answered(&names).renamed);
	assert_false(answered(&names).renamed);
	broker_dies();
	broker_comes();
	lists_receive();
	assert_false(answered(&names).renamed);
}

/* ---- the end ---- */

static void test_the_owner_ends_with_the_last_duplicate(void **state)
{
	(void)state;
	broker_dies(); /* all lanes wait */
	owner_ends();
}

static void test_it_ends_when_the_order_that_it_has_begun_is_carried_out(void **state)
{
	const struct order order = order_for(ORDER_ZERO);

	(void)state;
	gate_close(0);
	send_it(&order);
	gate_reached(0);
	broker_dies();
	gate_open(0);
	owner_ends();
	assert_int_equal(runs_of(ORDER), 1);
}

/* Also while other processes have duplicates; and it carries out what it was sent. */
static void test_it_ends_with_a_broker_that_ends_regularly(void **state)
{
	const struct order order = order_for(ORDER_ZERO);

	(void)state;
	broker_dies();
	broker_comes();
	send_it(&order);
	owner_thread.end(&broker);
	assert_false(broker.crashed);
	assert_int_equal(runs_of(ORDER), 1);
}

static void test_an_owner_that_has_ended_is_not_joined(void **state)
{
	struct owner_link link = { .sock = -1 };
	int pair[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	close(pair[1]);
	assert_int_equal(owner_link_join(&link, pair[0], 1, &facts), -ECONNRESET);
	assert_int_equal(link.sock, pair[0]);
	owner_link_drop(&link);
}

#define ON(name) cmocka_unit_test_setup_teardown(name, setup, brokers_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_was_not_begun_is_dropped),
		cmocka_unit_test(test_what_was_begun_is_finished),
		cmocka_unit_test(test_an_answer_that_cannot_be_sent_is_kept),
		cmocka_unit_test(test_an_answer_that_was_not_received_is_kept),
		cmocka_unit_test(test_an_outcome_that_is_not_acknowledged_is_kept),
		cmocka_unit_test(test_an_outcome_that_is_acknowledged_is_not_listed),
		ON(test_ten_brokers_in_a_row),
		ON(test_brokers_that_die_while_they_join),
		ON(test_a_broker_finds_a_full_socket),
		ON(test_a_broker_that_closes_its_lanes_late),
		ON(test_lanes_come_in_their_order),
		ON(test_a_device_that_hangs_delays_no_other),
		ON(test_released_memory_is_not_to_be_opened),
		ON(test_a_release_closes_its_descriptor_before_the_answer),
		ON(test_lost_names_are_told_again),
		ON(test_the_owner_ends_with_the_last_duplicate),
		ON(test_it_ends_when_the_order_that_it_has_begun_is_carried_out),
		ON(test_it_ends_with_a_broker_that_ends_regularly),
		ON(test_an_owner_that_has_ended_is_not_joined),
	};

	return cmocka_run_group_tests_name("the owner's brokers", tests, NULL, NULL);
}

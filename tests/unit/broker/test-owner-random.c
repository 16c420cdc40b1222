/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-owner-random.c - 10,000 random steps of brokers of one owner: orders, outcomes that are received, handled and
 * acknowledged, deaths of the broker with any of them under way, and next brokers. The owner must list each outcome
 * that was received and not acknowledged, then those of some orders more, without a gap, and the memory that these
 * leave. What was not done is ordered again with its number.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/broker/brokers-harness.h"

#define STEPS    10000
#define LINE     128 /* orders of a lane that are remembered */
#define MEMORIES 40  /* of both devices at most */

struct memory {
	uint64_t number;    /* 0: unused */
	unsigned device;
	unsigned exported;
	bool     is_made;   /* by an order whose outcome was handled */
	bool     is_busy;   /* an order about it is under way */
};

/* The orders of a lane, in the order of their sending: first the handled ones that are perhaps not acknowledged. */
struct line {
	struct order order[LINE];
	unsigned     handled;  /* number of those whose outcome was handled; they are the first */
	unsigned     received; /* number of those whose outcome was received */
	unsigned     count;
	struct order again[LANE_ORDERS]; /* of brokers that have died; they are sent before others */
	unsigned     agains;
	uint64_t     acknowledged;
	bool         closed; /* its gate */
};

static struct memory memories[MEMORIES];
static struct line lines[DEVICES + 1];
static struct list list;
static uint64_t numbers;
static unsigned seed, deaths, finished, dropped;

static unsigned pick(unsigned count)
{
	return (unsigned)rand_r(&seed) % count;
}

static struct memory *memory_find(uint64_t number)
{
	for (unsigned i = 0; i < MEMORIES; i++)
		if (memories[i].number == number)
			return &memories[i];
	return NULL;
}

/* ---- the oracle ---- */

/* The outcome is handled: what it says is so. */
static void commit(const struct order *order)
{
	struct memory *memory = order_is_kept(order->kind) ? memory_find(order->memory) : NULL;

	if (!memory)
		return;
	assert_true(memory->is_busy);
	memory->is_busy = false;
	memory->is_made = order->kind != ORDER_RELEASE;
	if (order->kind == ORDER_RELEASE)
		memory->number = 0;
}

/* Removes the first orders. */
static void line_drop(struct line *line, unsigned count)
{
	memmove(line->order, line->order + count, (line->count - count) * sizeof *line->order);
	line->handled -= count;
	line->received -= count;
	line->count -= count;
}

/* Returns how many of the first orders those are that the number acknowledges. */
static unsigned acknowledged_by(const struct line *line, uint64_t number)
{
	for (unsigned i = 0; i < line->count; i++)
		if (line->order[i].number == number)
			return i + 1;
	return 0;
}

/* ---- steps ---- */

static void send_order(unsigned lane, struct order order)
{
	struct line *line = &lines[lane];
	int descriptor = -1;

	order.acknowledged = line->acknowledged;
	if (order.kind == ORDER_ADOPT && order.exported == EXPORT_VMM)
		descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC);
	order_send(&order, descriptor);
	if (descriptor >= 0)
		close(descriptor);
	assert_true(line->count < LINE);
	line->order[line->count++] = order;
}

/* New memory, by an order with the number, or none if there is much. */
static enum order_kind new_memory(unsigned lane, struct order *order)
{
	struct memory *memory = memory_find(0);

	if (!memory)
		return ORDER_ROOM;
	*memory = (struct memory){ order->number, lane, pick(2) ? EXPORT_VMM : EXPORT_IPC, false, true };
	order->memory = memory->number;
	order->exported = memory->exported;
	return pick(4) ? ORDER_ALLOCATE : ORDER_ADOPT;
}

static enum order_kind about_memory(unsigned lane, struct order *order)
{
	struct memory *memory = &memories[pick(MEMORIES)];

	if (!memory->number || memory->device != lane || memory->is_busy)
		return ORDER_ROOM;
	memory->is_busy = true;
	order->memory = memory->number;
	return pick(2) ? ORDER_ZERO : ORDER_RELEASE;
}

static void do_send(unsigned lane)
{
	struct line *line = &lines[lane];
	struct order order = order_of(ORDER_ROOM, numbers + 1, 0);

	if (line->count - line->handled == LANE_ORDERS)
		return;
	if (line->agains) {
		send_order(lane, line->again[--line->agains]);
		return;
	}
	numbers++;
	order.device = lane;
	if (lane == QUESTIONS)
		order.kind = pick(2) ? ORDER_GONE : ORDER_NAMES;
	else if (pick(10))
		order.kind = pick(5) < 2 ? new_memory(lane, &order) : about_memory(lane, &order);
	send_order(lane, order);
}

static void do_receive(unsigned lane)
{
	struct line *line = &lines[lane];
	const struct order *order = &line->order[line->received];
	struct pollfd readable = { .fd = broker.lane[lane], .events = POLLIN };
	struct outcome outcome;

	if (line->received == line->count || poll(&readable, 1, !line->closed && pick(2) ? -1 : 0) < 1)
		return;
	outcome = outcome_receive(lane);
	assert_int_equal(outcome.number, order->number);
	assert_int_equal(outcome.error, order->kind == ORDER_GONE ? -EBUSY : 0);
	assert_int_equal(outcome.descriptor >= 0, order->kind == ORDER_ALLOCATE && order->exported == EXPORT_VMM);
	if (outcome.descriptor >= 0)
		close(outcome.descriptor);
	line->received++;
	line_drop(line, acknowledged_by(line, order->acknowledged));
}

static void do_handle(unsigned lane)
{
	struct line *line = &lines[lane];

	while (line->handled < line->received && pick(4)) {
		commit(&line->order[line->handled]);
		if (order_is_kept(line->order[line->handled].kind))
			line->acknowledged = line->order[line->handled].number;
		line->handled++;
	}
}

static void do_gate(unsigned lane)
{
	lines[lane].closed = !lines[lane].closed;
	if (lines[lane].closed)
		gate_close(lane);
	else
		gate_open(lane);
}

/* ---- the next broker ---- */

/* Removes the questions, which are not listed. Returns the number of orders that are left of the first `count`. */
static unsigned line_without_questions(struct line *line, unsigned count)
{
	unsigned left = 0, kept = 0;

	for (unsigned i = 0; i < line->count; i++) {
		if (!order_is_kept(line->order[i].kind))
			continue;
		left += i < count;
		line->order[kept++] = line->order[i];
	}
	line->count = kept;
	return left;
}

/* The highest number of first orders that the orders from `from` on, before `until`, acknowledge. */
static unsigned acknowledged_in(const struct line *line, unsigned from, unsigned until)
{
	unsigned most = 0, count;

	for (unsigned i = from; i < until; i++) {
		count = acknowledged_by(line, line->order[i].acknowledged);
		most = count > most ? count : most;
	}
	return most;
}

static unsigned index_of(const struct line *line, uint64_t number)
{
	unsigned count = acknowledged_by(line, number);

	assert_true(count); /* it was ordered, and its outcome was owed */
	return count - 1;
}

/* The listed outcomes are those of orders from `first` on, before `done`, in their order and without a gap. */
static void expect_outcomes(const struct line *line, unsigned *first, unsigned *done)
{
	unsigned next;

	*first = *done = line->received;
	if (list.outcomes) {
		*first = index_of(line, list.outcome[0].outcome.number);
		*done = index_of(line, list.outcome[list.outcomes - 1].outcome.number) + 1;
	}
	next = *first;
	for (unsigned i = 0; i < list.outcomes; i++, next++) {
		while (!order_is_kept(line->order[next].kind))
			next++;
		assert_int_equal(list.outcome[i].outcome.number, line->order[next].number);
		assert_int_equal(list.outcome[i].order, line->order[next].kind);
		assert_int_equal(list.outcome[i].memory, line->order[next].memory);
		assert_int_equal(list.outcome[i].outcome.error, 0);
	}
	for (unsigned i = *done; i < line->received; i++)
		assert_false(order_is_kept(line->order[i].kind)); /* an outcome that was received is lost */
}

/* What is missing before the first one was acknowledged by an order that was begun, or may have been. */
static void expect_acknowledged(const struct line *line, unsigned first, unsigned done)
{
	unsigned begun = done > line->received ? done : line->received, perhaps = begun;
	unsigned least = acknowledged_in(line, line->received, begun), most;

	while (perhaps < line->count && !order_is_kept(line->order[perhaps].kind))
		perhaps++;
	most = acknowledged_in(line, line->received, perhaps);
	for (unsigned i = 0; i < first; i++)
		assert_true(!order_is_kept(line->order[i].kind) || i < most);
	for (unsigned i = first; i < done && list.outcomes; i++)
		assert_true(!order_is_kept(line->order[i].kind) || i >= least);
}

/* The ALLOCATE of memory that is there comes with what opens it. */
static void expect_descriptors(void)
{
	const struct memory *memory;

	for (unsigned i = 0; i < list.outcomes; i++) {
		memory = memory_find(list.outcome[i].memory);
		assert_int_equal(list.outcome[i].outcome.descriptor >= 0,
				 list.outcome[i].order == ORDER_ALLOCATE && memory && memory->exported == EXPORT_VMM);
	}
}

static void expect_memory_of(unsigned lane)
{
	unsigned count = 0;

	for (unsigned i = 0; i < MEMORIES; i++)
		count += memories[i].number && memories[i].device == lane && memories[i].is_made;
	assert_int_equal(list.memories, count);
	for (unsigned i = 0; i < list.memories; i++) {
		const struct memory *memory = memory_find(list.memory[i].memory);

		assert_true(memory && memory->is_made && memory->device == lane);
		assert_int_equal(list.memory[i].exported, memory->exported);
	}
}

/* The broker reads a lane's list, handles it, and orders again later what was not done. */
static void read_list(unsigned lane)
{
	struct line *line = &lines[lane];
	unsigned first, done;

	list_receive(lane, &list);
	expect_outcomes(line, &first, &done);
	expect_acknowledged(line, first, done);
	for (unsigned i = line->handled; i < done; i++)
		commit(&line->order[i]);
	finished += done > line->received;
	expect_descriptors();
	expect_memory_of(lane);
	for (unsigned i = done > line->received ? done : line->received; i < line->count; i++)
		if (order_is_kept(line->order[i].kind))
			line->again[line->agains++] = line->order[i];
	dropped += line->agains;
	line->count = list.outcomes ? done : 0;
	if (first < line->count) {
		line->handled = line->received = line->count;
		line_drop(line, first);
	}
	line->handled = line->received = line->count = line_without_questions(line, line->count);
	line->acknowledged = line->count ? line->order[line->count - 1].number : 0;
}

static void do_die(void)
{
	do {
		broker_dies();
		deaths++;
		broker_comes();
	} while (!pick(3));
	for (unsigned i = 0; i <= QUESTIONS; i++) {
		if (lines[i].closed)
			do_gate(i);
		read_list(i);
	}
}

static void do_something(void)
{
	unsigned lane = pick(8) ? pick(DEVICES) : QUESTIONS, what = pick(100);

	if (what < 45)
		do_send(lane);
	else if (what < 80)
		do_receive(lane);
	else if (what < 92)
		do_handle(lane);
	else if (what < 96)
		do_gate(lane);
	else
		do_die();
}

/* All that is under way is carried out and handled. */
static void finish_all(void)
{
	bool more = true;

	while (more) {
		more = false;
		for (unsigned i = 0; i <= QUESTIONS; i++) {
			if (lines[i].closed)
				do_gate(i);
			if (lines[i].agains)
				do_send(i);
			do_receive(i);
			do_handle(i);
			more |= lines[i].agains || lines[i].handled < lines[i].count;
		}
	}
}

static void release_all(void)
{
	struct order order;

	for (unsigned i = 0; i < MEMORIES; i++) {
		if (!memories[i].number)
			continue;
		memories[i].is_busy = true;
		order = order_of(ORDER_RELEASE, ++numbers, memories[i].number);
		order.device = memories[i].device;
		send_order(order.device, order);
		finish_all();
	}
}

static void test_random_steps_match_an_oracle(void **state)
{
	unsigned before = descriptors();

	(void)state;
	seed = 20261129;
	for (unsigned i = 0; i < STEPS; i++)
		do_something();
	do_die();
	finish_all();
	release_all();
	assert_int_equal(memories_made(), 0);
	assert_int_equal(descriptors(), before);
	for (uint64_t i = 1; i <= numbers; i++)
		assert_true(runs_of(i) <= 1);
	assert_true(deaths > STEPS / 50 && finished > 50 && dropped > 50); /* each came to pass often enough */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_random_steps_match_an_oracle, brokers_setup, brokers_teardown),
	};

	return cmocka_run_group_tests_name("random steps of an owner's brokers", tests, NULL, NULL);
}

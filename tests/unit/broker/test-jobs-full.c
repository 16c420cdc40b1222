/* SPDX-License-Identifier: Apache-2.0 */
/* test-jobs-full.c - orders that the kernel has no room for: they are sent later, in their order. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "broker/memory/jobs.h"
#include "broker/owner/packet.h"

static void lost(void *context)
{
	(void)context;
	fail_msg("the owner has ended");
}

static struct event_base *base;
static struct jobs full;
static int pair[2]; /* the jobs' end of the socket, and the owner's */
static int packets; /* that fill the socket */

/* As if the kernel had no memory for a packet: a full socket. */
static int setup(void **state)
{
	const char byte = 0;

	(void)state;
	base = event_base_new();
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	for (packets = 0; send(pair[0], &byte, 1, MSG_DONTWAIT) == 1; packets++)
		;
	return jobs_start(&full, base, pair, 1, lost, &full);
}

static int teardown(void **state)
{
	(void)state;
	jobs_stop(&full);
	event_base_free(base);
	close(pair[0]);
	close(pair[1]);
	return 0;
}

static void submit(uint64_t memory)
{
	struct job *job = calloc(1, sizeof *job);

	assert_non_null(job);
	job->order = (struct order){ .kind = ORDER_RELEASE, .memory = memory };
	job->descriptor = -1;
	jobs_submit(&full, job);
}

static void empty_socket(void)
{
	char byte;

	while (packets--)
		assert_int_equal(read(pair[1], &byte, 1), 1);
}

/* Returns the memory of the order that has come; 0: none has. */
static uint64_t ordered(void)
{
	struct order order = { 0 };
	int unused;

	return packet_receive(pair[1], &order, sizeof order, &unused, MSG_DONTWAIT) ? 0 : order.memory;
}

/* The order is sent a little later, before all others. */
static void test_an_order_that_cannot_be_sent_is_sent_later(void **state)
{
	uint64_t memory;

	(void)state;
	submit(1);
	submit(2);
	assert_int_equal(full.lane->count, 0);
	empty_socket();
	while (!(memory = ordered()))
		event_base_loop(base, EVLOOP_ONCE);
	assert_int_equal(memory, 1);
	assert_int_equal(ordered(), 2);
	assert_int_equal(full.lane->count, 2);
}

/* Those behind it may be of this pass, and why they are given not be noted yet. */
static void invariant_12_nor_is_it_sent_before_jobs_send(void **state)
{
	(void)state;
	full.defers = true;
	submit(1);
	jobs_send(&full);
	assert_int_equal(full.lane->count, 0);
	empty_socket();
	submit(2);
	event_base_loop(base, EVLOOP_ONCE);
	assert_int_equal(ordered(), 0);
	jobs_send(&full);
	assert_int_equal(ordered(), 1);
	assert_int_equal(ordered(), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_an_order_that_cannot_be_sent_is_sent_later, setup, teardown),
		cmocka_unit_test_setup_teardown(invariant_12_nor_is_it_sent_before_jobs_send, setup, teardown),
	};

	return cmocka_run_group_tests_name("jobs for a full socket", tests, NULL, NULL);
}

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

/* As if the kernel had no memory for a packet: a full socket. The order is sent a little later, before all others. */
static void test_an_order_that_cannot_be_sent_is_sent_later(void **state)
{
	struct order order = { 0 };
	struct jobs full;
	struct event_base *base = event_base_new();
	int pair[2], unused, packets = 0;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	while (send(pair[0], &order, 1, MSG_DONTWAIT) == 1)
		packets++;
	assert_int_equal(jobs_start(&full, base, pair, 1, lost, &full), 0);
	for (uint64_t i = 1; i <= 2; i++) {
		struct job *job = calloc(1, sizeof *job);

		assert_non_null(job);
		job->order = (struct order){ .kind = ORDER_RELEASE, .memory = i };
		job->descriptor = -1;
		jobs_submit(&full, job);
	}
	assert_int_equal(full.lane->count, 0);
	while (packets--)
		assert_int_equal(read(pair[1], &order, sizeof order), 1);
	for (uint64_t i = 1; i <= 2; i++) {
		while (packet_receive(pair[1], &order, sizeof order, &unused, MSG_DONTWAIT) == -EAGAIN)
			event_base_loop(base, EVLOOP_ONCE);
		assert_int_equal(order.memory, i);
	}
	assert_int_equal(full.lane->count, 2);
	jobs_stop(&full);
	event_base_free(base);
	close(pair[0]);
	close(pair[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_order_that_cannot_be_sent_is_sent_later),
	};

	return cmocka_run_group_tests_name("jobs for a full socket", tests, NULL, NULL);
}

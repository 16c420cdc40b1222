/* SPDX-License-Identifier: Apache-2.0 */
/* lanes-harness.c - see lanes-harness.h */
#include "lanes-harness.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "broker/owner/packet.h"

struct event_base *base;
struct jobs jobs;
int owners[LANES];
unsigned losses, done_count;
struct job last;

static int brokers[LANES];

static void lost(void *context)
{
	assert_ptr_equal(context, &jobs);
	losses++;
}

static void owner_begins(void)
{
	int pair[2];

	for (unsigned i = 0; i < LANES; i++) {
		assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
		brokers[i] = pair[0];
		owners[i] = pair[1];
	}
}

static void close_all(int *socks)
{
	for (unsigned i = 0; i < LANES; i++) {
		if (socks[i] >= 0)
			close(socks[i]);
		socks[i] = -1;
	}
}

void jobs_begin(void)
{
	assert_int_equal(jobs_start(&jobs, base, brokers, LANES, lost, &jobs), 0);
}

int lanes_setup(void **state)
{
	(void)state;
	losses = done_count = 0;
	base = event_base_new();
	owner_begins();
	jobs_begin();
	return 0;
}

int lanes_teardown(void **state)
{
	(void)state;
	close_all(owners);
	jobs_stop(&jobs);
	event_base_free(base);
	close_all(brokers);
	return 0;
}

void pass(void)
{
	assert_true(event_base_loop(base, EVLOOP_NONBLOCK) >= 0);
}

void owner_ends(void)
{
	close_all(owners);
	pass();
	close_all(brokers);
}

void next_owner(void)
{
	owner_begins();
	assert_int_equal(jobs_resume(&jobs, brokers), 0);
}

void note_done(struct job *job)
{
	last = *job;
	done_count++;
	free(job);
}

struct job *job_new(enum order_kind kind, uint64_t memory)
{
	struct job *job = calloc(1, sizeof *job);

	assert_non_null(job);
	job->order = (struct order){ .kind = kind, .memory = memory };
	job->descriptor = -1;
	job->done = note_done;
	return job;
}

void submit(enum order_kind kind, uint64_t memory)
{
	jobs_submit(&jobs, job_new(kind, memory));
}

struct order receive_order(unsigned lane, enum order_kind kind, int *descriptor)
{
	struct order order;

	assert_int_equal(packet_receive(owners[lane], &order, sizeof order, descriptor, MSG_DONTWAIT), 0);
	assert_int_equal(order.kind, kind);
	return order;
}

void expect_nothing_ordered(unsigned lane)
{
	struct order order;
	int descriptor;

	assert_int_equal(packet_receive(owners[lane], &order, sizeof order, &descriptor, MSG_DONTWAIT), -EAGAIN);
}

void send_answer(unsigned lane, uint64_t number, int error)
{
	const struct outcome outcome = { .number = number, .error = error, .descriptor = -1 };

	assert_int_equal(packet_send(owners[lane], &outcome, sizeof outcome, -1, 0), 0);
}

unsigned descriptors(void)
{
	DIR *fds = opendir("/proc/self/fd");
	unsigned count = 0;

	assert_non_null(fds);
	while (readdir(fds))
		count++;
	closedir(fds);
	return count;
}

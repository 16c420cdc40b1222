/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timelines-many.c - several timelines by one call, all or nothing; the order of two streams of one process, and what
 * it copies.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"

#define OWN 2 /* the slot of a buffer of the process itself */

static struct broker_process broker;
static struct puppet a, b;

/* ---- inside the clients ---- */

static const gpub_lease *both[] = { &lease[0], &lease[1] };

/* order.value for both timelines. */
static int wait_both(const struct order *order)
{
	return gpub_wait_many_on(both, (uint64_t[]){ order->value, order->value }, 2, work);
}

static int signal_both(const struct order *order)
{
	return gpub_signal_many_on(both, (uint64_t[]){ order->value, order->value }, 2, work);
}

/* order.size: how many; all are the lease in order.slot, and wait for order.value. */
static int wait_often(const struct order *order)
{
	const gpub_lease *leases[GPUB_TIMELINES_MAX + 1];
	uint64_t values[GPUB_TIMELINES_MAX + 1];

	for (unsigned i = 0; i <= GPUB_TIMELINES_MAX; i++) {
		leases[i] = &lease[order->slot];
		values[i] = order->value;
	}
	return gpub_wait_many_on(leases, values, (unsigned)order->size, work);
}

static int signal_twice(const struct order *order)
{
	const gpub_lease *same[] = { &lease[0], &lease[0] };

	return gpub_signal_many_on(same, (uint64_t[]){ order->value, order->value + 1 }, 2, work);
}

static int many_of_nothing(const struct order *order)
{
	(void)order;
	if (gpub_signal_many_on(NULL, NULL, 1, work) != -EINVAL || gpub_wait_many_on(NULL, NULL, 1, work) != -EINVAL)
		return -EPROTO;
	return gpub_signal_many_on(NULL, NULL, 0, work) || gpub_wait_many_on(NULL, NULL, 0, work);
}

/* step_value: the sum of both timelines. */
static int read_both(const struct order *order)
{
	uint64_t first, second;
	int error = gpub_timeline(both[0], &first);

	(void)order;
	if (!error)
		error = gpub_timeline(both[1], &second);
	if (!error)
		step_value = first + second;
	return error;
}

/* ---- what they do ---- */

/* Both clients hold "t" and "u", which have timelines, in the slots 0 and 1; b holds a buffer of its own in OWN. */
static void begin(void)
{
	broker_start(&broker, "host");
	puppet_start(&a, &broker);
	puppet_start(&b, &broker);
	ask(&a, do_stream);
	ask(&b, do_stream);
	ask(&a, do_create, .name = "t", .flags = GPUB_TIMELINE);
	ask(&a, do_create, .name = "u", .flags = GPUB_TIMELINE);
	ask(&b, do_create, .name = "own");
	ask(&b, do_acquire, .name = "own", .slot = OWN);
	for (int slot = 0; slot < 2; slot++) {
		ask(&a, do_acquire, .name = { slot ? 'u' : 't' }, .slot = slot);
		ask(&b, do_acquire, .name = { slot ? 'u' : 't' }, .slot = slot);
	}
}

static void end(void)
{
	puppet_end(&a);
	puppet_end(&b);
	broker_end(&broker);
}

/* Whether the work that b queued behind its waits has not run. */
static bool b_waits(uint64_t value)
{
	return !ask(&b, do_read, .slot = OWN) && b.last.value != value;
}

static void test_waits(void)
{
	begin();
	ask(&b, do_write, .slot = OWN, .value = 1);
	POINT(!ask(&b, wait_both, .value = 3) && !ask(&b, do_late_write, .slot = OWN, .value = 30),
	      "a stream is queued behind two timelines by one call");
	ask(&a, do_signal, .slot = 0, .value = 3);
	ask(&a, do_sync);
	usleep(30000); /* for a write that comes too early */
	POINT(b_waits(30), "one of them is not enough");
	ask(&a, do_signal, .slot = 1, .value = 3);
	POINT(!ask(&b, do_sync) && !ask(&b, do_read, .slot = OWN) && b.last.value == 30, "with both it goes on");
	POINT(!ask(&b, wait_often, .slot = 0, .value = 3, .size = GPUB_TIMELINES_MAX) && !ask(&b, do_sync),
	      "%d timelines in one call, and the same one more than once", GPUB_TIMELINES_MAX);
	POINT(ask(&b, wait_often, .slot = 0, .value = 3, .size = GPUB_TIMELINES_MAX + 1) == -EINVAL &&
		      ask(&b, wait_both, .value = GPUB_TIMELINE_MAX + 1) == -EINVAL,
	      "one more, or a value beyond the largest: EINVAL");
	POINT(!ask(&b, many_of_nothing), "no timelines are none to wait for, and no arrays: EINVAL");
	end();
}

static void test_signals(void)
{
	begin();
	ask(&b, wait_both, .value = 5);
	ask(&b, do_late_write, .slot = OWN, .value = 50);
	ask(&a, do_late_write, .slot = 0, .value = 7, .timeout = 30);
	POINT(!ask(&a, signal_both, .value = 5) && !ask(&b, do_sync) && !ask(&b, do_read) && b.last.value == 7,
	      "two timelines are signalled by one call, behind the work before it");
	POINT(!ask(&b, read_both) && b.last.value == 10, "both are seen in the other process");
	ask(&a, do_signal, .slot = 1, .value = 6);
	POINT(ask(&a, signal_both, .value = 6) == -EINVAL && !ask(&a, do_sync) && !ask(&a, read_both) &&
		      a.last.value == 11,
	      "where one does not grow, none is signalled: EINVAL");
	POINT(ask(&a, signal_twice, .value = 8) == -EINVAL && !ask(&a, do_sync) && !ask(&a, read_both) &&
		      a.last.value == 11,
	      "the same one twice, too");
	POINT(ask(&b, signal_both, .value = 9) == -EBUSY && !ask(&b, do_sync) && !ask(&b, read_both) &&
		      b.last.value == 11,
	      "where another session is the writer, too: EBUSY");
	POINT(!ask(&a, signal_both, .value = 7) && !ask(&a, do_sync) && !ask(&a, read_both) && a.last.value == 14,
	      "a refused call leaves nothing locked");
	POINT(ask(&a, signal_both, .value = 7) == -EINVAL && ask(&a, do_signal, .slot = 0, .value = 7) == -EINVAL &&
		      ask(&a, do_signal, .slot = 1, .value = 7) == -EINVAL,
	      "what was signalled so is not signalled again");
	ask(&a, do_late_write, .slot = 0, .value = 1, .timeout = 50);
	ask(&a, signal_both, .value = 8);
	puppet_end(&a);
	POINT(!ask(&b, read_both) && b.last.value == 16, "a disconnect waits until both have landed");
	puppet_end(&b);
	broker_end(&broker);
}

/* A buffer without a timeline, and a lease that was returned. */
static void test_refused(void)
{
	begin();
	ask(&b, do_return, .slot = 1);
	POINT(ask(&b, wait_both, .value = 3) == -ESTALE && ask(&b, signal_both, .value = 3) == -ESTALE &&
		      !ask(&b, do_sync),
	      "a lease that was returned: ESTALE, and nothing is waited for");
	ask(&b, do_acquire, .name = "own", .slot = 1);
	POINT(ask(&b, wait_both, .value = 3) == -EINVAL && !ask(&b, do_sync), "a buffer without a timeline: EINVAL");
	ask(&b, do_return, .slot = 1);
	ask(&b, do_acquire, .name = "u", .slot = 1, .rights = GPUB_READ);
	POINT(ask(&b, signal_both, .value = 3) == -EACCES && !ask(&b, do_sync),
	      "a lease that only reads signals nothing: EACCES");
	end();
}

static void test_writer_killed(void)
{
	begin();
	ask(&a, signal_both, .value = 1);
	ask(&a, do_sync);
	ask(&b, wait_both, .value = 1000);
	tell(&b, do_sync);
	puppet_kill(&a);
	POINT(!receive(&b), "a wait for two timelines of a writer that is killed is released");
	POINT(SOON(ask(&b, do_timeline, .slot = 1) == -EOWNERDEAD) && !ask(&b, wait_both, .value = 2000) &&
		      !ask(&b, do_sync),
	      "and later ones do not hang");
	puppet_end(&b);
	broker_end(&broker);
}

/* ---- two streams of one process ---- */

/*
 * Another stream's work: the value in order.value into the lease's first word, behind what the first stream has queued.
 */
static int write_behind(const struct order *order)
{
	static void *behind;
	uint64_t value = order->value;
	int error = behind ? 0 : gpub_stream_create_priority(client, GPUB_CURRENT, -1000000, &behind);

	if (!error)
		error = gpub_stream_wait(behind, work);
	if (!error)
		error = gpub_copy_on(client, lease[order->slot].ptr, &value, sizeof value, behind);
	return error ? error : gpub_stream_sync(behind);
}

static int after_itself(const struct order *order)
{
	(void)order;
	return gpub_stream_wait(work, work);
}

static int after_none(const struct order *order)
{
	static int no_stream;

	(void)order;
	return gpub_stream_wait(work, &no_stream);
}

static void test_streams(void)
{
	begin();
	ask(&a, do_late_write, .slot = 0, .value = 1, .timeout = 60);
	POINT(!ask(&a, write_behind, .slot = 0, .value = 2) && !ask(&a, do_sync) && !ask(&a, do_read) &&
		      a.last.value == 2,
	      "a stream waits for what another one has queued");
	POINT(!ask(&a, after_itself) && !ask(&a, do_sync), "a stream that waits for itself goes on");
	ask(&a, do_wait, .slot = 0, .value = 1);
	tell(&a, write_behind, .slot = 0, .value = 3);
	POINT(!ask(&b, do_signal, .slot = 0, .value = 1) && !receive(&a) && !ask(&a, do_read) && a.last.value == 3,
	      "also where that one waits for another process");
	if (on_cuda())
		point_skip("what is no stream: EINVAL");
	else
		POINT(ask(&a, after_none) == -EINVAL, "what is no stream: EINVAL");
	end();
}

/* ---- host memory ---- */

/* There and back through pinned memory, of one byte more than whole pages. */
static int through_host_memory(const struct order *order)
{
	enum { SIZE = (64 << 10) + 1 };
	uint64_t *host;
	int error = gpub_host_alloc(client, SIZE, (void **)&host);

	if (error)
		return error;
	step_value = host[(SIZE - 1) / 8]; /* zeroed */
	host[0] = order->value;
	error = gpub_copy_on(client, lease[OWN].ptr, host, 8, work);
	host[1] = 0;
	if (!error)
		error = gpub_copy_on(client, &host[1], lease[OWN].ptr, 8, work);
	if (!error)
		error = gpub_stream_sync(work);
	step_value += host[1];
	return error ? error : gpub_host_free(client, host);
}

static int host_memory_refused(const struct order *order)
{
	void *ptr = &ptr, *const before = ptr;

	(void)order;
	if (gpub_host_alloc(client, 0, &ptr) != -EINVAL || gpub_host_alloc(client, UINT64_MAX, &ptr) != -EINVAL ||
	    gpub_host_alloc(client, 1, NULL) != -EINVAL || gpub_host_alloc(client, 1ull << 60, &ptr) != -ENOMEM ||
	    ptr != before)
		return -EPROTO;
	if (gpub_host_alloc(client, 1, &ptr) || gpub_host_free(client, ptr) || gpub_host_free(client, ptr) != -EINVAL)
		return -EPROTO;
	return gpub_host_free(client, &ptr) == -EINVAL && !gpub_host_free(client, NULL) ? 0 : -EPROTO;
}

static void test_host_memory(void)
{
	begin();
	POINT(!ask(&b, through_host_memory, .value = 77) && b.last.value == 77,
	      "host memory of the library is zeroed, and copied in stream order");
	POINT(!ask(&b, host_memory_refused),
	      "no memory, too much, what is none and what was freed: refused, outputs untouched");
	end();
}

/* ---- the broker's identity ---- */

static char node[GPUB_NODE_SIZE];

/* step_value: the first 8 bytes of the text. */
static int read_node(const struct order *order)
{
	int error = gpub_node(client, node);

	(void)order;
	if (error || strlen(node) != GPUB_NODE_SIZE - 1 || node[strspn(node, "0123456789abcdef")])
		return error ? error : -EPROTO;
	memcpy(&step_value, node, sizeof step_value);
	return gpub_node(client, NULL) == -EINVAL ? 0 : -EPROTO;
}

static void test_node(void)
{
	uint64_t first;

	begin();
	POINT(!ask(&a, read_node) && !ask(&b, read_node) && a.last.value == b.last.value,
	      "clients of one broker are told the same node");
	first = a.last.value;
	end();
	begin();
	POINT(!ask(&a, read_node) && a.last.value != first, "those of another broker another one");
	end();
}

int main(void)
{
	harness_begin("timelines-many", 60);
	test_waits();
	test_signals();
	test_refused();
	test_writer_killed();
	test_streams();
	test_host_memory();
	test_node();
	return harness_end();
}

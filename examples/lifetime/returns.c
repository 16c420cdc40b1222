/* SPDX-License-Identifier: Apache-2.0 */
/*
 * returns.c - does releasing device memory depend on synchronisation?
 *
 * Not for the caller of the return: the broker orders the free after the work. Worker 0 has a kernel that runs for a
 * while and then writes to the end of a large buffer. It returns the buffer in four ways:
 *     1  after a synchronisation
 *     2  after an event (the buffer's timeline, advanced by the stream)
 *     3  in stream order, without waiting
 *     4  the "wrong" way: an unordered return while the kernel runs
 * In each it removes the name at once. Worker 1 creates a buffer of the same size on a device without free memory. It
 * gets the memory, zeroed, when the kernel is complete and not before, and nothing is written into it afterwards. Run
 * it as
 *
 *     GPUB_HOST_MEMORY=16M broker-run -n 2 --device host -- returns
 *     broker-run -n 2 --device cuda -- returns
 *
 * Fills its device for some seconds, so it refuses to run on a host device whose memory was not made small. Worker 0
 * owns the buffers that fill it; nobody frees any.
 */
#include <errno.h>
#include <stdlib.h>

#include "kernels/kernels.h"
#include "say.h"

#define KERNEL_MS   300u /* how long the kernel runs before it writes */
#define WATCH_MS    100u /* how long worker 1 lies in wait for a late write */
#define LATE        0x1a7e1a7e1a7e1a7eull
#define FILLERS_MAX 64
#define RUNNING     1u /* worker 0 has not launched yet */

enum way { AFTER_SYNC = 1, AFTER_EVENT, IN_STREAM_ORDER, WHILE_IT_RUNS, WAYS = WHILE_IT_RUNS };

static const char *const way_text[] = {
	[AFTER_SYNC] = "return after a synchronisation",
	[AFTER_EVENT] = "return after an event",
	[IN_STREAM_ORDER] = "return in stream order, not waiting",
	[WHILE_IT_RUNS] = "return while the kernel runs, not waiting",
};

/*
 * The workers report their progress through timelines: worker 0's value is the earliest end of the last kernel
 * (nanoseconds of the machine's clock), worker 1's is the last way that it has checked.
 */
struct run {
	struct worker worker;
	uint64_t      large; /* bytes of a large buffer */
	gpub_lease    launched, seen;
};

static uint64_t now_ns(void)
{
	return (uint64_t)(now_seconds() * 1e9);
}

/* ---- a device without room ---- */

/* A large buffer does not fit into the rest, but a GPU's own small needs do. */
static uint64_t large_size(const gpub_lease *any)
{
	return any->device == GPUB_HOST ? 4ull << 20 : 1ull << 30;
}

static int filler_make(struct run *run, uint64_t size, unsigned number)
{
	gpub_spec spec = GPUB_SPEC_INIT;
	char      name[NAME_ROOM];
	int       result;

	snprintf(name, sizeof(name), "returns/filler/%u", number);
	spec.size = size;
	spec.device = GPUB_CURRENT;
	spec.flags = GPUB_EPHEMERAL;
	result = gpub_create(run->worker.client, name, &spec);
	if (result != -ENOMEM)
		must(result, "fill the device");
	return result;
}

/* Leaves room for one large buffer and a half, and less than another quarter. */
static void device_fill(struct run *run)
{
	uint64_t least = run->large / 4;
	unsigned count = 1;

	must(filler_make(run, run->large / 2 * 3, 0), "set memory aside: is the device that small?");
	for (uint64_t size = 1ull << 40; size >= least; size /= 2)
		while (count < FILLERS_MAX && filler_make(run, size, count) == 0)
			count++;
	must(gpub_unlink(run->worker.client, "returns/filler/0"), "leave room for one");
	say("filled the device with %u buffers: there is room for one more large one", count - 1);
}

/* ---- worker 0: launches, returns, unlinks ---- */

static void launch_late_write(struct run *run, const gpub_lease *lease)
{
	gpub_launch_config config = single_grid(run->worker.stream);
	uint64_t *end = (uint64_t *)((char *)lease->ptr + lease->size) - 1, value = LATE, milliseconds = KERNEL_MS;
	void              *args[] = { &end, &value, &milliseconds };
	gpub_kernel        late_write;

	must(gpub_module_kernel(run->worker.module, "late_write", &late_write), "find the kernel late_write");
	must(gpub_launch(late_write, &config, args), "launch late_write");
}

/* On a stream of its own: the one of the kernel would carry it only once the kernel is over. */
static void tell_launched(struct run *run, uint64_t end_ns)
{
	void *stream;

	must(gpub_stream_create(run->worker.client, GPUB_CURRENT, &stream), "make a stream");
	must(gpub_signal_on(&run->launched, end_ns, stream), "tell that the kernel runs");
	must(gpub_stream_sync(stream), "tell that the kernel runs");
	gpub_stream_destroy(stream);
}

static int return_in_way(struct run *run, gpub_lease *lease, enum way way)
{
	switch (way) {
	case AFTER_SYNC:
		must(gpub_stream_sync(run->worker.stream), "synchronise");
		break;
	case AFTER_EVENT:
		must(gpub_signal_on(lease, 1, run->worker.stream), "put an event behind the kernel");
		await_value(lease, 1, "the event");
		break;
	case IN_STREAM_ORDER:
		return gpub_return_on(lease, run->worker.stream);
	case WHILE_IT_RUNS:
		break;
	}
	return gpub_return(lease);
}

static void give_back(struct run *run, enum way way)
{
	uint64_t   launched;
	char       name[NAME_ROOM];
	gpub_lease lease;
	double     took;

	snprintf(name, sizeof(name), "returns/large/%d", way);
	lease = make_buffer(&run->worker, name, run->large, GPUB_TIMELINE);
	launched = now_ns();
	launch_late_write(run, &lease);
	tell_launched(run, launched + KERNEL_MS * 1000000ull);
	expect(return_in_way(run, &lease, way), 0, way_text[way]);
	expect(gpub_unlink(run->worker.client, name), 0, "  and take the name away at once");
	took = (double)(now_ns() - launched) / 1e6;
	if (way >= IN_STREAM_ORDER)
		check(took < KERNEL_MS, "  both done while the kernel of %u ms runs (after %.1f ms)", KERNEL_MS, took);
	must(gpub_trim(run->worker.client), "close what is returned"); /* says that it waits for kernels */
	await_value(&run->seen, way, "worker 1");
	expect(gpub_stream_sync(run->worker.stream), 0, "  the kernel ended well");
}

static void giver(struct run *run)
{
	run->launched = make_buffer(&run->worker, "returns/launched", 8, GPUB_TIMELINE);
	must(gpub_acquire(run->worker.client, "returns/seen", GPUB_READ, PATIENCE_MS, &run->seen), "find worker 1");
	tell_launched(run, RUNNING); /* the first signal registers the page, which may wait for kernels */
	run->large = large_size(&run->launched);
	device_fill(run);
	for (enum way way = AFTER_SYNC; way <= WAYS; way++)
		give_back(run, way);
}

/* ---- worker 1: asks for memory ---- */

static uint64_t checksum_of(struct run *run, const gpub_lease *lease)
{
	gpub_launch_config config = linear_grid(lease->size / 8, run->worker.stream);
	gpub_lease         sum = make_buffer(&run->worker, "returns/sum", 8, 0);
	uint64_t           size = lease->size, result;
	void              *args[] = { &sum.ptr, (void *)&lease->ptr, &size };
	gpub_kernel        checksum;

	must(gpub_module_kernel(run->worker.module, "checksum", &checksum), "find the kernel checksum");
	must(gpub_launch(checksum, &config, args), "launch checksum");
	result = fetch_word(&run->worker, sum.ptr);
	must(gpub_return(&sum), "return a buffer");
	must(gpub_unlink(run->worker.client, "returns/sum"), "unlink a buffer");
	return result;
}

static uint64_t checksum_of_zeros(uint64_t size)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < size / 8; i++)
		sum += checksum_word(0, i);
	return sum;
}

static uint64_t await_launch(struct run *run, uint64_t last)
{
	uint64_t end_ns;

	await_value(&run->launched, last + 1, "worker 0");
	must(gpub_timeline(&run->launched, &end_ns), "worker 0");
	return end_ns;
}

/* The kernel ends no earlier than was told: memory that came sooner would have come from under its hands. */
static void take_over(struct run *run, enum way way, uint64_t end_ns, uint64_t zeros)
{
	double     began = now_seconds();
	gpub_lease lease = make_buffer(&run->worker, "returns/next", run->large, 0);
	uint64_t   got_ns = now_ns();

	check(got_ns >= end_ns, "  way %d: asked for that memory, got it after %.0f ms, with the kernel complete", way,
	      1e3 * (now_seconds() - began));
	nap_ms(WATCH_MS);
	check(checksum_of(run, &lease) == zeros, "  way %d: it holds zeros, and nothing was written into it since",
	      way);
	must(gpub_return(&lease), "return a buffer");
	must(gpub_unlink(run->worker.client, "returns/next"), "unlink a buffer");
	must(gpub_trim(run->worker.client), "close what is unlinked");
	must(gpub_signal_on(&run->seen, way, run->worker.stream), "tell worker 0");
}

static void taker(struct run *run)
{
	uint64_t end_ns = RUNNING, zeros;

	run->seen = make_buffer(&run->worker, "returns/seen", 8, GPUB_TIMELINE);
	must(gpub_acquire(run->worker.client, "returns/launched", GPUB_READ, PATIENCE_MS, &run->launched),
	     "find worker 0");
	run->large = large_size(&run->seen);
	zeros = checksum_of_zeros(run->large);
	for (enum way way = AFTER_SYNC; way <= WAYS; way++) {
		end_ns = await_launch(run, end_ns);
		take_over(run, way, end_ns, zeros);
	}
}

/* ---- both ---- */

static bool may_fill(struct run *run)
{
	gpub_lease any = make_buffer(&run->worker, run->worker.rank ? "returns/any/1" : "returns/any/0", 8, 0);

	must(gpub_return(&any), "return a buffer");
	return any.device != GPUB_HOST || getenv("GPUB_HOST_MEMORY");
}

int main(void)
{
	struct run run = { 0 };

	worker_begin(&run.worker, "Is releasing device memory dependent on synchronisation?");
	if (run.worker.size != 2 || !may_fill(&run)) {
		say("start it as: GPUB_HOST_MEMORY=16M broker-run -n 2 -- returns");
		return 1;
	}
	if (run.worker.rank == 0)
		giver(&run);
	else
		taker(&run);
	return worker_end(&run.worker);
}

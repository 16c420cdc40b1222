/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copies.c - does copying a kernel object, or a lease, release anything early?
 *
 * No: both are values. Here copies of a lease go to several threads, which all return them at once; and copies of a
 * kernel are launched by several threads on streams of their own while the original has gone out of scope and its
 * module is closed under them. Run it as
 *
 *     broker-run -- copies
 *
 * Each worker does all of it with buffers of its own. Owns those buffers; never frees one.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "kernels/kernels.h"
#include "say.h"

#define THREADS    6
#define PART       1024u /* floats of the buffer that one thread adds to */
#define BUFFER     (THREADS * PART * sizeof(float))
#define BUSY_MS    60u   /* what each stream does first, so that the launches behind it are in flight */
#define PATTERN    0x600dda7au

/* ---- leases ---- */

/* A lease within something larger: a copy like any other. */
struct functor {
	unsigned   number;
	gpub_lease lease;
	int        result;
};

static void *functor_return(void *argument)
{
	struct functor *functor = argument;

	functor->result = gpub_return(&functor->lease);
	return NULL;
}

/* How many of THREADS copies of the lease, returned at once, gave it back; -1 if another error came up. */
static int return_everywhere(const gpub_lease *lease)
{
	struct functor functor[THREADS];
	pthread_t      thread[THREADS];
	int            winners = 0, losers = 0;

	for (unsigned i = 0; i < THREADS; i++) {
		functor[i] = (struct functor){ i, *lease, 0 };
		must(-pthread_create(&thread[i], NULL, functor_return, &functor[i]), "start a thread");
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(thread[i], NULL);
		winners += functor[i].result == 0;
		losers += functor[i].result == -ESTALE;
	}
	return winners + losers == THREADS ? winners : -1;
}

static void launch_fill(struct worker *worker, void *words, uint64_t count)
{
	gpub_launch_config config = linear_grid(count, worker->stream);
	uint32_t           pattern = PATTERN;
	void              *args[] = { &words, &pattern, &count };
	gpub_kernel        fill;

	must(gpub_module_kernel(worker->module, "fill", &fill), "find the kernel fill");
	must(gpub_launch(fill, &config, args), "launch fill");
}

static bool buffer_intact(struct worker *worker, const gpub_lease *lease)
{
	uint32_t words[BUFFER / sizeof(uint32_t)];

	must(gpub_copy_on(worker->client, words, lease->ptr, BUFFER, worker->stream), "fetch the buffer");
	must(gpub_stream_sync(worker->stream), "fetch the buffer");
	for (size_t i = 0; i < BUFFER / sizeof(*words); i++)
		if (words[i] != PATTERN)
			return false;
	return true;
}

static void try_stale_copy(struct worker *worker, gpub_lease *original)
{
	gpub_lease copy = *original, second = *original;
	uint64_t   value;

	expect(gpub_return(original), 0, "return the original");
	expect(gpub_return(&copy), -ESTALE, "return a copy of it after that");
	expect(gpub_return_on(&second, worker->stream), -ESTALE, "return another copy in stream order");
	expect(gpub_timeline(&copy, &value), -ESTALE, "read the timeline through a copy");
	expect(gpub_signal_on(&second, 1, worker->stream), -ESTALE, "advance the timeline through a copy");
}

static void copy_leases(struct worker *worker)
{
	char       name[NAME_ROOM];
	gpub_lease lease;

	snprintf(name, sizeof(name), "copies/lease/%u", worker->rank);
	lease = make_buffer(worker, name, BUFFER, GPUB_TIMELINE);
	launch_fill(worker, lease.ptr, BUFFER / sizeof(uint32_t));
	check(return_everywhere(&lease) == 1, "%d threads return copies of one lease at once: one gives it back",
	      THREADS);
	must(gpub_renew(&lease), "hold the buffer again");
	try_stale_copy(worker, &lease);
	must(gpub_renew(&lease), "hold the buffer again");
	check(buffer_intact(worker, &lease), "the buffer is still there, every word as it was");
	check(await_grants(worker->client, name, 1), "the broker counts one user, whatever was copied");
	must(gpub_return(&lease), "return the buffer");
}

/* ---- kernels ---- */

struct launcher {
	gpub_kernel  axpy; /* a copy */
	void        *stream;
	float       *y; /* this thread's part of the buffer */
	const float *ones;
	unsigned     accepted;
	int          last; /* what ended it */
};

static atomic_bool closed;
static atomic_uint begun; /* threads that have launched once */

static int launch_axpy(const struct launcher *launcher)
{
	gpub_launch_config config = linear_grid(PART, launcher->stream);
	float             *y = launcher->y, a = 1;
	const float       *x = launcher->ones;
	uint64_t           count = PART;
	void              *args[] = { &y, &x, &a, &count };

	return gpub_launch(launcher->axpy, &config, args);
}

/* Goes on until it is refused, and for one launch more after the module is known to be closed. */
static void *launcher_main(void *argument)
{
	struct launcher *launcher = argument;
	bool             after = false;

	launcher->last = launch_axpy(launcher);
	launcher->accepted = launcher->last == 0;
	atomic_fetch_add(&begun, 1);
	while (launcher->last == 0 && !after) {
		usleep(100);
		after = atomic_load(&closed);
		launcher->last = launch_axpy(launcher);
		launcher->accepted += launcher->last == 0;
	}
	return NULL;
}

static void keep_busy(gpub_kernel late_write, void *stream, void *word)
{
	gpub_launch_config config = single_grid(stream);
	uint64_t           value = 0, milliseconds = BUSY_MS;
	void              *args[] = { &word, &value, &milliseconds };

	must(gpub_launch(late_write, &config, args), "launch late_write");
}

/* The two kernels that this looks up are gone when it returns: what runs on are their copies. */
static void launchers_start(struct worker *worker, const gpub_lease *field, const float *ones,
			    struct launcher launcher[THREADS], pthread_t thread[THREADS])
{
	gpub_kernel axpy, late_write;

	must(gpub_module_kernel(worker->module, "axpy", &axpy), "find the kernel axpy");
	must(gpub_module_kernel(worker->module, "late_write", &late_write), "find the kernel late_write");
	for (unsigned i = 0; i < THREADS; i++) {
		launcher[i] = (struct launcher){
			.axpy = axpy, .y = (float *)field->ptr + (size_t)i * PART, .ones = ones
		};
		must(gpub_stream_create(worker->client, GPUB_CURRENT, &launcher[i].stream), "make a stream");
		keep_busy(late_write, launcher[i].stream, launcher[i].y);
		must(-pthread_create(&thread[i], NULL, launcher_main, &launcher[i]), "start a thread");
	}
}

static void module_close_under_way(struct worker *worker, double launched)
{
	while (atomic_load(&begun) < THREADS)
		nap_ms(1);
	expect(gpub_module_close(worker->module), 0, "close the module while they launch");
	atomic_store(&closed, true);
	worker->module = NULL;
	check(now_seconds() - launched >= BUSY_MS / 1e3, "the close waited for what was in flight");
}

/* Each accepted launch added 1 to every float of the thread's part. */
static bool part_right(struct worker *worker, const struct launcher *launcher)
{
	float part[PART];

	must(gpub_copy_on(worker->client, part, launcher->y, sizeof(part), worker->stream), "fetch a part");
	must(gpub_stream_sync(worker->stream), "fetch a part");
	for (unsigned i = 0; i < PART; i++)
		if (part[i] != (float)launcher->accepted)
			return false;
	return true;
}

static void launchers_end(struct worker *worker, struct launcher launcher[THREADS], pthread_t thread[THREADS])
{
	unsigned accepted = 0, refused = 0, right = 0;

	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(thread[i], NULL);
		accepted += launcher[i].accepted;
		refused += launcher[i].last == -ESTALE;
		right += part_right(worker, &launcher[i]);
		gpub_stream_destroy(launcher[i].stream);
	}
	check(accepted >= THREADS && refused == THREADS,
	      "copies of one kernel on %d streams: %u launches taken, then each refused as stale", THREADS, accepted);
	check(right == THREADS, "every launch that was taken did its work, and none twice");
}

static void put_ones(struct worker *worker, float *ones)
{
	float part[PART];

	for (unsigned i = 0; i < PART; i++)
		part[i] = 1;
	must(gpub_copy_on(worker->client, ones, part, sizeof(part), worker->stream), "fill a buffer");
	must(gpub_stream_sync(worker->stream), "fill a buffer");
}

/*
 * What a popular answer suggests, a kernel's machine code copied into a buffer and the buffer's address launched,
 * cannot be done: a launch takes a handle that the runtime made when it loaded the code, and no address of bytes.
 */
static void launch_bytes(struct worker *worker, const gpub_lease *lease)
{
	gpub_kernel        bytes = { 0, lease->ptr };
	gpub_launch_config config = single_grid(worker->stream);

	expect(gpub_launch(bytes, &config, NULL), -EINVAL, "launch a buffer's address as if it were a kernel");
}

static void copy_kernels(struct worker *worker)
{
	struct launcher launcher[THREADS];
	pthread_t       thread[THREADS];
	char            name[NAME_ROOM];
	gpub_lease      field, ones;
	double          launched;

	snprintf(name, sizeof(name), "copies/field/%u", worker->rank);
	field = make_buffer(worker, name, BUFFER, 0);
	snprintf(name, sizeof(name), "copies/ones/%u", worker->rank);
	ones = make_buffer(worker, name, PART * sizeof(float), 0);
	put_ones(worker, ones.ptr);
	launched = now_seconds();
	launchers_start(worker, &field, ones.ptr, launcher, thread);
	module_close_under_way(worker, launched);
	launchers_end(worker, launcher, thread);
	launch_bytes(worker, &field);
	must(gpub_return(&field), "return a buffer");
	must(gpub_return(&ones), "return a buffer");
}

int main(void)
{
	struct worker worker;

	worker_begin(&worker, "Does copying a kernel object, or a lease, release anything early?");
	copy_leases(&worker);
	copy_kernels(&worker);
	return worker_end(&worker);
}

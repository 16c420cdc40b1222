/* SPDX-License-Identifier: Apache-2.0 */
/* say.c - see say.h */
#include "say.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define POLL_US 200

static unsigned    own_rank;
static atomic_uint tried, wrong;

/* ---- words ---- */

/* One write a line, so that the lines of several workers do not mix. */
__attribute__((format(printf, 1, 0))) static void say_list(const char *format, va_list list)
{
	char text[400];

	vsnprintf(text, sizeof(text), format, list);
	printf("[%u] %s\n", own_rank, text);
	fflush(stdout);
}

void say(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	say_list(format, list);
	va_end(list);
}

void must(int result, const char *what)
{
	if (result == 0)
		return;
	say("cannot go on: %s: %s", what, gpub_strerror_last());
	_exit(1); /* no exit handlers: a stream may be parked in a wait */
}

static const char *outcome(int result)
{
	return result ? strerrorname_np(-result) : "done";
}

void expect(int result, int wanted, const char *what)
{
	atomic_fetch_add(&tried, 1);
	if (result == wanted) {
		say("%s: %s%s", what, result ? "refused, " : "", outcome(result));
		return;
	}
	atomic_fetch_add(&wrong, 1);
	say("%s: WRONG, %s where %s was due", what, outcome(result), outcome(wanted));
}

void check(bool good, const char *format, ...)
{
	char    text[300];
	va_list list;

	va_start(list, format);
	vsnprintf(text, sizeof(text), format, list);
	va_end(list);
	atomic_fetch_add(&tried, 1);
	if (!good)
		atomic_fetch_add(&wrong, 1);
	say("%s: %s", text, good ? "yes" : "NO, AND THAT IS WRONG");
}

/* ---- the worker ---- */

static unsigned number_of(const char *variable, unsigned otherwise)
{
	const char *text = getenv(variable);

	return text ? (unsigned)strtoul(text, NULL, 10) : otherwise;
}

void worker_begin(struct worker *worker, const char *question)
{
	worker->rank = own_rank = number_of("GPUBROKER_RANK", 0);
	worker->size = number_of("GPUBROKER_SIZE", 1);
	if (worker->rank == 0)
		say("%s", question);
	must(gpub_connect(&worker->client, NULL), "connect to the broker");
	must(gpub_stream_create(worker->client, GPUB_CURRENT, &worker->stream), "make a stream");
	must(gpub_module_open(&worker->module, worker->client, "kernels"), "load the kernels");
}

int worker_end(struct worker *worker)
{
	unsigned failed;

	gpub_stream_destroy(worker->stream);
	must(gpub_module_close(worker->module), "unload the kernels");
	gpub_disconnect(worker->client);
	failed = atomic_load(&wrong);
	if (failed)
		say("verdict: BROKEN, %u of %u went wrong", failed, atomic_load(&tried));
	else
		say("verdict: as promised, all %u of them", atomic_load(&tried));
	return failed != 0;
}

gpub_lease make_buffer(struct worker *worker, const char *name, uint64_t size, unsigned flags)
{
	gpub_spec  spec = GPUB_SPEC_INIT;
	gpub_lease lease;

	spec.size = size;
	spec.flags = flags | GPUB_EPHEMERAL;
	spec.device = GPUB_CURRENT;
	spec.timeout_ms = PATIENCE_MS;
	must(gpub_create(worker->client, name, &spec), name);
	must(gpub_acquire(worker->client, name, GPUB_READ | GPUB_WRITE, 0, &lease), name);
	return lease;
}

/* ---- watching ---- */

double now_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void nap_ms(unsigned milliseconds)
{
	usleep(milliseconds * 1000);
}

void await_value(const gpub_lease *lease, uint64_t value, const char *whose)
{
	double   deadline = now_seconds() + PATIENCE_MS / 1000;
	uint64_t at = 0;

	for (;;) {
		must(gpub_timeline(lease, &at), whose);
		if (at >= value)
			return;
		if (now_seconds() > deadline) {
			say("cannot go on: %s stands at %llu instead of %llu", whose, (unsigned long long)at,
			    (unsigned long long)value);
			_exit(1);
		}
		usleep(POLL_US);
	}
}

bool await_grants(gpub_client *client, const char *name, unsigned grants)
{
	double    deadline = now_seconds() + PATIENCE_MS / 1000;
	gpub_info info = { .struct_size = sizeof(info) };

	for (;;) {
		must(gpub_stat(client, name, &info), name);
		if (info.grants == grants)
			return true;
		if (now_seconds() > deadline) {
			say("%s is mapped by %u sessions, not %u", name, info.grants, grants);
			return false;
		}
		usleep(POLL_US);
	}
}

uint64_t fetch_word(struct worker *worker, const void *ptr)
{
	uint64_t word = 0;

	must(gpub_copy_on(worker->client, &word, ptr, sizeof(word), worker->stream), "fetch a word");
	must(gpub_stream_sync(worker->stream), "fetch a word");
	return word;
}

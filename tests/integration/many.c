/* SPDX-License-Identifier: Apache-2.0 */
/*
 * many.c - gpub_acquire_many: all of the names or none, whatever is in the way; and many threads that ask the broker at
 * once, each of which may be the one that reads its answers for all (libbroker/client/receiver.h).
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "harness.h"

#define NAMES   3000
#define LEASES  9000 /* more than one buffer can have */
#define THREADS 8
#define ROUNDS  (on_cuda() ? 20 : 60)

static struct broker_process broker;
static struct puppet a, b;

/* ---- steps ---- */

static gpub_lease many[LEASES], untouched[LEASES];
static char texts[LEASES][24];
static const char *names[LEASES];

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void name_all(const struct order *order)
{
	for (unsigned i = 0; i < order->size; i++) {
		snprintf(texts[i], sizeof texts[i], "%.15s%u", order->name, order->flags ? i % order->flags : i);
		names[i] = texts[i];
	}
}

/*
 * order: name%d, so many (size), of so many names (flags; 0: all different). A refusal must leave the leases as they
 * were. step_value: how many milliseconds it took.
 */
static int do_many(const struct order *order)
{
	unsigned rights = order->rights ? order->rights : GPUB_READ | GPUB_WRITE;
	int64_t began = now_ms();
	int error;

	name_all(order);
	if (order->value)
		names[order->value] = "missing";
	memset(many, 0xAB, sizeof many);
	memset(untouched, 0xAB, sizeof untouched);
	error = gpub_acquire_many(client, names, (unsigned)order->size, rights, order->timeout, many);
	step_value = (uint64_t)(now_ms() - began);
	if (memcmp(error ? many : many + order->size, untouched,
		   (error ? LEASES : LEASES - order->size) * sizeof *many))
		return -EFAULT;
	return error;
}

static int do_return_many(const struct order *order)
{
	int error = 0;

	for (unsigned i = 0; i < order->size; i++)
		error = gpub_return(&many[i]) ? -EIO : error;
	return error;
}

static int do_create_many(const struct order *order)
{
	gpub_spec spec = GPUB_SPEC_INIT;
	int error = 0;

	name_all(order);
	spec.size = 64;
	spec.mode = order->value ? (uint32_t)order->value : 0600;
	for (unsigned i = 0; i < order->size && !error; i++)
		error = gpub_create(client, names[i], &spec);
	return error;
}

/* Each lease says its number, through a mapping of its own that another step reads. */
static int do_poke_many(const struct order *order)
{
	int error = 0;

	for (unsigned i = 0; i < order->size && !error; i++)
		error = poke(many[i].ptr, order->value + i);
	return error;
}

static int do_peek_many(const struct order *order)
{
	uint64_t seen;
	int error = 0;

	for (unsigned i = 0; i < order->size && !error; i++) {
		error = peek(many[i].ptr, &seen);
		if (!error && seen != order->value + i)
			error = -EILSEQ;
	}
	return error;
}

/* 0: all tokens differ, and the names that are there twice lie at one place. */
static int do_compare(const struct order *order)
{
	for (unsigned i = 0; i < order->size; i++)
		for (unsigned j = 0; j < i; j++)
			if (many[i].token == many[j].token ||
			    (many[i].ptr == many[j].ptr) != (i % order->flags == j % order->flags))
				return -EILSEQ;
	return 0;
}

static int do_wrong_arguments(const struct order *order)
{
	static const char *const bad[] = { "x0", "/", "x1" }, *const none[] = { "x0", NULL };
	gpub_lease two[3];

	(void)order;
	return gpub_acquire_many(client, bad, 0, GPUB_READ, 0, two) == -EINVAL &&
			       gpub_acquire_many(client, NULL, 1, GPUB_READ, 0, two) == -EINVAL &&
			       gpub_acquire_many(client, bad, 1, GPUB_READ, 0, NULL) == -EINVAL &&
			       gpub_acquire_many(client, bad, 3, GPUB_READ, 0, two) == -EINVAL &&
			       gpub_acquire_many(client, none, 2, GPUB_READ, 0, two) == -EINVAL &&
			       gpub_acquire_many(client, bad, 1, 0, 0, two) == -EINVAL &&
			       gpub_acquire_many(client, bad, 1, GPUB_READ, -2, two) == -EINVAL &&
			       gpub_acquire_many(NULL, bad, 1, GPUB_READ, 0, two) == -EINVAL ?
		       0 :
		       -EIO;
}

/* ---- the world ---- */

static void begin(void)
{
	broker_start(&broker, "host");
	puppet_start(&a, &broker);
	puppet_start(&b, &broker);
}

static void end(void)
{
	puppet_end(&a);
	puppet_end(&b);
	broker_end(&broker);
}

/* Nothing is held: a trim closes all. */
static bool nothing_is_leased(void)
{
	return !ask(&a, do_trim) && SOON(!status_holders(&broker, NULL, a.pid));
}

/* ---- all or none ---- */

static void test_all(void)
{
	begin();
	ask(&b, do_create_many, .name = "x", .size = 8);
	POINT(!ask(&a, do_many, .name = "x", .size = 8) && !ask(&b, do_many, .name = "x", .size = 8) &&
		      !ask(&a, do_poke_many, .size = 8, .value = 100) &&
		      !ask(&b, do_peek_many, .size = 8, .value = 100),
	      "each name gets its own buffer, the same for two processes");
	POINT(!ask(&a, do_return_many, .size = 8) && !ask(&a, do_many, .name = "x", .size = 8) &&
		      !ask(&a, do_peek_many, .size = 8, .value = 100),
	      "also those that are mapped already");
	POINT(!ask(&a, do_return_many, .size = 8) && nothing_is_leased(), "each is given back on its own");
	POINT(!ask(&a, do_acquire, .name = "x3") && !ask(&a, do_many, .name = "x", .size = 8) &&
		      !ask(&a, do_peek_many, .size = 8, .value = 100),
	      "and those of which some are mapped and held");
	POINT(!ask(&a, do_wrong_arguments), "what makes no sense is EINVAL");
	end();
}

static void test_twice(void)
{
	begin();
	ask(&b, do_create_many, .name = "x", .size = 3);
	POINT(!ask(&a, do_many, .name = "x", .size = 9, .flags = 3) && !ask(&a, do_compare, .size = 9, .flags = 3),
	      "a name that is there three times is three leases of one buffer");
	POINT(!ask(&a, do_return_many, .size = 9) && nothing_is_leased(), "each of which is given back");
	end();
}

static void test_none(void)
{
	begin();
	ask(&b, do_create_many, .name = "x", .size = 300);
	POINT(ask(&a, do_many, .name = "x", .size = 300, .value = 299) == -ENOENT && strstr(a.last.text, "missing"),
	      "one name that is missing, and none is acquired: ENOENT names it");
	POINT(nothing_is_leased(), "and none is held");
	POINT(ask(&a, do_many, .name = "x", .size = 300, .value = 150, .timeout = 30) == -ETIMEDOUT &&
		      nothing_is_leased(),
	      "nor when it did not come in time");
	POINT(ask(&a, do_many, .name = "none", .size = 500, .timeout = 1000) == -ETIMEDOUT && a.last.value >= 1000 &&
		      a.last.value < 3000,
	      "the timeout is for all together");
	printf("# 500 names that never come, within a second: %llu ms\n", (unsigned long long)a.last.value);
	ask(&a, do_acquire, .name = "x7");
	POINT(ask(&a, do_many, .name = "x", .size = 300, .value = 299) == -ENOENT && !ask(&a, do_return),
	      "what was held before stays held");
	POINT(ask(&a, do_many, .name = "x", .size = LEASES, .flags = 1) == -ENOMEM && nothing_is_leased(),
	      "more leases of one buffer than there are: ENOMEM, and none");
	POINT(!ask(&a, do_many, .name = "x", .size = 300) && !ask(&a, do_return_many, .size = 300) &&
		      nothing_is_leased(),
	      "without the one that was in the way it is all of them");
	end();
}

static void test_rights(void)
{
	begin();
	ask(&b, do_create_many, .name = "x", .size = 5);
	POINT(!ask(&a, do_many, .name = "x", .size = 5, .rights = GPUB_READ) && !ask(&a, do_return_many, .size = 5),
	      "all are acquired with the rights that are asked for");
	POINT(ask(&a, do_many, .name = "x", .size = 5, .rights = 4) == -EINVAL && nothing_is_leased(),
	      "those that there are");
	ask(&b, do_create_many, .name = "r", .size = 1, .value = 0400);
	/* root may do everything */
	POINT(geteuid() ? ask(&a, do_many, .name = "r", .size = 5, .flags = 1) == -EACCES && nothing_is_leased() :
			  !ask(&a, do_many, .name = "r", .size = 5, .flags = 1),
	      "and none with rights that the mode refuses");
	end();
}

static void test_three_thousand(void)
{
	begin();
	POINT(!ask(&b, do_create_many, .name = "x", .size = NAMES), "%d buffers", NAMES);
	POINT(!ask(&a, do_many, .name = "x", .size = NAMES) && !ask(&a, do_poke_many, .size = NAMES, .value = 1000),
	      "are acquired at once");
	POINT(!ask(&b, do_many, .name = "x", .size = NAMES) && !ask(&b, do_peek_many, .size = NAMES, .value = 1000),
	      "by another process, too, and each is its own");
	POINT(ask(&a, do_many, .name = "x", .size = NAMES + 1) == -ENOENT, "one more is one too many");
	end();
}

/* ---- names to come ---- */

static void test_to_come(void)
{
	begin();
	ask(&b, do_create_many, .name = "x", .size = 3);
	tell(&a, do_many, .name = "x", .size = 10, .timeout = -1);
	POINT(SOON(status_number(&broker, "waiting") == 7), "names that are not there yet are waited for, all at once");
	for (int i = 9; i > 3; i--) {
		struct order order = { .run = do_create };

		snprintf(order.name, sizeof order.name, "x%d", i);
		puppet_tell(&b, order);
		receive(&b);
	}
	status_stable(&broker, &b);
	POINT(!puppet_answered(&a) && status_number(&broker, "waiting") == 1, "to the last one");
	ask(&b, do_create, .name = "x3");
	POINT(!receive(&a) && !ask(&a, do_return_many, .size = 10) && nothing_is_leased(),
	      "with that it has all of them");
	end();
}

/* ---- a broker that goes ---- */

static void test_gone(void)
{
	char *path = broker.address + 5;

	begin();
	ask(&b, do_create_many, .name = "x", .size = 300);
	tell(&a, do_many, .name = "x", .size = 350, .timeout = -1);
	if (!SOON(status_number(&broker, "waiting") == 50))
		bail_out("it does not wait");
	broker_pause(&broker);
	tell(&b, do_many, .name = "x", .size = 300);
	broker_wait(&broker, SIGKILL);
	POINT(receive(&a) == -ECONNRESET, "the broker dies while names are waited for: ECONNRESET, and none");
	POINT(receive(&b) == -ECONNRESET && ask(&b, do_many, .name = "x", .size = 300) == -ECONNRESET,
	      "while it is asked, and when it is dead");
	puppet_end(&a);
	puppet_end(&b);
	unlink(path);
	*strrchr(path, '/') = 0;
	rmdir(path);
	broker_start(&broker, "host"); /* which removes what the dead one left */
	broker_end(&broker);
}

/* ---- several threads ---- */

static _Atomic int first_error;
static _Atomic unsigned successes;
static int seconds, rounds;

static void expect(int error, int allowed, int also)
{
	int none = 0;

	if (!error || error == allowed || error == also)
		atomic_fetch_add(&successes, !error);
	else if (atomic_compare_exchange_strong(&first_error, &none, error))
		fprintf(stderr, "# %d: %s\n", error, gpub_strerror_last());
}

static int threads_run(void *(*run)(void *number))
{
	pthread_t thread[THREADS];

	atomic_store(&successes, 0);
	for (uintptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, run, (void *)i))
			return -EAGAIN;
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	step_value = atomic_load(&successes);
	return atomic_load(&first_error);
}

#define AT_ONCE 100

/* Some of the names are everybody's, in another order for each. */
static void *acquire_and_return(void *number)
{
	unsigned me = (unsigned)(uintptr_t)number;
	const char *wanted[AT_ONCE];
	char text[AT_ONCE][24];
	gpub_lease mine[AT_ONCE];
	int error;

	for (int round = 0; round < rounds; round++) {
		for (unsigned i = 0; i < AT_ONCE; i++) {
			snprintf(text[i], sizeof text[i], "x%u", (me * 37 + i * 7 + (unsigned)round) % 300);
			wanted[i] = text[i];
		}
		error = gpub_acquire_many(client, wanted, AT_ONCE, GPUB_READ, 0, mine);
		expect(error, 0, 0);
		for (unsigned i = 0; i < AT_ONCE && !error; i++)
			expect(gpub_return(&mine[i]), 0, 0);
		if (round % 4 == 3)
			expect(gpub_trim(client), 0, 0);
	}
	return NULL;
}

static int do_threads(const struct order *order)
{
	rounds = (int)order->value;
	return threads_run(acquire_and_return);
}

static void test_threads(void)
{
	uint64_t wanted = (uint64_t)(THREADS * ROUNDS) * (AT_ONCE + 1);

	begin();
	ask(&b, do_create_many, .name = "x", .size = 300);
	tell(&a, do_threads, .value = (uint64_t)ROUNDS);
	tell(&b, do_threads, .value = (uint64_t)ROUNDS);
	POINT(!receive(&a) && a.last.value >= wanted && !receive(&b) && b.last.value >= wanted,
	      "%d threads of each of two processes acquire and trim many at once", THREADS);
	POINT(nothing_is_leased(), "invariant 10: nothing is held when all have returned");
	end();
}

/* Each kind of question, all the time, so that the one who reads is hardly ever the one who is answered. */
static void *ask_on(void *number)
{
	unsigned me = (unsigned)(uintptr_t)number, turn = 0;
	int64_t end = now_ms() + seconds * 1000;
	gpub_spec spec = GPUB_SPEC_INIT;
	gpub_info info = { .struct_size = sizeof info };
	char own[24], others[24];
	gpub_lease held;
	int error;

	spec.size = 64;
	for (; now_ms() < end; turn++) {
		snprintf(own, sizeof own, "r%u/%u", me, turn % 3);
		snprintf(others, sizeof others, "r%u/%u", (me + turn) % THREADS, turn % 3);
		expect(gpub_create(client, own, &spec), 0, 0);
		error = gpub_acquire(client, others, GPUB_READ, turn % 3 ? 0 : 1, &held);
		expect(error, -ENOENT, -ETIMEDOUT);
		if (!error)
			expect(turn % 2 ? gpub_return(&held) : gpub_return_on(&held, work), 0, 0);
		expect(gpub_stat(client, others, &info), -ENOENT, 0);
		error = gpub_acquire(client, own, GPUB_WRITE, 0, &held);
		expect(error, 0, 0);
		expect(gpub_unlink(client, own), 0, 0);
		if (!error)
			expect(gpub_return(&held), 0, 0);
		if (turn % 64 == 63)
			expect(gpub_trim(client), 0, 0);
	}
	return NULL;
}

/* And ends the connection right behind them. */
static int do_readers(const struct order *order)
{
	int error;

	seconds = (int)order->value;
	error = threads_run(ask_on);
	gpub_disconnect(client);
	return error;
}

static void test_readers(void)
{
	begin();
	ask(&a, do_stream);
	ask(&b, do_stream);
	tell(&a, do_readers, .value = 2);
	POINT(!receive(&a) && a.last.value > 100,
	      "%d threads that ask at once are all answered, and can disconnect then", THREADS);
	printf("# %llu answers\n", (unsigned long long)a.last.value);
	ask(&b, do_flags, .flags = GPUB_BACKGROUND_CLOSE);
	tell(&b, do_readers, .value = 2);
	POINT(!receive(&b) && b.last.value > 100, "also beside a closer");
	POINT(SOON(!status_number(&broker, "waiting") && !status_buffers(&broker, NULL, NULL) &&
		   !memory_objects(&broker)),
	      "invariant 10: nothing is left of them");
	end();
}

int main(void)
{
	harness_begin("many", 90);
	broker_pool = "0"; /* what is freed goes */
	test_all();
	test_twice();
	test_none();
	test_rights();
	test_three_thousand();
	test_to_come();
	test_gone();
	test_threads();
	test_readers();
	return harness_end();
}

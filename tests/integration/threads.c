/* SPDX-License-Identifier: Apache-2.0 */
/*
 * threads.c - many threads of one client, and of two, on few names, while others unlink, recreate and trim them.
 *
 * Nothing but the documented refusals may come, nobody may see another generation's bytes under a hold, and in the end
 * nothing is held.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "harness.h"

#define THREADS 4
#define NAMES   3
#define CHURNS  (on_cuda() ? 150u : 1500u)

static struct broker_process broker;
static struct puppet a, b;

static _Atomic int first_error, over;
static _Atomic uint64_t successes;

static void expect(int error, int allowed, int also)
{
	int none = 0;

	if (!error || error == allowed || error == also)
		atomic_fetch_add(&successes, !error);
	else if (atomic_compare_exchange_strong(&first_error, &none, error))
		fprintf(stderr, "# %d: %s\n", error, gpub_strerror_last());
}

static void name_of(char name[8], unsigned number)
{
	snprintf(name, 8, "n%u", number % NAMES);
}

/* A held buffer is zeros or what a holder of that generation wrote; all of them write the same there. */
static void use(gpub_lease *held)
{
	uint64_t seen = 0;

	expect(peek(held->ptr, &seen), 0, 0);
	if (seen && seen != 0x600D)
		expect(-EBADMSG, 0, 0);
	expect(poke(held->ptr, 0x600D), 0, 0);
}

static void give_back(gpub_lease *held, unsigned round)
{
	expect(round % 3 ? gpub_return(held) : gpub_return_on(held, work), 0, 0);
	if (gpub_return(held) != -ESTALE)
		expect(-EPROTO, 0, 0);
}

static void *holder(void *argument)
{
	unsigned me = *(unsigned *)argument;
	gpub_lease mine;
	char name[8];

	for (unsigned round = 0; !atomic_load(&over); round++) {
		int error;

		/*
		 * the driver's lock is not fair: a close waits for as long as others call it without a pause (facts.md)
		 */
		if (on_cuda())
			usleep(200);
		/* there are so many slots; what goes back on a stream must get there some time */
		if (round % 64 == 0)
			expect(gpub_stream_sync(work), 0, 0);
		name_of(name, me + round / 7);
		error = gpub_acquire(client, name, GPUB_READ | GPUB_WRITE, round % 5 ? 0 : 2, &mine);
		expect(error, -ENOENT, -ETIMEDOUT);
		if (error)
			continue;
		use(&mine);
		give_back(&mine, round);
		error = gpub_renew(&mine);
		expect(error, -ESTALE, 0);
		if (error)
			continue;
		use(&mine);
		give_back(&mine, round + 1);
	}
	return NULL;
}

static int recreate(const char *name)
{
	gpub_spec spec = GPUB_SPEC_INIT;

	spec.size = 8192;
	spec.flags = broker_pool ? GPUB_DEDICATED : 0; /* where memory is counted, each has its own */
	return gpub_create(client, name, &spec);
}

static void churn(void)
{
	char name[8];

	for (unsigned round = 0; round < CHURNS; round++) {
		name_of(name, round);
		expect(gpub_unlink(client, name), -ENOENT, 0);
		expect(recreate(name), -EEXIST, 0);
		if (round % 4 == 0)
			expect(gpub_trim(client), 0, 0);
	}
}

/* order->flags: GPUB_BACKGROUND_CLOSE or none. step_value: how often something was held. */
static int fight(const struct order *order)
{
	pthread_t thread[THREADS];
	unsigned number[THREADS];

	expect(gpub_set_flags(client, order->flags), 0, 0);
	for (unsigned i = 0; i < THREADS; i++) {
		number[i] = i;
		if (pthread_create(&thread[i], NULL, holder, &number[i]))
			return -EAGAIN;
	}
	churn();
	atomic_store(&over, 1);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	expect(gpub_stream_sync(work), 0, 0);
	expect(gpub_trim(client), 0, 0);
	step_value = atomic_load(&successes);
	return atomic_load(&first_error);
}

/* pool NULL: what was unlinked serves again. "0": it is freed, which is seen. */
static void test_fight(unsigned flags, const char *pool, const char *what)
{
	broker_pool = pool;
	broker_start(&broker, "host");
	puppet_start(&a, &broker);
	puppet_start(&b, &broker);
	ask(&a, do_stream);
	ask(&b, do_stream);
	tell(&a, fight, .flags = flags);
	tell(&b, fight, .flags = flags);
	POINT(!receive(&a) && a.last.value > CHURNS, "%s: %d threads, and another that unlinks: no other error", what,
	      THREADS);
	POINT(!receive(&b) && b.last.value > CHURNS, "%s: and as many in a second process", what);
	printf("# held %llu and %llu times\n", (unsigned long long)a.last.value, (unsigned long long)b.last.value);
	POINT(SOON(!status_holders(&broker, NULL, 0)), "invariant 10: %s: nothing is held when all have returned",
	      what);
	POINT(SOON((pool ? memory_objects(&broker) : status_buffers(&broker, NULL, NULL)) ==
		   status_buffers(&broker, NULL, "live")), "%s: only living buffers are left", what);
	puppet_end(&a);
	puppet_end(&b);
	broker_end(&broker);
}

int main(void)
{
	harness_begin("threads", 60);
	test_fight(0, "0", "trim");
	test_fight(0, NULL, "trim, kept memory");
	test_fight(GPUB_BACKGROUND_CLOSE, "0", "background close");
	test_fight(GPUB_BACKGROUND_CLOSE, NULL, "background close, kept memory");
	return harness_end();
}

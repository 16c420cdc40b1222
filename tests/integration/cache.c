/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache.c - gpub_set_cache: no more stays open than was said, what is used stays, and what a lease holds whatever was
 * said.
 *
 * Each buffer here has memory of its own, so that a mapping is a buffer. What is mapped is read from the status.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "harness.h"

#define SIZE    (1u << 20) /* of each, as far as the bound in bytes is concerned; a device may round it up */
#define NAMES   12
#define THREADS 4
#define ROUNDS  (on_cuda() ? 100u : 1000u)

static struct broker_process broker;
static struct puppet a, b;

/* ---- steps ---- */

/* order.value: mappings; order.size: bytes. */
static int do_cache(const struct order *order)
{
	return gpub_set_cache(client, (unsigned)order->value, order->size);
}

static int do_make_all(const struct order *order)
{
	gpub_spec spec = GPUB_SPEC_INIT;
	char name[8];
	int error = 0;

	(void)order;
	spec.flags = GPUB_DEDICATED;
	spec.size = SIZE;
	for (int i = 0; i < NAMES && !error; i++) {
		snprintf(name, sizeof name, "c%d", i);
		error = gpub_create(client, name, &spec);
	}
	return error;
}

static int do_touch(const struct order *order)
{
	gpub_lease held;
	int error = gpub_acquire(client, order->name, GPUB_READ | GPUB_WRITE, 0, &held);

	return error ? error : gpub_return(&held);
}

/* From order.value on, one after the other. */
static int do_touch_all(const struct order *order)
{
	struct order one = { 0 };
	int error = 0;

	for (unsigned i = (unsigned)order->value; i < NAMES && !error; i++) {
		snprintf(one.name, sizeof one.name, "c%u", i);
		error = do_touch(&one);
	}
	return error;
}

/* ---- the world ---- */

static void begin(void)
{
	broker_start(&broker, "host");
	puppet_start(&a, &broker);
	puppet_start(&b, &broker);
	if (ask(&b, do_make_all))
		bail_out("no buffers: %s", b.last.text);
}

static void end(void)
{
	puppet_end(&a);
	puppet_end(&b);
	broker_end(&broker);
}

static int64_t mapped(void)
{
	status_stable(&broker, &a);
	return status_holders(&broker, NULL, a.pid);
}

static bool maps(const char *name)
{
	status_stable(&broker, &a);
	return status_holders(&broker, name, a.pid) == 1;
}

/* What one of them takes on this device, a little more than that for each of so many. */
static uint64_t bytes_for(unsigned count)
{
	uint64_t granule = on_cuda() ? 2u << 20 : SIZE;

	return count * granule + granule / 2;
}

/* ---- the bound ---- */

static void test_mappings(void)
{
	begin();
	POINT(!ask(&a, do_touch_all) && mapped() == NAMES, "what was returned stays open");
	POINT(!ask(&a, do_cache, .value = 4, .size = UINT64_MAX) && mapped() == NAMES,
	      "also where less may, as long as nothing is opened");
	ask(&a, do_trim);
	POINT(!ask(&a, do_touch_all) && mapped() <= 5,
	      "each open closes what is more than the bound, but for the newest");
	POINT(maps("c11") && maps("c10") && !maps("c0"), "the oldest went, the newest stay");
	POINT(!ask(&a, do_cache, .value = 4096, .size = UINT64_MAX) && !ask(&a, do_touch_all) && mapped() == NAMES,
	      "the bound can be lifted");
	end();
}

static void test_bytes(void)
{
	begin();
	POINT(!ask(&a, do_cache, .value = 4096, .size = bytes_for(3)) && !ask(&a, do_touch_all) && mapped() <= 4,
	      "so many bytes stay open, and the newest");
	end();
}

static void touch(const char *name)
{
	struct order order = { .run = do_touch };

	snprintf(order.name, sizeof order.name, "%s", name);
	puppet_tell(&a, order);
	if (receive(&a))
		bail_out("'%s' cannot be touched: %s", name, a.last.text);
}

static void test_least_recently_used(void)
{
	begin();
	ask(&a, do_cache, .value = 2, .size = UINT64_MAX);
	touch("c0");
	touch("c1");
	touch("c2");
	touch("c3"); /* closes the first */
	POINT(!maps("c0"), "the one that was opened first is closed first");
	for (int i = 4; i < NAMES; i++) {
		char name[8];

		touch("c1");
		snprintf(name, sizeof name, "c%d", i);
		touch(name);
	}
	POINT(maps("c1") && maps("c11") && mapped() <= 3, "what is used between stays, however old it is");
	POINT(status_counter(&broker, "mappings_opened") == NAMES, "nothing was opened twice");
	end();
}

static void test_held(void)
{
	begin();
	ask(&a, do_acquire, .name = "c0", .slot = 0);
	ask(&a, do_acquire, .name = "c1", .slot = 1);
	ask(&a, do_acquire, .name = "c2", .slot = 2);
	ask(&a, do_write, .slot = 1, .value = 77);
	ask(&a, do_cache, .value = 1, .size = UINT64_MAX);
	POINT(!ask(&a, do_touch_all, .value = 3) && maps("c0") && maps("c1") && maps("c2") && mapped() <= 4,
	      "what a lease holds is not closed, and may be more than the bound");
	POINT(!ask(&a, do_read, .slot = 1) && a.last.value == 77, "it is there as ever");
	for (int slot = 0; slot < 3; slot++)
		ask(&a, do_return, .slot = slot);
	touch("c5");
	POINT(mapped() <= 2, "when it is returned it is closed like any other");
	end();
}

static void test_nothing(void)
{
	begin();
	ask(&a, do_cache);
	touch("c0");
	touch("c1");
	POINT(!maps("c0") && maps("c1"), "0 keeps nothing: the next open closes the last");
	POINT(!ask(&a, do_acquire, .name = "c2") && mapped() == 1 && !ask(&a, do_write, .value = 5) &&
		      !ask(&a, do_read) && a.last.value == 5,
	      "and what is held is not touched by that");
	ask(&a, do_return);
	POINT(!ask(&a, do_trim) && !mapped(), "a trim closes it, as ever");
	end();
}

static void test_renew(void)
{
	begin();
	ask(&a, do_cache, .value = 1, .size = UINT64_MAX);
	ask(&a, do_acquire, .name = "c0");
	ask(&a, do_write, .value = 9);
	ask(&a, do_return);
	ask(&a, do_touch_all, .value = 1);
	POINT(!maps("c0"), "what was returned is closed for others");
	POINT(!ask(&a, do_renew) && maps("c0") && !ask(&a, do_read) && a.last.value == 9,
	      "and opened again by a renew");
	ask(&a, do_return);
	ask(&a, do_touch_all, .value = 1);
	ask(&b, do_unlink, .name = "c0");
	POINT(ask(&a, do_renew) == -ESTALE, "invariant 8: not when it was unlinked meanwhile");
	end();
}

/* ---- the closer ---- */

static void test_closer(void)
{
	begin();
	ask(&a, do_flags, .flags = GPUB_BACKGROUND_CLOSE);
	ask(&a, do_touch_all);
	POINT(mapped() == NAMES, "beside a closer, what was returned stays open");
	/* the process makes no call meanwhile, which would wake the closer */
	POINT(!ask(&a, do_cache, .value = 4, .size = UINT64_MAX) && SOON(status_holders(&broker, NULL, a.pid) <= 4),
	      "the closer closes what is more than the bound at once, without another call");
	ask(&a, do_acquire, .name = "c0");
	ask(&a, do_acquire, .name = "c1", .slot = 1);
	POINT(!ask(&a, do_touch_all, .value = 2) && SOON(mapped() <= 4) && maps("c0") && maps("c1"),
	      "but nothing that is held");
	POINT(!ask(&a, do_cache, .value = 4096, .size = bytes_for(2)) && SOON(mapped() <= 2) && maps("c0") &&
		      maps("c1"),
	      "bytes are a bound to it, too");
	ask(&a, do_cache);
	ask(&a, do_return);
	POINT(SOON(mapped() == 1), "where nothing is kept a return is the end of it");
	ask(&a, do_return, .slot = 1);
	POINT(SOON(!mapped()), "and of the last one");
	POINT(!ask(&a, do_renew) && maps("c0"), "a renew opens it again");
	end();
}

/* ---- several threads ---- */

static _Atomic int first_error;

static void *touch_on(void *number)
{
	struct order order = { 0 };
	unsigned me = (unsigned)(uintptr_t)number;
	int none, error;

	for (unsigned round = 0; round < ROUNDS; round++) {
		snprintf(order.name, sizeof order.name, "c%u", (me * 5 + round * (me + 1)) % NAMES);
		error = do_touch(&order);
		none = 0;
		if (error && atomic_compare_exchange_strong(&first_error, &none, error))
			fprintf(stderr, "# %d: %s\n", error, gpub_strerror_last());
	}
	return NULL;
}

static int do_threads(const struct order *order)
{
	pthread_t thread[THREADS];

	(void)order;
	for (uintptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, touch_on, (void *)i))
			return -EAGAIN;
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	return atomic_load(&first_error);
}

static void test_threads(unsigned flags, const char *what)
{
	begin();
	ask(&a, do_flags, .flags = flags);
	ask(&a, do_cache, .value = 3, .size = UINT64_MAX);
	POINT(!ask(&a, do_threads), "%d threads go through more than stays open, %s", THREADS, what);
	POINT(SOON(mapped() <= 3 + THREADS), "and of that not more stays than the bound and one for each");
	end();
}

int main(void)
{
	harness_begin("cache", 60);
	test_mappings();
	test_bytes();
	test_least_recently_used();
	test_held();
	test_nothing();
	test_renew();
	test_closer();
	test_threads(0, "each of which closes for itself");
	test_threads(GPUB_BACKGROUND_CLOSE, "beside a closer");
	return harness_end();
}

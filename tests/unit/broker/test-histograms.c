/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-histograms.c - each answer falls into the bucket that its bounds say, and what changed is marked once for all
 * that was counted since.
 *
 * The clock is this program's own while a test runs.
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "broker/base/histograms.h"

#define BEGAN 1000000000ull
#define US    1000ull

static uint64_t clock_now;

int clock_gettime(clockid_t id, struct timespec *now)
{
	static int (*real)(clockid_t, struct timespec *);

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
	if (id != CLOCK_MONOTONIC || !clock_now)
		return real(id, now);
	*now = (struct timespec){ (time_t)(clock_now / 1000000000), (long)(clock_now % 1000000000) };
	return 0;
}

static struct histograms histograms;

static uint64_t counted(enum histogram_id id)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
		sum += histograms.of[id].buckets[i];
	return sum;
}

/* The only bucket that something which took so long falls into. */
static unsigned bucket_after(enum histogram_id id, uint64_t took)
{
	unsigned bucket = 0;

	histograms = (struct histograms){ 0 };
	clock_now = BEGAN + took;
	histograms_count(&histograms, id, BEGAN);
	assert_int_equal(counted(id), 1);
	while (!histograms.of[id].buckets[bucket])
		bucket++;
	assert_int_equal(histograms.of[id].nanoseconds, took);
	return bucket;
}

static void test_a_bound_belongs_to_its_bucket(void **state)
{
	(void)state;
	for (int id = 0; id < HISTOGRAMS; id++) {
		unsigned last = HISTOGRAM_BUCKETS - 1;

		for (unsigned i = 0; i < last; i++) {
			uint64_t bound = histogram_bound((enum histogram_id)id, i) * US;

			assert_int_equal(bucket_after((enum histogram_id)id, bound), i);
			assert_int_equal(bucket_after((enum histogram_id)id, bound - 1), i);
			assert_int_equal(bucket_after((enum histogram_id)id, bound + 1), i + 1);
		}
		assert_int_equal(histogram_bound((enum histogram_id)id, last), 0);
		assert_int_equal(bucket_after((enum histogram_id)id, 0), 0);
		assert_int_equal(bucket_after((enum histogram_id)id, UINT64_MAX / 2), last);
	}
}

static void test_bounds_double(void **state)
{
	(void)state;
	for (int id = 0; id < HISTOGRAMS; id++)
		for (unsigned i = 1; i < HISTOGRAM_BUCKETS - 1; i++)
			assert_int_equal(histogram_bound((enum histogram_id)id, i),
					 2 * histogram_bound((enum histogram_id)id, i - 1));
}

/* The broker's own creates. */
static void test_what_nobody_asked_for_is_not_counted(void **state)
{
	(void)state;
	histograms = (struct histograms){ 0 };
	clock_now = BEGAN;
	histograms_count(&histograms, HISTOGRAM_CREATE, 0);
	assert_int_equal(counted(HISTOGRAM_CREATE), 0);
	assert_int_equal(histograms.of[HISTOGRAM_CREATE].nanoseconds, 0);
}

/* Records are marked by the timer: those that changed, once, however much was counted; and none behind it. */
static void test_changes_are_marked_together(void **state)
{
	struct event_base *base = event_base_new();
	struct tracking tracking = { 0 };

	(void)state;
	histograms = (struct histograms){ 0 };
	clock_now = BEGAN + US;
	assert_int_equal(histograms_begin(&histograms, &tracking, base), 0);
	assert_int_equal(tracking.slots, HISTOGRAMS);
	while (tracking.changes[SINK_STATUS].count)
		tracking_take(&tracking, SINK_STATUS);
	for (int i = 0; i < 1000; i++) {
		histograms_count(&histograms, HISTOGRAM_ACQUIRE, BEGAN);
		histograms_count(&histograms, HISTOGRAM_DRAIN, BEGAN);
	}
	assert_int_equal(tracking.changes[SINK_STATUS].count, 0);
	event_active(histograms.later, EV_TIMEOUT, 0);
	event_base_loop(base, EVLOOP_NONBLOCK);
	assert_int_equal(tracking.changes[SINK_STATUS].count, 2);
	assert_ptr_equal(tracking.at[tracking_take(&tracking, SINK_STATUS)], &histograms.of[HISTOGRAM_DRAIN].tracked);
	assert_ptr_equal(tracking.at[tracking_take(&tracking, SINK_STATUS)], &histograms.of[HISTOGRAM_ACQUIRE].tracked);
	assert_int_equal(histograms.changed, 0);
	histograms_count(&histograms, HISTOGRAM_CREATE, BEGAN);
	assert_int_equal(histograms.changed, 1 << HISTOGRAM_CREATE);
	histograms_deinit(&histograms);
	tracking_deinit(&tracking);
	event_base_free(base);
	clock_now = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_bound_belongs_to_its_bucket),
		cmocka_unit_test(test_bounds_double),
		cmocka_unit_test(test_what_nobody_asked_for_is_not_counted),
		cmocka_unit_test(test_changes_are_marked_together),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

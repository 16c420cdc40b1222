/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-marks.c - the end mark of a timeline is in its page only when the end is noted: a next broker reads the last
 * value from the page of a timeline whose end it does not know.
 */
#include "session-harness.h"

#include <poll.h>
#include <unistd.h>

#include "broker/registry/marks.h"
#include "broker/registry/registry.h"
#include "broker/registry/timeline.h"
#include "common/timeline-page.h"

static uint64_t word_of(const struct timeline *timeline)
{
	uint64_t word = 0;

	assert_int_equal(pread(timeline->writable, &word, sizeof word, TIMELINE_WORD), sizeof word);
	return word;
}

static struct timeline *timeline_made(struct peer *peer)
{
	struct wire_message message = named(WIRE_CREATE, 1, "a");
	struct buffer *buffer;

	message.create.flags = GPUB_TIMELINE;
	assert_int_equal(answer_to(peer, &message).type, WIRE_DONE);
	buffer = registry_find(broker.registry, "a");
	assert_non_null(buffer);
	return buffer->timeline;
}

/* The round of checks that a new end begins comes before the end is published. */
static void test_a_check_does_not_mark_what_is_not_published(void **state)
{
	struct peer peer = join();
	struct timeline *timeline = timeline_made(&peer);
	const uint64_t reached = 7;

	(void)state;
	assert_int_equal(pwrite(timeline->writable, &reached, sizeof reached, TIMELINE_WORD), sizeof reached);
	marks_end_timeline(broker.marks, timeline, true);
	poll(NULL, 0, 2 * MARKS_FIRST_MS);
	assert_true(event_base_loop(broker.base, EVLOOP_NONBLOCK) >= 0);
	assert_int_equal(word_of(timeline), reached);
	broker_publish(&broker);
	assert_int_equal(word_of(timeline), TIMELINE_DIED);
	assert_int_equal(timeline_value(timeline), reached);
	part(&peer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_a_check_does_not_mark_what_is_not_published, harness_setup,
						harness_teardown),
	};

	return cmocka_run_group_tests_name("marks", tests, harness_group_setup, harness_group_teardown);
}

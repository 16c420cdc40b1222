/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-ring.c - the ring of events in the status file: each part keeps its own newest, a reader passes over what is
 * damaged, and the next broker of the name takes over what a dead one left, and nothing else.
 *
 * A broker here is its status file alone. It dies when the file is closed, and its name stays.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "broker/base/events.h"
#include "broker/show/read.h"
#include "broker/show/trail.h"
#include "broker/status/ring.h"
#include "broker/status/status.h"

static struct status status;
static char instance[INSTANCE_SIZE], path[64];
static struct trail trail;

static int setup(void **state)
{
	(void)state;
	snprintf(instance, sizeof instance, "ring-%d", (int)getpid());
	snprintf(path, sizeof path, "/dev/shm/gpubroker.%s", instance);
	return status_open(&status, instance);
}

static int teardown(void **state)
{
	(void)state;
	if (status.file.bytes) {
		status.started = true;
		status_close(&status);
	}
	unlink(path);
	return 0;
}

static void dies(void)
{
	mapped_file_reset(&status.file);
	close(status.file.fd);
}

/* The header is whole from here on, as a serving broker's. */
static void serves(void)
{
	status_seal(&status.header.seal, STATUS_HEADER_SEALED, 1);
	memcpy(status.file.bytes, &status.header, sizeof status.header);
}

static void begins(void)
{
	assert_int_equal(status_open(&status, instance), 0);
}

static void happens(enum event_kind kind, unsigned number)
{
	char name[40];

	snprintf(name, sizeof name, "buffer/%u", number);
	ring_put(&status.ring, &status.file, &(struct broker_event){ .kind = kind,
						     .error = -EDQUOT,
						     .actor = { number, 2, 3, NULL },
						     .other = { 4, 5, 6, NULL },
						     .bytes = 7,
						     .detail = 8,
						     .name = name,
						     .text = "why" });
}

static size_t read_now(void)
{
	int fd = shown_open(instance);

	assert_true(fd >= 0);
	assert_int_equal(trail_read(&trail, instance, fd), 0);
	close(fd);
	return trail.count;
}

static struct status_event *at(uint32_t place)
{
	return (struct status_event *)(status.file.bytes + STATUS_RING) + place;
}

/* ---- */

static void test_an_event_is_read_as_it_was_told(void **state)
{
	const struct status_event *event = trail.events;
	uint64_t now = event_clock();

	(void)state;
	assert_int_equal(read_now(), 0);
	happens(EVENT_CREATE, 9);
	happens(EVENT_CUT, 10);
	assert_int_equal(read_now(), 2);
	assert_int_equal(event->seal.sequence, 1);
	assert_in_range(event->time_ms, now - 1000, now + 60000);
	assert_int_equal(event->kind, EVENT_CREATE);
	assert_int_equal(event->error, -EDQUOT);
	assert_true(event->session == 9 && event->pid == 2 && event->uid == 3);
	assert_true(event->other_session == 4 && event->other_pid == 5 && event->other_uid == 6);
	assert_true(event->bytes == 7 && event->detail == 8);
	assert_string_equal(event->text, "buffer/9");
	assert_string_equal(event[1].text, "why");
}

static void test_the_longest_name_has_room(void **state)
{
	char name[NAME_SIZE + 10];

	(void)state;
	memset(name, 'n', sizeof name - 1);
	name[sizeof name - 1] = 0;
	ring_put(&status.ring, &status.file, &(struct broker_event){ .kind = EVENT_CREATE, .name = name });
	name[NAME_SIZE - 1] = 0;
	happens(EVENT_UNLINK, 1);
	assert_int_equal(read_now(), 2);
	assert_string_equal(trail.events[0].text, name);
}

/* A short name over a long one leaves nothing of it. */
static void test_a_full_part_keeps_its_newest(void **state)
{
	uint32_t most = status_parts[EVENT_OF_USERS].count;

	(void)state;
	happens(EVENT_START, 0);
	happens(EVENT_CREATE_REFUSED, 0);
	for (uint32_t i = 0; i < 2 * most + 5; i++)
		happens(EVENT_CREATE, 1000000 - i * 100);
	assert_int_equal(read_now(), most + 2);
	assert_int_equal(trail.events[0].kind, EVENT_START);
	assert_int_equal(trail.events[1].kind, EVENT_CREATE_REFUSED);
	for (uint32_t i = 2; i < trail.count; i++) {
		assert_int_equal(trail.events[i].seal.sequence, 2 + most + 5 + i - 1);
		assert_int_equal(strlen(trail.events[i].text),
				 (size_t)snprintf(NULL, 0, "buffer/%u", (unsigned)trail.events[i].session));
	}
}

static void invariant_5_refusals_push_out_nothing_else(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 100; i++)
		happens(EVENT_CREATE, i);
	for (unsigned i = 0; i < 3 * STATUS_EVENTS; i++)
		happens(EVENT_CREATE_REFUSED, i);
	assert_int_equal(read_now(), 100 + status_parts[EVENT_REFUSED].count);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(trail.events[i].session, i);
}

static void test_what_is_damaged_is_passed_over(void **state)
{
	uint32_t first = status_parts[EVENT_OF_USERS].first;

	(void)state;
	for (unsigned i = 0; i < 7; i++)
		happens(EVENT_CREATE, i);
	at(first)->bytes++;                   /* torn */
	memset(at(first + 1)->text, 'x', NAME_SIZE); /* no end */
	at(first + 2)->kind = EVENT_KINDS;
	status_seal(&at(first + 2)->seal, status_event_size(strlen(at(first + 2)->text)), 3);
	at(first + 3)->kind = EVENT_CUT; /* of another part */
	status_seal(&at(first + 3)->seal, status_event_size(strlen(at(first + 3)->text)), 4);
	status_seal(&at(first + 4)->seal, status_event_size(strlen(at(first + 4)->text)), 0);
	at(first + 5)->error = INT32_MIN;
	status_seal(&at(first + 5)->seal, status_event_size(strlen(at(first + 5)->text)), 6);
	status_seal(&at(first + 1)->seal, status_event_size(NAME_SIZE), 2); /* what is behind it is as it stays */
	assert_int_equal(read_now(), 1);
	assert_int_equal(trail.events[0].session, 6);
}

static void test_the_next_broker_takes_over(void **state)
{
	(void)state;
	serves();
	happens(EVENT_START, 1);
	for (unsigned i = 0; i < 10; i++)
		happens(EVENT_CREATE, i);
	at(status_parts[EVENT_OF_USERS].first + 3)->bytes++; /* it was being written */
	dies();
	begins();
	assert_int_equal(status.ring.predecessor, (uint64_t)getpid());
	assert_int_equal(status.ring.events, 11);
	happens(EVENT_UNLINK, 77);
	happens(EVENT_STOP, 78);
	assert_int_equal(read_now(), 12);
	assert_int_equal(trail.events[10].kind, EVENT_UNLINK);
	assert_int_equal(trail.events[10].seal.sequence, 12);
	assert_int_equal(trail.events[11].kind, EVENT_STOP);
	/* the newest stands behind those that were there */
	assert_int_equal(at(status_parts[EVENT_OF_USERS].first + 10)->session, 77);
	assert_int_equal(at(status_parts[EVENT_OF_BROKER].first + 1)->session, 78);
}

/* Its events stay for the one after it, and it is no predecessor that was killed. */
static void test_a_broker_that_cannot_begin_keeps_them(void **state)
{
	(void)state;
	serves();
	happens(EVENT_CREATE, 1);
	dies();
	begins();
	status_close(&status);
	assert_int_equal(access(path, F_OK), 0);
	begins();
	assert_int_equal(status.ring.predecessor, 0);
	assert_int_equal(read_now(), 1);
	/* one that had none to keep leaves nothing */
	status.ring.has_inherited = false;
	status_close(&status);
	assert_int_equal(access(path, F_OK), -1);
	begins();
	status_close(&status);
	assert_int_equal(access(path, F_OK), -1);
	begins();
}

static void dies_with(mode_t mode, uint32_t format)
{
	status.header.format = format;
	serves();
	happens(EVENT_CREATE, 1);
	assert_int_equal(fchmod(status.file.fd, mode), 0);
	dies();
}

static void test_others_may_have_written_it(void **state)
{
	(void)state;
	dies_with(0660, STATUS_FORMAT);
	assert_int_equal(status_open(&status, instance), -EEXIST);
	unlink(path);
	begins();
	dies_with(0640, STATUS_FORMAT_OLDEST - 1);
	begins();
	assert_int_equal(status.ring.predecessor, 0);
	assert_int_equal(read_now(), 0);
}

static void test_an_older_one_wrote_it(void **state)
{
	(void)state;
	dies_with(0640, STATUS_FORMAT_OLDEST);
	begins();
	assert_int_equal(status.ring.predecessor, getpid());
	assert_int_equal(read_now(), 1);
}

static void test_a_living_one_keeps_its_own(void **state)
{
	struct status mine;
	char name[INSTANCE_SIZE];

	(void)state;
	strcpy(name, instance);
	serves();
	happens(EVENT_CREATE, 1);
	/* of another process: locks belong to the open file, so another one finds this locked */
	assert_int_equal(status_open(&mine, name), -EEXIST);
	assert_int_equal(read_now(), 1);
}

static void test_not_a_status_file(void **state)
{
	int fd;

	(void)state;
	serves();
	status.file.bytes[0] ^= 1;
	fd = shown_open(instance);
	assert_int_equal(trail_read(&trail, instance, fd), -EAGAIN);
	status.file.bytes[0] ^= 1;
	((struct status_header *)status.file.bytes)->format++;
	assert_int_equal(trail_read(&trail, instance, fd), -EBADMSG);
	close(fd);
}

static void test_json_has_what_is_known(void **state)
{
	json_t *object;

	(void)state;
	happens(EVENT_CREATE_REFUSED, 9);
	happens(EVENT_START, 0);
	assert_int_equal(read_now(), 2);
	object = trail_json(&trail.events[0]);
	assert_int_equal(json_integer_value(json_object_get(object, "version")), TRAIL_VERSION);
	assert_string_equal(json_string_value(json_object_get(object, "kind")), "create-refused");
	assert_string_equal(json_string_value(json_object_get(object, "reason")), "quota");
	assert_string_equal(json_string_value(json_object_get(object, "buffer")), "buffer/9");
	assert_int_equal(json_integer_value(json_object_get(json_object_get(object, "actor"), "session")), 9);
	assert_int_equal(json_integer_value(json_object_get(json_object_get(object, "other"), "user")), 6);
	json_decref(object);
	object = trail_json(&trail.events[1]);
	assert_null(json_object_get(object, "buffer"));
	assert_string_equal(json_string_value(json_object_get(object, "text")), "why");
	json_decref(object);
}

#define ON(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_an_event_is_read_as_it_was_told),
		ON(test_the_longest_name_has_room),
		ON(test_a_full_part_keeps_its_newest),
		ON(invariant_5_refusals_push_out_nothing_else),
		ON(test_what_is_damaged_is_passed_over),
		ON(test_the_next_broker_takes_over),
		ON(test_a_broker_that_cannot_begin_keeps_them),
		ON(test_others_may_have_written_it),
		ON(test_an_older_one_wrote_it),
		ON(test_a_living_one_keeps_its_own),
		ON(test_not_a_status_file),
		ON(test_json_has_what_is_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

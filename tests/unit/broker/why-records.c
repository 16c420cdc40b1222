/* SPDX-License-Identifier: Apache-2.0 */
/* why-records.c - see why-records.h */
#include "why-records.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

union status_record records[1 << 15];
size_t count;
char letters[64];
bool headless;
char said[1 << 16];
struct why_found found;

union status_record *add(enum tracked_type type)
{
	union status_record *record = &records[count++];

	memset(record, 0, sizeof *record);
	record->type = type;
	return record;
}

/* Session n is process 10 + n, of rank n. */
struct status_session *session(unsigned n)
{
	struct status_session *made = &add(TRACKED_SESSION)->session;

	made->id = n;
	made->pid = 10 + n;
	made->rank = n + 1;
	strcpy(made->command, "solver");
	return made;
}

struct status_buffer *buffer(const char *name, uint64_t generation, enum status_buffer_state state)
{
	struct status_buffer *made = &add(TRACKED_BUFFER)->buffer;

	made->state = state;
	made->generation = generation;
	made->allocation = generation;
	made->bytes = made->allocated = 4 * MIB;
	strcpy(made->name, name);
	return made;
}

struct status_timeline *timeline(uint64_t generation, uint64_t value, uint64_t writer)
{
	struct status_timeline *made = &add(TRACKED_TIMELINE)->timeline;

	made->generation = generation;
	made->value = value;
	made->writer = writer;
	made->pid = writer ? (uint32_t)writer + 10 : 0;
	return made;
}

void stream_waits(uint64_t of, uint64_t generation, uint64_t value)
{
	struct status_wait *made = &add(TRACKED_WAIT)->wait;

	made->session = of;
	made->generation = generation;
	made->value = value;
	made->since = NOW_MS - 12000;
}

struct status_request *request(enum status_request_kind kind, uint64_t of, const char *name, uint64_t generation)
{
	struct status_request *made = &add(TRACKED_REQUEST)->request;

	made->kind = kind;
	made->session = of;
	made->generation = generation;
	made->since = NOW_MS - 300000;
	made->bytes = kind == STATUS_CREATE ? 8 * MIB : 0;
	strcpy(made->name, name);
	return made;
}

/* The last one, process 7, died two minutes ago. */
struct status_owner *owner(enum status_owner_state state)
{
	struct status_owner *made = &add(TRACKED_OWNER)->owner;

	made->state = state;
	made->died = 1;
	made->died_pid = 7;
	made->since = NOW_MS - 120000;
	return made;
}

struct status_mapping *grants(uint64_t id, uint64_t of, uint64_t generation)
{
	struct status_mapping *mapping = &add(TRACKED_MAPPING)->mapping;
	struct status_grant *grant = &add(TRACKED_GRANT)->grant;

	mapping->id = grant->mapping = id;
	mapping->session = of;
	mapping->allocation = grant->generation = generation;
	return mapping;
}

/* A buffer with a timeline at 3, which that session writes. */
void line(const char *name, uint64_t generation, uint64_t writer)
{
	buffer(name, generation, STATUS_LIVE);
	timeline(generation, 3, writer);
}

/* ---- what is said ---- */

static void look(uint64_t pid, struct process_seen *seen)
{
	seen->state = pid < sizeof letters ? letters[pid] : 0;
	seen->contained = seen->state == 'T' && pid == 19;
	seen->headless = seen->state == 'Z' && headless;
}

static void say(void *context, const char *text)
{
	size_t length = strlen(said);

	snprintf(said + length, sizeof said - length, "%s\n", text);
	(void)context;
}

int ask_as(const char *about, bool live, bool near)
{
	struct why why = { .records = records,
			   .count = count,
			   .about = about,
			   .live = live,
			   .now_ms = NOW_MS,
			   .look = near ? look : NULL,
			   .say = say };

	said[0] = 0;
	return why_explain(&why, &found);
}

int ask(const char *about)
{
	return ask_as(about, true, true);
}

void shuffle(void)
{
	for (size_t i = count; i > 1; i--) {
		size_t j = (size_t)rand() % i;
		union status_record other = records[i - 1];

		records[i - 1] = records[j];
		records[j] = other;
	}
}

void expect_about(const char *about, const char *wanted)
{
	for (int i = 0; i < 5; i++) {
		assert_int_equal(ask(about), 0);
		assert_string_equal(said, wanted);
		shuffle();
	}
}

void expect(const char *wanted)
{
	expect_about(NULL, wanted);
}

int setup(void **state)
{
	(void)state;
	count = 0;
	headless = false;
	memset(letters, 'S', sizeof letters);
	return 0;
}

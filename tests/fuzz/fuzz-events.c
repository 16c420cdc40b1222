/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz-events.c - a ring of events that anybody may have written, read and shown as broker-ctl events does.
 *
 * The input is what stands at the beginning of the ring. What is read is in order, each event reads as one printable
 * line, and is JSON.
 */
#include "fuzz.h"

#include <string.h>
#include <unistd.h>

#include "broker/show/trail.h"

static int file_of(const uint8_t *data, size_t size)
{
	struct status_header header = { .magic = STATUS_MAGIC, .format = STATUS_FORMAT };
	int fd = fuzz_file(&header, sizeof header);

	if (pwrite(fd, data, size, STATUS_RING) != (ssize_t)size)
		fuzz_fail("no memory for a file");
	return fd;
}

static void event_check(const struct status_event *event)
{
	char text[EVENT_TEXT_MAX];
	json_t *json = trail_json(event);

	FUZZ_HOLDS(*trail_text(event, text), "an event has no words");
	for (const char *c = text; *c; c++)
		FUZZ_HOLDS(*c >= ' ' && *c <= '~', "byte 0x%02x leaves the words", (unsigned char)*c);
	FUZZ_HOLDS(json && json_object_get(json, "kind") && json_object_get(json, "text"), "an event is no JSON");
	json_decref(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct trail trail;
	int fd = file_of(data, size < STATUS_EVENTS * STATUS_EVENT_SIZE ? size : STATUS_EVENTS * STATUS_EVENT_SIZE);

	FUZZ_HOLDS(!trail_read(&trail, "fuzz", fd), "the ring of a status file is refused");
	close(fd);
	FUZZ_HOLDS(trail.count <= size / STATUS_EVENT_SIZE + 1, "there are more events than bytes");
	for (size_t i = 0; i < trail.count; i++) {
		FUZZ_HOLDS(!i || trail.events[i - 1].seal.sequence <= trail.events[i].seal.sequence,
			   "they are not in order");
		event_check(&trail.events[i]);
	}
	return 0;
}

/* Most of the time they are whole, and in their part of the ring. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned number)
{
	struct status_event event;

	size = LLVMFuzzerMutate(data, size, room);
	for (size_t at = 0; number % 8 && at + sizeof event <= size; at += sizeof event) {
		memcpy(&event, data + at, sizeof event);
		event.kind %= EVENT_KINDS;
		event.text[sizeof event.text - 1] = 0;
		if (at / sizeof event < status_parts[EVENT_OF_USERS].first &&
		    event_rows[event.kind].part != EVENT_OF_BROKER)
			event.kind = EVENT_START;
		status_seal(&event.seal, status_event_size(strlen(event.text)), event.seal.sequence);
		memcpy(data + at, &event, sizeof event);
	}
	return size;
}

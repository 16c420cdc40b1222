/* SPDX-License-Identifier: Apache-2.0 */
/* bytes.c - see bytes.h */
#include "bytes.h"

#include <string.h>
#include <unistd.h>

#include "broker/registry/registry.h"
#include "common/error.h"
#include "device/host-object.h"
#include "fuzz.h"

#define MARKS 32

/* A buffer whose bytes are written. */
static struct mark {
	uint64_t allocation, offset; /* serial of its allocation, and where it is in it */
	uint64_t size;               /* bytes that are written; 0: the mark is unused */
	uint8_t  value;              /* of each byte */
} marks[MARKS];

/* Opens the memory, as a client that was granted it. -1: it has ended with its owner. */
static int memory_open(const struct allocation *allocation)
{
	return host_object_open(&allocation->handle, allocation->descriptor);
}

/* Bytes of the buffer that are in its allocation's first part. */
static uint64_t size_of(const struct buffer *buffer)
{
	uint64_t room = buffer->allocation->span - buffer->offset;

	return buffer->size < room ? buffer->size : room;
}

static struct mark *mark_of(const struct buffer *buffer)
{
	struct mark *unused = NULL;

	for (struct mark *mark = marks; mark < marks + MARKS; mark++) {
		if (mark->size && mark->allocation == buffer->allocation->serial && mark->offset == buffer->offset)
			return mark;
		if (!mark->size)
			unused = mark;
	}
	FUZZ_HOLDS(unused, "there are more buffers than words in the board");
	*unused = (struct mark){ buffer->allocation->serial, buffer->offset, 0, 0 };
	return unused;
}

static void expect_bytes(const struct buffer *buffer, int file, uint64_t from, uint64_t to, uint8_t value)
{
	uint8_t bytes[4096];
	uint64_t at = from;

	while (at < to) {
		size_t next = to - at < sizeof bytes ? (size_t)(to - at) : sizeof bytes;

		FUZZ_HOLDS(pread(file, bytes, next, (off_t)(buffer->offset + at)) == (ssize_t)next,
			   "the memory of '%s' cannot be read", buffer->name);
		for (size_t i = 0; i < next; i++)
			FUZZ_HOLDS(bytes[i] == value, "byte %llu of '%s' is %u, not %u", (unsigned long long)(at + i),
				   buffer->name, bytes[i], value);
		at += next;
	}
}

static void write_bytes(const struct buffer *buffer, int file, uint64_t from, uint64_t to, uint8_t value)
{
	uint8_t bytes[4096];

	memset(bytes, value, sizeof bytes);
	for (uint64_t at = from; at < to; at += sizeof bytes) {
		size_t next = to - at < sizeof bytes ? (size_t)(to - at) : sizeof bytes;

		FUZZ_HOLDS(pwrite(file, bytes, next, (off_t)(buffer->offset + at)) == (ssize_t)next,
			   "the memory of '%s' cannot be written", buffer->name);
	}
}

/* A client can have the buffer mapped: nobody may write to its memory but clients. */
static bool is_in_use(const struct buffer *buffer)
{
	return buffer->allocation && (buffer->state == BUFFER_LIVE ||
				      (buffer->state == BUFFER_DRAINING && buffer->grant_count));
}

static void mark_update(const struct buffer *buffer, struct mark *mark, int file)
{
	uint64_t size = size_of(buffer);

	if (size > mark->size) {
		if (!mark->size)
			mark->value = (uint8_t)(1 + buffer->serial % 255);
		expect_bytes(buffer, file, mark->size, size, 0);
		write_bytes(buffer, file, mark->size, size, mark->value);
	}
	mark->size = size;
}

void bytes_forget(void)
{
	memset(marks, 0, sizeof marks);
}

/* Forgets buffers that are not in use any more. */
static void marks_sweep(const struct broker *broker)
{
	const struct buffer *buffer;

	for (struct mark *mark = marks; mark < marks + MARKS; mark++) {
		for (buffer = broker->registry->serials; buffer; buffer = buffer->by_serial.next)
			if (is_in_use(buffer) && mark->allocation == buffer->allocation->serial &&
			    mark->offset == buffer->offset)
				break;
		if (!buffer)
			mark->size = 0;
	}
}

void bytes_check(const struct broker *broker, bool all)
{
	const struct buffer *buffer;
	struct mark *mark;
	int file;

	marks_sweep(broker);
	for (buffer = broker->registry->serials; buffer; buffer = buffer->by_serial.next) {
		mark = is_in_use(buffer) ? mark_of(buffer) : NULL;
		if (!mark || (!all && mark->size == size_of(buffer)))
			continue;
		file = memory_open(buffer->allocation);
		if (file < 0) {
			FUZZ_HOLDS(buffer->allocation->descriptor < 0 && buffer->state != BUFFER_LIVE,
				   "the memory of '%s' cannot be opened: %s", buffer->name, error_text());
			continue;
		}
		expect_bytes(buffer, file, 0, mark->size < size_of(buffer) ? mark->size : size_of(buffer), mark->value);
		mark_update(buffer, mark, file);
		close(file);
	}
}

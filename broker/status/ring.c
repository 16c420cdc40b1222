/* SPDX-License-Identifier: Apache-2.0 */
/* ring.c - see ring.h */
#include "ring.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/base/events.h"
#include "format.h"
#include "leftovers.h"

#define CHUNK 64 /* number of events that one pread(2) reads */

static void put(const struct mapped_file *file, uint32_t place, const struct status_event *event, size_t size)
{
	memcpy(file->bytes + STATUS_RING + (size_t)place * sizeof *event, event, size);
}

/* Fills the file's event *to from the broker's event, without the seal. Returns the bytes that the seal is to cover. */
static size_t fill(struct status_event *to, const struct broker_event *event)
{
	const char *text = event_rows[event->kind].subject == SUBJECT_CAUSE ? event->text : event->name;
	size_t length = text ? strnlen(text, sizeof to->text - 1) : 0;

	to->time_ms = event_clock();
	to->kind = event->kind;
	to->error = event->error;
	to->session = event->actor.session;
	to->pid = event->actor.pid;
	to->uid = event->actor.uid;
	to->other_session = event->other.session;
	to->other_pid = event->other.pid;
	to->other_uid = event->other.uid;
	to->bytes = event->bytes;
	to->detail = event->detail;
	to->left_out = event->left_out;
	memset(to->text + length / 8 * 8, 0, 8);
	if (length)
		memcpy(to->text, text, length);
	return status_event_size(length);
}

void ring_put(struct ring *ring, const struct mapped_file *file, const struct broker_event *event)
{
	enum event_part which = event_rows[event->kind].part;
	struct status_part part = status_parts[which];
	struct status_event entry;
	size_t size;

	if (!file->bytes) /* the file was truncated, and there was no space to write it anew */
		return;
	size = fill(&entry, event);
	status_seal(&entry.seal, size, ++ring->events);
	put(file, part.first + ring->next[which], &entry, size);
	if (++ring->next[which] == part.count)
		ring->next[which] = 0;
}

void ring_copy(const struct mapped_file *file, int before)
{
	const size_t size = STATUS_HEADER_SIZE - STATUS_RING;
	ssize_t got = 1;

	for (size_t at = 0; at < size && got > 0; at += (size_t)got)
		got = pread(before, file->bytes + STATUS_RING + at, size - at, (off_t)(STATUS_RING + at));
}

/* ---- what a dead broker left ---- */

int ring_predecessor_open(const char *shm_name)
{
	char path[96];
	struct stat st;
	int fd;

	snprintf(path, sizeof path, SHM_DIR "%s", shm_name);
	fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (!fstat(fd, &st) && leftovers_is_own(&st) && leftovers_take(fd) && leftovers_still_named(fd, shm_name)) {
		shm_unlink(shm_name);
		return fd;
	}
	close(fd);
	return -1;
}

/* Returns whether the event is valid, and then moves the positions behind it. */
static bool count(struct ring *ring, uint32_t place, const struct status_event *event, uint64_t newest[EVENT_PARTS])
{
	enum event_part which;
	struct status_part part;

	if (!status_event_is_good(event, place))
		return false;
	which = event_rows[event->kind].part;
	part = status_parts[which];
	if (event->seal.sequence > newest[which]) {
		newest[which] = event->seal.sequence;
		ring->next[which] = (place - part.first + 1) % part.count;
	}
	if (event->seal.sequence > ring->events)
		ring->events = event->seal.sequence;
	return true;
}

/* Moves the positions behind the valid events in the file fd, and copies these to the file *to; NULL: does not copy. */
static void take_all(struct ring *ring, const struct mapped_file *to, int fd)
{
	struct status_event events[CHUNK];
	uint64_t newest[EVENT_PARTS] = { 0 };

	for (uint32_t first = 0; first < STATUS_EVENTS; first += CHUNK) {
		ssize_t got = pread(fd, events, sizeof events, (off_t)(STATUS_RING + first * sizeof *events));

		for (uint32_t i = 0; got > 0 && i < (size_t)got / sizeof *events; i++)
			if (count(ring, first + i, &events[i], newest) && to)
				put(to, first + i, &events[i], sizeof events[i]);
	}
}

void ring_go_on(struct ring *ring, const struct mapped_file *file)
{
	*ring = (struct ring){ 0 };
	take_all(ring, NULL, file->fd);
}

/*
 * Returns the pid of the dead broker, if it was killed while it served. If the header is not whole, takes the header
 * from the file's copy. Returns 0 if the file has no whole header, because its broker ended before it served.
 */
static uint64_t pid_of(int fd, struct status_header *header)
{
	struct status_copy copy;

	if (status_is_whole(&header->seal, STATUS_HEADER_SEALED))
		return header->pid;
	if (pread(fd, &copy, sizeof copy, STATUS_COPY) != sizeof copy || copy.offset)
		return 0;
	memcpy(header, copy.bytes, sizeof *header);
	return status_is_whole(&header->seal, STATUS_HEADER_SEALED) ? header->pid : 0;
}

void ring_inherit(struct ring *ring, const struct mapped_file *file, int fd)
{
	struct status_header header;

	if (pread(fd, &header, sizeof header, 0) == sizeof header && header.magic == STATUS_MAGIC &&
	    status_format_is_known(header.format)) {
		take_all(ring, file, fd);
		ring->predecessor = pid_of(fd, &header);
		ring->has_inherited = true;
	}
	close(fd);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* timeline.c - see timeline.h */
#include "timeline.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utlist.h>

#include "broker/base/reopen.h"
#include "common/board.h"
#include "common/error.h"
#include "common/timeline-page.h"

/*
 * Creates the timeline's page, and returns its descriptor or a negative errno. Its mode 0600 keeps other users from
 * reopening the page for writing through /proc (facts.md).
 */
static int page_create(void)
{
	int fd = memfd_create("gpubroker-timeline", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int error;

	if (fd < 0)
		return -errno;
	error = fchmod(fd, 0600) ? errno : posix_fallocate(fd, 0, TIMELINE_PAGE_SIZE);
	if (!error && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		error = errno;
	if (!error)
		return fd;
	close(fd);
	return -error;
}

int timeline_create(struct timelines *creator, const struct timeline_place *place, struct timeline **result)
{
	struct timeline *timeline = calloc(1, sizeof *timeline);
	int error = -ENOMEM;

	if (!timeline)
		goto refuse;
	error = timeline->writable = page_create();
	if (error < 0)
		goto free_timeline;
	error = timeline->readable = reopen(timeline->writable, O_RDONLY);
	if (error < 0)
		goto close_writable;
	timeline->creator = creator;
	timeline->end = place->end;
	timeline->serial = timeline->buffer = place->serial;
	if (creator)
		DL_APPEND2(creator->made, timeline, made_prev, made_next);
	*result = timeline;
	return 0;
close_writable:
	close(timeline->writable);
free_timeline:
	free(timeline);
refuse:
	return error_set(error, "no page for a timeline: %s", strerror(-error));
}

void timeline_creator_leave(struct timeline *timeline)
{
	if (timeline->creator)
		DL_DELETE2(timeline->creator->made, timeline, made_prev, made_next);
	timeline->creator = NULL;
}

void timeline_writer_leave(struct timeline *timeline)
{
	if (timeline->of_writer)
		DL_DELETE2(timeline->of_writer->written, timeline, written_prev, written_next);
	timeline->of_writer = NULL;
}

void timelines_forget(struct timelines *timelines)
{
	while (timelines->made)
		timeline_creator_leave(timelines->made);
	while (timelines->written)
		timeline_writer_leave(timelines->written);
}

void timeline_destroy(struct timeline *timeline)
{
	if (!timeline)
		return;
	/* a stream may wait for a timeline without a writer, and no session can claim it any more */
	if (!timeline->writer)
		timeline_end(timeline, true);
	timeline_publish(timeline);
	timeline_creator_leave(timeline);
	timeline_writer_leave(timeline);
	if (timeline->shown.among)
		DL_DELETE2(*timeline->shown.among, timeline, shown.prev, shown.next);
	close(timeline->readable);
	close(timeline->writable);
	free(timeline);
}

int timeline_claim(struct timeline *timeline, uint64_t session, struct timelines *writer, const char *name)
{
	if (timeline->mark)
		return error_set(-EOWNERDEAD, "the writer of the timeline of '%s' is gone: create the buffer anew",
				 name);
	if (timeline->writer && timeline->writer != session)
		return error_set(-EBUSY, "the timeline of '%s' has its one writer, session %llu (pid %u): make "
					 "a buffer with a timeline for each writer",
				 name, (unsigned long long)timeline->writer, timeline->shown.pid);
	if (!timeline->of_writer)
		DL_APPEND2(writer->written, timeline, written_prev, written_next);
	timeline->of_writer = writer;
	timeline->writer = session;
	return 0;
}

int timeline_open(const struct timeline *timeline)
{
	int fd = reopen(timeline->writable, O_RDWR);

	return fd >= 0 ? fd : error_set(fd, "the timeline's page cannot be opened for its writer: %s", strerror(-fd));
}

static uint64_t word_read(const struct timeline *timeline)
{
	uint64_t word = 0;

	return pread(timeline->writable, &word, sizeof word, TIMELINE_WORD) == sizeof word ? word : 0;
}

bool timeline_mark(struct timeline *timeline)
{
	return word_read(timeline) != timeline->mark &&
	       pwrite(timeline->writable, &timeline->mark, sizeof timeline->mark, TIMELINE_WORD) ==
		       sizeof timeline->mark;
}

uint64_t timeline_value(const struct timeline *timeline)
{
	if (timeline->mark)
		return timeline->last;
	return timeline->writer ? word_read(timeline) : 0;
}

/*
 * Stores the end in the board before the mark, so that a reader that the mark releases finds the reason in the board.
 */
void timeline_publish(struct timeline *timeline)
{
	if (!timeline->mark)
		return;
	atomic_store_explicit(&timeline->end->last, timeline->last, memory_order_relaxed);
	atomic_store(&timeline->end->how,
		     BOARD_WORD(timeline->serial, timeline->mark == TIMELINE_DIED ? BOARD_DIED : BOARD_LEFT));
	timeline_mark(timeline);
}

void timeline_end(struct timeline *timeline, bool died)
{
	if (timeline->mark)
		return;
	timeline->mark = died ? TIMELINE_DIED : TIMELINE_LEFT;
	timeline->last = word_read(timeline);
}

void timeline_note(const struct timeline *timeline, struct timeline_record *record)
{
	*record = (struct timeline_record){ .buffer = timeline->buffer,
					    .writer = timeline->writer,
					    .mark = timeline->mark,
					    .last = timeline->mark ? timeline_value(timeline) : 0,
					    .ended_ms = timeline->shown.ended_ms,
					    .pid = timeline->shown.pid,
					    .rank = timeline->shown.rank,
					    .uid = timeline->shown.uid };
}

int timeline_restore(const struct timeline_record *record, int page, const struct timeline_place *place,
		     struct timelines *creator, struct timelines *writer, struct timeline **result)
{
	struct timeline *timeline = calloc(1, sizeof *timeline);
	int readable = timeline ? reopen(page, O_RDONLY) : -ENOMEM;

	if (readable < 0) {
		free(timeline);
		return error_set(readable, "the page of a timeline cannot be taken over: %s", strerror(-readable));
	}
	*timeline = (struct timeline){ .writable = page,
				       .readable = readable,
				       .writer = record->writer,
				       .serial = place->serial,
				       .buffer = record->buffer,
				       .end = place->end,
				       .mark = record->mark,
				       .last = record->last,
				       .creator = creator,
				       .of_writer = record->mark ? NULL : writer };
	timeline->shown.ended_ms = record->ended_ms;
	timeline->shown.pid = record->pid;
	timeline->shown.rank = record->rank;
	timeline->shown.uid = record->uid;
	if (creator)
		DL_APPEND2(creator->made, timeline, made_prev, made_next);
	if (timeline->of_writer)
		DL_APPEND2(writer->written, timeline, written_prev, written_next);
	*result = timeline;
	return 0;
}

void timeline_renew(struct timeline *timeline, uint64_t serial)
{
	timeline->serial = serial;
}

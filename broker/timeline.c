/* SPDX-License-Identifier: Apache-2.0 */
/* timeline.c - see timeline.h */
#include "timeline.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utlist.h>

#include "common/error.h"
#include "common/timeline-page.h"

/* The mode keeps other users from reopening it for writing through /proc (facts.md). */
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

static int reopen_readable(int fd)
{
	char path[40];

	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd >= 0 ? fd : -errno;
}

int timeline_create(struct timelines *creator, struct timeline **result)
{
	struct timeline *timeline = calloc(1, sizeof *timeline);
	int error = -ENOMEM;

	if (!timeline)
		goto refuse;
	error = timeline->writable = page_create();
	if (error < 0)
		goto free_timeline;
	error = timeline->readable = reopen_readable(timeline->writable);
	if (error < 0)
		goto close_writable;
	timeline->creator = creator;
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

static void creator_leave(struct timeline *timeline)
{
	if (timeline->creator)
		DL_DELETE2(timeline->creator->made, timeline, made_prev, made_next);
	timeline->creator = NULL;
}

static void writer_leave(struct timeline *timeline)
{
	if (timeline->of_writer)
		DL_DELETE2(timeline->of_writer->written, timeline, written_prev, written_next);
	timeline->of_writer = NULL;
}

void timelines_forget(struct timelines *timelines)
{
	while (timelines->made)
		creator_leave(timelines->made);
	while (timelines->written)
		writer_leave(timelines->written);
}

void timeline_destroy(struct timeline *timeline)
{
	if (!timeline)
		return;
	creator_leave(timeline);
	writer_leave(timeline);
	close(timeline->readable);
	close(timeline->writable);
	free(timeline);
}

int timeline_claim(struct timeline *timeline, uint64_t session, struct timelines *writer)
{
	if (timeline->ended)
		return error_set(-EOWNERDEAD, "this timeline's writer is gone: create the buffer anew");
	if (timeline->writer && timeline->writer != session)
		return error_set(-EBUSY, "another session writes this timeline: a timeline has one writer");
	if (!timeline->of_writer)
		DL_APPEND2(writer->written, timeline, written_prev, written_next);
	timeline->of_writer = writer;
	timeline->writer = session;
	return 0;
}

void timeline_end(struct timeline *timeline, bool died)
{
	struct timeline_page page = { 0 };

	if (timeline->ended)
		return;
	timeline->ended = true;
	if (pread(timeline->writable, &page, sizeof page, 0) != sizeof page)
		return;
	page.last = page.word;
	page.word = died ? TIMELINE_DIED : TIMELINE_LEFT;
	/* readers that see the mark must find the last value: two writes, in this order */
	if (pwrite(timeline->writable, &page.last, sizeof page.last, offsetof(struct timeline_page, last)) < 0 ||
	    pwrite(timeline->writable, &page.word, sizeof page.word, offsetof(struct timeline_page, word)) < 0)
		return;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timelines.c - attacks on a timeline's end: a process that waits for a writer must learn that it ended, whatever the
 * writer did to the page, and must be released on the device where the page can be written over at most so many times.
 *
 * The reader is a session of the attacker's own: it looks at the page as a GPU would, and at the board as the library
 * does.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "attacks.h"
#include "common/timeline-page.h"

#define NAME "attacker/timeline"

struct ordering {
	struct speaker    writer, reader;
	struct wire_grant written, read;
	int               file; /* as the writer was given it */
	_Atomic uint64_t       *word; /* mapped by the writer, and kept by it, or by a child that it left it to */
	const _Atomic uint64_t *seen; /* by the reader */
};

static int acquire(struct speaker *s, struct wire_grant *grant)
{
	struct wire_message message = speaker_message(WIRE_ACQUIRE, NAME), answer;
	int page = -1;

	message.acquire.rights = BOTH;
	WANT(!speaker_ask(s, &message, &answer, &page) && page >= 0);
	*grant = answer.grant;
	return page;
}

static int become_writer(struct ordering *o)
{
	struct wire_message message, answer;
	int page = -1;

	wire_init(&message, WIRE_WRITER, 0);
	message.grant_id.mapping = o->written.mapping;
	message.grant_id.serial = o->written.serial;
	WANT(!speaker_ask(&o->writer, &message, &answer, &page) && page >= 0);
	return page;
}

static void begin(struct ordering *o)
{
	int page;

	join(&o->writer);
	join(&o->reader);
	WANT(!speaker_create(&o->writer, NAME, 4096, 0600, GPUB_TIMELINE));
	close(acquire(&o->writer, &o->written));
	page = acquire(&o->reader, &o->read);
	o->seen = mmap(NULL, TIMELINE_PAGE_SIZE, PROT_READ, MAP_SHARED, page, 0);
	close(page);
	o->file = become_writer(o);
	o->word = mmap(NULL, TIMELINE_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, o->file, 0);
	WANT(o->seen != MAP_FAILED && o->word != MAP_FAILED);
	atomic_store(o->word, 4);
}

/* The writer's end, as a leave or as a death. */
static void end_writer(struct ordering *o, bool leaves)
{
	struct wire_message message, answer;

	WANT(!speaker_closed(&o->writer, o->written.mapping));
	wire_init(&message, WIRE_LEAVE, 0);
	WANT(!leaves || !speaker_ask(&o->writer, &message, &answer, NULL));
	speaker_end(&o->writer);
}

static enum board_ended ended(const struct ordering *o)
{
	return board_end_of(&o->reader.board.ends[o->read.buffer], o->read.serial);
}

/* A wait for any value has ended. */
static bool released(const struct ordering *o)
{
	return (int64_t)(atomic_load(o->seen) - GPUB_TIMELINE_MAX) >= 0;
}

static void finish(struct ordering *o)
{
	munmap((void *)o->seen, TIMELINE_PAGE_SIZE);
	munmap((void *)o->word, TIMELINE_PAGE_SIZE);
	close(o->file);
	speaker_end(&o->reader);
}

/* Each flag, offset and lock of the open file that it was given, and of others that it opens itself. */
static void suppress_by_file(void)
{
	static const int flags[] = { O_APPEND, O_APPEND | O_NONBLOCK, O_APPEND | O_DIRECT, O_APPEND | O_ASYNC };

	for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
		struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
		struct ordering o;

		begin(&o);
		fcntl(o.file, F_SETFL, flags[i]); /* not every kernel takes O_DIRECT */
		fcntl(o.file, F_SETFL, O_APPEND);
		WANT(fcntl(o.file, F_GETFL) & O_APPEND);
		WANT(lseek(o.file, 1000, SEEK_SET) == 1000);
		fcntl(o.file, F_OFD_SETLK, &lock);
		WANT(fcntl(o.file, F_SETLEASE, F_WRLCK));
		end_writer(&o, i & 1);
		WANT(SOON(released(&o)));
		WANT(ended(&o) == (i & 1 ? BOARD_LEFT : BOARD_DIED));
		finish(&o);
		join(&o.writer);
		WANT(!speaker_named(&o.writer, WIRE_UNLINK, NAME));
		speaker_end(&o.writer);
	}
}

/* A signal that lands behind the writer's end; each value that could be told from a mark, and the marks themselves. */
static void overwrite_once(bool leaves)
{
	static const uint64_t junk[] = {
		5, 0, GPUB_TIMELINE_MAX, TIMELINE_LEFT - 1, UINT64_MAX, TIMELINE_DIED, TIMELINE_LEFT
	};
	enum board_ended how = leaves ? BOARD_LEFT : BOARD_DIED;
	uint64_t mark = leaves ? TIMELINE_LEFT : TIMELINE_DIED;
	struct ordering o;

	begin(&o);
	end_writer(&o, leaves);
	for (size_t i = 0; i < sizeof junk / sizeof junk[0]; i++) {
		WANT(SOON(atomic_load(o.seen) == mark));
		atomic_store(o.word, junk[i]);
		WANT(ended(&o) == how);
	}
	WANT(SOON(atomic_load(o.seen) == mark));
	if (leaves)
		WANT(atomic_load(&o.reader.board.ends[o.read.buffer].last) == 4);
	finish(&o);
}

static void overwrite_after_leave(void)
{
	overwrite_once(true);
}

static void overwrite_after_death(void)
{
	overwrite_once(false);
}

/* For ever, and in a page that the broker cannot reach: what the board says stays true, and the broker serves on. */
static void overwrite_always(void)
{
	struct ordering o;

	begin(&o);
	end_writer(&o, false);
	WANT(SOON(ended(&o) == BOARD_DIED));
	for (unsigned i = 0; i < 1000; i++) {
		atomic_store(o.word, i);
		WANT(ended(&o) == BOARD_DIED);
		if (i % 100 == 0)
			want_served(&o.reader);
	}
	fallocate(o.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, TIMELINE_PAGE_SIZE);
	WANT(ended(&o) == BOARD_DIED);
	finish(&o);
}

/* The word that says how it ended lies in the board. */
static void forge_the_end(void)
{
	struct ordering o;

	begin(&o);
	atomic_store(o.word, TIMELINE_LEFT);
	WANT(ended(&o) == BOARD_RUNS);
	atomic_store(o.word, TIMELINE_DIED);
	WANT(ended(&o) == BOARD_RUNS);
	end_writer(&o, true);
	WANT(ended(&o) == BOARD_LEFT);
	finish(&o);
}

static bool marks_are_counted(void)
{
	return SOON(counted("timelines_marked") >= 6);
}

const struct attack timelines[] = {
	{ "sets flags on its timeline's file", "the end mark lands all the same", .run = suppress_by_file },
	{ "signals after it left", "the end mark is written anew", .run = overwrite_after_leave,
	  .after = marks_are_counted },
	{ "an accomplice signals after its death", "the end mark is written anew", .run = overwrite_after_death,
	  .after = marks_are_counted },
	{ "overwrites the mark for ever", "the board says that the timeline ended", .run = overwrite_always },
	{ "forges an end", "the board says that the timeline runs", .run = forge_the_end },
	{ 0 },
};

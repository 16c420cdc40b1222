/* SPDX-License-Identifier: Apache-2.0 */
/* status.c - see status.h */
#include "status.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "broker/base/context.h"
#include "broker/base/log.h"
#include "common/crash-point.h"
#include "common/error.h"
#include "leftovers.h"
#include "status-text.h"

/* The header has the first page, and two texts a place each behind it. Where they are shorter the file has holes. */
#define TEXT_BEGIN 4096ull

#define FILE_MODE 0640 /* its owner, and the group that brokerd.conf gives */

#define TRIES          10 /* for a name */
#define OWNER_TEXT_MAX 32

#define PAUSE_US     50000   /* between two texts, at least */
#define PAUSE_MAX_US 1000000 /* and at most */
#define PART         20      /* and so many times as long as it took to write the last one */

uint64_t status_process_start(uint64_t pid, char *state)
{
	char path[40], text[1024], *field;
	unsigned long long start;
	ssize_t got = 0;
	int fd;

	snprintf(path, sizeof path, "/proc/%llu/stat", (unsigned long long)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		got = read(fd, text, sizeof text - 1);
		close(fd);
	}
	text[got > 0 ? got : 0] = 0;
	/* the command in parentheses may hold anything; the fields that follow it cannot hold a ')' */
	field = strrchr(text, ')');
	if (!field || sscanf(field + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d "
					"%*d %llu",
			     &start) != 1)
		return 0;
	if (state)
		*state = field[2];
	return start;
}

uid_t status_process_owner(const struct status_header *header)
{
	char path[40];
	struct stat st;

	snprintf(path, sizeof path, "/proc/%llu", (unsigned long long)header->pid);
	if (status_process_start(header->pid, NULL) != header->start_time || stat(path, &st))
		return (uid_t)-1;
	return st.st_uid;
}

/* ---- the file ---- */

/* A file that bears its lock before it has a name. -EOPNOTSUPP: this system cannot do that. */
static int file_create_locked(struct status *status)
{
	char own[40], path[64];
	int error;

	status->fd = open(SHM_DIR, O_TMPFILE | O_RDWR | O_CLOEXEC, FILE_MODE);
	if (status->fd < 0)
		return -EOPNOTSUPP;
	snprintf(own, sizeof own, "/proc/self/fd/%d", status->fd);
	snprintf(path, sizeof path, SHM_DIR "%s", status->name);
	error = leftovers_lock(status->fd);
	if (!error && linkat(AT_FDCWD, own, AT_FDCWD, path, AT_SYMLINK_FOLLOW))
		error = errno == EEXIST ? -EEXIST : -EOPNOTSUPP;
	if (error)
		close(status->fd);
	return error;
}

static int file_create_named(struct status *status)
{
	status->fd = shm_open(status->name, O_RDWR | O_CREAT | O_EXCL, FILE_MODE);
	if (status->fd < 0)
		return -errno;
	/* a cleaner may have seen the file before its lock, and removed it */
	if (leftovers_lock(status->fd) || !leftovers_still_named(status->fd, status->name)) {
		close(status->fd);
		return -EAGAIN;
	}
	return 0;
}

static int file_create(struct status *status)
{
	int error = file_create_locked(status);

	return error == -EOPNOTSUPP ? file_create_named(status) : error;
}

/* All of it: where a file or the machine is full, part of it may be written, and only the next call says why. */
static int write_all(int fd, const void *data, size_t size, uint64_t offset)
{
	const char *bytes = data;

	while (size) {
		ssize_t wrote = pwrite(fd, bytes, size, (off_t)offset);

		if (wrote <= 0)
			return wrote ? -errno : -ENOSPC;
		bytes += wrote;
		offset += (uint64_t)wrote;
		size -= (size_t)wrote;
	}
	return 0;
}

static int write_header(struct status *status, const struct status_header *header)
{
	return write_all(status->fd, header, sizeof *header, 0);
}

/* ---- its name ---- */

static int name_take(struct status *status, const char *instance)
{
	int error = -EAGAIN;

	snprintf(status->name, sizeof status->name, STATUS_PREFIX "%s", instance);
	for (int tries = 0; error == -EAGAIN && tries < TRIES; tries++)
		error = file_create(status);
	return error;
}

/* " (pid N)" where the file names a process of its owner's; else "". */
static const char *owner_text(const char *path, uid_t owner, char text[OWNER_TEXT_MAX])
{
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct status_header header;

	text[0] = 0;
	if (fd < 0)
		return text;
	if (pread(fd, &header, sizeof header, 0) == sizeof header && header.magic == STATUS_MAGIC &&
	    status_process_owner(&header) == owner)
		snprintf(text, OWNER_TEXT_MAX, " (pid %llu)", (unsigned long long)header.pid);
	close(fd);
	return text;
}

/* So many that nobody can take them all. */
static int name_take_another(struct status *status, const char *instance, char other[INSTANCE_SIZE])
{
	int error = -EEXIST;

	for (int tries = 0; error == -EEXIST && tries < TRIES; tries++) {
		snprintf(other, INSTANCE_SIZE, "%.*s-%08x", INSTANCE_SIZE - 10, instance, randombytes_random());
		error = name_take(status, other);
	}
	return error;
}

/*
 * The name is a file's in a directory where everybody may make one. This user's and root's broker keeps the name; who
 * else has it does not keep this one from starting.
 */
static int name_taken(struct status *status, char instance[INSTANCE_SIZE])
{
	char path[96], pid[OWNER_TEXT_MAX], other[INSTANCE_SIZE];
	struct stat st;
	int error;

	snprintf(path, sizeof path, SHM_DIR "%s", status->name);
	if (lstat(path, &st)) /* not any more */
		return name_take(status, instance) ? -EAGAIN : 0;
	owner_text(path, st.st_uid, pid);
	if (st.st_uid == geteuid())
		return error_set(-EEXIST, "a broker named '%s' runs already%s: choose another name", instance, pid);
	if (!st.st_uid)
		return error_set(-EEXIST, "the name '%s' is taken: %s belongs to root%s; choose another name", instance, path,
				 pid);
	error = name_take_another(status, instance, other);
	if (error)
		return error;
	log_say("%s belongs to uid %u%s: this broker is named '%s' instead; to have '%s', remove that file as root and start "
		"again",
		path, st.st_uid, pid, other, instance);
	strcpy(instance, other);
	return 0;
}

int status_open(struct status *status, char instance[INSTANCE_SIZE])
{
	int error;

	memset(status, 0, sizeof *status);
	error = name_take(status, instance);
	if (error == -EEXIST)
		error = name_taken(status, instance);
	if (error == -EEXIST)
		return error;
	if (error)
		return error_set(error, "the status file /dev/shm%s cannot be made: %s", status->name,
				 strerror(-error));
	status->header = (struct status_header){ .magic = STATUS_MAGIC,
						 .format = STATUS_FORMAT,
						 .pid = (uint64_t)getpid(),
						 .start_time = status_process_start((uint64_t)getpid(), NULL) };
	/* the umask may have taken bits away */
	error = fchmod(status->fd, FILE_MODE) ? -errno : write_header(status, &status->header);
	if (error) {
		status_close(status);
		return error_set(error, "the status file cannot be written: %s", strerror(-error));
	}
	return 0;
}

void status_close(struct status *status)
{
	if (status->turn)
		event_free(status->turn);
	if (status->rest) {
		int clock = event_get_fd(status->rest);

		event_free(status->rest);
		close(clock);
	}
	leftovers_remove_instance(status->name + strlen(STATUS_PREFIX));
	shm_unlink(status->name);
	close(status->fd);
}

/* ---- the text ---- */

/* What no text needs is given back: all of the next one's place that is behind its end. */
static void place_trim(struct status *status)
{
	fallocate(status->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		  (off_t)(status->next.offset + status->next.length), (off_t)(STATUS_TEXT_MAX - status->next.length));
}

/* Beside the last text, never over it: a reader may be in the middle of that one. */
static void text_begin(struct status *status)
{
	status->next = status->header;
	status->next.offset = status->header.offset == TEXT_BEGIN ? TEXT_BEGIN + STATUS_TEXT_MAX : TEXT_BEGIN;
	status->next.length = 0;
	status->next.sequence++;
	crypto_generichash_init(&status->checksum, NULL, 0, sizeof status->next.checksum);
	status_text_begin(&status->text);
	status->writing = true;
	status->took_us = 0;
}

static int text_piece(struct broker *broker)
{
	struct status *status = broker->status;
	struct status_text *text = &status->text;
	int error;

	status_text_next(text, broker);
	if (status->next.length + text->length > STATUS_TEXT_MAX)
		return -EFBIG;
	error = write_all(status->fd, text->piece, text->length, status->next.offset + status->next.length);
	if (error)
		return error;
	crypto_generichash_update(&status->checksum, (const uint8_t *)text->piece, text->length);
	status->next.length += text->length;
	return 0;
}

static int text_show(struct status *status)
{
	int error;

	crypto_generichash_final(&status->checksum, status->next.checksum, sizeof status->next.checksum);
	error = write_header(status, &status->next);
	if (!error)
		status->header = status->next;
	return error;
}

static void text_end(struct status *status, int error)
{
	if (!error)
		error = text_show(status);
	if (error)
		status->next.length = 0;
	place_trim(status);
	CRASH_POINT(status_written);
	if (error && !status->complained)
		log_line("the status file is not up to date: %s; make room in /dev/shm", strerror(-error));
	status->complained = error != 0;
	status->writing = false;
}

static int64_t used_us(void)
{
	struct timespec now;

	/* what it took of the processor: on a busy machine the time that passes says nothing of the text */
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void status_write(struct broker *broker)
{
	struct status *status = broker->status;
	int64_t began = used_us();
	int error = text_piece(broker);

	if (error || status->text.whole)
		text_end(status, error);
	status->took_us += used_us() - began;
}

static void write_soon(struct status *status)
{
	static const struct timeval now = { 0 };

	evtimer_add(status->turn, &now);
}

/* However long the text, the loop is there for clients 19 parts of 20. */
static void rest(struct status *status)
{
	int64_t us = status->took_us * PART;
	struct itimerspec end = { 0 };

	us = us < PAUSE_US ? PAUSE_US : us > PAUSE_MAX_US ? PAUSE_MAX_US : us;
	end.it_value = (struct timespec){ .tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000 };
	status->resting = !timerfd_settime(event_get_fd(status->rest), 0, &end, NULL);
	if (!status->resting)
		write_soon(status);
}

static void on_turn(evutil_socket_t fd, short what, void *argument)
{
	struct broker *broker = argument;
	struct status *status = broker->status;

	(void)fd;
	(void)what;
	if (!status->writing) {
		if (!status->pending)
			return;
		status->pending = false;
		CRASH_POINT(status_begin);
		text_begin(status);
	}
	status_write(broker);
	/* one more look after the pause: changes until then are gathered, and an idle broker sleeps */
	if (status->writing)
		write_soon(status);
	else
		rest(status);
}

static void on_rest_over(evutil_socket_t fd, short what, void *argument)
{
	struct broker *broker = argument;
	uint64_t times;

	if (read(fd, &times, sizeof times) < 0)
		return; /* not yet */
	broker->status->resting = false;
	on_turn(fd, what, argument);
}

static int timers_make(struct broker *broker)
{
	struct status *status = broker->status;
	int clock = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);

	if (clock < 0)
		return error_set(-errno, "no descriptor is left for the broker's timer: %m");
	status->turn = evtimer_new(broker->base, on_turn, broker);
	status->rest = event_new(broker->base, clock, EV_READ | EV_PERSIST, on_rest_over, broker);
	if (status->turn && status->rest && !event_add(status->rest, NULL))
		return 0;
	if (!status->rest)
		close(clock); /* else status_close() does */
	return error_set(-ENOMEM, "the broker is out of memory");
}

int status_start(struct broker *broker)
{
	int error = timers_make(broker);

	if (error)
		return error;
	broker->status->pending = true;
	do /* nobody waits yet */
		on_turn(-1, 0, broker);
	while (broker->status->writing);
	return 0;
}

/* The first change after a quiet time is written at the loop's next turn, the rest gathered. */
void status_changed(struct broker *broker)
{
	struct status *status = broker->status;

	if (!status->rest || status->pending)
		return;
	status->pending = true;
	if (!status->resting && !evtimer_pending(status->turn, NULL))
		write_soon(status);
}

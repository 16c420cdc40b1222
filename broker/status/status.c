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
#include <unistd.h>

#include <event2/event.h>
#include <sodium.h>

#include "broker/base/log.h"
#include "broker/base/process-start.h"
#include "common/error.h"
#include "leftovers.h"
#include "ring.h"

#define FILE_MODE 0640 /* the owner writes; the group, which brokerd.conf may set, reads */

#define TRIES          10 /* largest number of attempts to get a name */
#define OWNER_TEXT_MAX 32

uid_t status_process_owner(const struct status_header *header)
{
	char path[40];
	struct stat st;

	snprintf(path, sizeof path, "/proc/%llu", (unsigned long long)header->pid);
	if (process_start(header->pid, NULL) != header->start_time || stat(path, &st))
		return (uid_t)-1;
	return st.st_uid;
}

/* ---- the file ---- */

/*
 * Makes and locks a file without a name. Returns its descriptor and sets *own, or returns -EOPNOTSUPP if that fails,
 * such as where the system cannot make such files.
 */
static int unnamed_open(struct stat *own)
{
	int fd = open(SHM_DIR, O_TMPFILE | O_RDWR | O_CLOEXEC, FILE_MODE);

	if (fd < 0)
		return -EOPNOTSUPP;
	if (!leftovers_lock(fd) && !fstat(fd, own))
		return fd;
	close(fd);
	return -EOPNOTSUPP;
}

bool status_is_named(const struct status *status)
{
	char path[64];

	snprintf(path, sizeof path, SHM_DIR "%s", status->name);
	return leftovers_leads_to(path, &status->own);
}

static int file_link(const struct status *status)
{
	char own[40], path[64];

	snprintf(own, sizeof own, "/proc/self/fd/%d", status->file.fd);
	snprintf(path, sizeof path, SHM_DIR "%s", status->name);
	if (!linkat(AT_FDCWD, own, AT_FDCWD, path, AT_SYMLINK_FOLLOW))
		return 0;
	return errno == EEXIST ? -EEXIST : -EOPNOTSUPP;
}

static int file_create_locked(struct status *status)
{
	int error;

	status->file.fd = unnamed_open(&status->own);
	if (status->file.fd < 0)
		return status->file.fd;
	error = file_link(status);
	if (error)
		close(status->file.fd);
	return error;
}

static int file_create_named(struct status *status)
{
	status->file.fd = shm_open(status->name, O_RDWR | O_CREAT | O_EXCL, FILE_MODE);
	if (status->file.fd < 0)
		return -errno;
	/* another broker's leftovers_remove() may have removed the file before it was locked */
	if (leftovers_lock(status->file.fd) || fstat(status->file.fd, &status->own) || !status_is_named(status)) {
		close(status->file.fd);
		return -EAGAIN;
	}
	return 0;
}

static int file_create(struct status *status)
{
	int error = file_create_locked(status);

	return error == -EOPNOTSUPP ? file_create_named(status) : error;
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

/* Writes " (pid N)" to text if the header of the file names a living process of `owner`, else "". Returns text. */
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

/*
 * Takes another name: `instance` with a random suffix. There are too many such names for another user to take them all.
 */
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
 * Handles a name that another file has. If the file is this user's or root's, returns -EEXIST with the error message
 * set. If the file is another user's, who may have made it to block this broker, takes another name and changes
 * `instance`. If the file is gone, tries the name once more, and returns -EAGAIN without an error message if that
 * fails.
 */
static int name_taken(struct status *status, char instance[INSTANCE_SIZE])
{
	char path[96], pid[OWNER_TEXT_MAX], other[INSTANCE_SIZE];
	struct stat st;
	int error;

	snprintf(path, sizeof path, SHM_DIR "%s", status->name);
	if (lstat(path, &st)) /* the file was removed meanwhile */
		return name_take(status, instance) ? -EAGAIN : 0;
	owner_text(path, st.st_uid, pid);
	if (st.st_uid == geteuid())
		return error_set(-EEXIST, "a broker named '%s' runs already%s: choose another name", instance, pid);
	if (!st.st_uid)
		return error_set(-EEXIST, "the name '%s' is taken: %s belongs to root%s; choose another name", instance,
				 path, pid);
	error = name_take_another(status, instance, other);
	if (error)
		return error;
	log_say("%s belongs to uid %u%s: this broker is named '%s' instead; to have '%s', remove that file as root and "
		"start again",
		path, st.st_uid, pid, other, instance);
	strcpy(instance, other);
	return 0;
}

/* Gives the new file the group of the former file, `before`, and FILE_MODE. */
static void share_as(const struct status *status, int before)
{
	struct stat st;

	if (!fstat(before, &st))
		(void)!fchown(status->file.fd, (uid_t)-1, st.st_gid);
	fchmod(status->file.fd, FILE_MODE);
}

static int cannot_be_made_again(const struct status *status, int error)
{
	if (error == -EEXIST)
		return error_set(error, "the status file " SHM_DIR "%s was removed, and another file has its name: "
					"broker-status does not show this broker; remove that file, or end the broker "
					"whose file it is", status->name);
	return error_set(error, "the status file " SHM_DIR "%s was removed, and cannot be made again: %s", status->name,
			 strerror(-error));
}

/* Reserves room for header and ring in the new file. If there is none, closes and removes the file. */
static int room_make(const struct status *status)
{
	/* mapped_file_reserve() rounds up */
	int error = posix_fallocate(status->file.fd, 0, STATUS_HEADER_SIZE + MAPPED_FILE_STEP);

	if (!error)
		return 0;
	if (status_is_named(status))
		shm_unlink(status->name);
	close(status->file.fd);
	return -error;
}

int status_open_again(struct status *status)
{
	struct stat own = status->own;
	int before = status->file.fd, error = 0;

	status->file.fd = unnamed_open(&status->own);
	if (status->file.fd < 0)
		error = file_create_named(status);
	if (!error)
		error = room_make(status);
	if (!error) {
		share_as(status, before);
		return before;
	}
	status->file.fd = before;
	status->own = own;
	return cannot_be_made_again(status, error);
}

int status_name_again(const struct status *status)
{
	int error = status_is_named(status) ? 0 : file_link(status);

	return error ? cannot_be_made_again(status, error) : 0;
}

/* ---- the header, before status_start() ---- */

static void process_is(struct status *status, pid_t pid)
{
	status->header.pid = (uint64_t)pid;
	status->header.start_time = process_start((uint64_t)pid, NULL);
}

static void header_begin(struct status *status)
{
	status->header = (struct status_header){ .magic = STATUS_MAGIC,
						 .format = STATUS_FORMAT,
						 .counters_count = sizeof(struct counters) / sizeof(uint64_t) };
	process_is(status, getpid());
}

/*
 * Writes the header to a new file. It is not sealed, because the broker does not serve yet. The last broker's stays in
 * its file.
 */
static void header_show(struct status *status)
{
	if (!status->taken_over)
		memcpy(status->file.bytes, &status->header, sizeof status->header);
}

void status_set_process(struct status *status, pid_t pid)
{
	process_is(status, pid);
	header_show(status);
}

/* ---- the file of the broker before this one ---- */

static int not_taken(int error, const char *why)
{
	return error_set(error, "the status file of the last broker cannot be taken over: %s", why);
}

/* Checks that the descriptor is of a status file with the lock, which this broker can write and describe. */
static int last_check(struct status *status, int fd)
{
	struct status_header header;

	if (fstat(fd, &status->own))
		return not_taken(-errno, strerror(errno));
	if (!leftovers_is_own(&status->own) || pread(fd, &header, sizeof header, 0) != sizeof header ||
	    header.magic != STATUS_MAGIC || header.format != STATUS_FORMAT)
		return not_taken(-EBADMSG, "it is no status file of this release");
	return leftovers_lock(fd) ? not_taken(-EBUSY, "another process has its lock") : 0;
}

/* Copies what `count` bytes at `offset` of the file are, or are to become, if the last write was not finished. */
static bool last_read(int fd, uint64_t offset, void *bytes, size_t count)
{
	struct status_copy copy;

	if (pread(fd, &copy, sizeof copy, STATUS_COPY) == sizeof copy && copy.offset == offset) {
		memcpy(bytes, copy.bytes, count);
		return true;
	}
	return pread(fd, bytes, count, (off_t)offset) == (ssize_t)count;
}

/* Goes on with the sequence of writes, and with what is shown of owners. Both are for readers alone. */
static void last_go_on(struct status *status)
{
	union status_record record;
	struct status_header header;

	if (last_read(status->file.fd, 0, &header, sizeof header) &&
	    status_is_whole(&header.seal, STATUS_HEADER_SEALED))
		status->sequence = header.seal.sequence;
	if (last_read(status->file.fd, STATUS_OFFSET(STATUS_ADDRESS_SLOT), &record, sizeof record) &&
	    record.type == TRACKED_ADDRESS && record.first.owner.type == TRACKED_OWNER &&
	    status_is_whole(&record.first.owner.seal, sizeof record.first.owner))
		status->owner_now = record.first.owner;
	ring_go_on(&status->ring, &status->file);
}

int status_reopen(struct status *status, int fd, const char *instance)
{
	int error;

	memset(status, 0, sizeof *status);
	snprintf(status->name, sizeof status->name, STATUS_PREFIX "%s", instance);
	error = last_check(status, fd);
	if (error)
		return error;
	status->file.fd = fd;
	status->taken_over = true;
	error = mapped_file_reserve(&status->file, STATUS_HEADER_SIZE);
	if (error)
		return not_taken(error, strerror(-error));
	header_begin(status);
	last_go_on(status);
	return !status_is_named(status);
}

/* ---- begin and end ---- */

int status_open(struct status *status, char instance[INSTANCE_SIZE])
{
	int error, before;

	memset(status, 0, sizeof *status);
	snprintf(status->name, sizeof status->name, STATUS_PREFIX "%s", instance);
	before = ring_predecessor_open(status->name);
	error = name_take(status, instance);
	if (error == -EEXIST)
		error = name_taken(status, instance);
	if (error && before >= 0)
		close(before);
	if (error == -EEXIST)
		return error;
	if (error)
		return error_set(error, "the status file /dev/shm%s cannot be made: %s", status->name,
				 strerror(-error));
	header_begin(status);
	/* the umask may have removed bits of the mode */
	error = fchmod(status->file.fd, FILE_MODE) ? -errno : mapped_file_reserve(&status->file, STATUS_HEADER_SIZE);
	if (error) {
		if (before >= 0)
			close(before);
		status_close(status);
		return error_set(error, "the status file cannot be written: %s", strerror(-error));
	}
	header_show(status);
	if (before >= 0)
		ring_inherit(&status->ring, &status->file, before);
	return 0;
}

void status_keep_events(struct status *status)
{
	status->header.keeps_events = 1;
	header_show(status);
}

void status_set_job(struct status *status, const char *launcher, const char *id)
{
	snprintf(status->launcher, sizeof status->launcher, "%s", launcher);
	snprintf(status->job_id, sizeof status->job_id, "%s", id);
}

void status_close(struct status *status)
{
	bool is_shown = status->started || !status->taken_over;

	if (is_shown)
		leftovers_remove_instance(status->name + strlen(STATUS_PREFIX));
	if (is_shown && (status->started || !status->ring.has_inherited) && status_is_named(status))
		shm_unlink(status->name);
	if (status->retry)
		event_free(status->retry);
	mapped_file_reset(&status->file);
	close(status->file.fd);
	tracking_deinit(&status->tracking);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* read.c - see read.h */
#include "read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "broker/base/process-start.h"
#include "broker/status/leftovers.h"
#include "broker/status/status.h"
#include "common/size.h"
#include "records.h"

#define TRIES     20  /* largest number of attempts to read a header or record that the broker may be writing */
#define TORN_MAX  128 /* largest number of records that are read again; a broker writes fewer at a time */
#define CHUNK     256 /* number of records that one pread(2) reads */

static void nap(void)
{
	static const struct timespec pause = { .tv_nsec = 5000000 };

	nanosleep(&pause, NULL);
}

/* Returns -EBADMSG with the error message that the file is no status file, and why. */
static int file_error(const char *instance, const char *why)
{
	return error_set(-EBADMSG, SHM_DIR STATUS_PREFIX "%s is no status file of a broker: %s", instance, why);
}

/* ---- the header ---- */

/* Limits the size of the records, because a file's owner may claim any size to make the reader run out of memory. */
static int length_check(const char *instance, const struct status_header *header, uid_t owner)
{
	char length[SIZE_TEXT_MAX];

	if (header->records > STATUS_RECORDS_MAX)
		return file_error(instance, "it has more records than any broker's");
	if (header->records * STATUS_RECORD_SIZE <= SHOW_OTHERS_MAX || !owner || owner == geteuid())
		return 0;
	return error_set(-EFBIG,
			 SHM_DIR STATUS_PREFIX
			 "%s has %s of records, and of another user's %u MiB are read at most: ask as user %u",
			 instance, size_format(header->records * STATUS_RECORD_SIZE, length), SHOW_OTHERS_MAX >> 20,
			 owner);
}

/*
 * Returns 0 if the header can be used; -EAGAIN, without an error message, if the header is not whole now; or another
 * negative errno with the error message set.
 */
static int header_check(const char *instance, const struct status_header *header, uid_t owner)
{
	if (header->magic != STATUS_MAGIC)
		return file_error(instance, "its first bytes are not a status file's");
	if (!status_format_is_known(header->format) ||
	    header->counters_count != sizeof header->counters / sizeof(uint64_t))
		return error_set(-EBADMSG,
				 "the broker '%s' writes status format %u.%u, and this broker-status reads %d.%zu: use "
				 "the one that came with the broker",
				 instance, header->format, header->counters_count, STATUS_FORMAT,
				 sizeof header->counters / sizeof(uint64_t));
	if (!status_is_whole(&header->seal, STATUS_HEADER_SEALED))
		return -EAGAIN;
	return length_check(instance, header, owner);
}

/*
 * Sets bytes to the header or record at `offset`, as the file's copy has it: the copy has what the broker wrote last,
 * or was writing when it was killed. Returns false if the copy is of something else.
 */
static bool read_copy(int fd, uint64_t offset, void *bytes, size_t size)
{
	struct status_copy copy;
	uint64_t again;

	if (pread(fd, &copy, sizeof copy, STATUS_COPY) != sizeof copy || copy.offset != offset ||
	    pread(fd, &again, sizeof again, STATUS_COPY) != sizeof again || again != offset)
		return false;
	memcpy(bytes, copy.bytes, size);
	return true;
}

/* Reads the header, or its copy if only the copy is whole. Returns false if the file is too short. */
static bool read_whole_header(int fd, struct status_header *header)
{
	struct status_header copy;

	if (pread(fd, header, sizeof *header, 0) != sizeof *header)
		return false;
	if (!status_is_whole(&header->seal, STATUS_HEADER_SEALED) && read_copy(fd, 0, &copy, sizeof copy) &&
	    status_is_whole(&copy.seal, STATUS_HEADER_SEALED))
		*header = copy;
	return true;
}

static int read_header(struct shown *shown, int fd)
{
	struct status_header *header = &shown->header;
	int error = -EAGAIN;

	for (int tries = 0; error == -EAGAIN && tries < TRIES; tries++) {
		if (tries)
			nap();
		if (read_whole_header(fd, header))
			error = header_check(shown->instance, header, shown->owner);
	}
	header->instance[sizeof header->instance - 1] = header->device_kind[sizeof header->device_kind - 1] = 0;
	if (error == -EAGAIN)
		return error_set(error, SHM_DIR STATUS_PREFIX "%s holds no whole status: its broker is only starting, "
							      "or the file is damaged",
				 shown->instance);
	return error;
}

/* ---- the records ---- */

struct reading {
	int                  fd;
	union status_record *records;         /* array of the whole records */
	size_t               count, room;     /* number of records; entries that the array has memory for */
	size_t               torn;            /* number of records that were not whole */
	uint32_t             slots[TORN_MAX]; /* slots of the first TORN_MAX records that were not whole */
};

#define BEHIND_MAX 2

/* Stores what stands behind the record. Returns how many that are. */
static unsigned get_behind(const union status_record *record, union status_record behind[BEHIND_MAX])
{
	unsigned count = 0;

	if (record->type == TRACKED_ADDRESS && record->first.owner.type == TRACKED_OWNER)
		behind[count++] = (union status_record){ .owner = record->first.owner };
	if (record->type == TRACKED_DEVICE && record->second.broker.type == TRACKED_BROKER)
		behind[count++] = (union status_record){ .broker = record->second.broker };
	if (record->type == TRACKED_DEVICE && record->second.program.type == TRACKED_PROGRAM)
		behind[count++] = (union status_record){ .program = record->second.program };
	return count;
}

static bool is_good(const union status_record *record)
{
	union status_record behind[BEHIND_MAX];
	bool good = record_is_good(record);

	for (unsigned i = get_behind(record, behind); i-- && good;)
		good = record_is_good(&behind[i]);
	return good;
}

static int reading_add(struct reading *reading, const union status_record *record)
{
	size_t room = reading->room ? 2 * reading->room : 64;
	union status_record *records;

	if (reading->count == reading->room) {
		records = reallocarray(reading->records, room, sizeof *records);
		if (!records)
			return error_set(-ENOMEM, "out of memory");
		reading->records = records;
		reading->room = room;
	}
	reading->records[reading->count++] = *record;
	return 0;
}

/* Adds the record, and what stands behind it. */
static int reading_add_all(struct reading *reading, const union status_record *record)
{
	union status_record behind[BEHIND_MAX];
	unsigned count = get_behind(record, behind);
	int error = reading_add(reading, record);

	for (unsigned i = 0; i < count && !error; i++)
		error = reading_add(reading, &behind[i]);
	return error;
}

static int reading_take(struct reading *reading, union status_record *record, uint64_t slot)
{
	if (record->seal.checksum && !is_good(record) && reading->torn < TORN_MAX)
		read_copy(reading->fd, STATUS_OFFSET(slot), record, sizeof *record);
	if (!record->seal.checksum)
		return 0;
	if (is_good(record))
		return reading_add_all(reading, record);
	if (reading->torn < TORN_MAX)
		reading->slots[reading->torn] = (uint32_t)slot;
	reading->torn++;
	return 0;
}

/* Reads `count` slots from `first` on. If the file is too short, the missing records count as not whole. */
static int read_chunk(struct reading *reading, uint64_t first, uint64_t count)
{
	union status_record records[CHUNK];
	ssize_t got = pread(reading->fd, records, count * sizeof *records, (off_t)STATUS_OFFSET(first));
	size_t whole = got > 0 ? (size_t)got / sizeof *records : 0;
	int error = 0;

	for (uint64_t i = 0; i < count && !error; i++) {
		if (i >= whole)
			records[i] = (union status_record){ .seal.checksum = 1 };
		error = reading_take(reading, &records[i], first + i);
	}
	return error;
}

/* Reads those records again, a few times, that were not whole, because the broker may have been writing them. */
static int read_torn(struct reading *reading)
{
	int error = 0;

	for (int tries = 1; reading->torn && reading->torn <= TORN_MAX && tries < TRIES && !error; tries++) {
		size_t torn = reading->torn;

		nap();
		reading->torn = 0;
		for (size_t i = 0; i < torn && !error; i++)
			error = read_chunk(reading, reading->slots[i], 1);
	}
	return error;
}

static int read_records(struct shown *shown, int fd)
{
	struct reading reading = { .fd = fd };
	int error = 0;

	for (uint64_t slot = 0; slot < shown->header.records && !error; slot += CHUNK)
		error = read_chunk(&reading, slot,
				   shown->header.records - slot < CHUNK ? shown->header.records - slot : CHUNK);
	if (!error)
		error = read_torn(&reading);
	if (!error) {
		shown->text = records_json(&shown->header, reading.records, reading.count);
		shown->unreadable = reading.torn;
		if (!shown->text)
			error = error_set(-ENOMEM, "out of memory");
	}
	if (error) {
		free(reading.records);
		return error;
	}
	shown->records = reading.records;
	shown->count = reading.count;
	return 0;
}

/* ---- whose it is, and how its broker does ---- */

/*
 * Returns the state of the broker: running, stopped or dead. Only the lock shows that the broker is alive, because its
 * pid may not be valid in this pid namespace.
 */
static enum shown_state state_of(const struct shown *shown, int fd)
{
	char letter;

	if (!status_file_is_held(fd))
		return SHOWN_DEAD;
	if (process_start(shown->header.pid, NULL) != shown->header.start_time ||
	    !process_start(shown_process(shown), &letter))
		return SHOWN_RUNNING;
	return letter == 'T' || letter == 't' ? SHOWN_STOPPED : SHOWN_RUNNING;
}

static bool owner_trusted(const struct stat *st, const struct status_header *header)
{
	if (st->st_mode & (S_IWGRP | S_IWOTH))
		return false;
	return st->st_uid == 0 || st->st_uid == geteuid() || st->st_uid == status_process_owner(header);
}

static int read_all(struct shown *shown, const char *instance, int fd, struct stat *st)
{
	int error;

	snprintf(shown->instance, sizeof shown->instance, "%s", instance);
	if (fstat(fd, st) || !S_ISREG(st->st_mode))
		return file_error(instance, "it is not a plain file");
	shown->owner = st->st_uid;
	error = read_header(shown, fd);
	return error ? error : read_records(shown, fd);
}

int shown_read_fd(struct shown *shown, const char *instance, int fd)
{
	struct shown made = { .state = SHOWN_DEAD };
	struct stat st;
	int error = read_all(&made, instance, fd, &st);

	if (error)
		return error;
	made.state = state_of(&made, fd);
	made.trusted = owner_trusted(&st, &made.header);
	*shown = made;
	return 0;
}

int shown_read_answer(struct shown *shown, const char *instance, int fd)
{
	struct shown made = { .state = SHOWN_RUNNING, .trusted = true };
	struct stat st;
	int error = read_all(&made, instance, fd, &st);

	if (!error)
		*shown = made;
	return error;
}

static int open_error(const char *instance, int error)
{
	switch (-error) {
	case ENOENT:
		return error_set(error, "there is no broker '%s': broker-status --list shows those there are",
				 instance);
	case EACCES:
		return error_set(error, "the status of the broker '%s' is not for you: ask as its user, one of its "
					"group, or root",
				 instance);
	case ELOOP:
		return file_error(instance, "it is a symbolic link");
	default:
		return error_set(error, SHM_DIR STATUS_PREFIX "%s cannot be opened: %s", instance, strerror(-error));
	}
}

const char *shown_address(const struct shown *shown)
{
	for (size_t i = 0; i < shown->count; i++)
		if (shown->records[i].type == TRACKED_ADDRESS && shown->records[i].address.address[0])
			return shown->records[i].address.address;
	return NULL;
}

static const union status_record *only_one(const struct shown *shown, enum tracked_type type)
{
	for (size_t i = 0; i < shown->count; i++)
		if (shown->records[i].type == type)
			return &shown->records[i];
	return NULL;
}

const struct status_owner *shown_owner(const struct shown *shown)
{
	const union status_record *record = only_one(shown, TRACKED_OWNER);

	return record ? &record->owner : NULL;
}

const struct status_broker *shown_broker(const struct shown *shown)
{
	const union status_record *record = only_one(shown, TRACKED_BROKER);

	return record ? &record->broker : NULL;
}

const char *shown_version(const struct shown *shown)
{
	const union status_record *record = only_one(shown, TRACKED_PROGRAM);

	return record ? record->program.version : NULL;
}

uint64_t shown_process(const struct shown *shown)
{
	const struct status_broker *broker = shown_broker(shown);

	return broker ? broker->pid : shown->header.pid;
}

int shown_open(const char *instance)
{
	int fd = status_file_open(instance);

	return fd < 0 ? open_error(instance, fd) : fd;
}

bool shown_file_is_trusted(int fd)
{
	struct status_header header;
	struct stat st;

	return !fstat(fd, &st) && pread(fd, &header, sizeof header, 0) == sizeof header && owner_trusted(&st, &header);
}

int shown_read(struct shown *shown, const char *instance)
{
	int error, fd = shown_open(instance);

	if (fd < 0)
		return fd;
	error = shown_read_fd(shown, instance, fd);
	close(fd);
	return error;
}

void shown_refused(struct shown *shown, const char *instance)
{
	*shown = (struct shown){ .state = SHOWN_UNREADABLE };
	snprintf(shown->instance, sizeof shown->instance, "%s", instance);
	snprintf(shown->why, sizeof shown->why, "%s", error_text());
}

const char *shown_state_name(enum shown_state state)
{
	static const char *const names[] = { "running", "stopped", "dead", "unreadable" };

	return names[state];
}

uint64_t shown_age(const struct shown *shown)
{
	uint64_t now = (uint64_t)time(NULL);

	return now > shown->header.updated ? now - shown->header.updated : 0;
}

void shown_free(struct shown *shown)
{
	json_decref(shown->text);
	free(shown->records);
	shown->text = NULL;
	shown->records = NULL;
}

/* ---- which there are ---- */

int instances_add(struct instances *instances, const char *instance)
{
	char(*grown)[INSTANCE_SIZE] = reallocarray(instances->names, instances->count + 1, sizeof *grown);

	if (!grown)
		return error_set(-ENOMEM, "out of memory");
	instances->names = grown;
	strcpy(grown[instances->count++], instance);
	return 0;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(a, b);
}

bool instance_is_there(const char *text)
{
	char path[sizeof SHM_DIR + sizeof STATUS_PREFIX + INSTANCE_SIZE];
	struct stat st;

	if (instance_check(text))
		return false;
	snprintf(path, sizeof path, SHM_DIR STATUS_PREFIX "%s", text);
	return !lstat(path, &st);
}

struct found {
	struct instances *instances;
	int               error;
};

static void add_found(const char *instance, void *context)
{
	struct found *found = context;

	if (!found->error)
		found->error = instances_add(found->instances, instance);
}

int instances_find(struct instances *instances)
{
	struct found found = { instances, 0 };
	int error;

	*instances = (struct instances){ 0 };
	error = status_files_each(add_found, &found);
	if (error)
		return error_set(error, SHM_DIR ", where brokers leave their status, cannot be read: %s",
				 strerror(-error));
	if (found.error)
		instances_free(instances);
	else if (instances->count)
		qsort(instances->names, instances->count, sizeof *instances->names, compare_names);
	return found.error;
}

void instances_free(struct instances *instances)
{
	free(instances->names);
	*instances = (struct instances){ 0 };
}

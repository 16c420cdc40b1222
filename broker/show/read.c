/* SPDX-License-Identifier: Apache-2.0 */
/* read.c - see read.h */
#include "read.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "broker/status/leftovers.h"
#include "broker/status/status.h"
#include "common/size.h"

#define SHM_DIR "/dev/shm" /* where Linux keeps POSIX shared memory: shm_overview(7) */
#define TRIES   20         /* for a whole text: its broker may write the next ones meanwhile */

/* Memory that a text's values may take: a broker's take about 9 bytes for each of its own, "[{},{},..." 90. */
#define VALUES_FACTOR 16
#define VALUES_MIN    (1u << 20)

/* ---- one whole text ---- */

static int refuse(const char *instance, const char *why)
{
	return error_set(-EBADMSG, SHM_DIR STATUS_PREFIX "%s is no status file of a broker: %s", instance, why);
}

/* The header is the word of the file's owner, who may want its reader to run out of memory. */
static int length_check(const char *instance, const struct status_header *header, uid_t owner)
{
	char length[SIZE_TEXT_MAX];

	if (header->length > SHOW_TEXT_MAX)
		return refuse(instance, "its text is longer than any broker's");
	if (header->length <= SHOW_OTHERS_MAX || !owner || owner == geteuid())
		return 0;
	return error_set(-EFBIG, SHM_DIR STATUS_PREFIX "%s has a text of %s, and of another user's %u MiB are read at most: "
						       "ask as user %u",
			 instance, size_format(header->length, length), SHOW_OTHERS_MAX >> 20, owner);
}

static int header_check(const char *instance, const struct status_header *header, uid_t owner)
{
	if (header->magic != STATUS_MAGIC)
		return refuse(instance, "its first bytes are not a status file's");
	if (header->format != STATUS_FORMAT)
		return error_set(-EBADMSG, "the broker '%s' writes status format %u, and this broker-status reads %d: "
					   "use the one that came with the broker",
				 instance, header->format, STATUS_FORMAT);
	if (header->offset > INT64_MAX - SHOW_TEXT_MAX)
		return refuse(instance, "its text lies beyond every file's end");
	return length_check(instance, header, owner);
}

static bool text_whole(const struct status_header *header, const char *text)
{
	uint8_t checksum[sizeof header->checksum];

	crypto_generichash(checksum, sizeof checksum, (const uint8_t *)text, header->length, NULL, 0);
	return !memcmp(checksum, header->checksum, sizeof checksum);
}

/* -EAGAIN, without a sentence: header and text do not belong together, now. */
static int read_once(struct shown *shown, int fd, char **text)
{
	struct status_header *header = &shown->header;
	int error;

	if (pread(fd, header, sizeof *header, 0) != sizeof *header)
		return -EAGAIN;
	error = header_check(shown->instance, header, shown->owner);
	if (error)
		return error;
	*text = malloc(header->length + 1);
	if (!*text)
		return error_set(-ENOMEM, "out of memory");
	if (header->length && pread(fd, *text, header->length, (off_t)header->offset) == (ssize_t)header->length &&
	    text_whole(header, *text))
		return 0;
	free(*text);
	return -EAGAIN;
}

static int read_whole(struct shown *shown, int fd, char **text)
{
	static const struct timespec nap = { .tv_nsec = 5000000 };
	int error = -EAGAIN;

	for (int tries = 0; error == -EAGAIN && tries < TRIES; tries++) {
		if (tries)
			nanosleep(&nap, NULL);
		error = read_once(shown, fd, text);
	}
	if (error == -EAGAIN)
		return error_set(error, SHM_DIR STATUS_PREFIX "%s holds no whole status: its broker is only starting, "
							      "or the file is damaged",
				 shown->instance);
	return error;
}

/* What jansson may still allocate on this thread. What it frees is not given back: a text's values grow. */
static _Thread_local size_t values_left = SIZE_MAX;

static void *values_allocate(size_t size)
{
	if (size > values_left)
		return NULL;
	values_left -= size;
	return malloc(size);
}

/* NULL: it is not JSON, or takes more memory than a broker's text does. */
static json_t *values_of(const char *text, size_t length)
{
	json_error_t where;
	json_t *values;

	json_set_alloc_funcs(values_allocate, free);
	values_left = VALUES_MIN + VALUES_FACTOR * length;
	values = json_loadb(text, length, 0, &where);
	values_left = SIZE_MAX;
	return values;
}

static int read_text(struct shown *shown, int fd)
{
	char *text = NULL;
	int error = read_whole(shown, fd, &text);

	if (error)
		return error;
	shown->text = values_of(text, shown->header.length);
	free(text);
	if (json_is_object(shown->text))
		return 0;
	json_decref(shown->text);
	return refuse(shown->instance, "its text is not a JSON object such as a broker's");
}

/* ---- whose it is, and how its broker does ---- */

/* A broker holds the lock until it is gone, wherever it runs; its pid may mean nothing in this pid namespace. */
static enum shown_state state_of(const struct status_header *header, int fd)
{
	char letter;

	if (!leftovers_locked(fd))
		return SHOWN_DEAD;
	if (status_process_start(header->pid, &letter) != header->start_time)
		return SHOWN_RUNNING;
	return letter == 'T' || letter == 't' ? SHOWN_STOPPED : SHOWN_RUNNING;
}

static bool owner_trusted(const struct stat *st, const struct status_header *header)
{
	if (st->st_mode & (S_IWGRP | S_IWOTH))
		return false;
	return st->st_uid == 0 || st->st_uid == geteuid() || st->st_uid == status_process_owner(header);
}

int shown_read_fd(struct shown *shown, const char *instance, int fd)
{
	struct shown made = { .state = SHOWN_DEAD };
	struct stat st;
	int error;

	snprintf(made.instance, sizeof made.instance, "%s", instance);
	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		return refuse(instance, "it is not a plain file");
	made.owner = st.st_uid;
	error = read_text(&made, fd);
	if (error)
		return error;
	made.state = state_of(&made.header, fd);
	made.trusted = owner_trusted(&st, &made.header);
	*shown = made;
	return 0;
}

static int open_error(const char *instance, int error)
{
	switch (-error) {
	case ENOENT:
		return error_set(error, "there is no broker '%s': broker-status --list shows those there are", instance);
	case EACCES:
		return error_set(error, "the status of the broker '%s' is not for you: ask as its user, one of its "
					"group, or root",
				 instance);
	case ELOOP:
		return refuse(instance, "it is a symbolic link");
	default:
		return error_set(error, SHM_DIR STATUS_PREFIX "%s cannot be opened: %s", instance, strerror(-error));
	}
}

int shown_read(struct shown *shown, const char *instance)
{
	char path[sizeof SHM_DIR + sizeof STATUS_PREFIX + INSTANCE_SIZE];
	int fd, error;

	snprintf(path, sizeof path, SHM_DIR STATUS_PREFIX "%s", instance);
	/* anybody may have put a link or a pipe there: neither is followed or waited for */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return open_error(instance, -errno);
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

void shown_free(struct shown *shown)
{
	json_decref(shown->text);
	shown->text = NULL;
}

/* ---- which there are ---- */

/* Only what could be an instance's name: the rest belongs to instances, or to somebody who plays. */
static const char *instance_of(const char *file)
{
	const char *instance = file + strlen(STATUS_PREFIX) - 1;

	if (strncmp(file, &STATUS_PREFIX[1], strlen(STATUS_PREFIX) - 1) || instance_check(instance))
		return NULL;
	return instance;
}

static int instances_add(struct instances *instances, const char *instance)
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

int instances_find(struct instances *instances)
{
	DIR *dir = opendir(SHM_DIR);
	struct dirent *entry;
	const char *instance;
	int error = 0;

	*instances = (struct instances){ 0 };
	if (!dir)
		return error_set(-errno, SHM_DIR ", where brokers leave their status, cannot be read: %m");
	while (!error && (entry = readdir(dir))) {
		instance = instance_of(entry->d_name);
		if (instance)
			error = instances_add(instances, instance);
	}
	closedir(dir);
	if (error)
		instances_free(instances);
	else if (instances->count)
		qsort(instances->names, instances->count, sizeof *instances->names, compare_names);
	return error;
}

void instances_free(struct instances *instances)
{
	free(instances->names);
	*instances = (struct instances){ 0 };
}

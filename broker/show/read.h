/* SPDX-License-Identifier: Apache-2.0 */
/*
 * read.h - brokers' status files, as broker-status finds and reads them.
 *
 * /dev/shm is open to everybody, so a status file is a claim of whoever owns it: its header and each record are copied once
 * and checked before use, and who owns the file is kept to be shown. What it costs is bounded: of a file that is neither root's
 * nor the caller's own SHOW_OTHERS_MAX bytes are read at most. Each record is as the broker wrote it, at some moment of the
 * reading; together they are no snapshot of a broker that goes on (records.h). Owns what it read, until shown_free(). Never maps a file (its owner could cut it short), never waits for its broker, never
 * writes or removes anything.
 */
#ifndef GPUB_SHOW_READ_H
#define GPUB_SHOW_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <jansson.h>

#include "common/error.h"
#include "common/name.h"
#include "broker/status/status.h"

#define SHOW_OTHERS_MAX (8u << 20) /* bytes of another user's records: some 30,000 buffers */

enum shown_state { SHOWN_RUNNING, SHOWN_STOPPED, SHOWN_DEAD, SHOWN_UNREADABLE };

struct shown {
	char                 instance[INSTANCE_SIZE];
	enum shown_state     state;
	uid_t                owner;   /* of the file */
	bool                 guarded; /* nobody but the file's owner and root may write it */
	bool                 trusted; /* nobody but root, the broker's own user and the caller could have written it */
	bool                 partial; /* the broker showed what this user may see: no counters, no number of requests that wait */
	struct status_header header;
	json_t              *text; /* what the records say: records.h */
	union status_record *records; /* those that are whole */
	size_t               count;
	size_t               unreadable; /* records that are not whole */
	char                 why[ERROR_TEXT_MAX]; /* UNREADABLE: the error message; only instance and state are set then */
};

/* "running", "stopped", "dead", "unreadable". */
const char *shown_state_name(enum shown_state state);

/*
 * Reads the status of that instance, a valid name. -ENOENT: there is no such broker; -EACCES; -EFBIG: another user's has
 * too many records; -EBADMSG: what stands there is not a status file; -EAGAIN: its header is not whole. The error message is set.
 * *shown untouched on failure.
 */
int shown_read(struct shown *shown, const char *instance);

/* The same from a descriptor; and from one of the caller's own, with what the broker answered just now. */
int shown_read_answer(struct shown *shown, const char *instance, int fd);
int shown_read_fd(struct shown *shown, const char *instance, int fd);

/* The status file of that instance, to be read; or negative errno with the error message. */
int shown_open(const char *instance);

/* Whether nobody but root, the broker's own user and the caller could have written that file. */
bool shown_file_is_trusted(int fd);

/* One that could not be read, for a list: takes the error message that stands. */
void shown_refused(struct shown *shown, const char *instance);

/* For how many seconds the status is what it is; 0 where the clock went back since. */
uint64_t shown_age(const struct shown *shown);

void shown_free(struct shown *shown);

/* Where the broker says that it listens, "unix:PATH"; NULL: nowhere. */
const char *shown_address(const struct shown *shown);

struct instances {
	char (*names)[INSTANCE_SIZE];
	size_t count;
};

/* Whether that text is the name of a broker that has a status file, readable or not. */
bool instance_is_there(const char *text);

/* Finds the instances that have a status file, in the order of their names. -ENOMEM or why /dev/shm cannot be read. */
int instances_find(struct instances *instances);
int instances_add(struct instances *instances, const char *instance); /* a valid name. -ENOMEM with the error message */
void instances_free(struct instances *instances);

#endif

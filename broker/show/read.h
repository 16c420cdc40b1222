/* SPDX-License-Identifier: Apache-2.0 */
/*
 * read.h - finds and reads brokers' status files, for broker-status, broker-ctl and broker-exporter.
 *
 * Any user may make a file in /dev/shm, so a status file is a claim of its owner. Header and records are copied once
 * and checked before use, and the owner is shown. The cost is limited: a file that belongs to neither root nor the
 * caller is refused if its records are larger than SHOW_OTHERS_MAX. The records are read one after the other while
 * the broker runs, so together they are not a snapshot (records.h). Owns the data that it has read, until
 * shown_free(). Never maps a file, because its owner could truncate it; never waits for a broker; never writes or
 * removes a file.
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

/* largest size of all records in another user's file, in bytes: some 30,000 buffers */
#define SHOW_OTHERS_MAX (8u << 20)

enum shown_state { SHOWN_RUNNING, SHOWN_STOPPED, SHOWN_DEAD, SHOWN_UNREADABLE };

/* The status of one broker. If state is SHOWN_UNREADABLE, only instance, state and why are set. */
struct shown {
	char                 instance[INSTANCE_SIZE];
	enum shown_state     state;
	uid_t                owner;   /* uid of the file's owner */
	/* true: only root, the broker's own user or the caller could have written the file */
	bool                 trusted;
	/* true: the status is from the broker, which left out counters and what this user may not see */
	bool                 partial;
	struct status_header header;
	json_t              *text;                /* header and records as a JSON object (records.h) */
	union status_record *records;             /* array of the records that were whole */
	size_t               count;               /* number of records in the array */
	size_t               unreadable;          /* number of records that were not whole */
	char                 why[ERROR_TEXT_MAX]; /* the error message, if state is SHOWN_UNREADABLE */
};

/* Returns "running", "stopped", "dead" or "unreadable". */
const char *shown_state_name(enum shown_state state);

/*
 * Reads the status file of an instance, whose name must be valid. Returns 0, or a negative errno with the error
 * message set and *shown unchanged: -ENOENT if there is no file, -EACCES, -EFBIG if another user's file is too large,
 * -EBADMSG if the file is not a status file that can be read, -EAGAIN if its header is not whole, -ENOMEM, or another
 * error of open(2).
 */
int shown_read(struct shown *shown, const char *instance);

/*
 * Reads a status that a running broker sent, which the caller has written to its own file. Returns as shown_read()
 * does.
 */
int shown_read_answer(struct shown *shown, const char *instance, int fd);

/* Reads the status file from a descriptor. Returns as shown_read() does. */
int shown_read_fd(struct shown *shown, const char *instance, int fd);

/* Opens a status file for reading. Returns the descriptor or a negative errno with the error message set. */
int shown_open(const char *instance);

/* Returns true if only root, the broker's own user or the caller could have written the file. */
bool shown_file_is_trusted(int fd);

/* Sets *shown to SHOWN_UNREADABLE with the thread's error message, for a list of brokers. */
void shown_refused(struct shown *shown, const char *instance);

/* Returns the seconds since the header was written; 0 if the system's clock was set back since. */
uint64_t shown_age(const struct shown *shown);

void shown_free(struct shown *shown);

/* Returns the address at which the broker listens, "unix:PATH", as its file says; NULL: none. */
const char *shown_address(const struct shown *shown);

/* Returns what the status says of the owner of the device memory; NULL: an older broker does not tell. */
const struct status_owner *shown_owner(const struct shown *shown);

/* Returns what is known of the broker's process, where another one follows it; NULL: the broker does not tell. */
const struct status_broker *shown_broker(const struct shown *shown);

/* Returns the version of the program that the broker's process runs; NULL: it does not tell. */
const char *shown_version(const struct shown *shown);

/* Returns the pid of the process that answers requests; header.pid may be that of the process that starts it. */
uint64_t shown_process(const struct shown *shown);

/* Names of brokers. */
struct instances {
	char (*names)[INSTANCE_SIZE];
	size_t count;
};

/* Returns true if the text is the name of a broker that has a status file, readable or not. */
bool instance_is_there(const char *text);

/* Finds all brokers with a status file, sorted by name. Returns 0 or a negative errno with the error message set. */
int instances_find(struct instances *instances);
int instances_add(struct instances *instances, const char *instance); /* appends a copy of a valid name; 0 or -ENOMEM */
void instances_free(struct instances *instances);

#endif

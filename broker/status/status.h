/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status.h - the status file: what people may see of a broker, in POSIX shared memory.
 *
 * "/gpubroker.<instance>", 0640 under any umask: a header and records (format.h). Owns the file and the lock that says that its
 * broker lives. A record is written when its object has changed, before the answer to the request that changed it is sent: work
 * is in proportion to the change, whatever else the broker holds (invariant 5), and only a timeline's record needs a system
 * call, which reads its page. Where the file cannot grow, the records stay marked, and the broker tries again ten times a second.
 * The ring of events is ring.c's. Never read back: nobody can hurt the broker through it (mapped-file.h).
 */
#ifndef GPUB_STATUS_H
#define GPUB_STATUS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "common/name.h"
#include "device/device.h"
#include "format.h"
#include "leftovers.h"
#include "mapped-file.h"
#include "ring.h"

struct broker;

struct status {
	struct mapped_file file;
	struct stat     own; /* of file.fd when it was made: tells whether the name leads to it where fstat() fails */
	char            name[sizeof(STATUS_PREFIX) + INSTANCE_SIZE];
	struct tracking tracking;
	struct tracked  device[DEVICE_MAX];
	struct tracked  address, job;
	uint64_t        spare[DEVICE_MAX][2]; /* bytes of each that are idle, and pooled, as they stand in its record */
	uint64_t        sequence; /* of the write under way */
	char            launcher[STATUS_LAUNCHER_SIZE], job_id[STATUS_JOB_SIZE]; /* of the record job; empty: there is none */
	bool            started;
	bool            complained;
	struct ring     ring;
	struct event   *retry; /* pending: the file could not grow, and is not tried until then; NULL where there is no memory */
	struct status_header header; /* as it stands in the file */
};

/*
 * Makes the file and takes its lock. -EEXIST: a broker of this user or of root has this instance's name, a living one
 * where leftovers_remove() ran before. Where a file of another user has it, the broker gets another name, which replaces
 * instance, and a line of the log says whose that file is.
 */
int status_open(struct status *status, char instance[INSTANCE_SIZE]);

/* Before status_start(): the broker's program is part of that job, which the caller has checked: printable ASCII. */
void status_set_job(struct status *status, const char *launcher, const char *id);

/* From here on the file follows the broker, which has its parts. */
void status_start(struct broker *broker);

/*
 * Looks whether the name still leads to the file. 1: it was removed; there is a new file of that name, with all that
 * was in it. Negative errno, with the error message: it was removed, and cannot be made again.
 */
int status_restore(struct broker *broker);

/*
 * For status-write.c: makes a new file, which is not mapped, and has no name yet if this system can do that. Returns the
 * descriptor of the file before, for the caller to close. And gives the file its name when it is written, so that nobody
 * reads half a file. Both: negative errno with the error message.
 */
int status_open_again(struct status *status);
int status_name_again(const struct status *status);

/* Does the name lead to the broker's own file? */
bool status_is_named(const struct status *status);

/* For snapshot.c: the record of an object as it is now, sealed, and its size; and the header, not sealed. */
size_t status_fill(const struct broker *broker, const struct tracked *tracked, union status_record *to);
void status_fill_header(const struct broker *broker, struct status_header *header);

/* Writes the header and the records that have changed. */
void status_write(struct broker *broker);

/* For struct events. */
void status_record(struct broker *broker, const struct broker_event *event);

/* Once the broker is dead, the file stays for some minutes for the next one of its name (leftovers.h). */
void status_keep_events(struct status *status);

/* Removes the file; but one with a dead broker's events stays where its broker could not begin: the next one takes them over. */
void status_close(struct status *status);

/* The user of the process that the header names; of none, or another one than it means, (uid_t)-1. */
uid_t status_process_owner(const struct status_header *header);

#endif

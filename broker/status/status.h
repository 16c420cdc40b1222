/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status.h - the status file of a broker, in POSIX shared memory: a record of every object, for broker-status and
 * others.
 *
 * The file is "/gpubroker.<instance>", mode 0640 under any umask, in the format of format.h. A changed object's record
 * is written before the answer to the request that changed the object is sent. So the work is in proportion to the
 * change, not to the number of objects (invariant 5). Only a timeline's record and the one record of the broker's
 * address need a system call: pread(2) of the timeline's page, and getsockname(2). If the file cannot grow, the records
 * stay marked, and the broker tries again ten times a second. ring.c writes the ring of events. Owns the file, and the
 * lock on it that shows that the broker lives. Never uses what the file contains, except to copy the ring to a new
 * file, and to go on with the ring and what is shown of owners after another broker (status_reopen()), so that nobody
 * can harm the broker by writing to it (mapped-file.h).
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
	/* fstat() of file.fd when the file was made; identifies the file where fstat() could fail */
	struct stat     own;
	char            name[sizeof(STATUS_PREFIX) + INSTANCE_SIZE];
	struct tracking tracking;
	struct tracked  device[DEVICE_MAX];
	struct tracked  address, job;
	struct status_broker broker_now; /* what the status file says of the broker's process; pid 0: it says nothing */
	struct status_owner owner_now; /* what the status file says of the owner, without type and seal */
	/* bytes of idle and of pooled memory of each device, as last marked for the device's record */
	uint64_t        spare[DEVICE_MAX][2];
	uint64_t        sequence;             /* number of the latest write, for the seals */
	char            launcher[STATUS_LAUNCHER_SIZE]; /* name of the launcher that started the job, such as "Slurm" */
	/* id that the launcher gave the job; empty: there is no launcher */
	char            job_id[STATUS_JOB_SIZE];
	bool            started;    /* status_start() was called */
	bool            taken_over; /* the file was the last broker's, which has told readers all that is in it */
	uint32_t        cleared;    /* number of the file's slots that have no record of another broker */
	bool            complained; /* the last write failed, and the log says so */
	struct ring     ring;
	/* timer, pending for RETRY_MS after the file could not grow; NULL: there was no memory for it */
	struct event   *retry;
	struct status_header header; /* the header as last written */
};

/*
 * Makes and locks the file. If a file of another user has the name, the broker gets another name, which replaces
 * `instance`, and a line of the log tells the file's owner. Returns 0 or a negative errno with the error message set;
 * -EEXIST: a file of this user or of root has the name. After leftovers_remove() a file of this user is that of a
 * living broker.
 */
int status_open(struct status *status, char instance[INSTANCE_SIZE]);

/*
 * Takes over the status file of the broker before this one: `fd`, which is the status's from then on, is a duplicate
 * of that broker's descriptor, so it has the lock. `instance` is the name that the file had or has. Goes on with its
 * ring and its counts of owners. Until status_start(), the file stays as it is, so readers see what that broker wrote
 * last. Returns 0; 1 if the name is missing or is that of another file, until status_restore() makes it again; or a
 * negative errno with the error message set, and then fd stays the caller's. -EBUSY: another process has the lock.
 * -EBADMSG: it is no status file of this release.
 */
int status_reopen(struct status *status, int fd, const char *instance);

/*
 * Has the header name another process than this one: one that lives as long as the status file is locked, also while
 * one broker has ended and the next one has not begun. By that process readers tell whether pids mean the same to them
 * as to the broker (another pid namespace), whether the broker is stopped by a signal, and whether counters began anew.
 * Whether the broker lives, they tell by the lock. Called before status_start().
 */
void status_set_process(struct status *status, pid_t pid);

/*
 * Notes what the status file says of the broker's process. Of *process, seal and type are not used. Called after
 * status_start().
 */
void status_set_broker(struct broker *broker, const struct status_broker *process);

/*
 * Notes the launcher and the id of the job that the broker's program belongs to, in printable ASCII. Called before
 * status_start().
 */
void status_set_job(struct status *status, const char *launcher, const char *id);

/*
 * Notes what becomes of the owner of the device memory: that it has ended and another one is started, lost: how many
 * buffers lost their names by that; that one did not start, and another one is; that broker->owner_pid serves; that no
 * other owner is started. Called after status_start().
 */
void status_owner_died(struct broker *broker, unsigned lost);
void status_owner_not_started(struct broker *broker);
void status_owner_serves(struct broker *broker);
void status_owner_failed(struct broker *broker);

/*
 * Begins to write header and records. Called when all parts of the broker that have records are made, except the
 * histograms, which begin later.
 */
void status_start(struct broker *broker);

/*
 * Checks that the name still refers to the file. Returns 0 if it does; 1 if the file was removed, and a new file has
 * the name, the events and, if there was room for them, all records; or a negative errno with the error message set if
 * no new file could be made, or there is no room for the events.
 */
int status_restore(struct broker *broker);

/*
 * Makes a new file in status->file.fd, not mapped, and without a name if the system can make such files. Returns the
 * descriptor of the former file, which the caller closes, or a negative errno with the error message set. For
 * status-write.c.
 */
int status_open_again(struct status *status);

/*
 * Gives the new file of status_open_again() its name, when the file is complete. Returns 0 or a negative errno with the
 * error message set. For status-write.c.
 */
int status_name_again(const struct status *status);

/* Returns true if the name refers to the broker's own file. */
bool status_is_named(const struct status *status);

/*
 * Fills *to with the record of an object as the object is now, and what stands behind it, and seals both. Returns their
 * size. Also used by snapshot.c.
 */
size_t status_fill(const struct broker *broker, const struct tracked *tracked, union status_record *to);

/* Fills *header, except `updated` and the seal. Also used by snapshot.c. */
void status_fill_header(const struct broker *broker, struct status_header *header);

/* Writes the header and the records that have changed. */
void status_write(struct broker *broker);

/* Adds an event to the status file's ring. Called as struct events's callback `record`. */
void status_record(struct broker *broker, const struct broker_event *event);

/* Sets keeps_events: if the broker is killed, the file is kept for some minutes for the next broker of its name. */
void status_keep_events(struct status *status);

/*
 * Removes the status file, and the other files of the instance. Keeps a status file that has taken over a dead broker's
 * events if status_start() was not called, so that the next broker can take them over. Of a file of status_reopen(),
 * removes nothing if status_start() was not called.
 */
void status_close(struct status *status);

/* Returns the uid of the process that the header names; (uid_t)-1: the process is dead, or its pid was reused. */
uid_t status_process_owner(const struct status_header *header);

#endif

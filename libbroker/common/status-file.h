/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status-file.h - the brokers' status files, as far as a client needs them: which there are, whether their brokers
 * live, and where these listen. broker/status/format.h has the rest of the format.
 *
 * Anybody may make a file in /dev/shm: what one says is a claim of its owner. Copies what it reads once, and checks it
 * before use. Owns nothing; never maps, changes or removes a file.
 */
#ifndef GPUB_STATUS_FILE_H
#define GPUB_STATUS_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "name.h"
#include "socket.h"

#define SHM_DIR "/dev/shm" /* where Linux keeps POSIX shared memory: shm_overview(7) */

#define STATUS_PREFIX "/gpubroker." /* of a status file's name, before the instance's */

#define STATUS_MAGIC  0x7574617473627067ull
#define STATUS_FORMAT 5
#define STATUS_FORMAT_OLDEST 4 /* that can be read: it has no record of a job */

#define STATUS_COPY        512  /* where the copy is, behind the header */
#define STATUS_RING        1024 /* where the events are, behind the copy */
#define STATUS_EVENTS      4096
#define STATUS_EVENT_SIZE  176
#define STATUS_HEADER_SIZE (STATUS_RING + STATUS_EVENTS * STATUS_EVENT_SIZE) /* bytes in front of the records */
#define STATUS_RECORD_SIZE 256

#define STATUS_OFFSET(slot) (STATUS_HEADER_SIZE + (uint64_t)(slot) * STATUS_RECORD_SIZE)

/* In the header, and at the beginning of each record. */
struct status_seal {
	uint64_t checksum; /* of all that follows it; never 0 */
	uint64_t sequence; /* of the broker's writes: the one that wrote this */
};

/* Seals what begins at seal and has so many bytes; and tells whether it is as it was sealed. */
void status_seal(struct status_seal *seal, size_t size, uint64_t sequence);
bool status_is_whole(const struct status_seal *seal, size_t size);

/* Whether a file of that format can be read: older ones have fewer types of records. */
static inline bool status_format_is_known(uint32_t format)
{
	return format >= STATUS_FORMAT_OLDEST && format <= STATUS_FORMAT;
}

#define STATUS_ADDRESS_TYPE 10 /* of that record: TRACKED_ADDRESS */
#define STATUS_ADDRESS_SLOT 0  /* a broker's first record */

/* Where the broker listens. */
struct status_address {
	struct status_seal seal;
	uint32_t type, reserved;
	char     address[120]; /* "unix:PATH"; empty: nowhere that has a path */
};

/* The status file of that instance, a valid name, to be read. Negative errno without an error message. */
int status_file_open(const char *instance);

/* Whether a living broker holds that file. */
bool status_file_is_held(int fd);

/*
 * Where the living broker of that instance, a valid name, listens. -ENOENT: there is no such file; -EACCES: it is not
 * for this user; -ECONNREFUSED: the broker is dead; -EBADMSG: the file does not say it. The error message is set.
 */
int status_file_address(const char *instance, char address[SOCKET_ADDRESS_SIZE]);

/*
 * Calls act for each instance that has a status file, in no order. Negative errno, which says why SHM_DIR cannot be
 * read.
 */
int status_files_each(void (*act)(const char *instance, void *context), void *context);

/* Lists living brokers of this user and of root: "heat, run-812". "": there are none. Cut where it does not fit. */
void status_files_list(char *text, size_t size);

#endif

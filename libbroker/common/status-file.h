/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status-file.h - the part of the brokers' status files that a client needs: which files exist, whether their brokers
 * live, and at which address each broker listens. broker/status/format.h has the rest of the format.
 *
 * Any user may make a file in /dev/shm, so the contents of a status file are a claim of the file's owner. Reads each
 * part once into a copy, and checks the copy before use. Owns nothing. Never maps, changes or removes a file.
 */
#ifndef GPUB_STATUS_FILE_H
#define GPUB_STATUS_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "name.h"
#include "socket.h"

#define SHM_DIR "/dev/shm" /* where Linux keeps POSIX shared memory: shm_overview(7) */

#define STATUS_PREFIX "/gpubroker." /* a status file's name is this prefix and the instance's name */

#define STATUS_MAGIC  0x7574617473627067ull
#define STATUS_FORMAT 5
#define STATUS_FORMAT_OLDEST 4 /* oldest format that this program can read, without a record of a job */

#define STATUS_COPY        512  /* offset in the file of the copy of what is being written (struct status_copy) */
#define STATUS_RING        1024 /* offset in the file of the ring of events */
#define STATUS_EVENTS      4096 /* number of events in the ring */
#define STATUS_EVENT_SIZE  176  /* bytes of one event in the ring */
#define STATUS_HEADER_SIZE (STATUS_RING + STATUS_EVENTS * STATUS_EVENT_SIZE) /* bytes before the first record */
#define STATUS_RECORD_SIZE 256  /* bytes of one record */

#define STATUS_OFFSET(slot) (STATUS_HEADER_SIZE + (uint64_t)(slot) * STATUS_RECORD_SIZE)

/*
 * Stands in the header of a status file, and at the beginning of each record. Shows whether all of that header or
 * record was written.
 */
struct status_seal {
	uint64_t checksum; /* checksum of the bytes after this field, to the end of the header or record; never 0 */
	uint64_t sequence; /* number of the broker's write that wrote the header or record */
};

/*
 * status_seal() seals the `size` bytes that begin with *seal. status_is_whole() checks that they are unchanged since.
 */
void status_seal(struct status_seal *seal, size_t size, uint64_t sequence);
bool status_is_whole(const struct status_seal *seal, size_t size);

/* Whether this program can read a file of `format`. */
static inline bool status_format_is_known(uint32_t format)
{
	return format >= STATUS_FORMAT_OLDEST && format <= STATUS_FORMAT;
}

#define STATUS_ADDRESS_TYPE 10 /* type of a status_address record: TRACKED_ADDRESS */
#define STATUS_ADDRESS_SLOT 0  /* index of the status_address record among a broker's records */

/* The record of the address at which the broker listens. */
struct status_address {
	struct status_seal seal;
	uint32_t type, reserved;
	char     address[120]; /* "unix:PATH"; empty: the broker listens at no path */
};

/*
 * Opens the status file of an instance, whose name must be valid, for reading. Returns the descriptor, or a negative
 * errno without an error message.
 */
int status_file_open(const char *instance);

/* Whether the broker of this status file lives: a broker locks its file while it lives. */
bool status_file_is_held(int fd);

/*
 * Stores the address at which the broker of an instance listens. The instance's name must be valid. -ENOENT: there is
 * no status file. -EACCES: this user may not read the file. -ECONNREFUSED: the broker is dead. -EBADMSG: the file has
 * no address. Other errors are those of open(2). The error message is set.
 */
int status_file_address(const char *instance, char address[SOCKET_ADDRESS_SIZE]);

/*
 * Calls act() for each instance that has a status file, in no order. Returns 0, or a negative errno, without an error
 * message, if SHM_DIR cannot be read.
 */
int status_files_each(void (*act)(const char *instance, void *context), void *context);

/* Lists the living brokers of this user and of root, as "heat, run-812". Leaves out names that do not fit. */
void status_files_list(char *text, size_t size);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * format.h - what stands in a status file: a header, a copy, a ring of events, then records of one size. The broker writes it,
 * broker-status reads it, and broker-ctl events the ring.
 *
 * Each record is whole by itself: it names what it refers to by number, and a seal shows whether all of it was written. A slot
 * that begins with a zero is free. What the broker writes next is in the copy first: where it is killed in the middle of a
 * write, either the copy is not whole and the record is as before, or the copy is what the record would be. An event has no copy:
 * one that is not whole is passed over. Never holds a key, a handle, a ticket or an address of memory.
 */
#ifndef GPUB_STATUS_FORMAT_H
#define GPUB_STATUS_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/base/counters.h"
#include "broker/base/event-kinds.h"
#include "broker/base/histograms.h"
#include "broker/base/tracked.h"
#include "broker/users/accounting.h"
#include "common/name.h"
#include "common/status-file.h"
#include "gpubroker.h"

#define STATUS_RECORDS_MAX (TRACKED_MAX + 64)

enum status_session_state {
	STATUS_OPEN,
	STATUS_LEAVING,
	STATUS_CUT,
	STATUS_LOST,     /* its socket is gone, so it is waited for until the process is */
	STATUS_ORPHANED, /* its process is dead, and another one has its socket */
	STATUS_DYING,    /* and the driver has not torn down its work */
	STATUS_UNPROVEN, /* and nobody can tell whether it has */
	STATUS_SESSION_STATES
};

enum status_buffer_state { STATUS_CREATING, STATUS_LIVE, STATUS_DRAINING, STATUS_FREEING, STATUS_BUFFER_STATES };

struct status_header {
	uint64_t magic;
	uint32_t format, counters_count; /* as many as this version of the broker has */
	struct status_seal seal; /* of the rest */
	uint64_t pid, start_time; /* of the broker; start_time in clock ticks since boot, as /proc/PID/stat */
	char     instance[24], device_kind[16];
	uint64_t updated; /* seconds since 1970 */
	uint16_t stopping, keeps_events; /* keeps_events 1: a broker of this name may come again, and go on with the ring */
	uint32_t waiting;
	uint64_t records; /* slots behind the header that may not be free */
	struct counters counters;
};

/* Of the header, or of a record. */
struct status_copy {
	uint64_t offset; /* in the file, of what it is a copy of */
	uint8_t  bytes[STATUS_RING - STATUS_COPY - sizeof(uint64_t)];
};

struct status_device {
	struct status_seal seal;
	uint32_t type, reserved;
	uint64_t index, bytes, idle, pooled;
	uint8_t  uuid[16];
	char     name[64];
};

struct status_user {
	struct status_seal seal;
	uint32_t type, reserved;
	uint64_t uid, used[RESOURCES], limit[RESOURCES], requests; /* QUOTA_NONE: no quota */
};

/* How it answers the question what it waits for, as session.h has it. */
enum status_answer { STATUS_NOT_ASKED, STATUS_ANSWERED, STATUS_OWES_ANSWER, STATUS_CANNOT_ANSWER, STATUS_ANSWERS };

struct status_session {
	struct status_seal seal;
	uint32_t type, state;
	uint64_t id, pid;
	uint32_t uid, rank; /* rank: one more than what its process says; 0: it says none */
	char     command[16];
	uint64_t since; /* it is connected; seconds since 1970 */
	uint64_t answered; /* milliseconds since 1970, when it last said what it waits for; 0: never */
	uint32_t answer, partial; /* partial: its process waits for more than what its records say */
	uint64_t start; /* of its process, in clock ticks since boot, as /proc/PID/stat; 0: nobody could read it */
};

struct status_buffer {
	struct status_seal seal;
	uint32_t type, state;
	uint64_t generation, allocation; /* allocation: the number of the one that it is in */
	uint64_t bytes, allocated;
	uint32_t device, owner, group, mode;
	uint32_t flags, exported; /* GPUB_EPHEMERAL ...; the kind of export, 0 where a broker does not say it */
	char     name[NAME_SIZE];
	uint64_t created; /* seconds since 1970 */
	gpub_layout layout;
};

/* A session maps an allocation. */
struct status_grant {
	struct status_seal seal;
	uint32_t type, orphaned; /* it is closed, and waits for its process's death */
	uint64_t id, session, allocation, bytes; /* bytes: of the allocation */
	uint64_t device;
};

/* A session may have leases of a buffer. */
struct status_use {
	struct status_seal seal;
	uint32_t type, reserved;
	uint64_t grant, generation;
};

enum status_ended { STATUS_RUNS, STATUS_LEFT, STATUS_DIED, STATUS_ENDS };

/* Of a buffer: its value is of the moment read. */
struct status_timeline {
	struct status_seal seal;
	uint32_t type, ended;
	uint64_t generation, value, writer; /* writer: session; 0: nobody has signalled */
	uint64_t read, ended_at;            /* milliseconds since 1970 */
	uint32_t pid, rank;                 /* of the writer, as a session's */
};

/* A stream of that session waits for a timeline, as its process says. */
struct status_wait {
	struct status_seal seal;
	uint32_t type, reserved;
	uint64_t session, generation, value, device;
	uint64_t since; /* milliseconds since 1970 */
};

enum status_request_kind { STATUS_ACQUIRE, STATUS_DRAIN, STATUS_CREATE, STATUS_NEWER, STATUS_REQUESTS };

/* It waits in the broker: an acquire for a name, or a question for a newer buffer of it, a drain for those who use a buffer, a create for memory. */
struct status_request {
	struct status_seal seal;
	uint32_t type, kind;
	uint64_t session;    /* 0: the broker's own */
	uint64_t generation; /* of the buffer that is drained or created; 0: none */
	uint64_t bytes, device; /* that a create needs */
	uint64_t since; /* milliseconds since 1970 */
	uint32_t timed, reserved; /* timed: it ends by itself when its time is over */
	char     name[NAME_SIZE];
};

#define STATUS_LAUNCHER_SIZE 16
#define STATUS_JOB_SIZE      64

/* What started the broker's program: a job of Slurm, for example. There is no such record where it was no launcher. */
struct status_job {
	struct status_seal seal;
	uint32_t type, reserved;
	char     launcher[STATUS_LAUNCHER_SIZE], id[STATUS_JOB_SIZE]; /* printable ASCII; id: as the launcher's own tools have it */
};

/* How long answers took. */
struct status_histogram {
	struct status_seal seal;
	uint32_t type, reserved;
	uint64_t id; /* enum histogram_id */
	uint64_t nanoseconds, buckets[HISTOGRAM_BUCKETS];
};

/*
 * Something that happened. Its seal's sequence is the number of the event, from 1 on, also over a broker's death: it gives their
 * order. Each part of the ring is overwritten by its own events alone: status_parts[] says where it is.
 */
struct status_event {
	struct status_seal seal;
	uint64_t time_ms; /* since 1970 */
	uint32_t kind; /* enum event_kind */
	int32_t  error; /* negative errno */
	uint64_t session; /* whose deed it was, with the next two; 0: none */
	uint32_t pid, uid;
	uint64_t other_session; /* to whom it was done, with the next two */
	uint32_t other_pid, other_uid;
	uint64_t bytes;
	uint32_t detail, left_out;
	char     text[NAME_SIZE]; /* the name of the buffer, or the cause: struct event_row */
};

union status_record {
	struct {
		struct status_seal seal;
		uint32_t           type; /* enum tracked_type */
	};
	struct status_device  device;
	struct status_user    user;
	struct status_session session;
	struct status_buffer  buffer;
	struct status_grant   grant;
	struct status_use     use;
	struct status_timeline timeline;
	struct status_wait     wait;
	struct status_request  request;
	struct status_address  address;
	struct status_histogram histogram;
	struct status_job     job;
	uint8_t               bytes[STATUS_RECORD_SIZE];
};

_Static_assert(sizeof(struct status_header) <= sizeof(struct status_copy) - sizeof(uint64_t), "the header has its place");
_Static_assert(TRACKED_ADDRESS == STATUS_ADDRESS_TYPE, "clients find the record of the address by its type");
_Static_assert(sizeof(union status_record) == STATUS_RECORD_SIZE, "every record has the same size");
_Static_assert(sizeof(struct status_event) == STATUS_EVENT_SIZE, "every event has the same size, of whole words");
_Static_assert(sizeof(struct status_header) % 8 == 0 && sizeof(struct status_user) % 8 == 0 &&
		       sizeof(struct status_session) % 8 == 0 && sizeof(struct status_buffer) % 8 == 0 &&
		       sizeof(struct status_grant) % 8 == 0 && sizeof(struct status_use) % 8 == 0 &&
		       sizeof(struct status_device) % 8 == 0 && sizeof(struct status_timeline) % 8 == 0 &&
		       sizeof(struct status_wait) % 8 == 0 && sizeof(struct status_request) % 8 == 0 &&
		       sizeof(struct status_address) % 8 == 0 && sizeof(struct status_histogram) % 8 == 0 &&
		       sizeof(struct status_job) % 8 == 0,
	       "a checksum is of whole words");

#define STATUS_HEADER_SEALED (sizeof(struct status_header) - offsetof(struct status_header, seal))

/* Where that part of the ring begins, and how many events it has. */
struct status_part {
	uint32_t first, count;
};
extern const struct status_part status_parts[EVENT_PARTS];

/* Bytes of an event that its seal covers: behind the end of its text stands what an older one left. length: of the text. */
static inline size_t status_event_size(size_t length)
{
	return offsetof(struct status_event, text) + (length / sizeof(uint64_t) + 1) * sizeof(uint64_t);
}

/* Whether it is whole, of a kind that is known, in its part, and its error is one. */
bool status_event_is_good(const struct status_event *event, uint32_t place);

/* Bytes of a record of that type that its seal covers; 0: there is no such type. */
size_t status_size(uint32_t type);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * format.h - the format of a status file: a header, a copy of what was written last, a ring of events, then slots for
 * records, all of one size. The broker writes the file; broker-status reads it, and broker-ctl events reads the ring.
 *
 * A record refers to other objects by their numbers, and has a seal that shows whether the record was written
 * completely. A slot whose first word is 0 is free. The broker writes a sealed header or a record to the copy first,
 * and then to its place. If the broker is killed during the write, either the copy is not whole and the place has the
 * old contents, or the copy has the new contents. An event is not copied first: readers skip an event that is not
 * whole. The file never has a key, a handle, a ticket or a memory address.
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
	/* the session's socket is closed, but its process may live: its mappings stay until the death */
	STATUS_LOST,
	STATUS_ORPHANED, /* the session's process is dead, but another process has its socket open */
	STATUS_DYING,    /* the session's process is dead, and the driver has not torn down the process's work */
	/* the session's process is dead, and it is not known whether the driver has torn down its work */
	STATUS_UNPROVEN,
	STATUS_SESSION_STATES
};

enum status_buffer_state { STATUS_CREATING, STATUS_LIVE, STATUS_DRAINING, STATUS_FREEING, STATUS_BUFFER_STATES };

struct status_header {
	uint64_t magic;
	uint32_t format, counters_count; /* STATUS_FORMAT; number of counters that the broker's version has */
	struct status_seal seal;         /* covers the seal's own sequence and all fields below */
	/*
	 * pid and start time of the broker's process, or of the one that starts brokers (status_set_process());
	 * start_time: clock ticks since boot, as in /proc/PID/stat
	 */
	uint64_t pid, start_time;
	char     instance[24], device_kind[16]; /* device_kind: name of the device backend */
	uint64_t updated;      /* when the header was written, in seconds since 1970 */
	uint16_t stopping;     /* 1: the broker stops */
	uint16_t keeps_events; /* 1: if the broker is killed, the next broker of its name takes over the ring */
	uint32_t waiting;      /* number of requests that wait in the broker */
	uint64_t records;      /* number of slots that may have a record; later slots are not read */
	struct counters counters;
};

/* A copy of what the broker wrote last: the header, or one record. */
struct status_copy {
	uint64_t offset; /* offset in the file of the header or the record; STATUS_COPY: `bytes` is being changed */
	uint8_t  bytes[STATUS_RING - STATUS_COPY - sizeof(uint64_t)];
};

struct status_device {
	struct status_seal seal;
	uint32_t type, reserved;
	uint64_t index, bytes; /* the broker's index of the device; bytes of the device's memory */
	uint64_t idle, pooled; /* bytes of idle and of pooled memory */
	uint8_t  uuid[16];
	char     name[64];
};

struct status_user {
	struct status_seal seal;
	uint32_t type, reserved;
	/* as in struct account and struct quota; a limit of QUOTA_NONE: no limit */
	uint64_t uid, used[RESOURCES], limit[RESOURCES], requests;
};

/*
 * Values of enum answer_state (session.h): whether the session has answered INQUIRE, which asks what its streams wait
 * for.
 */
enum status_answer { STATUS_NOT_ASKED, STATUS_ANSWERED, STATUS_OWES_ANSWER, STATUS_CANNOT_ANSWER, STATUS_ANSWERS };

struct status_session {
	struct status_seal seal;
	uint32_t type, state;
	uint64_t id, pid;
	uint32_t uid, rank;   /* rank: the rank that the session's process reported in HELLO, plus 1; 0: none */
	char     command[16]; /* name of the process's program */
	uint64_t since;       /* when the session's client connected, in seconds since 1970 */
	uint64_t answered;    /* when the client last answered INQUIRE, in milliseconds since 1970; 0: never */
	uint32_t answer;      /* a value of enum status_answer */
	uint32_t partial;     /* 1: the session's process waits for more than its wait records show */
	/* start time of the session's process, in clock ticks since boot, as in /proc/PID/stat; 0: not known */
	uint64_t start;
};

#define STATUS_ENDED (1u << 31) /* flag of a buffer: its memory ended with the process that owned it (allocation.h) */

struct status_buffer {
	struct status_seal seal;
	uint32_t type, state;
	uint64_t generation, allocation; /* allocation: serial of the allocation that the buffer is in */
	uint64_t bytes, allocated; /* bytes: size of the buffer; allocated: bytes that it takes; 0: it waits for them */
	uint32_t device, owner, group, mode; /* device: its index in the broker; mode: permission bits */
	uint32_t flags, exported; /* flags: GPUB_EPHEMERAL and others; exported: number of the kind of export */
	char     name[NAME_SIZE]; /* the buffer's name, or its last name if it is draining */
	uint64_t created;         /* time of the create, in seconds since 1970 */
	gpub_layout layout;
};

/* A mapping: its session may map its allocation on one device. */
struct status_mapping {
	struct status_seal seal;
	/* orphaned: 1 if the mapping was closed by a session that is not trusted; ends with the process's death */
	uint32_t type, orphaned;
	/*
	 * id: the mapping's; session: id of its session; allocation: serial of its allocation; bytes: size of the
	 * allocation when it was last sent to the session
	 */
	uint64_t id, session, allocation, bytes;
	uint64_t device; /* the broker's index of the device that maps the allocation */
};

/* A grant: the session of a mapping may have leases of a buffer. */
struct status_grant {
	struct status_seal seal;
	uint32_t type, reserved;
	uint64_t mapping, generation; /* id of the mapping; generation of the buffer */
};

/* How a timeline's writer has ended: not at all, by LEAVE, or without LEAVE. */
enum status_ended { STATUS_RUNS, STATUS_LEFT, STATUS_DIED, STATUS_ENDS };

/* The timeline of a buffer. */
struct status_timeline {
	struct status_seal seal;
	uint32_t type, ended;               /* ended: enum status_ended */
	/* generation: that of the buffer; writer: id of the writer's session, 0: none yet */
	uint64_t generation, value, writer;
	/* read: when `value` was read; ended_at: when the timeline ended; both in milliseconds since 1970 */
	uint64_t read, ended_at;
	/* pid and rank of the writer's process; rank: as in struct status_session */
	uint32_t pid, rank;
};

/* A stream of the session waits for a timeline, as the session's process reports. */
struct status_wait {
	struct status_seal seal;
	uint32_t type, reserved;
	/* generation: that of the buffer; value: the value of the timeline that the stream waits for */
	uint64_t session, generation, value, device;
	uint64_t since; /* beginning of the wait, in milliseconds since 1970 */
};

enum status_request_kind { STATUS_ACQUIRE, STATUS_DRAIN, STATUS_CREATE, STATUS_NEWER, STATUS_REQUESTS };

/* A request that waits: an acquire or a NEWER for a name, a drain for the end of a buffer, a create for memory. */
struct status_request {
	struct status_seal seal;
	uint32_t type, kind;      /* kind: enum status_request_kind */
	uint64_t session;         /* id of the session that sent the request; 0: the broker itself */
	uint64_t generation;      /* generation of the buffer that is drained or created; 0: none */
	uint64_t bytes, device;   /* of a create: bytes that it needs, and the broker's index of the device */
	uint64_t since;           /* beginning of the wait, in milliseconds since 1970 */
	uint32_t timed, reserved; /* timed: 1: the request has a timeout; reserved: 0 */
	char     name[NAME_SIZE];
};

#define STATUS_LAUNCHER_SIZE 16
#define STATUS_JOB_SIZE      64

/* The launcher's job that started the program, such as a job of Slurm. Without a launcher there is no record. */
struct status_job {
	struct status_seal seal;
	uint32_t type, reserved;
	/* ASCII; id: the id that the launcher gave the job */
	char     launcher[STATUS_LAUNCHER_SIZE], id[STATUS_JOB_SIZE];
};

/* It serves; the broker starts another one; the broker starts no other one, and ends. */
enum status_owner_state { STATUS_OWNER_RUNS, STATUS_OWNER_STARTS, STATUS_OWNER_FAILED, STATUS_OWNER_STATES };

#define STATUS_HIDDEN UINT64_MAX /* value of a number that the reader may not see */

/*
 * The owner: the process that owns the device memory (owner/process.h). Has no slot, but stands behind the broker's
 * address (status_record.first), where readers that do not know it see nothing. Times are in milliseconds since 1970.
 */
struct status_owner {
	struct status_seal seal;
	uint32_t type, state; /* state: enum status_owner_state */
	uint64_t pid;         /* pid of the owner; 0: there is none now */
	uint64_t since;       /* when the owner began to serve, or when the last one ended */
	uint64_t tries;       /* number of owners in a row that did not start */
	uint64_t died;        /* number of owners that ended before the broker */
	uint64_t died_pid, died_at; /* pid of the last owner that ended, and when it ended; 0: none has */
	/* numbers of buffers that lost their names by the end of an owner: the last one, and all; or STATUS_HIDDEN */
	uint64_t lost, lost_all;
};

/* Two values of enum policy_how, and their number. They never change. */
enum status_broker_how { STATUS_BROKER_KILLED = 1, STATUS_BROKER_UPGRADED = 4, STATUS_BROKER_HOWS = 5 };

/*
 * The broker's process, where a keeper starts the next one when it dies (keeper/keeper.h). Has no slot, but stands
 * behind the first device (status_record.second). Times are in milliseconds since 1970.
 */
struct status_broker {
	struct status_seal seal;
	uint32_t type, how;   /* how: enum policy_how: how the last broker ended */
	uint64_t pid;
	uint64_t restarts;    /* number of brokers that have ended */
	uint64_t cold_starts; /* number of times that the next one began with nothing */
	uint64_t since;       /* when this broker began to serve */
	uint64_t pause_us;    /* from the notice of the last one's end until then, in microseconds; 0: there was none */
	uint64_t objects;     /* number of objects that this broker has taken over */
};

#define STATUS_VERSION 24 /* size of a version's text */

/* The program that the broker's process runs. Stands behind that process's record (status_record.second). */
struct status_program {
	struct status_seal seal;
	uint32_t type, reserved;
	char     version[STATUS_VERSION]; /* PACKAGE_VERSION */
};

/* A histogram of the broker's answer times: struct histogram. */
struct status_histogram {
	struct status_seal seal;
	uint32_t type, reserved;
	uint64_t id; /* a value of enum histogram_id */
	uint64_t nanoseconds, buckets[HISTOGRAM_BUCKETS];
};

/*
 * An event. The sequence of its seal is the number of the event, which gives the order of events: the first event has
 * 1, and a broker that takes over a dead broker's ring goes on counting. Events overwrite only events of their own
 * part of the ring (status_parts[]).
 */
struct status_event {
	struct status_seal seal;
	uint64_t time_ms;              /* time of the event, in milliseconds since 1970 */
	uint32_t kind;                 /* a value of enum event_kind */
	int32_t  error;                /* negative errno of a refusal or of a failure; 0: neither */
	uint64_t session;              /* id of the actor's session; 0: none */
	uint32_t pid, uid;             /* pid and uid of the actor */
	uint64_t other_session;        /* id of the session of the process that was affected; 0: none */
	uint32_t other_pid, other_uid; /* pid and uid of the process that was affected */
	uint64_t bytes;
	uint32_t detail, left_out; /* with the meaning of these members in struct broker_event */
	char     text[NAME_SIZE];  /* name of the buffer, or the cause, as event_rows[kind].subject tells */
};

union status_record {
	struct {
		struct status_seal seal;
		uint32_t           type; /* a value of enum tracked_type */
	};
	struct status_device  device;
	struct status_user    user;
	struct status_session session;
	struct status_buffer  buffer;
	struct status_mapping mapping;
	struct status_grant   grant;
	struct status_timeline timeline;
	struct status_wait     wait;
	struct status_request  request;
	struct status_address  address;
	struct status_histogram histogram;
	struct status_job     job;
	struct status_owner   owner; /* for readers alone, who make a record of it */
	struct {
		struct status_address address;
		struct status_owner   owner; /* all zeros in the file of a broker that does not know it */
	} first; /* in slot STATUS_ADDRESS_SLOT */
	struct status_broker  broker; /* for readers alone, who make a record of it; as the next */
	struct status_program program;
	struct {
		struct status_device device;
		struct status_broker broker; /* all zeros where no keeper is, and behind the other devices */
		struct status_program program; /* the same, and in the file of a broker that does not know it */
	} second; /* in the slot of the first device */
	uint8_t               bytes[STATUS_RECORD_SIZE];
};

_Static_assert(sizeof(struct status_header) <= sizeof(struct status_copy) - sizeof(uint64_t),
	       "the header has its place");
_Static_assert(TRACKED_ADDRESS == STATUS_ADDRESS_TYPE, "clients find the record of the address by its type");
_Static_assert(sizeof(union status_record) == STATUS_RECORD_SIZE, "every record has the same size");
_Static_assert(sizeof(struct status_event) == STATUS_EVENT_SIZE, "every event has the same size, of whole words");
_Static_assert(sizeof(struct status_header) % 8 == 0 && sizeof(struct status_user) % 8 == 0 &&
		       sizeof(struct status_session) % 8 == 0 && sizeof(struct status_buffer) % 8 == 0 &&
		       sizeof(struct status_mapping) % 8 == 0 && sizeof(struct status_grant) % 8 == 0 &&
		       sizeof(struct status_device) % 8 == 0 && sizeof(struct status_timeline) % 8 == 0 &&
		       sizeof(struct status_wait) % 8 == 0 && sizeof(struct status_request) % 8 == 0 &&
		       sizeof(struct status_address) % 8 == 0 && sizeof(struct status_histogram) % 8 == 0 &&
		       sizeof(struct status_job) % 8 == 0 && sizeof(struct status_owner) % 8 == 0 &&
		       sizeof(struct status_broker) % 8 == 0 && sizeof(struct status_program) % 8 == 0,
	       "a checksum is of whole words");

#define STATUS_HEADER_SEALED (sizeof(struct status_header) - offsetof(struct status_header, seal))

/* A part of the ring: index of its first event in the ring, and number of its events. */
struct status_part {
	uint32_t first, count;
};
extern const struct status_part status_parts[EVENT_PARTS];

/*
 * Returns the number of bytes of an event that its seal covers: up to the word with the text's NUL. length: that of the
 * text.
 */
static inline size_t status_event_size(size_t length)
{
	return offsetof(struct status_event, text) + (length / sizeof(uint64_t) + 1) * sizeof(uint64_t);
}

/*
 * Returns true if the event is valid: it is whole, its kind is known, `place`, its index in the ring, is in the part of
 * its kind, and its error is 0 or a negative errno.
 */
bool status_event_is_good(const struct status_event *event, uint32_t place);

/* Returns the number of bytes of a record of this type that its seal covers; 0: there is no such type. */
size_t status_size(uint32_t type);

#endif

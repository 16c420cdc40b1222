/* SPDX-License-Identifier: Apache-2.0 */
/*
 * harness.h - real brokers with real clients, driven step by step from one TAP program.
 *
 * The program itself is no client and starts no device. It starts broker-run (broker_start) and forks puppets: client
 * processes that do one step at a time, each a function of this same program, and say what came of it (ask; tell and
 * receive for a step that blocks). So a test reads in the order in which things happen, and stops, kills and leaves
 * processes as it likes. What the broker holds is read from its status file (shown_*), and waited for with SOON(): no
 * check depends on a sleep.
 *
 * The broker's host device is strict: memory freed too early aborts the broker, which broker_end() reports. No step and
 * no program hangs: a puppet that does not answer and a program past its time limit end in "Bail out!".
 *
 * TEST_DEVICE=cuda runs the same on a GPU (tests/gpu/integration.sh). So nothing here dereferences lease.ptr: peek()
 * and poke() do; and what stands on the model's own features asks on_cuda() and is left out by name.
 */
#ifndef GPUB_TESTS_HARNESS_H
#define GPUB_TESTS_HARNESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <unistd.h>

#include <jansson.h>

#include "common/export.h"
#include "gpubroker.h"

/* ---- TAP ---- */

/* First in main(): the name for instances, and when the program is ended (on CUDA after twice that). */
void harness_begin(const char *name, unsigned seconds);

/* Last: prints the plan; what main() returns. */
int harness_end(void);

void point_at(int line, bool good, const char *format, ...) __attribute__((format(printf, 3, 4)));
_Noreturn void bail_out(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* One point: the condition, and what it holds. */
#define POINT(condition, ...) point_at(__LINE__, (condition), __VA_ARGS__)

/* One point that only the host device's model can hold, left out by its name on another. */
void point_skip(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* How brokers export memory, as GPUBROKER_EXPORT says. */
const struct export *tested_export(void);

/* Whether TEST_DEVICE has the program run on a CUDA device instead of the host device that its tests name. */
bool on_cuda(void);

/* The test's name, and a directory of its own, which is removed when the test ends. */
const char *harness_program(void);
const char *harness_directory(void);

/* Milliseconds: longer than any step may take. */
#define ANSWER_MS (test_slower() * (on_cuda() ? 40000 : 15000))

/*
 * How many times as long as usual each limit is here: TEST_SLOWER, which an emulator's run sets (tests/aarch64/run.sh).
 */
int test_slower(void);

/* Whether the condition becomes true within ten seconds; on CUDA thirty, since there every process starts slowly. */
#define SOON(condition)                                                     \
	({                                                                  \
		bool soon_ = false;                                         \
		int scans_ = test_slower() * (on_cuda() ? 15000 : 5000);    \
		for (int look_ = 0; look_ < scans_ && !soon_; look_++) {    \
			soon_ = (condition);                                \
			if (!soon_)                                         \
				usleep(2000);                               \
		}                                                           \
		soon_;                                                      \
	})

/* Whether that child has ended; then *status is its wait status. */
bool child_reaped(pid_t pid, int *status);

/* Stops a child of the caller, and returns when it has stopped: a signal has an effect only some time after kill(). */
void stop_child(pid_t pid);

/* ---- the broker ---- */

struct broker_process {
	pid_t pid; /* 0 once it was waited for */
	int   in;  /* broker-run's worker ends when this is closed; -1: it is a brokerd */
	char  instance[32], address[128], log[64];
};

/*
 * The --pool of the brokers that are started from now on; NULL, as it is at first: what broker-run keeps unless told.
 */
extern const char *broker_pool;

/*
 * Starts broker-run on these devices, or on those of TEST_DEVICE, with one worker that only waits, and waits until it
 * answers. With TEST_BROKER=brokerd in the environment it is a brokerd instead.
 */
void broker_start(struct broker_process *broker, const char *device);

/* Whether its socket and its status are there. */
bool broker_answers(const struct broker_process *broker);

/* Lets it end: one point, that it ended with status 0 and balanced accounting. */
void broker_end(struct broker_process *broker);

/* The same without a point: its wait status. Kills it first where signal is not 0. */
int broker_wait(struct broker_process *broker, int signal);

/* Whether it has said this so far. */
bool broker_said(const struct broker_process *broker, const char *text);

/* ---- its accounting, as the status file has it now ---- */

json_t *status_json(const struct broker_process *broker); /* to be given back with json_decref() */
int64_t status_number(const struct broker_process *broker, const char *key); /* of the top level; -1: none */
int64_t status_counter(const struct broker_process *broker, const char *key);
int64_t status_buffers(const struct broker_process *broker, const char *name, const char *state); /* NULL: any */
int64_t status_holders(const struct broker_process *broker, const char *name, pid_t pid); /* grants; pid 0: of all */
bool    status_session(const struct broker_process *broker, pid_t pid, const char *state); /* there is one such */

/* Until the status has all that was answered so far, and what this client has said: for what must not have happened. */
struct puppet;
void status_stable(const struct broker_process *broker, struct puppet *puppet);

/* Stores the first line of the file /proc/PID/what; "" if there is none. */
void process_line(pid_t pid, const char *what, char *line, int size);

/* The process that owns the device memory of the broker with this pid; 0: it has none. */
pid_t owner_of(pid_t broker);

/* The process of a brokerd or broker-run that serves; 0: there is none now. */
pid_t server_of(pid_t broker);

/* Stops the process that serves, and returns when it has stopped. */
void broker_pause(const struct broker_process *broker);
void broker_resume(const struct broker_process *broker);

/*
 * Objects in /dev/shm that hold this broker's device memory; on CUDA, allocations that the broker has not given back.
 */
int64_t memory_objects(const struct broker_process *broker);

/* ---- puppets ---- */

#define SLOTS 8

struct order;
typedef int step(const struct order *order);

/* What a step is to do; each takes what it needs. */
struct order {
	step    *run;
	char     name[160];
	unsigned flags, rights;
	int      timeout; /* milliseconds */
	int      slot;    /* which lease */
	uint64_t size, value;
};

struct answer {
	int      result;
	uint64_t value;
	char     text[256]; /* gpub_strerror_last(), where the result is an error */
};

struct puppet {
	pid_t         pid;
	int           sock;
	struct answer last;
};

/* Forks a client of that broker. It connects in its first step unless told not to (broker NULL: no address either). */
void puppet_start(struct puppet *puppet, const struct broker_process *broker);
void puppet_start_unconnected(struct puppet *puppet, const struct broker_process *broker);

void puppet_tell(struct puppet *puppet, struct order order);
int  puppet_receive(struct puppet *puppet); /* the result; puppet->last is all of it */
bool puppet_answered(struct puppet *puppet); /* whether puppet_receive() would find an answer now */

/* Disconnects, exits, is waited for. */
void puppet_end(struct puppet *puppet);
void puppet_kill(struct puppet *puppet);

#define tell(puppet, ...) puppet_tell((puppet), (struct order){ .run = __VA_ARGS__ })
#define receive(puppet)      puppet_receive(puppet)
#define ask(puppet, ...)  ({ tell((puppet), __VA_ARGS__); receive(puppet); })

/* ---- inside a puppet ---- */

extern gpub_client *client;
extern gpub_lease   lease[SLOTS];
extern void        *work; /* a stream: do_stream makes it */
extern uint64_t     step_value; /* becomes answer.value */

/* They are gone with their device: do_stream makes the next one. */
void streams_forget(void);
extern int          order_sock; /* readable when the next order has come */

step do_connect, do_disconnect, do_create, do_unlink, do_acquire, do_renew, do_return, do_return_on, do_trim, do_flags;
step do_stat;       /* value: generation */
step do_resize;     /* value, in do_create: the reserve */
step do_seal;
step do_rename;     /* name: "NAME NEW" */
step do_newer;      /* than order.value; value: generation */
step do_stream, do_sync; /* with the stream the kernels are loaded: no later step waits for one that is parked */
step do_signal, do_wait, do_timeline; /* order.value; of do_timeline answer.value */
step do_await;      /* gpub_timeline_wait() for order.value; answer.value: what is reached */
step do_read;       /* the first 8 bytes of the lease */
step do_write;      /* order.value there */
step do_late_write; /* order.value, after order.timeout milliseconds on the stream */

/* The 8 bytes at a lease's ptr or behind it, on a stream of their own: also while the other stream is parked. */
int peek(const void *from, uint64_t *value);
int poke(void *to, uint64_t value);

/* Launches late_write of the kernels module on the stream. */
int late_write(uint64_t *word, uint64_t value, uint64_t milliseconds);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session-harness.h - a whole broker on the host device in this process, with raw clients over real sockets.
 *
 * The broker's loop runs only while a test waits for something, one pass at a time, so a test can count what happens in
 * a pass. Clients are raw sockets in this process, which may send what the library never would, also under another
 * user's name; or forked children, for tests that need another process or a death. Every test ends with a balanced
 * registry and with the descriptors that it began with (harness_teardown).
 */
#ifndef GPUB_TESTS_SESSION_HARNESS_H
#define GPUB_TESTS_SESSION_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

#include "broker/base/event-kinds.h"
#include "broker/core/broker.h"
#include "common/socket.h"

#define PATIENCE_MS 5000
#define SIZE        (1u << 20)

/* ---- the broker ---- */

extern struct broker broker; /* may be read after its end */
extern struct core core;
extern bool is_child; /* this is a forked client: the loop is its parent's */

/* For every program: a private directory, and nothing of the broker's log in the report. */
int harness_group_setup(void **state);
int harness_group_teardown(void **state);

/*
 * For every test: a broker with a board of so many buffers and handle places, 64 and 512 unless told, no quotas, on one
 * device of 256 MiB. How many devices there are is decided by a program's first test.
 */
extern uint32_t harness_buffers, harness_handles;
extern unsigned harness_exported; /* kind of export of buffers that need no certain one */
extern const char *harness_device;
int harness_setup(void **state);

/* From now on the orders about all devices go to this one. Called while none is under way. */
void use_device(const struct device *device);

/* The address of memory of device 0 in this process. */
void *address_of(const struct allocation *allocation);

/*
 * The broker's own hooks of sessions. A test may give broker.sessions others, which harness_teardown() takes back.
 * hook_none() is a hook that finds nothing to do.
 */
extern const struct session_hooks *hooks_usual;
unsigned hook_none(struct session *session);

/* Unlinks all names. Fails if clients, requests or memory are left. */
int harness_teardown(void **state);

/* Ends the broker in the middle of a test. harness_teardown() then checks only descriptors. */
void broker_end_now(void);

/* One pass of the loop. */
void run_pass(void);
void run_passes(void);

/* Lets the broker work until the condition holds. */
#define EXPECT_SOON(condition)                                                          \
	do {                                                                            \
		bool holds = (condition);                                               \
		for (int tries = 0; tries < PATIENCE_MS && !holds; tries++) {           \
			run_pass();                                                         \
			holds = (condition);                                            \
		}                                                                       \
		assert_true(holds);                                                     \
	} while (0)

/* Open descriptors of this process. */
int descriptors(void);

/* Connections of this user without a greeting. */
uint64_t greeting(void);

/* What that user is charged for. */
uint64_t used(uid_t uid, enum resource resource);

/* Returns how many events of that kind the broker has recorded since the test began. */
unsigned events_of(enum event_kind kind);

/* Returns the last event of that kind, which the test must have seen. Its texts are copies. */
const struct broker_event *event_last(enum event_kind kind);

/* ---- clients in this process ---- */

struct peer {
	int                 sock;
	uint64_t            session;
	struct wire_welcome welcome;
	struct board        board;
};

/* Connects and sends nothing. */
int dial(void);

/* Receives what the broker sends next; the loop runs meanwhile. 0, or -ECONNRESET at the end of file. */
int receive_with(int sock, struct wire_message *message, struct socket_extra *extra);
struct wire_message receive_message(int sock);
void expect_end(int sock);

/* Receives what has arrived already, without a pass. Returns its type, or 0. */
unsigned received_already(int sock, struct wire_message *message);

void say(int sock, const struct wire_message *message);
struct wire_message hello_to(const struct wire_message *challenge);

/* A welcomed session. */
struct peer join(void);

/* A session of another user, with that group alone: a test cannot be two users. */
struct peer join_as(uid_t uid);
void change_user(const struct peer *peer, uid_t uid);

struct session *session_of(const struct peer *peer);

/* Hangs up. */
void part(struct peer *peer);

/* Hangs up as the process dies. */
void hang_up_dying(struct peer *peer);

/* ---- what clients send ---- */

/* An ACQUIRE is for GPUB_READ, a CREATE of SIZE bytes with mode 0600. */
struct wire_message named(enum wire_type type, uint64_t request, const char *name);

/* Sends it and returns the answer to it. Notices that come before are skipped. */
struct wire_message answer_to(struct peer *peer, const struct wire_message *message);
struct wire_message ask(struct peer *peer, enum wire_type type, const char *name);
void expect_done(struct peer *peer, enum wire_type type, const char *name);
void expect_refused(struct peer *peer, const struct wire_message *message, int error);
void expect_refused_saying(struct peer *peer, const struct wire_message *message, int error, const char *text);
struct wire_grant acquire(struct peer *peer, const char *name);
void create_with_mode(struct peer *peer, const char *name, unsigned mode);
void send_closed(int sock, uint64_t mapping);

/* A STAT that is answered shows that the broker has read all before it, and still serves. */
void expect_served(struct peer *peer);

/* ---- clients that are disconnected ---- */

/*
 * A refusal and the end of the connection. Nothing of it is kept, also no place among those that have not greeted yet.
 */
void expect_turned_away(int sock);

/* A new session that sends this is disconnected and not read any more. Others are served as before. */
void expect_bytes_disconnect(const void *bytes, size_t length);

/* Lets that many messages wait for the peer, which reads none. */
void fill_queue(const struct peer *peer, unsigned count);

/*
 * Ends a disconnected session's mappings, which it would keep until its process died: that is this one, which goes on.
 */
void bury(struct peer *peer);

/* ---- clients in processes of their own ---- */

struct child {
	pid_t pid;
	int   in, out; /* reads what it tells; writes what it is told */
};

/* What it runs. sock: the one that child_start() was given, or nothing. */
typedef void child_main(int sock);

struct child child_start(child_main *run, int sock);

/* In the child: a step is done. */
void tell(void);

/* In the child: waits until it is killed, or until its parent closes its ends. */
void linger(void);

bool told(const struct child *child);
void child_kill(const struct child *child);
void child_forget(const struct child *child);

#define ON(name) cmocka_unit_test_setup_teardown(name, harness_setup, harness_teardown)

#endif

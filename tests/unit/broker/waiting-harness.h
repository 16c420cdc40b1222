/* SPDX-License-Identifier: Apache-2.0 */
/*
 * waiting-harness.h - a broker for tests of requests that wait: a real registry and loop, without listener and device
 * threads.
 *
 * Its three sessions are made by hand. Each is one end of a socket pair; the test reads the answers from the other end.
 */
#ifndef GPUB_TESTS_WAITING_HARNESS_H
#define GPUB_TESTS_WAITING_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "broker/core/broker.h"
#include "broker/request/waiting.h"
#include "common/wire.h"

extern struct broker broker;
extern struct session sessions[3];
extern bool answers_drains; /* freed memory ends the drains of its buffers; false at the beginning of each test */

/* For each test. teardown() fails if a request still waits. */
int setup(void **state);
int teardown(void **state);

#define ON(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

/* Runs the loop so long, and then what is due for the sessions. */
void loop_for(int ms);

/* Ends all waits of the session, as when it is gone. */
void forget(unsigned session);

/* An acquire of the session waits for the name. */
void wait_for_name(unsigned session, uint64_t request, const char *name, int timeout_ms);

/* A LIVE buffer. */
struct buffer *make_live(const char *name);

/* Receives the next message to that session. Returns its type; 0: none came. */
unsigned answer(unsigned session, struct wire_message *message);
struct wire_message expect_answer(unsigned session, enum wire_type type, uint64_t request);
void expect_silence(unsigned session);

#endif

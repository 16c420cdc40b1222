/* SPDX-License-Identifier: Apache-2.0 */
/*
 * why-records.h - for tests: records of a status file that are made by hand, and what why.h says of them.
 *
 * Session n is process 10 + n, of rank n. Whatever the order of the records, the answer is the same. Owns the records,
 * from setup() on.
 */
#ifndef GPUB_TESTS_WHY_RECORDS_H
#define GPUB_TESTS_WHY_RECORDS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "broker/show/why.h"

#define MIB    (1ull << 20)
#define NOW_MS 10000000u

extern union status_record records[1 << 15];
extern size_t count;
extern char letters[64]; /* of the process with that number */
extern bool headless;    /* those that are Z */
extern char said[1 << 16];
extern struct why_found found;

int setup(void **state);

union status_record *add(enum tracked_type type);
struct status_session *session(unsigned n);
struct status_buffer *buffer(const char *name, uint64_t generation, enum status_buffer_state state);
struct status_timeline *timeline(uint64_t generation, uint64_t value, uint64_t writer);
void stream_waits(uint64_t of, uint64_t generation, uint64_t value);
struct status_request *request(enum status_request_kind kind, uint64_t of, const char *name, uint64_t generation);
struct status_owner *owner(enum status_owner_state state);
struct status_mapping *grants(uint64_t id, uint64_t of, uint64_t generation);

/* A buffer with a timeline at 3, which that session writes. */
void line(const char *name, uint64_t generation, uint64_t writer);

/* Fills said and found. */
int ask(const char *about);
int ask_as(const char *about, bool live, bool near);

void shuffle(void);

/* In any order of the records. about: NULL with expect(). */
void expect_about(const char *about, const char *wanted);
void expect(const char *wanted);

#endif

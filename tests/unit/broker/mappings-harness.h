/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mappings-harness.h - a registry of memory that several buffers share, for unit tests. An allocation has four ranges
 * here.
 *
 * The hooks are the world, and note what they are told; the device that cleans and frees is the test.
 */
#ifndef GPUB_TESTS_MAPPINGS_HARNESS_H
#define GPUB_TESTS_MAPPINGS_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "broker/memory/memory.h"
#include "broker/registry/mappings.h"
#include "broker/registry/registry.h"
#include "common/board.h"

#define BUFFERS  16u
#define HANDLES  16u
#define RANGES   4u
#define RANGE    256u
#define SPAN     (RANGES * RANGE)
#define OWNER    1000
#define STRANGER 1001
#define SESSIONS 3u /* two of the owner's, one of another user's */
#define THEIRS   2u

#define MANY 64u

struct notice {
	uint64_t mapping, serial;
};

struct cleaning {
	struct allocation *allocation;
	uint32_t           range;
	uint64_t           serial;
};

extern _Atomic uint64_t words[BUFFERS];
extern struct accounting accounting;
extern struct memory device_memory;
extern struct registry registry;
extern struct session_mappings mappings[SESSIONS];
extern struct notice notices[MANY];
extern struct cleaning cleanings[MANY];       /* told to the hook, not yet done */
extern struct allocation *releasing[BUFFERS]; /* the same */
extern uint64_t ended_serials[MANY];                  /* serials */
extern unsigned notice_count, clean_count, release_count, ended_count;
extern bool can_clean;
extern void (*and_ended)(const struct buffer *buffer); /* an oracle's */
extern void (*note_end)(uint64_t serial); /* the buffer with that serial has no memory any more; NULL */

int setup(void **state);
void clean_one(int error);
void released(struct allocation *allocation);
void device_works(void);
int teardown(void **state);
struct buffer_spec spec_of(const char *name);
void ready(struct buffer *buffer);
struct buffer *live_of(struct buffer_spec spec);
struct buffer *live(const char *name);
uid_t uid_of(unsigned session);
struct grant_order order_of(unsigned session);
struct grant *grant_by(const struct grant_order *order, struct buffer *buffer, bool fresh_expected);
struct grant *grant_first(unsigned session, struct buffer *buffer);
struct grant *grant_again(unsigned session, struct buffer *buffer);
void unlink_all(struct buffer **buffers, unsigned count);
int part(struct buffer *buffer);
uint64_t used(enum resource resource);
void expect_notice(unsigned i, const struct mapping *mapping, uint64_t serial);
uint32_t range_of(const struct buffer *buffer);
void fill(struct buffer *buffers[RANGES]);
struct allocation *idle_of(unsigned session, struct buffer_spec spec);
struct mapping *mapping_on(unsigned session, const struct allocation *allocation);
void expect_evicted(struct allocation *allocation, struct mapping *mapping);
void expect_kept_until_closed(struct buffer *buffer, struct grant *grant);

#define ON(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif

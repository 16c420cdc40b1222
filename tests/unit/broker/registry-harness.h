/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registry-harness.h - a registry in which each buffer has an allocation of one range, and each mapping is of its own,
 * as a redeemed ticket gives it; for unit tests.
 *
 * The registry does no I/O, so its hooks are enough of a world. They note what they are told; the release hook also
 * proves at that moment that nothing can touch the memory.
 */
#ifndef GPUB_TESTS_REGISTRY_HARNESS_H
#define GPUB_TESTS_REGISTRY_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "broker/memory/memory.h"
#include "broker/registry/mappings.h"
#include "broker/registry/registry.h"
#include "common/board.h"

#define BUFFERS 8u
#define HANDLES 16u
#define SPAN    (2u << 20)
#define OWNER   1000
#define SESSION ((struct session *)0x1000) /* the registry never looks into a session */
#define HEIR (OWNER + 1)
#define OTHER_SESSION ((struct session *)0x2000)

extern _Atomic uint64_t words[BUFFERS];
extern struct accounting accounting;
extern struct memory memory;
extern struct registry registry;
extern struct session_mappings mappings, other_mappings; /* of two sessions */
extern struct allocation *releasing[BUFFERS]; /* told to the hook, not yet released */
extern unsigned releases, notices;
extern uint64_t noticed[HANDLES];

int setup(void **state);
void released(struct allocation *allocation);
void release_all(void);
int teardown(void **state);
int reserve(const char *name, struct buffer **buffer);
void ready(struct buffer *buffer);
struct buffer *live(const char *name);
int mapping_try(struct session *session, uid_t uid, struct session_mappings *table, struct buffer *buffer,
		struct mapping **mapping);
struct mapping *mapping_to(struct session_mappings *table, struct buffer *buffer);
uint64_t used(enum resource resource);
void expect_word(const struct buffer *buffer, enum board_state state);
uint64_t used_by(uid_t uid, enum resource resource);
struct mapping *mapping_of_other(struct buffer *buffer);

#define ON(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif

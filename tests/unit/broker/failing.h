/* SPDX-License-Identifier: Apache-2.0 */
/*
 * failing.h - makes one call for memory fail, as in a process that has none left: of malloc, calloc, realloc and
 * reallocarray, sodium_malloc, event_new and event_add.
 *
 * The linker redirects the calls of the broker's objects and of the test to functions here ($(failing_ldflags) in
 * tests/local.mk). Calls that libevent, libsodium and the C library make themselves do not fail.
 */
#ifndef GPUB_TESTS_FAILING_H
#define GPUB_TESTS_FAILING_H

#include <stdbool.h>

/* Lets one of the following calls of this thread fail: the one after that many calls that succeed. */
void fail_after(unsigned calls);

/* Lets all following calls of this thread fail. */
void fail_all(void);

/* From now on no call fails. Returns whether one has failed since fail_after() or fail_all(). */
bool fail_ended(void);

#endif

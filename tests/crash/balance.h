/* SPDX-License-Identifier: Apache-2.0 */
/*
 * balance.h - what must be true of a broker when every client but one is gone, however they went.
 *
 * The one that is left, the survivor, is a puppet of the test. Reads the status file and /dev/shm; owns nothing.
 */
#ifndef GPUB_TESTS_CRASH_BALANCE_H
#define GPUB_TESTS_CRASH_BALANCE_H

#include "tests/integration/harness.h"

#define BALANCE_MEMORY (4u << 20) /* what a device of such a broker has */

/* Starts a broker whose device has that memory. */
void balance_broker(struct broker_process *broker);

/*
 * Has the survivor unlink what the others left, and waits until the status shows nothing but the survivor: no other
 * session, no mapping, no buffer, no memory; every counter of what was made equal to that of what ended. NULL, or what
 * is wrong with them after ten seconds. Buffers that were to go with their creator must go by themselves.
 */
const char *balance_wrong(const struct broker_process *broker, struct puppet *survivor);

/*
 * Whether the survivor can have all of the device's memory, and finds it zeroed. Leaves it full of other bytes. NULL:
 * yes.
 */
const char *memory_wrong(struct puppet *survivor);

#endif

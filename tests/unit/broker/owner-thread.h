/* SPDX-License-Identifier: Apache-2.0 */
/*
 * owner-thread.h - the owner of the devices in a thread of the test, so that the test can replace functions of its
 * device, let its calls fail, and read its memory.
 *
 * One owner at a time. It has no process of its own, but is otherwise the one of broker/owner/: orders and answers pass
 * a socket pair, and its device threads carry them out.
 */
#ifndef GPUB_TESTS_OWNER_THREAD_H
#define GPUB_TESTS_OWNER_THREAD_H

#include "broker/owner/process.h"
#include "broker/owner/serve.h"

extern const struct owner_place owner_thread;
extern struct service owner_thread_service; /* what serves, once the setup was answered */

/* From now on the owner calls these functions. Called while it carries out nothing. */
void owner_thread_use(const struct device *device);

/* Begins an owner of such a device, which the test made and started, with so many ordinals, and no setup. */
int owner_thread_begin_with(struct owner_link *link, const struct device *device, unsigned devices);

#endif

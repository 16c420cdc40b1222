/* SPDX-License-Identifier: Apache-2.0 */
/*
 * owner-thread.h - the owner of the devices in a thread of the test, so that the test can replace functions of its
 * device, let its calls fail, read its memory, and let the owner die.
 *
 * One owner at a time. It has no process of its own, but is otherwise the one of broker/owner/: orders and answers pass
 * a socket pair, and its device threads carry them out. Only owner_thread_gone() makes link->ended readable.
 */
#ifndef GPUB_TESTS_OWNER_THREAD_H
#define GPUB_TESTS_OWNER_THREAD_H

#include "broker/owner/process.h"
#include "broker/owner/serve.h"

extern const struct owner_place owner_thread;
extern struct service owner_thread_service; /* what serves, once the setup was answered */

/* Device functions of each owner that begins; NULL: those of the kind of device that the setup asks for. */
extern const struct device *owner_thread_device;

/*
 * Called by the owner's thread before it starts its devices. False: the owner ends without an answer. NULL: the owner
 * starts.
 */
extern bool (*owner_thread_starts)(void);

/* An owner that died crashed, instead of having been killed by SIGKILL. */
extern bool owner_thread_crashes;

/* From now on the owner calls these functions. Called while it carries out nothing. */
void owner_thread_use(const struct device *device);

/* Begins an owner of such a device, which the test made and started, with so many ordinals, and no setup. */
int owner_thread_begin_with(struct owner_link *link, const struct device *device, unsigned devices);

/*
 * Lets the owner die: its sockets end. Each lane's thread ends then, without an answer to the order that it is carrying
 * out; a thread that carries out none takes one more order, if one waits.
 */
void owner_thread_die(const struct owner_link *link);

/*
 * Waits until the threads of an owner that died have ended, drops its memory as the kernel does, and makes link->ended
 * readable. Nothing that the owner does can land from then on.
 */
void owner_thread_gone(const struct owner_link *link);

#endif

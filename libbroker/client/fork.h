/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork.h - what a fork does to clients.
 *
 * A forked child must not use its parent's client, and must not keep the parent's session alive: the broker takes the
 * parent for dead only when no process holds its socket and its GPU descriptors (invariant 9). So the child closes
 * both, and wipes the keys. The child finds the guard page wiped, without a system call, also if it was made without
 * atfork handlers, by clone(2) with memory of its own. Owns the list of clients. Makes no CUDA call.
 */
#ifndef GPUB_FORK_H
#define GPUB_FORK_H

struct device;
struct gpub_client;

/*
 * For calls that have no client argument: returns -ECHILD if this process was forked from one that had a client, and
 * has begun no connect itself; else 0.
 */
int client_check_process(void);

/*
 * Makes each child that is forked from now on close this client's descriptors and wipe its keys. Call it before the
 * client's socket is opened.
 */
void fork_guard(struct gpub_client *client);
/* Makes each child that is forked from now on close the descriptors of this kind of device. */
void fork_guard_device(const struct device *device);
/* Ends fork_guard() for the client, and closes the client's descriptors. */
void fork_unguard(struct gpub_client *client);

#endif

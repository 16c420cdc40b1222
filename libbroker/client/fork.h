/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork.h - what a fork does to clients.
 *
 * A forked child must not use its parent's client, and must not keep it alive either: the broker takes the
 * parent for dead only when nobody holds its socket and its GPU descriptors any more (invariant 9). So the
 * child lets go of both, and wipes the keys. The guard page tells the child without a system call, also when
 * it was made without atfork handlers (vfork, clone). Owns the list of clients. Makes no CUDA call.
 */
#ifndef GPUB_FORK_H
#define GPUB_FORK_H

struct device;
struct gpub_client;

/* client_check() for calls that are given no client: -ECHILD where this process was forked from one that had any. */
int client_check_process(void);

/* From now on a forked child lets go of this client, whose socket is yet to be opened. */
void fork_guard(struct gpub_client *client);
/* And of this device. */
void fork_guard_device(const struct device *device);
/* Closes the client's socket, too. */
void fork_unguard(struct gpub_client *client);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* manage.h - the requests of broker-ctl that gpubroker.h does not offer: see manage.c. Owns nothing. */
#ifndef GPUB_MANAGE_H
#define GPUB_MANAGE_H

#include <stdbool.h>
#include <stdint.h>

struct gpub_client;

/*
 * Has the broker end the session with that id. *pidfd: a pidfd of its process, now the caller's. -ENOENT: no such
 * session; -EACCES: another user's; -EINVAL: the caller's own; -EMFILE: it has ended, but no descriptor was left for
 * the pidfd.
 */
int client_evict(struct gpub_client *client, uint64_t session, int *pidfd);

/*
 * Asks the broker for a status file (broker/status/format.h) of what this user may see. *file: a memfd that has it,
 * now the caller's; *all: it has the objects of all users. -ETIMEDOUT: the answer took more than a minute.
 */
int client_snapshot(struct gpub_client *client, int *file, bool *all);

#endif

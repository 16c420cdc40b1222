/* SPDX-License-Identifier: Apache-2.0 */
/* manage.h - the requests of broker-ctl that gpubroker.h does not offer: see manage.c. Owns nothing. */
#ifndef GPUB_MANAGE_H
#define GPUB_MANAGE_H

#include <stdbool.h>
#include <stdint.h>

struct gpub_client;

/*
 * Has the broker end that session. *pidfd: a pidfd of its process, now the caller's. -ENOENT, -EACCES; -EINVAL: it is
 * the caller's own session.
 */
int client_evict(struct gpub_client *client, uint64_t session, int *pidfd);

/*
 * Asks the broker what this user may see. *file: a status file (broker/status/format.h) in this process's memory, now the
 * caller's descriptor; *all: it has everybody's objects. -ETIMEDOUT: the broker takes very long.
 */
int client_snapshot(struct gpub_client *client, int *file, bool *all);

#endif

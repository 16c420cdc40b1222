/* SPDX-License-Identifier: Apache-2.0 */
/* manage.h - requests that broker-ctl and broker-status make and gpubroker.h does not offer. Owns nothing. */
#ifndef GPUB_MANAGE_H
#define GPUB_MANAGE_H

#include <stdbool.h>
#include <stdint.h>

struct gpub_client;

/*
 * Has the broker end the session with the id `session`. *pidfd: a pidfd of the session's process, for the caller to
 * close. -ENOENT: there is no such session. -EACCES: it is another user's. -EINVAL: it is the caller's own. -EMFILE:
 * the session was ended, but this process had no descriptor left for the pidfd.
 */
int client_evict(struct gpub_client *client, uint64_t session, int *pidfd);

/*
 * Asks the broker for a status file (broker/status/format.h) of what this user may see. *file: a memfd that has the
 * file, for the caller to close. *all: whether the file has the objects of all users. -ETIMEDOUT: the answer took more
 * than a minute.
 */
int client_snapshot(struct gpub_client *client, int *file, bool *all);

#endif

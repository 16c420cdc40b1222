/* SPDX-License-Identifier: Apache-2.0 */
/* manage.h - the request of broker-ctl that gpubroker.h does not offer: see manage.c. Owns nothing. */
#ifndef GPUB_MANAGE_H
#define GPUB_MANAGE_H

#include <stdint.h>

struct gpub_client;

/*
 * Has the broker end that session. *pidfd: a pidfd of its process, now the caller's. -ENOENT, -EACCES; -EINVAL: it is
 * the caller's own session.
 */
int client_evict(struct gpub_client *client, uint64_t session, int *pidfd);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* manage.h - what broker-ctl asks for that gpubroker.h does not offer: see manage.c. Owns nothing. */
#ifndef GPUB_MANAGE_H
#define GPUB_MANAGE_H

#include <stdint.h>

struct gpub_client;

/*
 * Has the broker cut that session off. *pidfd gets a pidfd of its process, now the caller's. -ENOENT, -EACCES, -EINVAL its own.
 */
int client_evict(struct gpub_client *client, uint64_t session, int *pidfd);

#endif

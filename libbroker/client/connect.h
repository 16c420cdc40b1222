/* SPDX-License-Identifier: Apache-2.0 */
/* connect.h - how broker-ctl connects: see connect.c. Owns nothing. */
#ifndef GPUB_CONNECT_H
#define GPUB_CONNECT_H

#include "address.h"

struct gpub_client;

/* gpub_connect() that starts no device: for a program that only sends requests. It must not acquire anything. */
int client_connect_bare(struct gpub_client **client, const char *address);

/* The same; -ETIMEDOUT, with the error message set, where the broker takes longer than that for a step of it. */
int client_connect_within(struct gpub_client **client, const char *address, unsigned seconds);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* connect.h - how broker-ctl and broker-status connect, which use no device (connect.c). Owns nothing. */
#ifndef GPUB_CONNECT_H
#define GPUB_CONNECT_H

#include "address.h"

struct gpub_client;

/* As gpub_connect(), but starts no device: for a program that only sends requests, and acquires no buffer. */
int client_connect_bare(struct gpub_client **client, const char *address);

/*
 * As client_connect_bare(), but returns -ETIMEDOUT, error message set, if the broker takes more than `seconds` (1 at
 * least) to accept the connection, or to send one of the messages of the greeting.
 */
int client_connect_within(struct gpub_client **client, const char *address, unsigned seconds);

#endif

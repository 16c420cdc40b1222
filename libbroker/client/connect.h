/* SPDX-License-Identifier: Apache-2.0 */
/* connect.h - connections of broker-ctl and broker-status, which use no device: see connect.c. Owns nothing. */
#ifndef GPUB_CONNECT_H
#define GPUB_CONNECT_H

#include "address.h"

struct gpub_client;

/* gpub_connect() that starts no device: for a program that only sends requests, and acquires no buffer. */
int client_connect_bare(struct gpub_client **client, const char *address);

/* client_connect_bare(); -ETIMEDOUT, with its message, if one step of the broker takes more than `seconds`. */
int client_connect_within(struct gpub_client **client, const char *address, unsigned seconds);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* connect.h - how the broker's own programs connect: see connect.c. Owns nothing. */
#ifndef GPUB_CONNECT_H
#define GPUB_CONNECT_H

struct gpub_client;

/* gpub_connect() that starts no device: for a program that only asks. What it cannot do then is not checked. */
int client_connect_bare(struct gpub_client **client, const char *address);

#endif

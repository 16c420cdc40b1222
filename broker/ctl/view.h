/* SPDX-License-Identifier: Apache-2.0 */
/*
 * view.h - broker-ctl list, stat, sessions and quota: print what the broker shows to this user (status/snapshot.h).
 *
 * Each asks the broker for its whole status, and prints a part of it on stdout, as broker-status does. Owns nothing.
 */
#ifndef GPUB_CTL_VIEW_H
#define GPUB_CTL_VIEW_H

#include <stdbool.h>

struct gpub_client;

/*
 * Print what the broker tells this user: view_list() the buffers, view_stat() the buffer with the name, view_sessions()
 * the sessions, view_quota() quotas and what is used of them; as a table or, with json, as JSON. Return 0,
 * or a negative errno with the error message set. pattern: a shell pattern of names; NULL: all names. -ENOENT: the
 * broker tells this user of no buffer with the name.
 */
int view_list(struct gpub_client *client, const char *pattern, bool json);
int view_stat(struct gpub_client *client, const char *name, bool json);
int view_sessions(struct gpub_client *client, bool json);
int view_quota(struct gpub_client *client, bool json);

#endif

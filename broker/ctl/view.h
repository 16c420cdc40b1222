/* SPDX-License-Identifier: Apache-2.0 */
/*
 * view.h - broker-ctl list, stat, sessions and quota: what the broker shows to this user (status/snapshot.h).
 *
 * Each asks for all of it and prints a part on stdout, as broker-status prints it. Owns nothing.
 */
#ifndef GPUB_CTL_VIEW_H
#define GPUB_CTL_VIEW_H

#include <stdbool.h>

struct gpub_client;

/* Negative errno, with the error message set. pattern: of names, as for a shell; NULL: all. */
int view_list(struct gpub_client *client, const char *pattern, bool json);
int view_stat(struct gpub_client *client, const char *name, bool json); /* -ENOENT */
int view_sessions(struct gpub_client *client, bool json);
int view_quota(struct gpub_client *client, bool json);

#endif

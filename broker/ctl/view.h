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

/* All return 0 or negative errno with the error message. pattern: of names, as in a shell; NULL: all. */
int view_list(struct gpub_client *client, const char *pattern, bool json);
int view_stat(struct gpub_client *client, const char *name, bool json); /* -ENOENT: no such buffer is shown */
int view_sessions(struct gpub_client *client, bool json);
int view_quota(struct gpub_client *client, bool json);

#endif

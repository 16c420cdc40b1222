/* SPDX-License-Identifier: Apache-2.0 */
/*
 * refresh.h - has a running broker ask its clients what they wait for, so that the broker's status file shows the
 * answers.
 *
 * Opens a short session, as any client does, at the address in the status file. The file's owner may have written any
 * address, so this user must trust the socket's place and the broker there (client/trust.h), and the broker must have
 * the instance's name. Each step waits for a limited time. Owns the connection while it exists.
 */
#ifndef GPUB_SHOW_REFRESH_H
#define GPUB_SHOW_REFRESH_H

#include "read.h"

/* Waits until the broker's status file is up to date. Returns 0 or a negative errno with the error message set. */
int shown_refresh(const struct shown *shown);

extern unsigned refresh_seconds; /* time limit of each step of shown_refresh(), in seconds; tests change it */

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * refresh.h - has a broker that runs ask its clients what they wait for, so that its status file says it.
 *
 * One session of a moment, as any client's: the broker decides who may connect. It connects where the status file says that
 * its broker listens, and trusts that file no further: the broker there must be one that this user trusts (client/trust.h), and
 * of that instance. Whoever wrote the file may have named a socket that answers nobody: it waits for a bounded time, and connects
 * only where a broker could be trusted at all. Owns the connection while it lasts.
 */
#ifndef GPUB_SHOW_REFRESH_H
#define GPUB_SHOW_REFRESH_H

#include "read.h"

/* Returns when the status file is up to date. The error message is set otherwise. */
int shown_refresh(const struct shown *shown);

extern unsigned refresh_seconds; /* for each step of it. Tests change it */

#endif

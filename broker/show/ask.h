/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ask.h - a broker's status from the broker itself, over an ordinary connection: what this user may see of it.
 *
 * For who may not read its status file, or does not see that file from where it runs. Owns nothing. The broker decides what is shown.
 */
#ifndef GPUB_SHOW_ASK_H
#define GPUB_SHOW_ASK_H

#include "read.h"

struct gpub_client;

/* Negative errno, with the error message set; *shown untouched then. */
int shown_ask(struct shown *shown, struct gpub_client *client);

/*
 * The same of a broker that a program without an address would connect to. instance: if it is that one, else -ENOENT; NULL:
 * whatever its name.
 */
int shown_ask_default(struct shown *shown, const char *instance);

/*
 * shown_read(); where the file is not for this user, or not there, the broker may answer. One that does not, as when it is stopped,
 * is waited for once, however many files there are. Else what is said of the file counts.
 */
int shown_read_or_ask(struct shown *shown, const char *instance);

#endif

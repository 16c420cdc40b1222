/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ask.h - gets a broker's status, as far as this user may see it, from the broker itself, over an ordinary client
 * connection.
 *
 * For users that may not read the broker's status file, or do not see the file from their container. Owns nothing. The
 * broker decides what is shown.
 */
#ifndef GPUB_SHOW_ASK_H
#define GPUB_SHOW_ASK_H

#include "read.h"

struct gpub_client;

/*
 * Gets the status from the broker that the client is connected to. Returns 0, or a negative errno with the error
 * message set and *shown unchanged.
 */
int shown_ask(struct shown *shown, struct gpub_client *client);

/*
 * Connects to the broker at the default address and gets its status. instance: the name that the broker must have, or
 * the result is -ENOENT; NULL: any name. Returns as shown_ask() does.
 */
int shown_ask_default(struct shown *shown, const char *instance);

/*
 * Reads the status file, as shown_read() does. If this user may not read the file, or if there is none, asks the
 * broker at the default address. If the broker cannot be asked either, returns the error of shown_read(). A broker
 * that did not answer once, such as a stopped one, is not asked again by this process.
 */
int shown_read_or_ask(struct shown *shown, const char *instance);

#endif

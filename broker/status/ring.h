/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring.h - the events in the status file (format.h): the newest ones, in three parts.
 *
 * To add one is to seal it and to copy it into the mapping: no system call, and no look at the others. A broker takes over
 * what the file of a killed broker of its name and user holds, each event by itself. Owns nothing. Never reads its own file.
 */
#ifndef GPUB_STATUS_RING_H
#define GPUB_STATUS_RING_H

#include "status.h"

/* For struct events. */
void ring_record(struct broker *broker, const struct broker_event *event);

/*
 * Opens and locks the status file of a dead broker of this name and user, and takes its name away. -1: there is none. Call it
 * before there is a new file of that name.
 */
int ring_predecessor_open(const struct status *status);

/* Takes its events over into the file, which is reserved, and closes fd. */
void ring_inherit(struct status *status, int fd);

#endif

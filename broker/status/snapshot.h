/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshot.h - sends a client what its user may see of the broker, as a status file (format.h) in PARTs.
 *
 * Who may read the status file sees everything; any other user sees
 *   - the devices, and where the broker listens;
 *   - its own account, sessions and buffers, and what its sessions hold and wait for, also of others' buffers: these without their
 *     names where it redeemed a ticket, which has none;
 *   - the timelines of its own buffers and of those that its sessions use, with their writers' sessions;
 *   - of others' sessions what they hold of its own buffers and that they wait for one, with their pid and uid, and without their
 *     command, rank and times.
 * Never anything else of others: no name, no command, no number of theirs, no counter, no histogram. One function
 * decides that, object by object, when the object is sent: what is filed under a new type has to be decided there.
 *
 * A walk (session/walk.h) sends it: objects that begin or end meanwhile are in it or not, and its reader leaves out
 * what names an object that is not there. Holds of a snapshot only which objects of others it has sent.
 */
#ifndef GPUB_STATUS_SNAPSHOT_H
#define GPUB_STATUS_SNAPSHOT_H

#include <stdint.h>

struct session;

/* The session gets PARTs and then a VIEW as answers to that request, in later steps. -ENOMEM. */
int snapshot_begin(struct session *session, uint64_t request);

#endif

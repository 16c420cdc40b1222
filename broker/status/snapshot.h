/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshot.h - sends a client the records that its user may see, in the format of a status file (format.h), as PARTs.
 *
 * A user that may read the status file sees everything. Any other user sees
 *   - the devices, the broker's address and its job;
 *   - the user's own account, sessions and buffers, and the mappings, grants and waits of its sessions, also those of
 *     other users' buffers; without the name of a buffer that the user may not acquire by name, as after a ticket;
 *   - the timelines of the user's own buffers and of buffers that its sessions use, with the writers' sessions;
 *   - other users' sessions that have mappings or grants of the user's own buffers, or wait for one: with pid and uid,
 *     but without command, rank, answers, and the times of connect and answer.
 * The user sees nothing else of other users: no name, command or number, no counter, no histogram. may_see() decides
 * for each object when the object is sent; a new type of object needs a decision in this function.
 *
 * A walk (session/walk.h) sends the records. An object that begins or ends meanwhile is sent or not, and the reader
 * drops mappings whose session, and grants whose mapping, was not sent. Owns the state of each running snapshot.
 */
#ifndef GPUB_STATUS_SNAPSHOT_H
#define GPUB_STATUS_SNAPSHOT_H

#include <stdint.h>

struct session;

/* Begins to answer by PARTs and then a VIEW. Returns 0 or an error of walk_begin() with the error message set. */
int snapshot_begin(struct session *session, uint64_t request);

#endif

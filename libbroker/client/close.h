/* SPDX-License-Identifier: Apache-2.0 */
/*
 * close.h - gives back what was mapped: gpub_trim, and what a disconnect, the closer and the service thread do of it.
 *
 * A mapping is closed behind the device work of every lease of every record on it (invariant 2), and CLOSED is sent after
 * that and before a record of it can stand for anything else. Closing waits for the process's kernels (gpubroker(7),
 * "Close"), so it happens only in calls that say so. A record whose buffer was unlinked can be let go of alone, without
 * closing anything, once the device is known to be done with it: IDLE. A mapping that fails to close is kept for ever, and
 * with it the grant. Owns nothing.
 */
#ifndef GPUB_CLOSE_H
#define GPUB_CLOSE_H

#include <stdbool.h>

struct gpub_client;
struct mapping;
struct record;

/*
 * Closes one mapping unless a lease holds a record of it (-EBUSY, all as before). wait: for returns in stream order
 * that have not landed yet. Called with the lock held; gives it up meanwhile: the mapping may be gone after. -EIO: its
 * records stay CLOSING for ever.
 */
int mapping_close(struct gpub_client *client, struct mapping *mapping, bool wait);

/*
 * Lets go of one OPEN record whose mapping stays, once the device is done with its leases: 0, -EBUSY (all as before).
 * sync: asks the device to be done with those that were returned plainly; else the stream's word alone counts. Called with
 * the lock held; gives it up meanwhile.
 */
int record_retire(struct gpub_client *client, struct record *record, bool sync);

/*
 * Where that device was reset since the last look, its mappings are over, and the leases of them. 0: it was not; 1: it was,
 * and the lock was given up; -EIO: it was, and cannot be used again. Locked.
 */
int client_notice_reset(struct gpub_client *client, int ordinal);

/*
 * At the end of a disconnect. Whoever connects next has the same structure, and perhaps another broker (invariant 8): nothing
 * of this connection may be found again. What could not be closed stays mapped, and granted until this process ends.
 */
void client_forget_all(struct gpub_client *client);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * close.h - how one mapping is closed, and one unlinked buffer retired. cache.h decides which, and when.
 *
 * A mapping is closed after the device work of every lease of every record in it (invariant 2). CLOSED is sent after
 * that, and before a record of it is reused. Closing waits for the process's kernels (gpubroker(7), "Close"), unless it is of
 * memory whose close need not wait, and the returns prove that its work is done. A record
 * whose buffer was unlinked can be retired alone, without closing anything, when the device is known to be done with
 * it: QUIESCED. A mapping that fails to close is kept until the process ends, and its grant with it. Owns nothing.
 */
#ifndef GPUB_CLOSE_H
#define GPUB_CLOSE_H

#include <stdbool.h>

struct gpub_client;
struct mapping;
struct record;

enum close_how {
	CLOSE_IF_UNUSED,   /* -EBUSY also where a return in stream order has not landed */
	CLOSE_WHEN_LANDED, /* waits for such returns */
	CLOSE_IF_QUIESCED  /* -EBUSY also where the close would wait for the device */
};

/*
 * Closes one mapping unless a lease holds a record of it (-EBUSY, nothing has changed). Locked; releases the lock meanwhile: the
 * mapping may be gone afterwards. -EIO: its records stay CLOSING for good.
 */
int mapping_close(struct gpub_client *client, struct mapping *mapping, enum close_how how);

/* All leases of its records that were returned so far were returned in stream order. Locked. */
bool mapping_is_quiesced(const struct mapping *mapping);

/*
 * Retires one OPEN record, whose mapping stays, if the device is done with its leases: 0, or -EBUSY (nothing has
 * changed). sync: waits for the device if leases were returned unordered; else only returns in stream order count.
 * Locked; releases the lock meanwhile.
 */
int record_retire(struct gpub_client *client, struct record *record, bool sync);

/*
 * Ends the mappings of a device that was reset since the last check, and their leases. 0: it was not reset; 1: it was,
 * and the lock was released; -EIO: it was, and cannot be used again. Locked.
 */
int client_notice_reset(struct gpub_client *client, int ordinal);

/*
 * At the end of a disconnect. The next connection may use the same structure with another broker (invariant 8), so it
 * must find nothing of this one. What could not be closed stays mapped, and granted until this process ends.
 */
void client_forget_all(struct gpub_client *client);

#endif

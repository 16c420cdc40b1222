/* SPDX-License-Identifier: Apache-2.0 */
/*
 * close.h - closes one mapping, or retires one unlinked buffer. cache.h decides which, and when.
 *
 * A mapping is closed when the device work of all leases of its buffers has ended (invariant 2). CLOSED is sent after
 * the close, and before any record of the mapping is reused. A close waits for the process's kernels (gpubroker(7),
 * "Close"), except if the kind of export need not wait (close_waits in export.h) and all leases were returned in stream
 * order, or the device was reset. If a buffer was unlinked and the device is known to be done with it, its record can
 * be retired alone, and the mapping stays open: QUIESCED is sent. A mapping that fails to close stays open, and stays
 * in the broker, until the process ends. Owns nothing.
 */
#ifndef GPUB_CLOSE_H
#define GPUB_CLOSE_H

#include <stdbool.h>

struct gpub_client;
struct mapping;
struct record;

/* If the device was reset, a lease or a return of the mapping does not prevent the close: its hold is ended. */
enum close_how {
	CLOSE_IF_UNUSED,   /* refuse with -EBUSY if a lease is held, or a return in stream order has not landed */
	CLOSE_WHEN_LANDED, /* refuse with -EBUSY if a lease is held; wait until returns in stream order have landed */
	CLOSE_IF_QUIESCED  /* as CLOSE_IF_UNUSED; refuse with -EBUSY also if the close would wait for the device */
};

/*
 * Closes one mapping, sends CLOSED, and releases the mapping's records. Returns 0; -EBUSY if a lease holds one of the
 * buffers, `how` does not allow the close, a buffer is acquired during the wait, or another thread closes the mapping;
 * or the error of a device that has failed. If the close itself fails, returns its error, the mapping stays open for
 * good (mapping_leak()) and its records stay CLOSING. Call it under client->lock, which it releases meanwhile: the
 * mapping may be freed afterwards.
 */
int mapping_close(struct gpub_client *client, struct mapping *mapping, enum close_how how);

/* Whether all returned leases of the mapping's buffers were returned in stream order. Call it under client->lock. */
bool mapping_is_quiesced(const struct mapping *mapping);

/*
 * Retires one OPEN record if the device is done with all leases of its buffer: sends QUIESCED and releases the
 * record. The mapping stays open. Returns 0; -EBUSY, with nothing changed, if a lease is held or the device may not
 * be done; or an error of mapping_sync(). sync: if leases were returned unordered, waits for the device (true), or
 * returns -EBUSY (false). Call it under client->lock, which it releases meanwhile.
 */
int record_retire(struct gpub_client *client, struct record *record, bool sync);

/*
 * If the device was reset since the last check, ends the leases of its mappings and closes the mappings. ordinal: the
 * device's, in this process. Returns 0 if the device was not reset; 1 if it was reset, or is in use for the first time;
 * -EIO if it was reset and cannot be used again, or a mapping failed to close. Call it under client->lock, which it may
 * release meanwhile if the device was reset.
 */
int client_notice_reset(struct gpub_client *client, int ordinal);

/*
 * Called at the end of a disconnect. Removes all mappings, records and timelines from the client structure, because
 * its next connection may be to another broker (invariant 8). A mapping that could not be closed stays mapped, and
 * stays in the broker, until this process ends.
 */
void client_forget_all(struct gpub_client *client);

#endif

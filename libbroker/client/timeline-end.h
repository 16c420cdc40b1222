/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline-end.h - the end of a writer: its signals land before it leaves, and without a broker it releases its waiters.
 *
 * A close waits for the device's work in the context that maps the memory, and in no other (facts.md), but a signal may be
 * queued on a stream of any context. A signal that lands after the broker's end mark overwrites the mark. So a disconnect reads
 * the words until the signals have landed. When the broker is gone, the writer itself writes the mark. Owns nothing; never
 * queues a signal.
 */
#ifndef GPUB_TIMELINE_END_H
#define GPUB_TIMELINE_END_H

struct gpub_client;

#define TIMELINE_LAND_MS 10000

/*
 * At disconnect: waits until this process's signals have landed. -ETIMEDOUT: they have not within TIMELINE_LAND_MS.
 * -EIO: they never will.
 */
int timelines_land(struct gpub_client *client);

/*
 * The broker is gone: nobody else releases the waiters, and nothing can be signalled. Ends each timeline that this
 * process writes, once its signals have landed. Returns when all have ended, or when a disconnect begins.
 */
void timelines_end_orphaned(struct gpub_client *client);

/* The same at once, landed or not: at the end of a disconnect without LEAVE. */
void timelines_end_now(struct gpub_client *client);

#endif

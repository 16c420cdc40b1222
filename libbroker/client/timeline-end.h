/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline-end.h - the end of a writer: its signals land before it leaves; if the connection is lost, it releases its
 * waiters.
 *
 * A close waits for the device's work in the context that maps the memory, and in no other (facts.md), but a signal
 * may be queued on a stream of any context. A signal that lands after the broker's end mark overwrites the mark. So a
 * disconnect first reads the timelines' words until the signals have landed. When the connection is lost, the writer
 * itself writes the mark. Owns nothing; never queues a signal.
 */
#ifndef GPUB_TIMELINE_END_H
#define GPUB_TIMELINE_END_H

struct gpub_client;

#define TIMELINE_LAND_MS 10000

/*
 * At disconnect: waits until this process's signals have landed. -ETIMEDOUT: some have not within TIMELINE_LAND_MS.
 * -EIO: the device has failed, so some never will.
 */
int timelines_land(struct gpub_client *client);

/*
 * When the connection is lost: marks each timeline that this process writes as ended, once its signals have landed,
 * because nobody else releases the waiters. Returns when all are marked, or when a disconnect begins.
 */
void timelines_end_orphaned(struct gpub_client *client);

/* At the end of a disconnect without LEAVE: marks these timelines at once, also if signals have not landed. */
void timelines_end_now(struct gpub_client *client);

#endif

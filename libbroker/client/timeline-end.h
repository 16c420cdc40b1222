/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline-end.h - what a writer owes its readers at its end: the signals that it queued land before it leaves.
 *
 * To close a mapping waits for the device's work in the context that maps it, and for no other's (facts.md), while a
 * signal may be queued on a stream of any context. A signal that lands behind the broker's mark writes over it. So the
 * words themselves are looked at. And when the broker is gone: then the writer itself releases who waits. Owns nothing; never
 * queues a signal.
 */
#ifndef GPUB_TIMELINE_END_H
#define GPUB_TIMELINE_END_H

struct gpub_client;

#define TIMELINE_LAND_MS 10000

/*
 * At disconnect: waits until what this process signalled has landed. -ETIMEDOUT: it has not within TIMELINE_LAND_MS; -EIO: it
 * never will.
 */
int timelines_land(struct gpub_client *client);

/*
 * The broker is gone, so nobody will release who waits, and nothing can be signalled any more: this process's timelines end
 * here, each when what it signalled has landed. Returns when all have, or the client is being disconnected.
 */
void timelines_end_orphaned(struct gpub_client *client);

/* The same at once, landed or not: at the end of a disconnect that told no broker. */
void timelines_end_now(struct gpub_client *client);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline-end.h - what the writer of timelines does at its end: in a disconnect it waits until its signals have
 * landed; if the connection is lost, it releases the streams that wait for its timelines.
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
 * For a disconnect: waits until all signals of this client have landed, or an end mark is in the page. -ETIMEDOUT: a
 * signal has not landed within TIMELINE_LAND_MS milliseconds. -EIO: the device has failed, so a signal will never land.
 */
int timelines_land(struct gpub_client *client);

/*
 * For a lost connection: marks each timeline that this process writes as ended, once its signals have landed, because
 * no other process releases the streams that wait for it. Returns when all these timelines are marked, or when a
 * disconnect begins.
 */
void timelines_end_orphaned(struct gpub_client *client);

/*
 * For the end of a disconnect without LEAVE: marks each timeline that this process writes as ended at once, also if its
 * signals have not landed.
 */
void timelines_end_now(struct gpub_client *client);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * waits.h - tells the broker what this process waits for, when the broker asks (INQUIRE).
 *
 * The reader (receiver.h) answers, so a process answers as long as it runs, even if all its other threads wait. The
 * answer has the waits that timeline-wait.h records, which the broker cannot know. The length of an answer is limited,
 * so it first has the first wait of each timeline, then the other waits. Owns nothing.
 */
#ifndef GPUB_WAITS_H
#define GPUB_WAITS_H

struct gpub_client;

/* Sends the answer to an INQUIRE, which has no waits if no stream and no thread of this process waits. */
void waits_report(struct gpub_client *client);

#endif

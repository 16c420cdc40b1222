/* SPDX-License-Identifier: Apache-2.0 */
/*
 * waits.h - tells the broker what this process waits for, when the broker asks (INQUIRE).
 *
 * The reader (receiver.h) answers, so a process answers as long as it runs, even if all its other threads wait. The
 * answer has the waits that timeline-wait.h keeps, which the broker cannot know. It is bounded, so the first wait of
 * each timeline comes before the others. Owns nothing.
 */
#ifndef GPUB_WAITS_H
#define GPUB_WAITS_H

struct gpub_client;

/* Sends the answer, which is empty if nothing waits. */
void waits_report(struct gpub_client *client);

#endif

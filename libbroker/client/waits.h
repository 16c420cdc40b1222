/* SPDX-License-Identifier: Apache-2.0 */
/*
 * waits.h - what this process waits for, told to the broker when it asks (INQUIRE).
 *
 * The reader's thread answers (receiver.h), so a process answers as long as it runs, whatever its other threads wait for.
 * It looks through what timeline-wait.h keeps: the waits of streams, which the broker cannot know. Bounded: a process has
 * more waits than streams only where these come later. Owns nothing.
 */
#ifndef GPUB_WAITS_H
#define GPUB_WAITS_H

struct gpub_client;

/* Sends the answer; an empty one where no stream waits. */
void waits_report(struct gpub_client *client);

#endif

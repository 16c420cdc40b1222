/* SPDX-License-Identifier: Apache-2.0 */
/*
 * closer.h - GPUB_BACKGROUND_CLOSE: lets go of unlinked buffers as soon as no lease holds them, and closes what the broker
 * wants back.
 *
 * A close waits for the process's running kernels (gpubroker(7), "Close"), so it has a thread of its own: on the service
 * thread it would hold up every grant and reply. The thread is started when the flag is first set and ends
 * with the client. Owns nothing; closes by mapping_close() and record_retire() alone.
 */
#ifndef GPUB_CLOSER_H
#define GPUB_CLOSER_H

struct gpub_client;

/* The flags changed: starts the closer where it is wanted, and has it look. */
int closer_wake(struct gpub_client *client);

/* Waits for its end, once client->leaving says so. */
void closer_stop(struct gpub_client *client);

#endif

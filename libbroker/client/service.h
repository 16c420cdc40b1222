/* SPDX-License-Identifier: Apache-2.0 */
/*
 * service.h - the library's one thread: it reads what the broker sends while no caller does (reader.h).
 *
 * The thread also retires unlinked buffers whose leases were all returned in stream order. It blocks all signals. When the
 * broker is gone it ends the timelines that this process writes, and then itself; in a disconnect it ends when the broker has
 * answered LEAVE. Owns nothing; never closes a mapping, which may wait for the device.
 */
#ifndef GPUB_SERVICE_H
#define GPUB_SERVICE_H

struct gpub_client;

/* Starts the thread. It ends with the connection: join client->service. */
int service_start(struct gpub_client *client);

#endif

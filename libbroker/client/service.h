/* SPDX-License-Identifier: Apache-2.0 */
/*
 * service.h - the service thread: it is the reader (receiver.h) while no caller is.
 *
 * The thread also retires unlinked buffers whose leases were all returned in stream order. All signals are blocked in
 * it. When the broker is gone, it ends the timelines that this process writes, and exits. In a disconnect it exits when
 * the broker has answered LEAVE. Owns nothing; never closes a mapping, which may wait for the device.
 */
#ifndef GPUB_SERVICE_H
#define GPUB_SERVICE_H

struct gpub_client;

/* Starts the thread. It ends with the connection: join client->service. */
int service_start(struct gpub_client *client);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * service.h - the service thread: it is the reader (receiver.h) while no caller is.
 *
 * The thread also retires unlinked buffers, and closes mappings that the broker wants back, if all their leases were
 * returned in stream order. All signals are blocked in the thread. When the connection is lost, the thread ends the
 * timelines that this process writes, and exits. In a disconnect it exits when the broker has answered LEAVE. Owns
 * nothing; makes no close that may wait for the device, except of memory that it has opened for a GRANT in vain.
 */
#ifndef GPUB_SERVICE_H
#define GPUB_SERVICE_H

struct gpub_client;

/* Starts the thread client->service. The thread ends with the connection, and a disconnect joins it. */
int service_start(struct gpub_client *client);

#endif

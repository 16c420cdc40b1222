/* SPDX-License-Identifier: Apache-2.0 */
/*
 * notify.h - reports the state of the program to the service manager: sd_notify(3)'s protocol, without its library.
 *
 * Datagrams to the socket that NOTIFY_SOCKET names. Owns the socket, and knows the interval of the watchdog. Never waits:
 * a message for which there is no room is lost, and that is logged. Without a service manager all of this does nothing.
 */
#ifndef GPUB_NOTIFY_H
#define GPUB_NOTIFY_H

#include <stdint.h>

struct notify {
	int      fd;          /* -1: there is no service manager */
	uint64_t watchdog_us; /* between two notify_alive(); 0: never */
};

/* Reads the environment, and removes its variables for this: they are not for our children. */
void notify_open(struct notify *notify);
void notify_close(struct notify *notify);

enum notify_state { NOTIFY_READY, NOTIFY_RELOADING, NOTIFY_STOPPING };

/* Sends the state, and one line for people. seconds: how long a stop may take. */
void notify_send(const struct notify *notify, enum notify_state state, unsigned seconds, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* The sign of life for the watchdog. */
void notify_alive(const struct notify *notify);

#endif

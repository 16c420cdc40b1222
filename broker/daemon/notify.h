/* SPDX-License-Identifier: Apache-2.0 */
/*
 * notify.h - reports the state of the program to the service manager by sd_notify(3)'s protocol.
 *
 * Sends datagrams to the socket that NOTIFY_SOCKET names. Owns the descriptor. Never waits: if the service manager's
 * queue is full, a message is lost, and the loss is logged. Without a service manager all functions do nothing.
 * Does not use libsystemd, because sd_notify(3) blocks while the service manager does not read.
 */
#ifndef GPUB_NOTIFY_H
#define GPUB_NOTIFY_H

#include <stdint.h>

struct notify {
	int      fd;          /* socket that is connected to the service manager; -1: there is no service manager */
	uint64_t watchdog_us; /* microseconds from one notify_alive() to the next; 0: the watchdog is off */
};

/* Reads NOTIFY_SOCKET and WATCHDOG_* and connects. Removes the variables, because child processes must not see them. */
void notify_open(struct notify *notify);
void notify_close(struct notify *notify);

enum notify_state { NOTIFY_READY, NOTIFY_RELOADING, NOTIFY_STOPPING };

/* Sends the state and one line of text. seconds: with NOTIFY_STOPPING: how many seconds the stop may take. */
void notify_send(const struct notify *notify, enum notify_state state, unsigned seconds, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* Tells the service manager's watchdog that the program is alive. */
void notify_alive(const struct notify *notify);

#endif

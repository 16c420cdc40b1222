/* SPDX-License-Identifier: Apache-2.0 */
/*
 * notify.h - tells the service manager how the program is: sd_notify(3)'s protocol, without its library.
 *
 * Datagrams to the socket that NOTIFY_SOCKET names. Owns the socket and knows how often the watchdog wants to
 * hear. Never waits: a message for which there is no room is lost, and said to be. Without a service manager
 * all of this does nothing.
 */
#ifndef GPUB_NOTIFY_H
#define GPUB_NOTIFY_H

#include <stdint.h>

struct notify {
	int      fd;          /* -1: nobody wants to know */
	uint64_t watchdog_us; /* between two notify_alive(); 0: never */
};

/* From the environment, whose variables for this are taken away: they are not our children's. */
void notify_open(struct notify *notify);
void notify_close(struct notify *notify);

/* Each with a STATUS= of one line for people. */
void notify_ready(const struct notify *notify, const char *format, ...) __attribute__((format(printf, 2, 3)));
void notify_reloading(const struct notify *notify, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* It ends, and may take so many seconds for it. */
void notify_stopping(const struct notify *notify, unsigned seconds, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The watchdog's sign of life. */
void notify_alive(const struct notify *notify);

#endif

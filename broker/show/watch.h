/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch.h - broker-status --watch: shows a broker's status on the whole terminal, and updates it at intervals.
 *
 * Reads the status file and /proc, as the tables do, so that watching costs the broker nothing, and a stopped, dead
 * or missing broker can be watched, too. Shows rows of grid.h, with histories of rates.h. Owns the terminal while it
 * runs, and restores the terminal at its end, also if SIGINT, SIGTERM, SIGHUP or SIGQUIT ends it.
 */
#ifndef GPUB_SHOW_WATCH_H
#define GPUB_SHOW_WATCH_H

#include "table.h"

/*
 * Shows the broker every `seconds` seconds until the user quits, or one of these signals comes, which is raised again
 * after the terminal is restored. Returns 0, or a negative errno with the error message set: -ENOTSUP if built without
 * ncurses, -ENOTTY without a usable terminal, or when it is gone, -ENOMEM, an error of ppoll(2), or one of shown_read()
 * at the first look.
 */
int watch_show(const char *instance, const struct table_options *options, unsigned seconds);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch.h - broker-status --watch: a broker's status on the whole terminal, again and again.
 *
 * Reads the status file and /proc, as the tables do: a broker that is watched does nothing for it, and one that is stopped, dead or not
 * there yet is watched as well. Owns the terminal while it runs, and restores it however it ends but by SIGKILL. What is shown are the
 * rows of grid.h, with a history that rates.h keeps.
 */
#ifndef GPUB_SHOW_WATCH_H
#define GPUB_SHOW_WATCH_H

#include "table.h"

/*
 * Until the user ends it; a signal that ends it is raised once the terminal is restored. -ENOTSUP: it was built without ncurses;
 * -ENOTTY: there is no terminal, or one that cannot be used; -ENOENT and others of shown_read(): at first, the broker cannot be shown.
 */
int watch_show(const char *instance, const struct table_options *options, unsigned seconds);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * commands.h - the commands of broker-ctl, each one or a few questions to the broker over an ordinary connection.
 *
 * What is refused is said on stderr, a line each; the rest goes on. Owns the connection while it lasts. Never decides
 * who may do what: that is the broker's.
 */
#ifndef GPUB_CTL_COMMANDS_H
#define GPUB_CTL_COMMANDS_H

#include "options.h"

enum ctl_exit { CTL_EXIT_DONE, CTL_EXIT_REFUSED, CTL_EXIT_USAGE, CTL_EXIT_TIME };

/* Any but CTL_DOCTOR. Returns the exit status. */
enum ctl_exit ctl_command_run(const struct ctl_options *options);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.h - broker-ctl's command line: the command, its options and its arguments.
 *
 * One table holds every command (commands.h), another every option with the commands that take it; --help is printed
 * from both. Errors in the form of the command line are found before a broker is asked. Owns nothing: strings point
 * into argv.
 */
#ifndef GPUB_CTL_OPTIONS_H
#define GPUB_CTL_OPTIONS_H

#include "commands.h"

/*
 * Reads the command line into *options. Returns 0; 1 if --help or --version was printed; or -EINVAL with the error
 * message.
 */
int ctl_options_parse(struct ctl_options *options, int argc, char **argv);

#endif

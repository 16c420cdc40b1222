/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.h - broker-ctl's command line: the command, its options and its arguments.
 *
 * One table holds every command (commands.h), one every option with the command that takes it; --help is printed from
 * both. All mistakes on the command line are found here, before a broker is asked. Owns nothing: texts are argv's.
 */
#ifndef GPUB_CTL_OPTIONS_H
#define GPUB_CTL_OPTIONS_H

#include "commands.h"

/* 0; 1: --help or --version was printed; -EINVAL with the error message. */
int ctl_options_parse(struct ctl_options *options, int argc, char **argv);

#endif

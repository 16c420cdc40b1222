/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker-ctl.c - command-line tool for the users and administrators of a broker, and for finding why a broker cannot be
 * used.
 *
 * Parses the command line, runs one command, returns the exit status. broker-ctl is a client without special rights.
 * Only load, save and doctor start a device, and make a context on it.
 */
#include <sodium.h>

#include "broker/base/log.h"
#include "broker/base/streams.h"
#include "common/error.h"
#include "options.h"

static enum ctl_exit run(int argc, char **argv)
{
	struct ctl_options options;
	int result = ctl_options_parse(&options, argc, argv);

	if (result > 0)
		return CTL_EXIT_DONE;
	if (result < 0) {
		log_say("%s", error_text());
		return CTL_EXIT_USAGE;
	}
	if (sodium_init() < 0) {
		log_say("libsodium does not start: no source of random numbers");
		return CTL_EXIT_REFUSED;
	}
	return ctl_command_run(&options);
}

int main(int argc, char **argv)
{
	int code = streams_fill();

	if (!code)
		code = run(argc, argv);
	if (code >= 0 && !streams_flush())
		return code;
	log_say("%s", error_text());
	return CTL_EXIT_REFUSED;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker-ctl.c - has a broker do what its owner or an administrator wants, and finds out why it does not.
 *
 * Owns the order of things: command line, one command, exit status. It is an ordinary client, which a broker trusts no
 * further than any other, and starts no device: the doctor alone looks at those, and makes no context there.
 */
#include <sodium.h>
#include <stdio.h>

#include "broker/base/log.h"
#include "broker/base/streams.h"
#include "commands.h"
#include "common/error.h"
#include "doctor.h"
#include "options.h"

int main(int argc, char **argv)
{
	struct ctl_options options;
	int result;

	if (streams_fill()) {
		log_say("%s", error_text());
		return CTL_EXIT_REFUSED;
	}
	result = ctl_options_parse(&options, argc, argv);
	if (result < 0) {
		log_say("%s", error_text());
		return CTL_EXIT_USAGE;
	}
	if (!result && sodium_init() < 0) {
		log_say("libsodium does not start: no source of random numbers");
		return CTL_EXIT_REFUSED;
	}
	if (result)
		result = 0;
	else if (options.command == CTL_DOCTOR)
		result = ctl_doctor(options.address);
	else
		result = ctl_command_run(&options);
	if (fflush(stdout) || ferror(stdout)) {
		log_say("the output cannot be written: %m");
		return CTL_EXIT_REFUSED;
	}
	return result;
}

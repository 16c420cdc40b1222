/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker-ctl.c - has a broker do what its owner or an administrator wants, and finds out why it does not.
 *
 * Owns the order: command line, one command, exit status. It is an ordinary client, which a broker trusts no further
 * than any other, and starts no device: only the doctor looks at devices, and makes no context there.
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

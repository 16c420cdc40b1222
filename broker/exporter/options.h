/* SPDX-License-Identifier: Apache-2.0 */
/* options.h - the command line of broker-exporter. Owns the list of instances until exporter_options_free(). */
#ifndef GPUB_EXPORTER_OPTIONS_H
#define GPUB_EXPORTER_OPTIONS_H

#include <sys/socket.h>

#include "broker/show/openmetrics.h"

#define EXPORTER_PORT   14782
#define EXPORTER_LISTEN "127.0.0.1:14782"

struct listen_address {
	struct sockaddr_storage address;
	socklen_t               length;
};

struct exporter_options {
	struct listen_address listen;
	struct metrics_wanted wanted;
};

/*
 * Reads the command line into *options. Returns 0; 1 if --help or --version was printed; or negative errno with the
 * error message.
 */
int exporter_options_parse(struct exporter_options *options, int argc, char **argv);
void exporter_options_free(struct exporter_options *options);

/*
 * Parses "ADDRESS:PORT" or "[IPV6]:PORT" into *listen. Port 0: the kernel chooses the port. Returns 0, or -EINVAL with
 * the error message.
 */
int listen_parse(const char *text, struct listen_address *listen);

#define LISTEN_TEXT_MAX 64

/* Formats the address as listen_parse() reads it. Returns text. */
const char *listen_format(const struct listen_address *listen, char text[LISTEN_TEXT_MAX]);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - see options.h */
#include "options.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/base/option-table.h"
#include "broker/show/openmetrics.h"
#include "common/error.h"

/* ---- where to listen ---- */

/*
 * Parses the first `length` bytes of text as an address of the family AF_INET or AF_INET6, without brackets, into
 * *address. Returns false if they are none.
 */
static bool address_take(int family, const char *text, size_t length, void *address)
{
	char copy[INET6_ADDRSTRLEN];

	if (length >= sizeof copy)
		return false;
	memcpy(copy, text, length);
	copy[length] = 0;
	return inet_pton(family, copy, address) == 1;
}

int listen_parse(const char *text, struct listen_address *listen)
{
	const char *colon = strrchr(text, ':');
	struct sockaddr_in v4 = { .sin_family = AF_INET };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
	size_t length = colon ? (size_t)(colon - text) : 0;
	uint64_t port;
	int error;

	if (!colon)
		return error_set(-EINVAL, "'%.60s' has no port: write ADDRESS:PORT, such as " EXPORTER_LISTEN, text);
	error = number_parse(colon + 1, "port", 0, 65535, &port);
	if (error)
		return error;
	v4.sin_port = v6.sin6_port = htons((uint16_t)port);
	if (address_take(AF_INET, text, length, &v4.sin_addr)) {
		memcpy(&listen->address, &v4, sizeof v4);
		listen->length = sizeof v4;
		return 0;
	}
	if (length > 2 && *text == '[' && colon[-1] == ']' &&
	    address_take(AF_INET6, text + 1, length - 2, &v6.sin6_addr)) {
		memcpy(&listen->address, &v6, sizeof v6);
		listen->length = sizeof v6;
		return 0;
	}
	return error_set(-EINVAL,
			 "'%.60s' does not begin with an address: write one in digits, such as 127.0.0.1:%u or "
			 "[::1]:%u",
			 text, EXPORTER_PORT, EXPORTER_PORT);
}

const char *listen_format(const struct listen_address *listen, char text[LISTEN_TEXT_MAX])
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)&listen->address;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&listen->address;
	char address[INET6_ADDRSTRLEN] = "?";

	if (listen->address.ss_family == AF_INET) {
		inet_ntop(AF_INET, &v4->sin_addr, address, sizeof address);
		snprintf(text, LISTEN_TEXT_MAX, "%s:%u", address, ntohs(v4->sin_port));
	} else {
		inet_ntop(AF_INET6, &v6->sin6_addr, address, sizeof address);
		snprintf(text, LISTEN_TEXT_MAX, "[%s]:%u", address, ntohs(v6->sin6_port));
	}
	return text;
}

static int take_listen(void *field, const char *text)
{
	return listen_parse(text, field);
}

/* ---- the table ---- */

static int take_one_more(void *field, const char *text)
{
	struct instances *instances = field;
	int error = instance_check(text);

	if (error)
		return error;
	if (instances->count == METRICS_BROKERS_MAX)
		return error_set(-EINVAL, "'%.40s' is one instance too many: there may be %d", text,
				 METRICS_BROKERS_MAX);
	return instances_add(instances, text);
}

static const struct option_row rows[] = {
	{ 0, "listen", "ADDRESS:PORT", "where to serve /metrics (" EXPORTER_LISTEN ")", VALUE(take_listen),
	  .offset = offsetof(struct exporter_options, listen) },
	{ 0, "instance", "NAME", "a broker to show, also where it is absent; may be repeated (all that are found)",
	  VALUE(take_one_more), .offset = offsetof(struct exporter_options, wanted.instances) },
	{ 0, "owner", "USER", "whose brokers are shown: another user's counts as absent (everybody's)",
	  VALUE(take_user), .offset = offsetof(struct exporter_options, wanted.owner) },
	OPTION_HELP_AND_VERSION,
};

static const struct option_table table = {
	.program = "broker-exporter",
	.usage = "usage: broker-exporter [OPTION ...]\n"
		 "Serves what brokers hold as metrics for Prometheus. Stays in the foreground.\n",
	.ending =
		"\nThe exit status is 0 when it was stopped by SIGTERM or SIGINT, 2 for wrong usage, 1 when it failed.",
	.width = 25,
	.words = WORDS_BOUNDED,
	.rows = rows,
	.count = sizeof rows / sizeof *rows,
};

int exporter_options_parse(struct exporter_options *options, int argc, char **argv)
{
	int error;

	*options = (struct exporter_options){ .wanted.owner = METRICS_ANY_OWNER };
	error = listen_parse(EXPORTER_LISTEN, &options->listen);
	return error ? error : option_table_read(&table, options, NULL, argc, argv);
}

void exporter_options_free(struct exporter_options *options)
{
	instances_free(&options->wanted.instances);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker-exporter.c - serves what brokers hold as metrics over HTTP, so that no broker itself needs the network.
 *
 * Owns the loop and the signals. Reads of brokers only their status files and what /proc shows: needs no other right
 * than to read these files, never connects to a broker, and writes no file.
 */
#include <errno.h>
#include <signal.h>
#include <sodium.h>
#include <string.h>

#include <event2/event.h>

#include "broker/base/log.h"
#include "broker/base/streams.h"
#include "broker/daemon/notify.h"
#include "common/error.h"
#include "options.h"
#include "server.h"

#define EXIT_FAILED 1
#define EXIT_USAGE  2

struct exporter {
	struct exporter_options options;
	struct notify           notify;
	struct event_base      *base;
	struct event           *ends[2]; /* events of SIGTERM and SIGINT */
	struct server           server;
};

static void on_end(evutil_socket_t fd, short what, void *argument)
{
	struct exporter *exporter = argument;

	(void)fd;
	(void)what;
	notify_send(&exporter->notify, NOTIFY_STOPPING, 0, "stopping");
	event_base_loopbreak(exporter->base);
}

static void loop_end(struct exporter *exporter)
{
	for (int i = 0; i < 2; i++)
		if (exporter->ends[i])
			event_free(exporter->ends[i]);
	if (exporter->base)
		event_base_free(exporter->base);
}

static int loop_begin(struct exporter *exporter)
{
	static const int signals[] = { SIGTERM, SIGINT };

	exporter->base = event_base_new();
	if (!exporter->base)
		return error_set(-ENOMEM, "the loop cannot be made: %m");
	for (int i = 0; i < 2; i++) {
		exporter->ends[i] = evsignal_new(exporter->base, signals[i], on_end, exporter);
		if (!exporter->ends[i] || event_add(exporter->ends[i], NULL))
			return error_set(-ENOMEM, "out of memory");
	}
	return 0;
}

static int serve(struct exporter *exporter)
{
	char text[LISTEN_TEXT_MAX];
	int error =
		server_open(&exporter->server, exporter->base, &exporter->options.listen, &exporter->options.wanted);

	if (error)
		return error;
	listen_format(&exporter->server.listen, text);
	log_note("serves http://%s/metrics", text);
	notify_send(&exporter->notify, NOTIFY_READY, 0, "serving http://%s/metrics", text);
	event_base_dispatch(exporter->base);
	server_close(&exporter->server);
	return 0;
}

static int exporter_main(struct exporter *exporter)
{
	int error;

	signal(SIGPIPE, SIG_IGN);
	/* has the kernel reap orphans, whose parent this is as process 1 of a container; it starts no process itself */
	signal(SIGCHLD, SIG_IGN);
	if (sodium_init() < 0)
		return error_set(-ENOSYS, "libsodium does not start: no source of random numbers");
	notify_open(&exporter->notify);
	error = loop_begin(exporter);
	if (!error)
		error = serve(exporter);
	loop_end(exporter);
	notify_close(&exporter->notify);
	return error;
}

static int run(struct exporter *exporter, int argc, char **argv)
{
	int result = exporter_options_parse(&exporter->options, argc, argv);

	if (result > 0)
		return 0;
	if (result < 0) {
		log_say("%s", error_text());
		return EXIT_USAGE;
	}
	if (!exporter_main(exporter))
		return 0;
	log_say("%s", error_text());
	return EXIT_FAILED;
}

int main(int argc, char **argv)
{
	static struct exporter exporter = { .notify.fd = -1 };
	int code = streams_fill();

	if (!code)
		code = run(&exporter, argc, argv);
	exporter_options_free(&exporter.options);
	if (code >= 0 && !streams_flush())
		return code;
	log_say("%s", error_text());
	return EXIT_FAILED;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * brokerd.c - the broker as a service: for unrelated processes of several users, at a socket that all know.
 *
 * Owns the order of things: configuration, socket, device, readiness, loop; a reload where it is asked for; and at the
 * end the names taken away, the drain with its limit, everything freed. Never daemonises, changes its user or starts a
 * process: that is the service manager's. Never frees what somebody still maps: past the limit it exits, and the driver
 * does.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/base/context.h"
#include "broker/base/event-failure.h"
#include "broker/base/log.h"
#include "broker/base/streams.h"
#include "broker/core/broker.h"
#include "broker/status/leftovers.h"
#include "common/error.h"
#include "common/size.h"
#include "configuration.h"
#include "notify.h"
#include "options.h"
#include "reader.h"
#include "socket.h"

#define EXIT_BROKER 1 /* it failed, or memory was still in use past its time */
#define EXIT_USAGE  2

#define HOLDERS_SAID 16 /* lines about who still holds what */

struct service {
	struct brokerd_options options;
	struct brokerd_config *config; /* what holds now; the broker points into it */
	struct brokerd_socket  socket;
	struct notify          notify;
	struct broker          broker;
	struct core            core; /* its parts */
	struct reader          reader;
	struct event_base     *base;
	struct event          *signals, *patience, *watchdog;
	int                    signal_fd;
	bool                   stopping, left; /* left: memory was still in use */
	bool                   reload_again;   /* asked for since the reading began: the file may be another one now */
};

/* ---- the end ---- */

static void on_idle(void *context)
{
	struct service *service = context;

	broker_quit(&service->broker);
}

static void say_holders(const struct service *service)
{
	const struct session *session;
	unsigned said = 0;

	for (session = service->broker.sessions->by_id; session; session = session->hh.next)
		if (session->grants.by_id && said++ < HOLDERS_SAID)
			log_say("pid %d (%s, uid %u) still holds %u grant%s: end it, or raise drain_timeout",
				session->pid, session->command, session->who.uid, HASH_COUNT(session->grants.by_id),
				PLURAL(HASH_COUNT(session->grants.by_id)));
	if (said > HOLDERS_SAID)
		log_say("and %u more hold grants", said - HOLDERS_SAID);
}

static void on_patience(evutil_socket_t fd, short what, void *argument)
{
	struct service *service = argument;

	(void)fd;
	(void)what;
	say_holders(service);
	log_say("not all memory was returned within %u second%s: leaving the rest to the driver",
		service->config->drain_seconds, PLURAL(service->config->drain_seconds));
	service->left = true;
	event_base_loopbreak(service->base);
}

static void stop(struct service *service)
{
	const struct timeval patience = { .tv_sec = service->config->drain_seconds };

	service->stopping = true;
	notify_stopping(&service->notify, service->config->drain_seconds + 10, "waiting until all memory is returned");
	log_note("stopping: no names from now on; what is in use has %u second%s to be returned",
		 service->config->drain_seconds, PLURAL(service->config->drain_seconds));
	evtimer_add(service->patience, &patience);
	broker_stop(&service->broker, on_idle, service);
}

static void on_stop(struct service *service)
{
	if (!service->stopping) {
		stop(service);
		return;
	}
	log_say("told to stop a second time: leaving what is still in use to the driver");
	service->left = true;
	event_base_loopbreak(service->base);
}

/* ---- reloading ---- */

static void config_swap(struct service *service, struct brokerd_config *config)
{
	struct brokerd_config *old = service->config;
	char kept[BROKERD_KEYS_TEXT];

	brokerd_config_keep(config, old, kept);
	if (*kept)
		log_say("%s changed in %s: that needs a restart, and stays as it was until then", kept,
			service->options.file);
	service->config = config;
	log_level_set(config->log);
	broker_configure(&service->broker, &config->broker.quotas, &config->broker.creators);
	broker_keep(&service->broker, config->broker.pool);
	brokerd_config_free(old);
}

static void reload_refused(struct service *service, const char *text)
{
	log_say("%s; the configuration stays as it was", text);
	notify_ready(&service->notify, "serving, with the configuration of before: %s", text);
}

/* The configuration of before holds until on_read() has the new one. */
static void reload(struct service *service)
{
	service->reload_again = service->reader.reading;
	if (service->stopping || service->reader.reading)
		return;
	notify_reloading(&service->notify, "reading %s", service->options.file);
	if (reader_start(&service->reader))
		reload_refused(service, error_text());
}

static void on_read(void *context, struct brokerd_config *config, const char *text)
{
	struct service *service = context;

	if (service->stopping) {
		brokerd_config_free(config);
		return;
	}
	if (config) {
		config_swap(service, config);
		log_note("%s is read again: its quotas hold from now on", service->options.file);
		notify_ready(&service->notify, "serving at %s", service->socket.path);
	} else {
		reload_refused(service, text);
	}
	if (service->reload_again)
		reload(service);
}

/* ---- events ---- */

static void on_signal(evutil_socket_t fd, short what, void *argument)
{
	struct signalfd_siginfo info;

	(void)what;
	if (read(fd, &info, sizeof info) != sizeof info)
		return;
	if (info.ssi_signo == SIGHUP)
		reload(argument);
	else
		on_stop(argument);
}

/* From the loop, so that a loop that hangs is one that says nothing. */
static void on_watchdog(evutil_socket_t fd, short what, void *argument)
{
	struct service *service = argument;

	(void)fd;
	(void)what;
	notify_alive(&service->notify);
}

static void signals_block(sigset_t *watched)
{
	struct sigaction defaults = { .sa_handler = SIG_DFL }, ignored = { .sa_handler = SIG_IGN };

	sigemptyset(watched);
	sigaddset(watched, SIGINT);
	sigaddset(watched, SIGTERM);
	sigaddset(watched, SIGHUP);
	/* one that is ignored would never be read */
	sigaction(SIGHUP, &defaults, NULL);
	sigaction(SIGPIPE, &ignored, NULL);
	sigprocmask(SIG_BLOCK, watched, NULL);
}

static int watchdog_begin(struct service *service)
{
	uint64_t us = service->notify.watchdog_us;
	struct timeval interval = { .tv_sec = (time_t)(us / 1000000), .tv_usec = (suseconds_t)(us % 1000000) };

	service->watchdog = event_new(service->base, -1, EV_PERSIST, on_watchdog, service);
	if (!service->watchdog || (us && event_add(service->watchdog, &interval)))
		return error_set(-ENOMEM, "out of memory");
	return 0;
}

static void on_event_failure(void *context)
{
	struct service *service = context;

	brokerd_socket_close(&service->socket);
}

static int events_begin(struct service *service, const sigset_t *signals)
{
	int error;

	event_failure_watch(EXIT_BROKER, on_event_failure, service);
	service->base = event_base_new();
	if (!service->base)
		return error_set(-ENOMEM, "the event loop cannot start: out of memory or descriptors");
	service->signal_fd = signalfd(-1, signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (service->signal_fd < 0)
		return error_set(-errno, "signals cannot be watched: %m");
	service->signals = event_new(service->base, service->signal_fd, EV_READ | EV_PERSIST, on_signal, service);
	service->patience = evtimer_new(service->base, on_patience, service);
	if (!service->signals || !service->patience || event_add(service->signals, NULL))
		return error_set(-ENOMEM, "out of memory");
	error = reader_open(&service->reader, service->base, &service->options, on_read, service);
	return error ? error : watchdog_begin(service);
}

static void events_end(struct service *service)
{
	struct event *const events[] = { service->signals, service->patience, service->watchdog };

	reader_close(&service->reader);
	for (size_t i = 0; i < sizeof events / sizeof *events; i++)
		if (events[i])
			event_free(events[i]);
	if (service->base)
		event_base_free(service->base);
	if (service->signal_fd >= 0)
		close(service->signal_fd);
}

/* ---- serving ---- */

/* Who may use the socket for its group may see what the broker says to people. */
static int status_let_in(const struct service *service)
{
	gid_t group = service->config->group;

	if (group != BROKERD_NO_GROUP && fchown(service->broker.status->fd, (uid_t)-1, group))
		return error_set(-errno, "the status file cannot be given to group %u: %m", group);
	return 0;
}

static int broker_begin(struct service *service)
{
	int error = broker_init(&service->broker, &service->core, &service->config->broker, service->base, service->socket.fd);

	if (error)
		return error;
	error = status_let_in(service);
	if (error)
		broker_deinit(&service->broker);
	return error;
}

static void say_ready(const struct service *service)
{
	const struct board_header *board = service->broker.board->header;

	log_note("'%s' serves %u %s device%s (%s) at %s%s", service->broker.config->instance, board->devices,
		 service->broker.device->name, PLURAL(board->devices), board->device[0].name,
		 service->socket.path, service->socket.lock < 0 ? ", which was passed on" : "");
	notify_ready(&service->notify, "serving at %s", service->socket.path);
}

static void say_account(const struct service *service)
{
	const struct counters *c = &service->broker.counters;

	log_note("stopped: %llu session%s; buffers %llu created, %llu freed; grants %llu given, %llu returned, %llu "
		 "ended by death; %s",
		 (unsigned long long)c->sessions_opened, PLURAL(c->sessions_opened), (unsigned long long)c->buffers_created,
		 (unsigned long long)broker_buffers_over(&service->broker), (unsigned long long)c->grants_opened,
		 (unsigned long long)c->grants_closed, (unsigned long long)c->grants_died,
		 broker_balanced(&service->broker) ? "balanced" : "NOT BALANCED");
}

static int serve(struct service *service)
{
	int error = broker_begin(service);
	bool balanced;

	if (error)
		return error;
	say_ready(service);
	log_serving(true);
	broker_loop(&service->broker);
	log_serving(false);
	say_account(service);
	balanced = broker_balanced(&service->broker);
	broker_deinit(&service->broker);
	if (!balanced && !service->left)
		return error_set(-EIO, "the account is not balanced: that is a mistake in the broker, report it");
	return 0;
}

static int service_run(struct service *service, const sigset_t *signals)
{
	int error;

	leftovers_remove();
	error = brokerd_socket_open(&service->socket, service->config);
	if (error)
		return error;
	error = events_begin(service, signals);
	if (!error)
		error = serve(service);
	events_end(service);
	brokerd_socket_close(&service->socket);
	return error;
}

static int service_main(struct service *service)
{
	sigset_t signals;
	int error;

	/* before the threads begin, which shall have them blocked too */
	signals_block(&signals);
	log_level_set(service->config->log);
	notify_open(&service->notify);
	error = service_run(service, &signals);
	if (error)
		log_say("%s", error_text());
	notify_close(&service->notify);
	return error || service->left ? EXIT_BROKER : 0;
}

/* ---- the beginning ---- */

static int check_done(const struct service *service)
{
	const char *file = service->options.file;

	printf(access(file, F_OK) ? "%s: it is not there, and the defaults are ok\n" : "%s: ok\n", file);
	return 1;
}

/* 0: serve; 1: nothing more to do; negative errno with the sentence. */
static int service_prepare(struct service *service, int argc, char **argv)
{
	int result = brokerd_options_parse(&service->options, argc, argv);

	if (!result)
		result = brokerd_options_load(&service->options, &service->config);
	if (!result && service->options.check)
		result = check_done(service);
	if (result > 0 && (fflush(stdout) || ferror(stdout)))
		return error_set(-EIO, "the output cannot be written: %m");
	return result;
}

int main(int argc, char **argv)
{
	static struct service service = { .signal_fd = -1, .notify.fd = -1 };
	int result;

	if (streams_fill()) {
		log_say("%s", error_text());
		return EXIT_BROKER;
	}
	result = service_prepare(&service, argc, argv);
	if (result < 0)
		log_say("%s", error_text());
	if (result)
		result = result > 0 ? 0 : result == -EIO ? EXIT_BROKER : EXIT_USAGE;
	else
		result = service_main(&service);
	if (service.reader.reading) {
		fflush(stdout); /* not all: one of them is what the reader hangs in */
		_exit(result);
	}
	brokerd_config_free(service.config);
	return result;
}

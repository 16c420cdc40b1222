/* SPDX-License-Identifier: Apache-2.0 */
/*
 * brokerd.c - the broker as a service, for unrelated processes of several users, at a well-known socket.
 *
 * Decides the order: reads the configuration, makes the socket, has the owner start the device, reports readiness, runs
 * the loop; reads the configuration again on SIGHUP; at the end unlinks the buffers, and waits until all memory is
 * freed, at most drain_timeout. Never daemonises or changes its user: that is the service manager's task. Never frees
 * memory that a process still maps: after drain_timeout brokerd exits, and the driver frees the memory later.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broker/base/context.h"
#include "broker/base/events.h"
#include "broker/base/log.h"
#include "broker/base/streams.h"
#include "broker/core/broker.h"
#include "broker/core/control.h"
#include "broker/core/signals.h"
#include "broker/status/leftovers.h"
#include "common/error.h"
#include "common/size.h"
#include "configuration.h"
#include "notify.h"
#include "options.h"
#include "reader.h"
#include "socket.h"

#define EXIT_BROKER 1 /* brokerd failed, or memory was still in use after drain_timeout or a second signal to stop */
#define EXIT_USAGE  2

struct service {
	struct brokerd_options options;
	struct brokerd_config *config; /* the current configuration, which the member `broker` uses */
	struct brokerd_socket  socket;
	struct notify          notify;
	struct broker          broker;
	struct core            core; /* the parts of the member `broker` */
	struct reader          reader;
	struct control         control;
	struct event          *watchdog;
	bool                   stopping;     /* on_stop() was called */
	bool                   left;         /* true: brokerd ends though memory is still in use */
	bool                   orphaned;     /* no other owner of the device memory starts, so brokerd ends */
	/* the socket was removed, and the last try to make it again failed */
	bool                   deaf;
	bool                   reload_again; /* SIGHUP was received during a reading: the file may have changed */
};

/* ---- the end ---- */

static void leave(struct service *service)
{
	service->left = true;
	broker_quit(&service->broker);
}

static void on_patience(void *context)
{
	struct service *service = context;

	control_log_holders(&service->broker, "end it, or raise drain_timeout");
	log_say("not all memory was returned within %u second%s: leaving the rest to the driver",
		service->config->drain_seconds, PLURAL(service->config->drain_seconds));
	leave(service);
}

static void on_no_owner(void *context)
{
	struct service *service = context;

	service->orphaned = true;
	leave(service);
}

static void on_stop(struct service *service)
{
	unsigned seconds = service->config->drain_seconds;
	char text[EVENT_TEXT_MAX];

	if (service->stopping) {
		log_say("a second signal to stop: leaving what is still in use to the driver");
		leave(service);
		return;
	}
	service->stopping = true;
	notify_send(&service->notify, NOTIFY_STOPPING, seconds + 10, "waiting until all memory is returned");
	snprintf(text, sizeof text, "stopping: all buffers are unlinked; what is in use has %u second%s to be returned",
		 seconds, PLURAL(seconds));
	event_happened(&service->broker, &(struct broker_event){ .kind = EVENT_STOP, .text = text });
	control_expect(&service->control, seconds);
	broker_stop(&service->broker, broker_quit, &service->broker);
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
	event_happened(&service->broker, &(struct broker_event){ .kind = EVENT_RELOAD_REFUSED, .text = text });
	notify_send(&service->notify, NOTIFY_READY, 0, "serving, with the old configuration: %s", text);
}

/* Starts to read the configuration again. The old one is in use until on_read() gets the new one. */
static void reload(struct service *service)
{
	service->reload_again = service->reader.reading;
	if (service->stopping || service->reader.reading)
		return;
	notify_send(&service->notify, NOTIFY_RELOADING, 0, "reading %s", service->options.file);
	if (reader_start(&service->reader))
		reload_refused(service, error_text());
}

static void on_read(void *context, struct brokerd_config *config, const char *text)
{
	struct service *service = context;
	char line[EVENT_TEXT_MAX];

	if (service->stopping) {
		brokerd_config_free(config);
		return;
	}
	if (config) {
		config_swap(service, config);
		snprintf(line, sizeof line, "%s is read again: its quotas apply from now on", service->options.file);
		event_happened(&service->broker, &(struct broker_event){ .kind = EVENT_RELOAD, .text = line });
		notify_send(&service->notify, NOTIFY_READY, 0, "serving at %s", service->socket.path);
	} else {
		reload_refused(service, text);
	}
	if (service->reload_again)
		reload(service);
}

/* ---- events ---- */

/* Reaps orphans, which brokerd gets as process 1 of a container. Leaves children of libraries' threads alone. */
static void reap_orphans(void)
{
	while (waitpid(-1, NULL, WNOHANG | __WNOTHREAD) > 0)
		continue;
}

static void on_signal(void *context, const struct signalfd_siginfo *info)
{
	switch (signal_use((int)info->ssi_signo)) {
	case SIGNAL_HANG_UP:
		reload(context);
		break;
	case SIGNAL_STOP:
		on_stop(context);
		break;
	case SIGNAL_CHILD:
		reap_orphans();
		break;
	case SIGNAL_FOR_WORKERS:
	case SIGNAL_UNTOUCHED:
		break;
	}
}

/* Reports to the watchdog from the event loop, so that the service manager notices a loop that hangs. */
static void on_watchdog(evutil_socket_t fd, short what, void *argument)
{
	struct service *service = argument;

	(void)fd;
	(void)what;
	notify_alive(&service->notify);
}

static int watchdog_begin(struct service *service)
{
	uint64_t us = service->notify.watchdog_us;
	struct timeval interval = { .tv_sec = (time_t)(us / 1000000), .tv_usec = (suseconds_t)(us % 1000000) };

	service->watchdog = event_new(service->control.base, -1, EV_PERSIST, on_watchdog, service);
	if (!service->watchdog || (us && event_add(service->watchdog, &interval)))
		return error_set(-ENOMEM, "out of memory");
	return 0;
}

static void on_event_failure(void *context)
{
	struct service *service = context;

	brokerd_socket_close(&service->socket);
}

static int loop_begin(struct service *service, const sigset_t *signals)
{
	int error = control_begin(&service->control, signals, EXIT_BROKER);

	if (!error)
		error = reader_open(&service->reader, service->control.base, &service->options, on_read, service);
	return error ? error : watchdog_begin(service);
}

static void loop_end(struct service *service)
{
	reader_close(&service->reader);
	if (service->watchdog)
		event_free(service->watchdog);
	control_end(&service->control);
}

/* ---- serving ---- */

/* Lets the group that may use the socket read the status file. */
static int status_share(const struct service *service)
{
	gid_t group = service->config->group;

	if (group != BROKERD_NO_GROUP && fchown(service->broker.status->file.fd, (uid_t)-1, group))
		return error_set(-errno, "the status file cannot be given to group %u: %m", group);
	return 0;
}

static int broker_begin(struct service *service)
{
	int error = broker_init(&service->broker, &service->core, &service->config->broker, service->control.base,
				service->socket.fd);

	if (error)
		return error;
	error = status_share(service);
	if (error)
		broker_deinit(&service->broker);
	return error;
}

static int look_at_socket(void *context, char text[EVENT_TEXT_MAX])
{
	struct service *service = context;
	int former, result = brokerd_socket_restore(&service->socket, service->config, &former);

	if (result > 0) {
		snprintf(text, EVENT_TEXT_MAX, "%s", service->socket.path);
		result = broker_listen(&service->broker, service->socket.fd, former);
		if (result < 0)
			brokerd_socket_undo(&service->socket, former);
	}
	service->deaf = result < 0 && !leftovers_leads_to(service->socket.path, &service->socket.file);
	return result;
}

static void watch_socket(struct service *service)
{
	struct names *names = &service->core.names;
	const char *path = service->socket.path;

	names_watch(names, look_at_socket, service);
	if (service->socket.file.st_ino)
		names_path(names, "%s", path);
	if (service->socket.lock < 0)
		return;
	names_path(names, "%s.lock", path);
	names_path(names, "%.*s", (int)(strrchr(path, '/') - path + 1), path);
}

static void say_ready(struct service *service)
{
	const struct board_header *board = service->broker.board->header;
	char text[EVENT_TEXT_MAX];

	snprintf(text, sizeof text, "'%s' serves %u %s device%s (%s) at %s%s", service->broker.config->instance,
		 board->devices, service->broker.device->name, PLURAL(board->devices), board->device[0].name,
		 service->socket.path, service->socket.lock < 0 ? ", which was passed on" : "");
	event_happened(&service->broker, &(struct broker_event){ .kind = EVENT_START, .text = text });
	notify_send(&service->notify, NOTIFY_READY, 0, "serving at %s", service->socket.path);
}

static int serve(struct service *service)
{
	int error = broker_begin(service);
	char account[CONTROL_ACCOUNT_MAX];
	bool balanced;

	if (error)
		return error;
	broker_when_no_owner(&service->broker, on_no_owner, service);
	say_ready(service);
	watch_socket(service);
	broker_loop(&service->broker);
	log_note("stopped: %llu session%s; %s", (unsigned long long)service->broker.counters.sessions_opened,
		 PLURAL(service->broker.counters.sessions_opened), control_account(&service->broker, account));
	balanced = broker_balanced(&service->broker);
	error = broker_deinit(&service->broker);
	if (service->orphaned)
		return error_set(-EIO, "the process that owns the device memory has ended, no other one starts, and "
				       "brokerd can make and free none without it: start brokerd again");
	if (error)
		return error;
	if (!balanced && !service->left)
		return error_set(-EIO, "the account is not balanced: a device did not free memory, as an event says, "
				       "or it is a bug in the broker: report it");
	if (service->deaf)
		return error_set(-ENOENT, "the socket %s was removed while brokerd served, and could not be made again",
				 service->socket.path);
	return 0;
}

static int service_run(struct service *service, const sigset_t *signals)
{
	int error;

	leftovers_remove(service->config->broker.instance);
	error = brokerd_socket_open(&service->socket, service->config);
	if (error)
		return error;
	error = loop_begin(service, signals);
	if (!error)
		error = serve(service);
	loop_end(service);
	brokerd_socket_close(&service->socket);
	return error;
}

static int service_main(struct service *service)
{
	struct sigaction defaults = { .sa_handler = SIG_DFL };
	sigset_t signals;
	int error;

	signals_used(&signals);
	/* a SIGHUP that is ignored might never be received by signalfd(2) */
	sigaction(SIGHUP, &defaults, NULL);
	sigaction(SIGCHLD, &defaults, NULL);
	control_block(&signals);
	log_level_set(service->config->log);
	log_journal();
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

	printf(access(file, F_OK) ? "%s: it does not exist; the defaults are ok\n" : "%s: ok\n", file);
	return 1;
}

/* Runs the service from its start to its end. Returns the exit status. */
static int brokerd(struct service *service, int argc, char **argv)
{
	int result = brokerd_options_parse(&service->options, argc, argv);

	if (!result)
		result = brokerd_options_load(&service->options, &service->config);
	if (!result && service->options.check)
		result = check_done(service);
	if (!result)
		return service_main(service);
	if (result > 0)
		return 0;
	log_say("%s", error_text());
	return EXIT_USAGE;
}

int main(int argc, char **argv)
{
	static struct service service = {
		.notify.fd = -1, .control = { on_signal, on_patience, on_event_failure, &service, NULL, NULL, NULL, -1 }
	};
	int code = streams_fill();

	if (!code)
		code = brokerd(&service, argc, argv);
	if (code < 0 || (!service.reader.reading && streams_flush())) {
		log_say("%s", error_text());
		return EXIT_BROKER;
	}
	if (service.reader.reading) {
		fflush(stdout); /* only stdout, because the reader's thread may hang in another stream */
		_exit(code);
	}
	brokerd_config_free(service.config);
	return code;
}

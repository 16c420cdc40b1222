/* SPDX-License-Identifier: Apache-2.0 */
/* service.c - see service.h */
#include "service.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/base/context.h"
#include "broker/base/events.h"
#include "broker/base/log.h"
#include "broker/core/signals.h"
#include "broker/core/takeover.h"
#include "broker/keeper/keeper.h"
#include "broker/status/leftovers.h"
#include "common/error.h"
#include "common/size.h"

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

/* Has the next broker use the configuration that was read now. */
static void config_put(struct service *service)
{
	int fd = brokerd_config_share(service->config);

	if (fd < 0) {
		log_say("the next broker will use the configuration of before: %s", error_text());
		return;
	}
	takeover_put(&service->broker, KEPT_CONFIG, fd);
	close(fd);
}

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
	config_put(service);
}

/* Uses the configuration that the broker before this one has read last. It was accepted then. */
static void config_take(struct service *service, const struct keeper_end *from)
{
	int fd = kept_find(from->kept, keep_key(KEPT_CONFIG, KEPT_ONLY));
	struct brokerd_config *config;
	char differ[BROKERD_KEYS_TEXT];

	if (fd < 0)
		return;
	if (brokerd_options_load_shared(&service->options, fd, &config)) {
		log_say("the configuration of brokerd's start is used again: %s", error_text());
		return;
	}
	brokerd_config_keep(config, service->config, differ);
	brokerd_config_free(service->config);
	service->config = config;
	log_level_set(config->log);
}

static void reload_refused(struct service *service, const char *text)
{
	event_happened(&service->broker, &(struct broker_event){ .kind = EVENT_RELOAD_REFUSED, .text = text });
	notify_send(&service->notify, NOTIFY_READY, 0, "serving, with the old configuration: %s", text);
}

/*
 * Starts to read the configuration again, if it was asked for since the last reading began, and none is under way. The
 * old one is in use until on_read() gets the new one.
 */
static void reload(struct service *service)
{
	if (service->stopping || service->reader.reading || service->reloads->asked == service->reloads->done)
		return;
	service->reading = service->reloads->asked;
	service->reloads->begun = service->reading;
	notify_send(&service->notify, NOTIFY_RELOADING, 0, "reading %s", service->options.file);
	if (!reader_start(&service->reader))
		return;
	service->reloads->done = service->reading;
	reload_refused(service, error_text());
}

/* Does what the broker before this one was asked for and had not done, but for a file at which it crashed. */
static void reload_again(struct service *service)
{
	const struct keeper_end *from = service->core.takeover.from;
	struct reloads *reloads = service->reloads;

	if (reloads->begun != reloads->done && (from->last == POLICY_CRASHED || from->last == POLICY_WATCHDOG)) {
		reloads->done = reloads->begun;
		reload_refused(service, "a broker crashed while it read the configuration again");
	}
	reload(service);
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
	service->reloads->done = service->reading;
	reload(service); /* the file may have changed since */
}

/* ---- events ---- */

/* What a terminal or a service manager sends to all processes, the keeper gets, too, and decides about. */
static void on_signal(void *context, const struct signalfd_siginfo *info)
{
	struct service *service = context;

	switch (signal_use((int)info->ssi_signo)) {
	case SIGNAL_HANG_UP:
		reload(service);
		break;
	case SIGNAL_STOP:
		if (keeper_asks_for_end(service->core.takeover.from))
			on_stop(service);
		break;
	case SIGNAL_CHILD:
	case SIGNAL_FOR_WORKERS:
	case SIGNAL_UNTOUCHED:
		break;
	}
}

/* An exit would be that of the program. */
static void on_event_failure(void *context)
{
	(void)context;
	abort();
}

static int loop_begin(struct service *service, const sigset_t *signals)
{
	int error;

	service->control = (struct control){ .on_signal = on_signal,
					     .on_patience = on_patience,
					     .on_failure = on_event_failure,
					     .context = service,
					     .signal_fd = -1 };
	error = control_begin(&service->control, signals, EXIT_BROKER);

	if (!error)
		error = reader_open(&service->reader, service->control.base, &service->options, on_read, service);
	return error;
}

static void loop_end(struct service *service)
{
	reader_close(&service->reader);
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

static int broker_begin(struct service *service, struct keeper_end *from)
{
	struct broker_config config = service->config->broker;
	int error;

	config.keeper = from;
	config.board = service->board;
	error = broker_init(&service->broker, &service->core, &config, service->control.base, service->socket.fd);

	if (error)
		return error;
	error = status_share(service);
	if (error)
		broker_deinit(&service->broker);
	return error;
}

/* Has the next broker use the socket as it is now. The keeper's own is the one of brokerd's start. */
static void socket_put(struct service *service)
{
	int file = brokerd_socket_identify(&service->socket);

	takeover_put(&service->broker, KEPT_LISTENER, service->socket.fd);
	if (service->socket.lock >= 0)
		takeover_put(&service->broker, KEPT_LISTENER_LOCK, service->socket.lock);
	if (file < 0)
		return;
	takeover_put(&service->broker, KEPT_LISTENER_FILE, file);
	close(file);
}

/* Uses the socket of the broker before this one, if that has put it. */
static void socket_take(struct service *service, const struct keeper_end *from)
{
	int fd = kept_take(from->kept, keep_key(KEPT_LISTENER, KEPT_ONLY));
	int lock = kept_take(from->kept, keep_key(KEPT_LISTENER_LOCK, 1));
	int file = kept_take(from->kept, keep_key(KEPT_LISTENER_FILE, 1));

	service->inherited = fd >= 0;
	if (fd < 0)
		return;
	close(service->socket.fd);
	close(service->socket.lock);
	if (brokerd_socket_adopt(&service->socket, fd, lock, file))
		abort(); /* it is this keeper's */
	if (file >= 0)
		close(file);
}

static int look_at_socket(void *context, char text[EVENT_TEXT_MAX])
{
	struct service *service = context;
	int lock = service->socket.lock;
	int former, result = brokerd_socket_restore(&service->socket, service->config, &former);

	if (result > 0) {
		snprintf(text, EVENT_TEXT_MAX, "%s", service->socket.path);
		result = broker_listen(&service->broker, service->socket.fd, former);
		if (result < 0)
			brokerd_socket_undo(&service->socket, former);
	}
	if (result > 0 || lock != service->socket.lock)
		socket_put(service);
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
	const struct takeover *takeover = &service->core.takeover;
	const struct board_header *board = service->broker.board->header;
	char text[EVENT_TEXT_MAX];

	snprintf(text, sizeof text, "'%s' serves %u %s device%s (%s) at %s%s; gpubroker " PACKAGE_VERSION,
		 service->broker.config->instance, board->devices, service->broker.device->name,
		 PLURAL(board->devices), board->device[0].name, service->socket.path,
		 service->socket.lock < 0 ? ", which was passed on" : "");
	if (!takeover->goes_on)
		event_happened(&service->broker, &(struct broker_event){ .kind = EVENT_START, .text = text });
	notify_send(&service->notify, NOTIFY_READY, 0, "serving at %s", service->socket.path);
}

static int serve(struct service *service, struct keeper_end *from)
{
	int error = broker_begin(service, from);
	char account[CONTROL_ACCOUNT_MAX];
	bool balanced;

	if (error)
		return error;
	if (!service->inherited)
		socket_put(service);
	broker_when_no_owner(&service->broker, on_no_owner, service);
	say_ready(service);
	watch_socket(service);
	reload_again(service);
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

int service_run(struct service *service, struct keeper_end *from)
{
	sigset_t signals;
	int error, code;

	signals_used(&signals);
	config_take(service, from);
	socket_take(service, from);
	error = loop_begin(service, &signals);
	if (!error)
		error = serve(service, from);
	loop_end(service);
	brokerd_socket_close(&service->socket);
	if (error)
		log_say("%s", error_text());
	code = error || service->left ? EXIT_BROKER : 0;
	if (service->reader.reading) {
		fflush(stdout); /* only stdout, because the reader's thread may hang in another stream */
		_exit(code);
	}
	brokerd_config_free(service->config);
	return code;
}

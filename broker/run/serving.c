/* SPDX-License-Identifier: Apache-2.0 */
/* serving.c - see serving.h */
#include "serving.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "broker/base/context.h"
#include "broker/base/events.h"
#include "broker/base/log.h"
#include "broker/core/signals.h"
#include "broker/core/takeover.h"
#include "broker/keeper/keeper.h"
#include "broker/request/creation.h"
#include "broker/status/leftovers.h"
#include "common/error.h"
#include "common/size.h"

/* ---- the socket ---- */

/* Has the next broker, and the first process at its end, use the socket as it is now. */
static void socket_put(struct serving *serving)
{
	const struct private_socket *socket = &serving->socket;
	int file = private_socket_identify(socket);

	takeover_put(&serving->broker, KEPT_LISTENER, socket->fd);
	takeover_put(&serving->broker, KEPT_LISTENER_LOCK, socket->directory.lock);
	if (socket->directory.fd >= 0)
		takeover_put(&serving->broker, KEPT_LISTENER_DIRECTORY, socket->directory.fd);
	if (file < 0)
		return;
	takeover_put(&serving->broker, KEPT_LISTENER_FILE, file);
	close(file);
}

static int take(struct kept *kept, enum kept_kind kind)
{
	return kept_take(kept, keep_key(kind, KEPT_ONLY));
}

int serving_take_socket(struct private_socket *socket, struct kept *kept)
{
	const struct private_socket_kept last = { .fd = take(kept, KEPT_LISTENER),
						  .directory = take(kept, KEPT_LISTENER_DIRECTORY),
						  .lock = take(kept, KEPT_LISTENER_LOCK),
						  .file = take(kept, KEPT_LISTENER_FILE) };
	const struct private_socket former = *socket;
	int error = last.fd < 0 ? 0 : private_socket_adopt(socket, &last);

	if (last.file >= 0)
		close(last.file);
	if (last.fd >= 0 && !error)
		private_socket_close(&former);
	return error;
}

static int look_at_socket(void *context, char text[EVENT_TEXT_MAX])
{
	struct serving *serving = context;
	int lock = serving->socket.directory.lock, former;
	int result = private_socket_restore(&serving->socket, &former);

	if (result > 0) {
		snprintf(text, EVENT_TEXT_MAX, "%s", serving->socket.path);
		result = broker_listen(&serving->broker, serving->socket.fd, former);
		if (result < 0)
			private_socket_undo(&serving->socket, former);
	}
	if (result > 0 || lock != serving->socket.directory.lock)
		socket_put(serving);
	serving->deaf = result < 0 && !leftovers_leads_to(serving->socket.path, &serving->socket.own);
	return result;
}

/* ---- the end ---- */

/* Called every second during the drain at the end, which has no deadline: reports which processes hold memory. */
static void on_patience(void *context)
{
	struct serving *serving = context;

	drain_report(&serving->drain, &serving->broker, serving->drain.seconds ? 1 : DRAIN_FIRST);
	control_expect(&serving->control, 1);
}

static void stop(struct serving *serving)
{
	if (serving->stopping)
		return;
	serving->stopping = true;
	control_expect(&serving->control, DRAIN_FIRST);
	broker_stop(&serving->broker, broker_quit, &serving->broker);
}

static void fail(struct serving *serving, const char *text)
{
	if (!serving->failed) /* only the first cause is logged */
		log_say("%s", text);
	serving->failed = true;
	stop(serving);
}

/* Without an owner nothing can be freed, so there is no drain: it would never end. */
static void on_no_owner(void *context)
{
	struct serving *serving = context;

	if (!serving->failed)
		log_say("the process that owns the device memory has ended, and no other one starts: ending the "
			"workers");
	serving->failed = serving->orphaned = true;
	broker_quit(&serving->broker);
}

/* What a terminal sends to all processes, the first process gets, too, and decides about. */
static void on_signal(void *context, const struct signalfd_siginfo *info)
{
	struct serving *serving = context;

	if (signal_use((int)info->ssi_signo) != SIGNAL_STOP || !keeper_asks_for_end(serving->core.takeover.from))
		return;
	if (serving->stopping)
		broker_quit(&serving->broker);
	else
		stop(serving);
}

/* An exit would be that of the program. */
static void on_event_failure(void *context)
{
	(void)context;
	abort();
}

/* ---- the beginning ---- */

/* Tells the first process that the workers may begin. */
static void tell(struct serving *serving)
{
	const struct owner_facts *facts = &serving->core.devices.facts;

	if (send(serving->tell, facts, sizeof *facts, MSG_NOSIGNAL) != sizeof *facts)
		fail(serving, "the broker cannot tell broker-run what the devices are");
}

/*
 * Called when a declared buffer was created or that failed, and once by declare(). A broker that died here may have
 * created it.
 */
static void on_declared(void *context, int error, const char *text)
{
	struct serving *serving = context;

	serving->awaited--;
	if (error && !(error == -EEXIST && serving->core.takeover.goes_on))
		fail(serving, text);
	else if (!serving->awaited && !serving->stopping)
		tell(serving);
}

/* Starts to create the declared buffers. A failure ends the run before a worker starts. */
static void declare(struct serving *serving)
{
	const struct declared_buffers *buffers = &serving->options->buffers;

	serving->awaited = buffers->count + 1;
	for (unsigned i = 0; i < buffers->count; i++) {
		const struct declared_buffer *b = &buffers->list[i];
		int error = broker_create(&serving->broker, b->name, &b->amount, b->flags, b->mode, on_declared,
					  serving);

		if (error)
			on_declared(serving, error, error_text());
	}
	on_declared(serving, 0, NULL);
}

static void say_device(struct serving *serving)
{
	const struct board_header *board = serving->broker.board->header;
	unsigned workers = serving->options->workers;
	char text[EVENT_TEXT_MAX];

	snprintf(text, sizeof text, "%u worker%s, %u %s device%s (%s)", workers, PLURAL(workers), board->devices,
		 serving->broker.device->name, PLURAL(board->devices), board->device[0].name);
	event_happened(&serving->broker, &(struct broker_event){ .kind = EVENT_START, .text = text });
	if (!serving->options->quiet)
		log_say("%s", text);
}

static void begin(struct serving *serving)
{
	struct names *names = &serving->core.names;

	broker_when_no_owner(&serving->broker, on_no_owner, serving);
	names_watch(names, look_at_socket, serving);
	private_socket_watch(&serving->socket, names);
	if (!serving->core.takeover.goes_on) {
		socket_put(serving);
		say_device(serving);
	}
	if (!serving->core.takeover.goes_on || !serving->told)
		declare(serving);
}

/* ---- serving ---- */

static void print_account(const struct serving *serving)
{
	char text[CONTROL_ACCOUNT_MAX];

	if (!serving->options->quiet)
		log_say("account: %s", control_account(&serving->broker, text));
}

static int broker_begin(struct serving *serving, struct keeper_end *from)
{
	struct broker_config config = serving->options->broker;

	config.keeper = from;
	config.board = serving->board;
	return broker_init(&serving->broker, &serving->core, &config, serving->control.base, serving->socket.fd);
}

static int serve(struct serving *serving, struct keeper_end *from)
{
	int error = broker_begin(serving, from);

	if (error)
		return error;
	begin(serving);
	broker_loop(&serving->broker);
	print_account(serving);
	serving->failed |= !broker_balanced(&serving->broker) || serving->deaf;
	if (serving->deaf)
		log_say("%s was removed while it served, and could not be made again: programs that started since then "
			"did not reach the broker", serving->socket.path);
	error = broker_deinit(&serving->broker);
	return serving->orphaned ? 0 : error;
}

int serving_run(struct serving *serving, struct keeper_end *from)
{
	int error;

	serving->control = (struct control){ .on_signal = on_signal,
					     .on_patience = on_patience,
					     .on_failure = on_event_failure,
					     .context = serving,
					     .signal_fd = -1 };
	error = serving_take_socket(&serving->socket, from->kept);
	if (!error)
		error = control_begin(&serving->control, serving->signals, EXIT_BROKER);
	if (!error)
		error = serve(serving, from);
	control_end(&serving->control);
	if (error)
		log_say("%s", error_text());
	return error || serving->failed ? EXIT_BROKER : 0;
}

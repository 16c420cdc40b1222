/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker-run.c - the parent broker: forks N workers, serves them, waits for them, prints the account.
 *
 * Owns the order: socket, workers forked, device started, declared buffers created, workers released, loop, buffers
 * unlinked, all memory freed, account. Never touches a device before it forked.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/base/context.h"
#include "broker/base/events.h"
#include "broker/base/log.h"
#include "broker/base/streams.h"
#include "broker/core/broker.h"
#include "broker/core/control.h"
#include "broker/request/creation.h"
#include "broker/status/leftovers.h"
#include "children.h"
#include "common/error.h"
#include "common/mps.h"
#include "common/size.h"
#include "common/socket.h"
#include "drain.h"
#include "options.h"

#define EXIT_BROKER 125 /* as env(1) and timeout(1): workers rarely exit with it */

struct run {
	struct run_options options;
	struct children    children;
	struct broker      broker;
	struct core        core; /* its parts */
	struct control     control;
	struct drain_report drain;
	char               directory[LEFTOVERS_PATH_SIZE], path[LEFTOVERS_PATH_SIZE + sizeof "/socket"];
	int                lock, listener;
	unsigned           creating; /* declared buffers that do not exist yet */
	bool               failed;   /* the broker itself; it is logged already */
	bool               mps;      /* the workers run under MPS */
	bool               stopped;  /* a signal asked for the end of all workers */
	bool               ended;
};

/* ---- the private socket ---- */

/*
 * CUDA_DEVICE_MAX_CONNECTIONS for the workers; 0: as it is. There is no default under MPS, where all clients share one
 * pool of connections: a worker that takes more may leave none for another.
 */
static unsigned worker_connections(const struct run_options *options, bool mps)
{
	if (options->connections)
		return options->connections == RUN_CONNECTIONS_INHERITED ? 0 : (unsigned)options->connections;
	return getenv("CUDA_DEVICE_MAX_CONNECTIONS") || mps ? 0 : RUN_CONNECTIONS;
}

static int socket_make(struct run *run)
{
	struct worker_environment environment = { 0 };
	char address[SOCKET_ADDRESS_SIZE];
	int error;

	/* before the device is started: the broker itself hides from MPS then */
	run->mps = mps_is_here(NULL);
	environment.connections = worker_connections(&run->options, run->mps);
	leftovers_remove(NULL);
	run->lock = leftovers_directory_make(run->options.broker.instance, run->directory);
	if (run->lock < 0)
		return run->lock;
	snprintf(run->path, sizeof run->path, "%s/socket", run->directory);
	run->listener = socket_listen(run->path, 0600);
	error = run->listener;
	if (error < 0)
		goto remove_directory;
	snprintf(address, sizeof address, "unix:%s", run->path);
	environment.address = address;
	error = children_fork(&run->children, run->options.workers, run->options.command, &environment);
	if (!error)
		return 0;
	close(run->listener);
remove_directory:
	leftovers_directory_remove(run->directory, run->lock);
	return error;
}

static void socket_remove(struct run *run)
{
	close(run->listener);
	leftovers_directory_remove(run->directory, run->lock);
}

/* ---- the end ---- */

/* A drain has no deadline: say who holds memory, and go on waiting. */
static void on_patience(void *context)
{
	struct run *run = context;

	drain_report(&run->drain, &run->broker, run->drain.seconds ? 1 : DRAIN_FIRST);
	control_expect(&run->control, 1);
}

static void begin_end(struct run *run)
{
	if (run->ended)
		return;
	run->ended = true;
	control_expect(&run->control, DRAIN_FIRST);
	broker_stop(&run->broker, broker_quit, &run->broker);
}

static void fail(struct run *run, const char *text)
{
	if (!run->failed)
		log_say("%s", text);
	run->failed = true;
	children_abandon(&run->children);
	run->children.running = 0;
	begin_end(run);
}

/* ---- signals ---- */

static void on_child(struct run *run)
{
	if (children_reap(&run->children) && run->options.kill_on_failure)
		children_end_others(&run->children);
	if (run->children.running || run->ended)
		return;
	if (!run->stopped)
		children_say_first(&run->children);
	begin_end(run);
}

/* A signal from the terminal goes to the whole foreground group: the workers have it already. */
static void on_stop(struct run *run, const struct signalfd_siginfo *info)
{
	run->stopped = true;
	if (run->ended)
		broker_quit(&run->broker);
	else if (info->ssi_code != SI_KERNEL)
		children_signal(&run->children, (int)info->ssi_signo);
}

static void on_signal(void *context, const struct signalfd_siginfo *info)
{
	if (info->ssi_signo == SIGCHLD)
		on_child(context);
	else
		on_stop(context, info);
}

/* ---- the beginning ---- */

static void on_created(void *context, int error, const char *text)
{
	struct run *run = context;

	run->creating--;
	if (error)
		fail(run, text);
	else if (!run->creating && !run->ended)
		children_release(&run->children);
}

/* A declared buffer's failure ends the run before a worker starts. */
static int declare_buffers(struct run *run)
{
	run->creating = 1;
	for (unsigned i = 0; i < run->options.buffers.count; i++) {
		const struct declared_buffer *b = &run->options.buffers.list[i];
		int error = broker_create(&run->broker, b->name, &b->amount, b->flags, b->mode, on_created, run);

		if (error)
			return error;
		run->creating++;
	}
	on_created(run, 0, NULL);
	return 0;
}

static void say_device(struct run *run)
{
	const struct board_header *board = run->broker.board->header;

	char text[EVENT_TEXT_MAX];

	snprintf(text, sizeof text, "%u worker%s, %u %s device%s (%s)", run->options.workers, PLURAL(run->options.workers),
		 board->devices, run->broker.device->name, PLURAL(board->devices), board->device[0].name);
	event_happened(&run->broker, &(struct broker_event){ .kind = EVENT_START, .text = text });
	if (!run->options.quiet)
		log_say("%s", text);
}

/*
 * With more workers than GPUs, two of them share one. Without MPS the GPU runs one process at a time, and each hand-over
 * between processes waits for a time slice (facts.md).
 */
static void hint_mps(const struct run *run)
{
	unsigned devices = run->broker.board->header->devices, workers = run->options.workers;

	if (run->options.quiet || run->options.no_hints || run->mps || run->broker.device->kind != DEVICE_CUDA ||
	    workers <= devices)
		return;
	log_say("hint: %u workers share %u GPU%s without MPS, so they take turns in time slices: see MPS in gpubroker(7) "
		"(--no-hints leaves this out)",
		workers, devices, PLURAL(devices));
}

static void print_account(const struct run *run)
{
	char text[CONTROL_ACCOUNT_MAX];

	if (!run->options.quiet)
		log_say("account: %s", control_account(&run->broker, text));
}

static int run_broker(struct run *run)
{
	if (broker_init(&run->broker, &run->core, &run->options.broker, run->control.base, run->listener)) {
		log_say("%s", error_text());
		children_abandon(&run->children);
		return EXIT_BROKER;
	}
	say_device(run);
	hint_mps(run);
	if (declare_buffers(run))
		fail(run, error_text());
	/* workers may have ended before their signal was received */
	on_child(run);
	broker_loop(&run->broker);
	print_account(run);
	run->failed |= !broker_balanced(&run->broker);
	broker_deinit(&run->broker);
	return run->failed ? EXIT_BROKER : run->children.exit_code;
}

static void on_event_failure(void *context)
{
	struct run *run = context;

	children_abandon(&run->children);
	socket_remove(run);
}

static int run_all(struct run *run)
{
	sigset_t signals;
	int code = EXIT_BROKER;

	children_take_signals(&run->children, &signals);
	if (socket_make(run)) {
		log_say("%s", error_text());
		children_abandon(&run->children);
		return code;
	}
	if (control_begin(&run->control, &signals, EXIT_BROKER)) {
		log_say("%s", error_text());
		children_abandon(&run->children);
	} else {
		code = run_broker(run);
	}
	control_end(&run->control);
	socket_remove(run);
	return code;
}

static int run_program(struct run *run, int argc, char **argv)
{
	int result = run_options_parse(&run->options, argc, argv);

	if (result > 0)
		return 0;
	if (result < 0) {
		log_say("%s", error_text());
		return EXIT_BROKER;
	}
	result = run_all(run);
	children_free(&run->children);
	declared_free(&run->options.buffers);
	return result;
}

int main(int argc, char **argv)
{
	static struct run state = { .children.gate = -1,
				    .control = { on_signal, on_patience, on_event_failure, &state, NULL, NULL, NULL, -1 } };
	int code = streams_fill();

	log_level_set(LOG_QUIET); /* its users see its own lines, and failures; broker-ctl events shows the rest */
	if (!code)
		code = run_program(&state, argc, argv);
	if (code >= 0 && !streams_flush())
		return code;
	log_say("%s", error_text());
	return EXIT_BROKER;
}

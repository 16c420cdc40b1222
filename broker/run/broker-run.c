/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker-run.c - the parent broker: forks N workers, serves them, waits for them, prints the account.
 *
 * Decides the order: makes the socket, forks the workers, has the owner start the device, creates the declared buffers,
 * releases the workers, runs the loop, unlinks the buffers, waits until all memory is freed, prints the account. Never
 * touches a device before the fork.
 */
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
#include "broker/request/creation.h"
#include "broker/status/leftovers.h"
#include "children.h"
#include "common/error.h"
#include "common/size.h"
#include "common/socket.h"
#include "drain.h"
#include "joined.h"
#include "joiner.h"
#include "options.h"
#include "placement.h"
#include "private-socket.h"
#include "witness.h"
#include "workers-mps.h"

/* exit status if broker-run itself fails, as of env(1) and timeout(1): workers rarely exit with 125 */
#define EXIT_BROKER 125

struct run {
	struct run_options options;
	struct children    children;
	struct broker      broker;
	struct core        core;     /* the parts of the member `broker` */
	struct control     control;
	struct drain_report drain;
	struct private_socket socket;
	bool               deaf;     /* the socket was removed, and the last try to make it again failed */
	unsigned           awaited;  /* number of on_ready() calls still to come before the workers are released */
	bool               failed;   /* the broker itself has failed, and the first cause is logged */
	struct workers_mps mps;
	struct placement   placement;
	struct joined      joined;   /* with --join: the workers that are no children of this process */
	struct witness     witness;
	bool               stopped;  /* a signal that ends all workers was received */
	bool               ended;    /* begin_end() was called, or the run is orphaned */
	bool               orphaned; /* no other owner of the device memory starts */
};

/* ---- the private socket ---- */

static int socket_make(struct run *run)
{
	char address[SOCKET_ADDRESS_SIZE];
	int error;

	leftovers_remove(NULL);
	error = private_socket_make(&run->socket, run->options.broker.instance, "socket");
	if (error)
		return error;
	snprintf(address, sizeof address, "unix:%s", run->socket.path);
	error = children_fork(&run->children, run->options.join ? 1 : run->options.workers, run->options.workers,
			      run->options.command);
	if (!error)
		error = children_set(&run->children, "GPUBROKER", address);
	if (error)
		private_socket_remove(&run->socket);
	return error;
}

static int look_at_socket(void *context, char text[EVENT_TEXT_MAX])
{
	struct run *run = context;
	int former, result = private_socket_restore(&run->socket, &former);

	if (result > 0) {
		snprintf(text, EVENT_TEXT_MAX, "%s%s", run->socket.path,
			 workers_mps_owns(&run->mps) ? " (the sockets of the MPS daemon in its directory stay lost)" :
						       "");
		result = broker_listen(&run->broker, run->socket.fd, former);
		if (result < 0)
			private_socket_undo(&run->socket, former);
	}
	run->deaf = result < 0 && !leftovers_leads_to(run->socket.path, &run->socket.own);
	return result;
}

static int look_at_join(void *context, char text[EVENT_TEXT_MAX])
{
	struct run *run = context;
	int result = joined_restore(&run->joined);

	snprintf(text, EVENT_TEXT_MAX, "%s", run->joined.socket.path);
	return result;
}

/* ---- the end ---- */

/* Called every second during the drain at the end, which has no deadline: reports which processes hold memory. */
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
	if (run->failed) /* only the first cause is logged */
		return;
	log_say("%s", text);
	run->failed = true;
	children_abandon(&run->children);
	begin_end(run);
}

/* ---- signals ---- */

/*
 * Begins the end if all workers have ended. Without an owner nothing can be freed, so the broker then ends at once,
 * also for the processes that joined.
 */
static void end_if_done(struct run *run)
{
	if (run->orphaned && !run->children.running)
		broker_quit(&run->broker);
	if (run->children.running || run->joined.running || run->ended)
		return;
	if (!run->stopped)
		children_say_first(&run->children);
	begin_end(run);
}

/* Reaps children, and passes each to the part that started it. Ignores orphans, which process 1 of a container gets. */
static void reap(struct run *run)
{
	int status;
	pid_t pid;

	/* __WNOTHREAD leaves a child that a library started on another thread to the library */
	while ((pid = waitpid(-1, &status, WNOHANG | __WNOTHREAD)) > 0)
		if (!children_ended(&run->children, pid, status) && !witness_ended(&run->witness, pid))
			workers_mps_ended(&run->mps, pid);
}

static void on_child(struct run *run)
{
	bool first;

	reap(run);
	first = children_judge(&run->children);
	workers_mps_child(&run->mps, &run->children, first && (run->children.running || run->joined.running));
	if (first && run->options.kill_on_failure)
		children_end_others(&run->children);
	end_if_done(run);
}

static void on_decided(void *context, int number, bool everybody)
{
	struct run *run = context;

	children_signal(&run->children, number, everybody);
}

static void on_stop(struct run *run, int number)
{
	run->stopped = true;
	if (run->ended)
		broker_quit(&run->broker);
	else
		witness_ask(&run->witness, number);
}

/* Passes a signal on to the workers if another process sent it. Otherwise the signal is about this process alone. */
static void on_workers_signal(struct run *run, const struct signalfd_siginfo *info)
{
	if (info->ssi_code != SI_KERNEL && info->ssi_pid != (uint32_t)getpid())
		witness_ask(&run->witness, (int)info->ssi_signo);
}

static void on_signal(void *context, const struct signalfd_siginfo *info)
{
	switch (signal_use((int)info->ssi_signo)) {
	case SIGNAL_CHILD:
		on_child(context);
		break;
	case SIGNAL_STOP:
	case SIGNAL_HANG_UP:
		on_stop(context, (int)info->ssi_signo);
		break;
	case SIGNAL_FOR_WORKERS:
		on_workers_signal(context, info);
		break;
	case SIGNAL_UNTOUCHED:
		break;
	}
}

/* ---- the beginning ---- */

/*
 * Returns CUDA_DEVICE_MAX_CONNECTIONS for the workers; 0: the variable is left as it is. There is no default under MPS,
 * because all clients share one pool of connections: a worker that takes more may leave none for another.
 */
static unsigned worker_connections(const struct run_options *options, bool mps)
{
	if (options->connections)
		return options->connections == RUN_CONNECTIONS_INHERITED ? 0 : (unsigned)options->connections;
	return getenv("CUDA_DEVICE_MAX_CONNECTIONS") || mps ? 0 : RUN_CONNECTIONS;
}

static void on_unbound(void *context, const char *text)
{
	const struct run *run = context;

	if (run_hints(&run->options))
		log_say("hint: %s", text);
}

static int place_worker(void *context, unsigned rank, pid_t pid)
{
	struct run *run = context;

	return run->options.bind == BIND_NONE ? 0 : placement_bind(&run->placement, rank, pid);
}

static void on_no_owner(void *context)
{
	struct run *run = context;

	if (!run->failed)
		log_say("the process that owns the device memory has ended, and no other one starts: ending the "
			"workers");
	run->failed = run->orphaned = run->stopped = run->ended = true; /* no drain: it would never end */
	children_end(&run->children);
	end_if_done(run);
}

static int place_workers(struct run *run)
{
	unsigned devices = run->broker.board->header->devices;
	int error = 0;

	placement_tell(&run->children, run->options.map, devices);
	run->placement = (struct placement){
		.map = run->options.map, .workers = run->options.workers, .hint = on_unbound, .context = run
	};
	if (run->options.bind == BIND_DEVICE)
		error = placement_open(&run->placement, &run->core.devices.facts);
	for (unsigned rank = 0; rank < run->children.count && !error; rank++)
		if (run->children.child[rank].pid) /* pid 0: the worker has ended already */
			error = place_worker(run, rank, run->children.child[rank].pid);
	return error;
}

static int release_workers(struct run *run)
{
	unsigned connections = worker_connections(&run->options, workers_mps_under(&run->mps));
	char number[16];
	int error = workers_mps_tell(&run->mps, &run->children);

	snprintf(number, sizeof number, "%u", connections);
	if (!error && connections)
		error = children_set(&run->children, "CUDA_DEVICE_MAX_CONNECTIONS", number);
	if (!error)
		error = place_workers(run);
	if (error)
		return error;
	children_release(&run->children);
	joined_release(&run->joined);
	return 0;
}

/*
 * Called when a declared buffer was created, when MPS is decided, when one of these failed, and once by
 * prepare_workers(). Releases the workers after the last of these calls, unless one reported a failure.
 */
static void on_ready(void *context, int error, const char *text)
{
	struct run *run = context;

	run->awaited--;
	if (error)
		fail(run, text);
	else if (!run->awaited && !run->ended && release_workers(run))
		fail(run, error_text());
}

/* Starts to create the declared buffers. A failure ends the run before a worker starts. */
static int declare_buffers(struct run *run)
{
	for (unsigned i = 0; i < run->options.buffers.count; i++) {
		const struct declared_buffer *b = &run->options.buffers.list[i];
		int error = broker_create(&run->broker, b->name, &b->amount, b->flags, b->mode, on_ready, run);

		if (error)
			return error;
		run->awaited++;
	}
	return 0;
}

static void on_joined_ended(void *context)
{
	end_if_done(context);
}

static int prepare_workers(struct run *run)
{
	int error;

	run->awaited = 2;
	error = workers_mps_begin(&run->mps, run->control.base, run->broker.board->header, run->socket.directory.path,
				  on_ready, run);
	if (!error)
		error = declare_buffers(run);
	if (!error)
		on_ready(run, 0, NULL);
	return error;
}

static void say_device(struct run *run)
{
	const struct board_header *board = run->broker.board->header;

	char text[EVENT_TEXT_MAX];

	snprintf(text, sizeof text, "%u worker%s, %u %s device%s (%s)", run->options.workers,
		 PLURAL(run->options.workers), board->devices, run->broker.device->name, PLURAL(board->devices),
		 board->device[0].name);
	event_happened(&run->broker, &(struct broker_event){ .kind = EVENT_START, .text = text });
	if (!run->options.quiet)
		log_say("%s", text);
}

static void print_account(const struct run *run)
{
	char text[CONTROL_ACCOUNT_MAX];

	if (!run->options.quiet)
		log_say("account: %s", control_account(&run->broker, text));
}

static int run_broker(struct run *run)
{
	if (broker_init(&run->broker, &run->core, &run->options.broker, run->control.base, run->socket.fd)) {
		log_say("%s", error_text());
		children_abandon(&run->children);
		return EXIT_BROKER;
	}
	broker_when_no_owner(&run->broker, on_no_owner, run);
	say_device(run);
	names_watch(&run->core.names, look_at_socket, run);
	private_socket_watch(&run->socket, &run->core.names);
	if (run->joined.job) {
		names_watch(&run->core.names, look_at_join, run);
		private_socket_watch(&run->joined.socket, &run->core.names);
	}
	if (prepare_workers(run))
		fail(run, error_text());
	/* workers may have ended before SIGCHLD could be received */
	on_child(run);
	broker_loop(&run->broker);
	workers_mps_stop(&run->mps);
	print_account(run);
	run->failed |= !broker_balanced(&run->broker) || run->deaf;
	if (run->deaf)
		log_say("%s was removed while it served, and could not be made again: programs that started since then "
			"did not reach the broker", run->socket.path);
	if (broker_deinit(&run->broker) && !run->orphaned) {
		run->failed = true;
		log_say("%s", error_text());
	}
	return run->failed ? EXIT_BROKER : run->children.exit_code;
}

/* Runs the broker. With --join also serves the joiners, and tells them after the broker's end if it failed. */
static int run_joined(struct run *run)
{
	int code = EXIT_BROKER;

	if (!run->options.join || run->options.workers == 1)
		return run_broker(run);
	run->joined = (struct joined){ .place = place_worker, .ended = on_joined_ended, .context = run };
	if (joined_begin(&run->joined, &run->options.job, &run->children, run->control.base)) {
		log_say("%s", error_text());
		children_abandon(&run->children);
	} else {
		code = run_broker(run);
	}
	if (run->failed || code == EXIT_BROKER)
		joined_fail(&run->joined, "the broker of this machine's first process (local rank 0) failed: its "
					  "broker-run says why");
	return code;
}

static void on_event_failure(void *context)
{
	struct run *run = context;

	children_abandon(&run->children);
	private_socket_remove(&run->socket);
}

static int run_all(struct run *run, char **argv)
{
	sigset_t signals;
	int code = EXIT_BROKER;

	children_take_signals(&run->children, &signals);
	if (witness_fork(&run->witness, argv) || workers_mps_prepare(&run->mps, &run->options) || socket_make(run)) {
		log_say("%s", error_text());
		children_abandon(&run->children);
		workers_mps_end(&run->mps);
		witness_end(&run->witness);
		return code;
	}
	if (control_begin(&run->control, &signals, EXIT_BROKER) || witness_begin(&run->witness, run->control.base)) {
		log_say("%s", error_text());
		children_abandon(&run->children);
	} else {
		code = run_joined(run);
	}
	workers_mps_end(&run->mps);
	joined_end(&run->joined);
	placement_close(&run->placement);
	witness_end(&run->witness);
	control_end(&run->control);
	private_socket_remove(&run->socket);
	return code;
}

/* Becomes a worker of another process's broker. Returns the exit status if that fails. */
static int join(const struct run *run)
{
	int result = joiner_run(&run->options.job, run->options.command);

	log_say("%s", error_text());
	return result < 0 ? EXIT_BROKER : result;
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
	result = run->options.join && run->options.job.rank ? join(run) : run_all(run, argv);
	children_free(&run->children);
	declared_free(&run->options.buffers);
	return result;
}

int main(int argc, char **argv)
{
	static struct run state = { .children.gate = -1,
				    .witness = { .decided = on_decided, .context = &state },
				    .control = { on_signal, on_patience, on_event_failure, &state, NULL, NULL, NULL,
						 -1 } };
	int code = streams_fill();

	log_level_set(LOG_QUIET); /* users see only log_say()'s lines and failures; broker-ctl events has the rest */
	if (!code)
		code = run_program(&state, argc, argv);
	if (code >= 0 && !streams_flush())
		return code;
	log_say("%s", error_text());
	return EXIT_BROKER;
}

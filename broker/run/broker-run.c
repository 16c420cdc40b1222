/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker-run.c - the parent of N workers and of the broker that serves them: forks them, waits for them, ends the
 * broker.
 *
 * This process is the keeper (keeper/keeper.h): it makes the socket and the board, forks the workers, and starts the
 * broker (serving.h), and the next one when a broker dies. The broker says when the devices and the declared buffers
 * are there; then the workers are released. When all workers have ended the broker is asked to end. Never touches a
 * device, and has no client of the broker.
 */
#include <signal.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "broker/base/log.h"
#include "broker/base/streams.h"
#include "broker/core/control.h"
#include "broker/core/signals.h"
#include "broker/keeper/keeper.h"
#include "broker/registry/board-owner.h"
#include "broker/status/leftovers.h"
#include "broker/users/identity.h"
#include "children.h"
#include "common/error.h"
#include "common/socket.h"
#include "joined.h"
#include "joiner.h"
#include "options.h"
#include "placement.h"
#include "private-socket.h"
#include "serving.h"
#include "witness.h"
#include "workers-mps.h"

#define BROKER_NAME "gpubroker-serve" /* 15 bytes: the kernel keeps no more */

struct run {
	struct run_options options;
	struct children    children;
	struct control     control;
	struct keeper      keeper;
	struct serving     serving;  /* the broker's process has a copy */
	int                told;     /* socket: struct owner_facts of a broker; the other end is serving.tell */
	struct event      *facts_came; /* event: told can be read */
	struct event      *judging;  /* event, made active when children were reaped */
	struct owner_facts facts;    /* valid once serving.told is set, as is header */
	struct board_header header;
	bool               failed;   /* broker-run itself has failed, and the first cause is logged */
	struct workers_mps mps;
	struct placement   placement;
	struct joined      joined;   /* with --join: the workers that are no children of this process */
	struct witness     witness;
	bool               stopped;  /* a signal that ends all workers was received */
	bool               ended;    /* the broker was asked to end, or has ended */
	bool               left;     /* a signal that ends all workers was received after the broker's end */
	bool               over;     /* the broker and the owner have ended, and no other ones start */
};

/* ---- the end ---- */

static void begin_end(struct run *run)
{
	if (run->ended)
		return;
	run->ended = true;
	keeper_stop(&run->keeper);
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

/* Begins the end if all workers have ended. Ends the loop if the broker has ended, too. */
static void end_if_done(struct run *run)
{
	if (run->over && !run->children.running)
		event_base_loopbreak(run->control.base);
	if (run->children.running || run->joined.running || run->ended)
		return;
	if (!run->stopped)
		children_say_first(&run->children);
	begin_end(run);
}

/*
 * The broker may have made the socket again, at the same path. It is removed at the end. A descriptor of another
 * socket, which a broker might have given, is not.
 */
static void on_ending(void *context, struct kept *kept)
{
	struct run *run = context;
	struct private_socket last = { .fd = -1 };

	if (serving_take_socket(&last, kept))
		log_say("%s", error_text());
	if (strcmp(last.path, run->serving.socket.path)) {
		private_socket_close(&last);
		return;
	}
	private_socket_close(&run->serving.socket);
	run->serving.socket = last;
}

/* The broker has ended. If it was not asked to, that ends the workers: they can do nothing without it. */
static void on_ended(void *context, int status)
{
	struct run *run = context;

	run->over = true;
	run->failed |= status != EXIT_SUCCESS;
	if (!run->ended && run->serving.told)
		children_end(&run->children);
	else if (!run->ended)
		children_abandon(&run->children);
	run->stopped |= !run->ended;
	run->ended = true;
	end_if_done(run);
}

/* ---- children ---- */

static void on_reaped(void *context, pid_t pid, int status)
{
	struct run *run = context;

	if (!children_ended(&run->children, pid, status) && !witness_ended(&run->witness, pid))
		workers_mps_ended(&run->mps, pid);
	event_active(run->judging, EV_TIMEOUT, 0);
}

static void on_judge(evutil_socket_t fd, short what, void *argument)
{
	struct run *run = argument;
	bool first = children_judge(&run->children);

	(void)fd;
	(void)what;
	workers_mps_child(&run->mps, &run->children, first && (run->children.running || run->joined.running));
	if (first && run->options.kill_on_failure)
		children_end_others(&run->children);
	end_if_done(run);
}

static void on_joined_ended(void *context)
{
	end_if_done(context);
}

/* ---- signals ---- */

static void on_decided(void *context, int number, bool everybody)
{
	struct run *run = context;

	children_signal(&run->children, number, everybody);
}

/*
 * The workers get the signal. When they have ended the broker is asked once more, which then ends at once. Where the
 * broker has ended before the workers, a second signal ends broker-run without them.
 */
static void on_stop(struct run *run, int number)
{
	if (run->over && run->left)
		event_base_loopbreak(run->control.base);
	run->left = run->over;
	run->stopped = true;
	if (run->ended && !run->over)
		keeper_stop(&run->keeper);
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
	struct run *run = context;

	switch (signal_use((int)info->ssi_signo)) {
	case SIGNAL_CHILD:
		keeper_reap_others(&run->keeper);
		break;
	case SIGNAL_STOP:
	case SIGNAL_HANG_UP:
		on_stop(run, (int)info->ssi_signo);
		break;
	case SIGNAL_FOR_WORKERS:
		on_workers_signal(run, info);
		break;
	case SIGNAL_UNTOUCHED:
		break;
	}
}

static void on_patience(void *context)
{
	(void)context; /* control_expect() is not called */
}

/* libevent cannot go on. */
static void on_event_failure(void *context)
{
	struct run *run = context;

	children_abandon(&run->children);
	private_socket_remove(&run->serving.socket);
}

/* ---- the workers' begin ---- */

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

static int place_workers(struct run *run)
{
	int error = 0;

	placement_tell(&run->children, run->options.map, run->facts.count);
	run->placement = (struct placement){
		.map = run->options.map, .workers = run->options.workers, .hint = on_unbound, .context = run
	};
	if (run->options.bind == BIND_DEVICE)
		error = placement_open(&run->placement, &run->facts);
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

/* Called when MPS is decided, or that failed. */
static void on_mps(void *context, int error, const char *text)
{
	struct run *run = context;

	if (error)
		fail(run, text);
	else if (!run->ended && release_workers(run))
		fail(run, error_text());
}

/*
 * A broker has started the devices and created the declared buffers. A broker that dies then may be followed by one
 * that says so again. What the broker says is checked as any other process's words are.
 */
static void on_facts(evutil_socket_t fd, short what, void *argument)
{
	struct run *run = argument;
	struct owner_facts facts;
	ssize_t size = recv(fd, &facts, sizeof facts, MSG_DONTWAIT);

	(void)what;
	if (size != sizeof facts || !facts.count || facts.count > DEVICE_MAX || run->serving.told ||
	    run->ended)
		return;
	run->serving.told = true;
	run->facts = facts;
	run->header = *run->serving.board.shared;
	run->header.devices = facts.count;
	run->header.device_kind = facts.kind;
	for (unsigned device = 0; device < DEVICE_MAX; device++)
		run->header.device[device].name[sizeof run->header.device[device].name - 1] = 0;
	if (workers_mps_begin(&run->mps, run->control.base, &run->header, run->serving.socket.directory.path, on_mps,
			      run))
		fail(run, error_text());
}

/* ---- the keeper ---- */

/* In a forked process: closes and unmaps what belongs to the first process alone. */
static void leave_run(struct run *run)
{
	children_forget(&run->children);
	witness_forget(&run->witness);
	mps_daemon_forget(&run->mps.daemon);
	joined_forget(&run->joined);
	close(run->control.signal_fd);
	close(run->told);
}

static int broker(void *context, struct keeper_end *from)
{
	struct run *run = context;

	leave_run(run);
	return serving_run(&run->serving, from);
}

/* In a forked owner, before it closes all descriptors but its socket: unmaps what an owner may not have. */
static void on_owner(void *context)
{
	struct run *run = context;

	board_destroy(&run->serving.board);
	children_forget(&run->children);
}

static int on_cold(void *context)
{
	struct run *run = context;

	return board_renew(&run->serving.board, run->options.broker.buffers, run->options.broker.handles);
}

/* Has the loop receive what a broker says, and judge children. */
static int loop_begin(struct run *run)
{
	run->facts_came = event_new(run->control.base, run->told, EV_READ | EV_PERSIST, on_facts, run);
	run->judging = event_new(run->control.base, -1, 0, on_judge, run);
	if (run->facts_came && run->judging && !event_add(run->facts_came, NULL))
		return 0;
	return error_set(-ENOMEM, "out of memory");
}

static void loop_end(struct run *run)
{
	if (run->facts_came)
		event_free(run->facts_came);
	if (run->judging)
		event_free(run->judging);
}

/* Serves until the broker and all workers have ended. Returns 0, or a negative errno: nothing has begun then. */
static int keep(struct run *run)
{
	const struct keeper_program kept = { .name = BROKER_NAME,
					     .broker = broker,
					     .cold = on_cold,
					     .owner = on_owner,
					     .ending = on_ending,
					     .ended = on_ended,
					     .reaps = true,
					     .reaped = on_reaped,
					     .context = run };
	int error = keeper_init(&run->keeper, run->control.base, &kept);

	if (error)
		return error;
	keeper_reap_others(&run->keeper); /* workers may have ended before SIGCHLD could be received */
	event_base_dispatch(run->control.base);
	keeper_deinit(&run->keeper);
	return 0;
}

static int run_broker(struct run *run)
{
	int error = loop_begin(run);

	if (!error)
		error = keep(run);
	if (error) {
		log_say("%s", error_text());
		children_abandon(&run->children);
		run->failed = run->ended = run->over = true;
	}
	workers_mps_stop(&run->mps);
	loop_end(run);
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

/* ---- the program ---- */

/* Makes the workers' socket and forks the workers, who wait. */
static int workers_begin(struct run *run)
{
	char address[SOCKET_ADDRESS_SIZE];
	int error;

	leftovers_remove(NULL);
	error = private_socket_make(&run->serving.socket, run->options.broker.instance, "socket");
	if (error)
		return error;
	snprintf(address, sizeof address, "unix:%s", run->serving.socket.path);
	error = children_fork(&run->children, run->options.join ? 1 : run->options.workers, run->options.workers,
			      run->options.command);
	if (!error)
		error = children_set(&run->children, "GPUBROKER", address);
	return error;
}

/* Makes what brokers inherit. */
static int serving_begin(struct run *run, const sigset_t *signals)
{
	int pair[2], error = workers_begin(run);

	if (error)
		return error;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return error_set(-errno, "broker-run and its broker have no sockets: %m");
	run->told = pair[0];
	run->serving.tell = pair[1];
	run->serving.options = &run->options;
	run->serving.signals = signals;
	return board_reserve(&run->serving.board, run->options.broker.buffers, run->options.broker.handles);
}

static void serving_end(struct run *run)
{
	if (run->serving.board.shared)
		board_destroy(&run->serving.board);
	if (run->told >= 0) {
		close(run->told);
		close(run->serving.tell);
	}
	private_socket_remove(&run->serving.socket);
}

static int run_all(struct run *run, char **argv)
{
	sigset_t signals;
	int code = EXIT_BROKER;

	children_take_signals(&run->children, &signals);
	if (witness_fork(&run->witness, argv) || workers_mps_prepare(&run->mps, &run->options) ||
	    identity_check_system() || serving_begin(run, &signals) ||
	    control_begin(&run->control, &signals, EXIT_BROKER) || witness_begin(&run->witness, run->control.base)) {
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
	serving_end(run);
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
				    .told = -1,
				    .serving.socket.fd = -1,
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

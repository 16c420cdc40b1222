/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker-run.c - the parent broker: forks N workers, serves them, waits for them, closes the books.
 *
 * Owns the order of things: socket, workers forked, device started, declared buffers made, workers let go,
 * loop, names taken away, everything freed, account. Never touches a device before it forked.
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
#include "broker/request/creation.h"
#include "broker/status/leftovers.h"
#include "children.h"
#include "common/error.h"
#include "common/mps.h"
#include "common/size.h"
#include "common/socket.h"
#include "options.h"

#define EXIT_BROKER 125 /* as env(1) and timeout(1): a worker's own status is hardly this one */

struct run {
	struct run_options options;
	struct children    children;
	struct broker      broker;
	struct core        core; /* its parts */
	struct event_base *base;
	struct event      *signals, *patience;
	char               directory[LEFTOVERS_PATH_SIZE], path[LEFTOVERS_PATH_SIZE + sizeof "/socket"];
	int                lock, listener, signal_fd;
	unsigned           creating; /* declared buffers still on their way */
	bool               failed;   /* the broker's own failure, already logged */
	bool               ended, told;
};

/* ---- the private socket ---- */

/*
 * What CUDA_DEVICE_MAX_CONNECTIONS is to be for the workers; 0: it is left alone. Not a default under MPS, where all clients
 * share one pool of connections: a worker that takes more may leave none for another.
 */
static unsigned worker_connections(const struct run_options *options)
{
	if (options->connections)
		return options->connections == RUN_CONNECTIONS_INHERITED ? 0 : (unsigned)options->connections;
	return getenv("CUDA_DEVICE_MAX_CONNECTIONS") || mps_is_here(NULL) ? 0 : RUN_CONNECTIONS;
}

static int socket_make(struct run *run)
{
	struct worker_environment environment = { .connections = worker_connections(&run->options) };
	char address[SOCKET_ADDRESS_SIZE];
	int error;

	leftovers_remove();
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

static void on_idle(void *context)
{
	struct run *run = context;

	/* not loopbreak, which is forgotten when the loop has not begun: the workers may have ended before */
	broker_quit(&run->broker);
}

/* A drain has no deadline: say whom it waits for, once, and go on waiting. */
static void on_patience(evutil_socket_t fd, short what, void *argument)
{
	struct run *run = argument;
	const struct session *session;

	(void)fd;
	(void)what;
	for (session = run->broker.sessions->by_id; session; session = session->hh.next)
		if (session->grants.by_id)
			log_say("the workers ended; waiting for pid %d (%s), which still holds %u grant%s; "
				 "interrupt to leave it",
				 session->pid, session->command, HASH_COUNT(session->grants.by_id),
				 PLURAL(HASH_COUNT(session->grants.by_id)));
}

static void begin_end(struct run *run)
{
	static const struct timeval patience = { .tv_sec = 2 };

	if (run->ended)
		return;
	run->ended = true;
	evtimer_add(run->patience, &patience);
	broker_stop(&run->broker, on_idle, run);
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
	if (children_reap(&run->children) && run->options.kill_on_failure && !run->told) {
		log_say("a worker failed: ending the others (--kill-on-failure)");
		run->told = true;
		children_signal(&run->children, SIGTERM);
	}
	if (!run->children.running)
		begin_end(run);
}

/* What the terminal sends goes to the whole foreground group: the workers have it already. */
static void on_stop(struct run *run, const struct signalfd_siginfo *info)
{
	if (run->ended)
		event_base_loopbreak(run->base);
	else if (info->ssi_code != SI_KERNEL)
		children_signal(&run->children, (int)info->ssi_signo);
}

static void on_signal(evutil_socket_t fd, short what, void *argument)
{
	struct signalfd_siginfo info;

	(void)what;
	if (read(fd, &info, sizeof info) != sizeof info)
		return;
	if (info.ssi_signo == SIGCHLD)
		on_child(argument);
	else
		on_stop(argument, &info);
}

static int signals_watch(struct run *run, const sigset_t *signals)
{
	run->signal_fd = signalfd(-1, signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (run->signal_fd < 0)
		return error_set(-errno, "signals cannot be watched: %m");
	run->signals = event_new(run->base, run->signal_fd, EV_READ | EV_PERSIST, on_signal, run);
	run->patience = evtimer_new(run->base, on_patience, run);
	if (!run->signals || !run->patience || event_add(run->signals, NULL))
		return error_set(-ENOMEM, "out of memory");
	return 0;
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
		int error = broker_create(&run->broker, b->name, b->size, b->device, b->flags, b->mode, on_created,
					  run);

		if (error)
			return error;
		run->creating++;
	}
	on_created(run, 0, NULL);
	return 0;
}

static void say_device(const struct run *run)
{
	const struct board_header *board = run->broker.board->header;

	if (!run->options.quiet)
		log_say("%u worker%s, %u %s device%s (%s)", run->options.workers, PLURAL(run->options.workers),
			board->devices, run->broker.device->name, PLURAL(board->devices), board->device[0].name);
}

static void print_account(const struct run *run)
{
	const struct counters *c = &run->broker.counters;
	char bytes[SIZE_TEXT_MAX], freed[SIZE_TEXT_MAX];

	if (run->options.quiet)
		return;
	log_say("account: buffers %llu created, %llu freed; memory %s allocated, %s freed; grants %llu given, "
		 "%llu returned, %llu ended by death; %s",
		 (unsigned long long)c->buffers_created, (unsigned long long)broker_buffers_over(&run->broker),
		 size_format(c->bytes_made, bytes), size_format(c->bytes_freed, freed),
		 (unsigned long long)c->grants_opened, (unsigned long long)c->grants_closed,
		 (unsigned long long)c->grants_died,
		 broker_balanced(&run->broker) ? "balanced" : "NOT BALANCED");
}

static int run_broker(struct run *run)
{
	int error = broker_init(&run->broker, &run->core, &run->options.broker, run->base, run->listener);

	if (error) {
		log_say("%s", error_text());
		children_abandon(&run->children);
		return EXIT_BROKER;
	}
	say_device(run);
	if (declare_buffers(run))
		fail(run, error_text());
	/* workers may have ended before the signal was watched */
	on_child(run);
	log_serving(true);
	broker_loop(&run->broker);
	log_serving(false);
	print_account(run);
	if (!broker_balanced(&run->broker) && !run->failed)
		run->failed = true;
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
	event_failure_watch(EXIT_BROKER, on_event_failure, run);
	run->base = event_base_new();
	if (!run->base)
		error_set(-ENOMEM, "the event loop cannot start: out of memory or descriptors");
	if (run->base && !signals_watch(run, &signals)) {
		code = run_broker(run);
	} else {
		log_say("%s", error_text());
		children_abandon(&run->children);
	}
	if (run->signals)
		event_free(run->signals);
	if (run->patience)
		event_free(run->patience);
	if (run->base)
		event_base_free(run->base);
	socket_remove(run);
	return code;
}

int main(int argc, char **argv)
{
	static struct run run = { .children.gate = -1 };
	int result;

	if (streams_fill()) {
		log_say("%s", error_text());
		return EXIT_BROKER;
	}
	result = run_options_parse(&run.options, argc, argv);
	if (result > 0 && (fflush(stdout) || ferror(stdout))) {
		log_say("the output cannot be written: %m");
		return EXIT_BROKER;
	}
	if (result > 0)
		return 0;
	if (result < 0) {
		log_say("%s", error_text());
		return EXIT_BROKER;
	}
	result = run_all(&run);
	children_free(&run.children);
	declared_free(&run.options.buffers);
	return result;
}

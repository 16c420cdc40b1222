/* SPDX-License-Identifier: Apache-2.0 */
/*
 * brokerd.c - the broker as a service, for unrelated processes of several users, at a well-known socket.
 *
 * This process is the keeper (keeper/keeper.h): it reads the configuration, makes the socket and the board, and starts
 * the broker (service.h), and the next one when a broker dies. It gets the signals of terminals and service managers,
 * and passes on what the broker has to do. At SIGUSR2 the program that is installed now goes on in this process
 * (upgrade.h). Never daemonises or changes its user: that is the service manager's task.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "broker/base/log.h"
#include "broker/base/streams.h"
#include "broker/core/signals.h"
#include "broker/keeper/keeper.h"
#include "broker/registry/board-owner.h"
#include "broker/status/leftovers.h"
#include "broker/users/identity.h"
#include "common/error.h"
#include "service.h"
#include "upgrade.h"

#define BROKER_NAME "gpubroker-serve" /* 15 bytes: the kernel keeps no more */

struct program {
	struct service service; /* the broker's process has a copy */
	struct control control;
	struct keeper  keeper;
	struct upgrade upgrade;
	int            config; /* of brokerd_config_share(), for the next program; -1: there is none */
	struct event  *watchdog;
	int            status;  /* the program's exit status, when the keeper has ended */
};

/* ---- the broker ---- */

static int broker(void *context, struct keeper_end *from)
{
	struct program *program = context;

	close(program->control.signal_fd);
	return service_run(&program->service, from);
}

/* A broker that begins with nothing gets another board: its serials begin anew, and clients may still have the old. */
static int on_cold(void *context)
{
	struct program *program = context;
	const struct broker_config *config = &program->service.config->broker;

	return board_renew(&program->service.board, config->buffers, config->handles);
}

/* In a forked owner. */
static void on_owner(void *context)
{
	struct program *program = context;

	board_destroy(&program->service.board);
	munmap(program->service.reloads, sizeof *program->service.reloads);
}

static void on_ended(void *context, int status)
{
	struct program *program = context;

	program->status = status;
	event_base_loopbreak(program->control.base);
}

/* ---- another program goes on ---- */

static bool on_pack(void *context, struct handover *handover)
{
	struct program *program = context;
	const struct service *service = &program->service;

	if (!program->keeper.begun)
		return false;
	if (program->config < 0)
		program->config = brokerd_config_share(service->config);
	handover->failed |= program->config < 0;
	handover_add(handover, HANDOVER_CONFIG, 0, program->config);
	handover_add(handover, HANDOVER_BOARD, 0, service->board.writable);
	if (service->notify.fd >= 0)
		handover_add(handover, HANDOVER_NOTIFY, service->notify.watchdog_us, service->notify.fd);
	keeper_pack(&program->keeper, handover);
	return true;
}

static int end_broker(void *context)
{
	struct program *program = context;

	return keeper_upgrade(&program->keeper);
}

static void on_upgrade(void *context)
{
	struct program *program = context;

	upgrade_exec(&program->upgrade);
}

static void on_back(void *context)
{
	struct program *program = context;

	upgrade_back(&program->upgrade);
}

static void on_ready(void *context)
{
	struct program *program = context;

	upgrade_ready(&program->upgrade);
}

static void on_reaped(void *context, pid_t pid, int status)
{
	struct program *program = context;

	upgrade_reaped(&program->upgrade, pid, status);
}

/* ---- signals and the service manager ---- */

static void on_signal(void *context, const struct signalfd_siginfo *info)
{
	struct program *program = context;

	switch (signal_use((int)info->ssi_signo)) {
	case SIGNAL_HANG_UP:
		program->service.reloads->asked++;
		keeper_signal(&program->keeper, SIGHUP);
		break;
	case SIGNAL_STOP:
		keeper_stop(&program->keeper);
		break;
	case SIGNAL_CHILD:
		keeper_reap_others(&program->keeper);
		break;
	case SIGNAL_FOR_WORKERS:
		if (info->ssi_signo == SIGUSR2)
			upgrade_ask(&program->upgrade, program->control.base);
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
	struct program *program = context;

	brokerd_socket_close(&program->service.socket);
}

/* Reports to the watchdog from the event loop, so that the service manager notices a loop that hangs. */
static void on_watchdog(evutil_socket_t fd, short what, void *argument)
{
	struct program *program = argument;

	(void)fd;
	(void)what;
	notify_alive(&program->service.notify);
}

static int watchdog_begin(struct program *program)
{
	uint64_t us = program->service.notify.watchdog_us;
	struct timeval interval = { .tv_sec = (time_t)(us / 1000000), .tv_usec = (suseconds_t)(us % 1000000) };

	program->watchdog = event_new(program->control.base, -1, EV_PERSIST, on_watchdog, program);
	if (!program->watchdog || (us && event_add(program->watchdog, &interval)))
		return error_set(-ENOMEM, "out of memory");
	if (us)
		notify_alive(&program->service.notify); /* the previous program's last report may be old */
	return 0;
}


/* ---- the program ---- */

static int keep(struct program *program)
{
	const struct keeper_program kept = {
		.name = BROKER_NAME, .broker = broker, .cold = on_cold, .owner = on_owner,
		.ended = on_ended, .reaps = true, .reaped = on_reaped, .upgrade = on_upgrade, .back = on_back,
		.ready = on_ready, .from = program->upgrade.from.count ? &program->upgrade.from : NULL,
		.context = program
	};
	int error = keeper_init(&program->keeper, program->control.base, &kept);

	if (error)
		return error;
	keeper_reap_others(&program->keeper); /* what ended before this program was executed */
	event_base_dispatch(program->control.base);
	keeper_deinit(&program->keeper);
	return 0;
}

static int loop_run(struct program *program, const sigset_t *signals)
{
	int error = control_begin(&program->control, signals, EXIT_BROKER);

	if (!error)
		error = watchdog_begin(program);
	if (!error)
		error = keep(program);
	if (error)
		upgrade_back(&program->upgrade);
	upgrade_stop(&program->upgrade);
	if (program->watchdog)
		event_free(program->watchdog);
	control_end(&program->control);
	return error;
}

static int reloads_make(struct reloads **reloads)
{
	void *memory = mmap(NULL, sizeof **reloads, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return error_set(-errno, "no memory that keeper and broker share: %m");
	*reloads = memory;
	return 0;
}

/* Makes the socket and the board. */
static int begin_anew(struct service *service)
{
	const struct broker_config *config = &service->config->broker;
	int error;

	leftovers_await(config->instance);
	leftovers_remove(config->instance);
	error = brokerd_socket_open(&service->socket, service->config);
	if (error)
		return error;
	error = board_reserve_open(&service->board, config->buffers, config->handles);
	if (error)
		brokerd_socket_close(&service->socket);
	return error;
}

static int duplicate_kept(const struct upgrade *upgrade, enum kept_kind kind)
{
	return fcntl(upgrade_kept(upgrade, keep_key(kind, KEPT_ONLY)), F_DUPFD_CLOEXEC, 0);
}

/* Goes on with the socket and the board of the program before, whose keeper has what is duplicated here. */
static int go_on(struct service *service, const struct upgrade *upgrade)
{
	int fd = duplicate_kept(upgrade, KEPT_LISTENER), lock = duplicate_kept(upgrade, KEPT_LISTENER_LOCK);
	int file = upgrade_kept(upgrade, keep_key(KEPT_LISTENER_FILE, KEPT_ONLY));
	int error = brokerd_socket_adopt(&service->socket, fd, lock, file);

	if (!error)
		error = board_adopt(&service->board, handover_fd(&upgrade->from, HANDOVER_BOARD));
	service->reloads->asked = 1; /* the file may have changed since the program before has read it */
	return error;
}

static int program_run(struct program *program, const sigset_t *signals)
{
	struct service *service = &program->service;
	int error;

	error = identity_check_system();
	if (!error)
		error = reloads_make(&service->reloads);
	if (!error)
		error = program->upgrade.from.count ? go_on(service, &program->upgrade) : begin_anew(service);
	if (error) {
		upgrade_back(&program->upgrade);
		return error;
	}
	error = loop_run(program, signals);
	board_destroy(&service->board);
	brokerd_socket_close(&service->socket);
	return error;
}

static int program_main(struct program *program)
{
	struct sigaction defaults = { .sa_handler = SIG_DFL };
	struct service *service = &program->service;
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
	if (handover_find(&program->upgrade.from, HANDOVER_NOTIFY))
		service->notify = (struct notify){ handover_fd(&program->upgrade.from, HANDOVER_NOTIFY),
						   handover_value(&program->upgrade.from, HANDOVER_NOTIFY) };
	error = program_run(program, &signals);
	if (error)
		log_say("%s", error_text());
	upgrade_close(&program->upgrade);
	notify_close(&service->notify);
	brokerd_config_free(service->config);
	return error ? EXIT_BROKER : program->status;
}

/* ---- the beginning ---- */

static int check_done(const struct brokerd_options *options)
{
	const char *file = options->file;

	printf(access(file, F_OK) ? "%s: it does not exist; the defaults are ok\n" : "%s: ok\n", file);
	return 1;
}

/* Reads the configuration: the file, or what the program before this one began with. */
static int load(struct program *program)
{
	struct service *service = &program->service;
	int passed = upgrade_open(&program->upgrade);

	if (passed < 0)
		return passed;
	if (!passed)
		return brokerd_options_load(&service->options, &service->config);
	program->config = handover_fd(&program->upgrade.from, HANDOVER_CONFIG);
	return brokerd_options_load_shared(&service->options, program->config, &service->config);
}

/* Runs the program from its start to its end. Returns the exit status. */
static int brokerd(struct program *program, int argc, char **argv)
{
	struct service *service = &program->service;
	int result = brokerd_options_parse(&service->options, argc, argv);

	program->upgrade.argv = argv;
	if (!result)
		result = load(program);
	if (!result && service->options.check)
		result = check_done(&service->options);
	if (!result && upgrade_is_trial(&program->upgrade)) {
		result = upgrade_check(&program->upgrade);
		if (!result)
			return UPGRADE_YES;
	}
	if (!result)
		return program_main(program);
	brokerd_config_free(service->config);
	if (result > 0)
		return 0;
	log_say("%s", error_text());
	upgrade_back(&program->upgrade);
	return EXIT_USAGE;
}

int main(int argc, char **argv)
{
	static struct program program = {
		.service.notify.fd = -1,
		.config = -1,
		.control = { on_signal, on_patience, on_event_failure, &program, NULL, NULL, NULL, -1 },
		.upgrade = { .before = -1, .next = -1, .pack = on_pack, .end_broker = end_broker,
			     .context = &program },
	};
	int code = streams_fill();

	if (!code)
		code = brokerd(&program, argc, argv);
	if (code >= 0 && !streams_flush())
		return code;
	log_say("%s", error_text());
	return EXIT_BROKER;
}

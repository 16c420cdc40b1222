/* SPDX-License-Identifier: Apache-2.0 */
/* keeper.c - see keeper.h */
#include "keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utlist.h>

#include "broker/base/log.h"
#include "common/crash-point.h"
#include "common/error.h"
#include "common/now.h"
#include "common/tables.h"
#include "device/cuda-fork.h"
#include "line.h"

#define AGAIN_MS      100   /* before another attempt to fork a broker */
#define OWNER_MS      10000 /* in which an owner ends after a broker that ended by itself */
#define REQUESTS_MAX  256   /* requests in a pass of the loop */
#define UNTIL_THE_END (~0u)

/* A broker that has begun, or a process that closes what was kept, until it is reaped. */
struct keeper_broker {
	struct keeper        *keeper;
	struct child          child;
	pid_t                 pid;      /* also after it has been reaped */
	uint64_t              began_ns; /* CLOCK_MONOTONIC */
	struct event         *requests; /* the line can be read; NULL after its end */
	int                   line;     /* the keeper's end; -1: closed */
	enum policy_cause     cause;
	bool                  held;     /* it has said that it holds the mutex */
	bool                  dead;     /* its loop runs no more */
	struct keeper_broker *prev, *next;
};

static void broker_start(struct keeper *keeper);
static void on_exit_of(void *context, int status);

static void wait_for(struct keeper *keeper, unsigned ms)
{
	const struct timeval pause = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };

	event_add(keeper->later, &pause);
}

/* ---- the program's end ---- */

/* Calls ended() if nothing runs any more. */
static void end_if_idle(struct keeper *keeper)
{
	if (!keeper->ending || owners_run(&keeper->owners))
		return;
	event_del(keeper->later);
	keeper->program.ended(keeper->program.context, keeper->status);
}

/*
 * No other broker starts. An owner ends when its sockets are closed, after it has carried out its orders. One whose
 * broker did not end in order is ended at once.
 */
static void end(struct keeper *keeper, int status, bool in_order)
{
	keeper->ending = true;
	keeper->status = status;
	if (keeper->program.ending)
		keeper->program.ending(keeper->program.context, &keeper->kept);
	kept_clear(&keeper->kept);
	if (in_order)
		wait_for(keeper, OWNER_MS);
	else
		owners_kill(&keeper->owners);
	end_if_idle(keeper);
}

/* ---- requests ---- */

static void line_drop_end(struct keeper_broker *broker)
{
	if (broker->requests)
		event_free(broker->requests);
	if (broker->line >= 0)
		close(broker->line);
	broker->requests = NULL;
	broker->line = -1;
}

static void tell_owner_status(struct keeper *keeper)
{
	struct owners *owners = &keeper->owners;

	if (owners->untold && keeper->broker && line_tell(keeper->broker->line, owners->status) != -EAGAIN)
		owners->untold = false;
}

static void punish(struct keeper_broker *broker)
{
	if (broker->cause == POLICY_PACKET)
		return;
	log_say("the broker (pid %d) sent its keeper what is no request, and is ended", (int)broker->pid);
	broker->cause = POLICY_PACKET;
	broker->keeper->counts.packets++;
	if (!broker->dead)
		kill(broker->pid, SIGKILL);
}

/* A broker that is dead by now has nobody who holds the mutex. */
static void on_alive(struct keeper_broker *broker)
{
	if (broker->held)
		punish(broker);
	else if (!ALIVE_BY_PIDFD && !broker->dead && alive_watch(&broker->keeper->alive))
		log_say("the broker's death will be noticed late: %s", error_text());
	broker->held = true;
}

static void on_ready(struct keeper *keeper)
{
	policy_ready(&keeper->policy);
	keeper->cold = false;
	keeper->served = true;
	keeper->death_ns = 0;
	if (keeper->program.ready)
		keeper->program.ready(keeper->program.context);
}

static void on_put(struct keeper *keeper, uint64_t key, int fd)
{
	CRASH_POINT(keeper_put);
	if (fd >= 0 && !kept_put(&keeper->kept, key, fd)) {
		CRASH_POINT(keeper_kept);
		return;
	}
	if (fd >= 0)
		close(fd);
	kept_drop(&keeper->kept, key); /* what is there is of an object before */
	keeper->counts.lost++;
	log_line("the keeper has no memory or no descriptor left (ulimit -n): the next broker will lack one");
}

static void on_begin(struct keeper_broker *broker, int sock)
{
	if (!owners_run(&broker->keeper->owners)) {
		owners_begin(&broker->keeper->owners, sock);
		tell_owner_status(broker->keeper);
		return;
	}
	close(sock);
	punish(broker);
}

static void carry_out(struct keeper_broker *broker, const struct line_request *request, int fd)
{
	struct keeper *keeper = broker->keeper;

	switch ((enum line_kind)request->kind) {
	case LINE_ALIVE:
		on_alive(broker);
		break;
	case LINE_PUT:
		on_put(keeper, request->key, fd);
		break;
	case LINE_DROP:
		kept_drop(&keeper->kept, request->key);
		CRASH_POINT(keeper_dropped);
		break;
	case LINE_READY:
		on_ready(keeper);
		break;
	case LINE_BEGIN:
		on_begin(broker, fd);
		break;
	case LINE_KILL:
		owners_kill(&keeper->owners);
		break;
	case LINE_KINDS:
		break;
	}
}

/* Carries out at most `most` requests. Returns 0; -EAGAIN: there is no other one; -ECONNRESET: the line has ended. */
static int read_requests(struct keeper_broker *broker, unsigned most)
{
	struct line_request request;
	int error = 0, fd;

	while (!error && most--) {
		error = line_receive(broker->line, &request, &fd);
		if (!error)
			carry_out(broker, &request, fd);
		if (error == -EPROTO) {
			punish(broker);
			error = 0;
		}
	}
	return error;
}

/* The line of a broker ends before its process. That says nothing of how. */
static void on_requests(evutil_socket_t fd, short what, void *argument)
{
	struct keeper_broker *broker = argument;

	(void)fd;
	(void)what;
	if (read_requests(broker, REQUESTS_MAX) == -ECONNRESET) {
		event_free(broker->requests);
		broker->requests = NULL;
	}
}

/* ---- a broker's death ---- */

static const char *step_text(enum policy_step step)
{
	switch (step) {
	case POLICY_NEXT:
		return "the next one starts";
	case POLICY_COLD:
		return "the next one starts with nothing";
	case POLICY_END:
		break;
	}
	return "no other one starts";
}

/* Watches a new process that does nothing but end. If that fails the process stays a zombie. */
static void discard_watch(struct keeper *keeper, pid_t pid)
{
	struct keeper_broker *discard = calloc(1, sizeof *discard);

	if (!discard)
		return;
	*discard = (struct keeper_broker){ .keeper = keeper, .line = -1, .pid = pid, .dead = true };
	if (child_watch(&discard->child, keeper->base, pid, on_exit_of, discard))
		free(discard);
	else
		DL_APPEND(keeper->dying, discard);
}

/*
 * Closes all that is kept. The last close of a descriptor may take as long as a client likes, and is made by the exit
 * of a process of its own, which has all descriptors until the keeper has closed them.
 */
static void kept_discard(struct keeper *keeper)
{
	int done[2] = { -1, -1 };
	pid_t pid;
	char none;

	pid = !kept_count(&keeper->kept) || pipe2(done, O_CLOEXEC) ? -1 : child_fork(NULL);
	if (!pid) {
		close(done[1]);
		(void)!read(done[0], &none, 1);
		_exit(EXIT_SUCCESS);
	}
	kept_clear(&keeper->kept);
	if (done[0] >= 0) {
		close(done[0]);
		close(done[1]);
	}
	if (pid > 0)
		discard_watch(keeper, pid);
}

static int cold_prepare(struct keeper *keeper)
{
	int error = keeper->program.cold ? keeper->program.cold(keeper->program.context) : 0;

	if (error) {
		log_line("%s; it is tried again", error_text());
		wait_for(keeper, AGAIN_MS);
	}
	return error;
}

/* Starts the next broker. Before a cold start the owner is ended, and nothing is kept. */
static void start_next(struct keeper *keeper)
{
	event_del(keeper->later);
	if (keeper->cold && owners_run(&keeper->owners)) {
		owners_kill(&keeper->owners); /* on_owner_end() goes on */
		return;
	}
	if (keeper->cold)
		kept_discard(keeper);
	if (!keeper->cold || !cold_prepare(keeper))
		broker_start(keeper);
}

static void go_back(const struct keeper *keeper)
{
	if (!keeper->served && keeper->program.back)
		keeper->program.back(keeper->program.context);
}

/* The broker's loop runs no more. What it has sent is carried out, and then it is decided what follows. */
static void broker_over(struct keeper_broker *broker, int status)
{
	struct keeper *keeper = broker->keeper;
	uint64_t lived_ns = now_ns(CLOCK_MONOTONIC) - broker->began_ns;
	const struct policy_end ended = { .status = status,
					  .cause = broker->cause,
					  .stopping = keeper->stopping,
					  .lived_ms = (unsigned)(lived_ns / 1000000) };
	struct policy_decision decision = policy_decide(&keeper->policy, &ended);

	line_drop_end(broker);
	keeper->broker = NULL;
	watchdog_watch(&keeper->watchdog, 0);
	if (WIFSIGNALED(status) && !keeper->upgrading)
		log_say("the broker (pid %d) was ended by signal %d: %s", (int)broker->pid, WTERMSIG(status),
			step_text(decision.step));
	if (decision.step == POLICY_END) {
		end(keeper, decision.status, WIFEXITED(status));
		return;
	}
	if (decision.step == POLICY_NEXT && keeper->upgrading && !keeper->stopping)
		keeper->program.upgrade(keeper->program.context);
	keeper->upgrading = false;
	if (decision.step == POLICY_COLD)
		go_back(keeper);
	if (decision.step == POLICY_COLD) {
		keeper->cold = true;
		keeper->counts.cold_starts++;
	}
	if (decision.pause_ms) {
		log_say("%u brokers in a row have crashed soon after their start: the next one starts in %u ms",
			keeper->policy.quick, decision.pause_ms);
		wait_for(keeper, decision.pause_ms);
		return;
	}
	start_next(keeper);
}

static void notice_death(struct keeper_broker *broker)
{
	broker->dead = true;
	if (!broker->keeper->death_ns)
		broker->keeper->death_ns = now_ns(CLOCK_MONOTONIC);
	(void)read_requests(broker, UNTIL_THE_END);
}

/*
 * The mutex was released: the loop's thread has ended, and sends no more. If a signal ends the process, the next
 * broker need not wait until the process is gone. Else on_exit_of() decides, by the exit status. If the loop's thread
 * alone has ended the rest of the process is ended here; the signal does nothing to a process that exits.
 */
static void on_release(void *context)
{
	struct keeper *keeper = context;
	struct keeper_broker *broker = keeper->broker;
	int status = child_ending(broker->pid);

	notice_death(broker);
	if (!status) {
		kill(broker->pid, SIGKILL);
		return;
	}
	DL_APPEND(keeper->dying, broker);
	broker_over(broker, status);
}

/* The process is gone. */
static void on_exit_of(void *context, int status)
{
	struct keeper_broker *broker = context;
	struct keeper *keeper = broker->keeper;

	if (keeper->broker == broker) {
		alive_unwatch(&keeper->alive);
		notice_death(broker);
		broker_over(broker, status);
	} else
		DL_DELETE(keeper->dying, broker);
	free(broker);
	if (keeper->program.reaps)
		keeper_reap_others(keeper);
}

static void on_owner_end(void *context)
{
	struct keeper *keeper = context;

	if (keeper->program.reaps)
		keeper_reap_others(keeper);
	tell_owner_status(keeper);
	if (keeper->ending)
		end_if_idle(keeper);
	else if (!keeper->broker && keeper->cold)
		start_next(keeper);
}

/* ---- a broker's start ---- */

/* Closes what a forked broker has of the keeper: its events, and their descriptors. Returns false if that fails. */
static bool leave_keeper(struct keeper *keeper)
{
	struct keeper_broker *dying;

	if (event_reinit(keeper->base)) /* before that, each change of an event would be one of the keeper's epoll */
		return false;
	alive_forget(&keeper->alive);
	watchdog_deinit(&keeper->watchdog);
	event_free(keeper->later);
	child_forget(&keeper->owners.child);
	DL_FOREACH(keeper->dying, dying)
		child_forget(&dying->child);
	event_base_free(keeper->base);
	keeper->base = NULL;
	return true;
}

/*
 * Waits for the keeper's byte, which says that the keeper watches this broker. Until then the broker makes nothing,
 * because a keeper that cannot watch it kills it. Returns false if the keeper has ended.
 */
static bool wait_until_watched(int sock)
{
	char byte;

	return recv(sock, &byte, sizeof byte, 0) == sizeof byte;
}

/* The broker's process, with all signals blocked. */
static _Noreturn void broker_main(struct keeper *keeper, int sock, pid_t parent, const sigset_t *signals)
{
	const struct keeper_program *program = &keeper->program;
	struct keeper_end beginning = { .line = sock,
					.number = keeper->number,
					.kept = &keeper->kept,
					.marks = &keeper->shared->marks,
					.stops = &keeper->shared->stops,
					.last = keeper->policy.how,
					.cold = keeper->cold,
					.counts = keeper->counts,
					.death_ns = keeper->death_ns,
					.owner = { .pid = keeper->owners.child.pid,
						   .number = keeper->owners.number,
						   .status = keeper->owners.status } };

	prctl(PR_SET_NAME, program->name);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent || !leave_keeper(keeper) ||
	    !wait_until_watched(sock) || alive_hold(&keeper->shared->alive) || line_say_alive(sock))
		kill(getpid(), SIGKILL); /* is tried again, and an exit would be the program's */
	sigprocmask(SIG_SETMASK, signals, NULL);
	log_serving(false);
	exit(program->broker(program->context, &beginning));
}

/* Forks a broker with one end of the pair. Returns its pid, or a negative errno with the error message set. */
static pid_t broker_fork(struct keeper *keeper, const int pair[2])
{
	pid_t parent = getpid(), pid;
	sigset_t before;

	atomic_store(&keeper->shared->marks.pass, 0);
	atomic_store(&keeper->shared->marks.sleeping, false);
	pid = child_fork(&before);
	if (!pid) {
		close(pair[0]);
		broker_main(keeper, pair[1], parent, &before);
	}
	return pid < 0 ? error_set(-errno, "the broker cannot be forked: %m") : pid;
}

/* Has the loop read the broker's requests and notice its end. */
static int broker_watch(struct keeper_broker *broker, pid_t pid)
{
	struct keeper *keeper = broker->keeper;
	int error = child_watch(&broker->child, keeper->base, pid, on_exit_of, broker);

	if (error) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		return error;
	}
	broker->pid = pid;
	broker->requests = event_new(keeper->base, broker->line, EV_READ | EV_PERSIST, on_requests, broker);
	if (broker->requests && !event_add(broker->requests, NULL)) {
		(void)send(broker->line, "", 1, MSG_NOSIGNAL); /* wait_until_watched(); fails if the broker is dead */
		return 0;
	}
	child_finish(&broker->child);
	return error_set(-ENOMEM, "the keeper is out of memory");
}

/* Begins a broker with a line. Returns 0, or a negative errno with the error message set. */
static int broker_begin(struct keeper_broker *broker)
{
	int pair[2], error;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return error_set(-errno, "no sockets for the broker: %m");
	fcntl(pair[0], F_SETFL, O_NONBLOCK);
	broker->line = pair[0];
	pid = broker_fork(broker->keeper, pair);
	close(pair[1]);
	error = pid < 0 ? pid : broker_watch(broker, pid);
	if (error)
		line_drop_end(broker);
	return error;
}

static int broker_try(struct keeper *keeper)
{
	struct keeper_broker *broker = calloc(1, sizeof *broker);
	int error;

	if (!broker)
		return error_set(-ENOMEM, "the keeper is out of memory");
	broker->keeper = keeper;
	broker->began_ns = now_ns(CLOCK_MONOTONIC);
	keeper->number++;
	keeper->broker = broker; /* also in the forked broker, where nothing else leads to it */
	error = broker_begin(broker);
	if (error) {
		keeper->number--;
		keeper->broker = NULL;
		free(broker);
		return error;
	}
	keeper->owners.untold = false; /* the broker has inherited it */
	watchdog_watch(&keeper->watchdog, broker->pid);
	if (keeper->stopping)
		kill(broker->pid, SIGTERM);
	return 0;
}

static void broker_start(struct keeper *keeper)
{
	if (!broker_try(keeper))
		return;
	log_line("%s; it is tried again", error_text());
	wait_for(keeper, AGAIN_MS);
}

/* ---- another program goes on ---- */

int keeper_upgrade(struct keeper *keeper)
{
	if (keeper->stopping)
		return error_set(-ESHUTDOWN, "brokerd is to end");
	if (!keeper->broker || !keeper->policy.ready)
		return error_set(-EAGAIN, "no broker serves now");
	keeper->upgrading = true;
	kill(keeper->broker->pid, SIGKILL);
	return 0;
}

void keeper_pack(struct keeper *keeper, struct handover *handover)
{
	enum policy_how how = keeper->upgrading ? POLICY_UPGRADED : keeper->policy.how;

	kept_pack(&keeper->kept, handover);
	owners_pack(&keeper->owners, handover);
	handover_add(handover, HANDOVER_BROKERS, keeper->number, -1);
	handover_add(handover, HANDOVER_COLD_STARTS, keeper->counts.cold_starts, -1);
	handover_add(handover, HANDOVER_DEATH, keeper->death_ns, -1);
	handover_add(handover, HANDOVER_HOW, how, -1);
}

/* Goes on where the keeper of the program before was. */
static int resume(struct keeper *keeper, const struct handover *from)
{
	uint64_t how = handover_value(from, HANDOVER_HOW);
	int error = kept_resume(&keeper->kept, from);

	keeper->number = (unsigned)handover_value(from, HANDOVER_BROKERS);
	keeper->counts.cold_starts = (unsigned)handover_value(from, HANDOVER_COLD_STARTS);
	keeper->death_ns = handover_value(from, HANDOVER_DEATH);
	keeper->policy.how = how <= POLICY_UPGRADED ? (enum policy_how)how : POLICY_CRASHED; /* of a later release */
	return error ? error : owners_resume(&keeper->owners, from);
}

/* ---- the keeper ---- */

/* In a forked owner. */
static void leave_as_owner(void *context)
{
	const struct keeper *keeper = context;

	munmap(keeper->shared, sizeof *keeper->shared);
	if (keeper->program.owner)
		keeper->program.owner(keeper->program.context);
}

static void on_later(evutil_socket_t fd, short what, void *argument)
{
	struct keeper *keeper = argument;

	(void)fd;
	(void)what;
	if (keeper->ending)
		owners_kill(&keeper->owners);
	else if (!keeper->broker)
		start_next(keeper);
}

static void on_hang(void *context)
{
	struct keeper *keeper = context;

	log_say("the loop of the broker (pid %d) hangs: the broker is ended", (int)keeper->broker->pid);
	keeper->broker->cause = POLICY_HUNG;
	keeper->counts.hung++;
}

static void on_look(void *context)
{
	tell_owner_status(context);
}

/* Makes the shared memory and what watches it. */
static int watches_init(struct keeper *keeper)
{
	const struct keeper_program *program = &keeper->program;
	void *shared = mmap(NULL, sizeof *keeper->shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int error;

	if (shared == MAP_FAILED)
		return error_set(-errno, "no memory that keeper and broker share: %m");
	keeper->shared = shared;
	keeper->watchdog = (struct watchdog){ .hangs = on_hang, .looked = on_look, .context = keeper };
	error = alive_init(&keeper->alive, keeper->base, &keeper->shared->alive, on_release, keeper);
	return error ? error :
		       watchdog_init(&keeper->watchdog, keeper->base, &keeper->shared->marks,
				     program->look_ms ? program->look_ms : WATCHDOG_LOOK_MS,
				     program->looks ? program->looks : WATCHDOG_LOOKS);
}

static void raise_descriptor_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

int keeper_init(struct keeper *keeper, struct event_base *base, const struct keeper_program *program)
{
	int error;

	tables_init();
	cuda_fork_trusted();
	raise_descriptor_limit();
	*keeper = (struct keeper){ .base = base, .program = *program };
	keeper->later = evtimer_new(base, on_later, keeper);
	error = keeper->later ? watches_init(keeper) : error_set(-ENOMEM, "the keeper is out of memory");
	keeper->owners = (struct owners){ .base = base,
					  .ended = on_owner_end,
					  .leave = leave_as_owner,
					  .context = keeper };
	if (!error && program->from)
		error = resume(keeper, program->from);
	if (!error && !program->from)
		error = broker_try(keeper);
	if (error) {
		go_back(keeper);
		keeper_deinit(keeper);
		return error;
	}
	log_serving(true);
	keeper->begun = true;
	if (program->from)
		broker_start(keeper); /* is tried again and again: there is something to lose */
	return 0;
}

void keeper_signal(const struct keeper *keeper, int signal)
{
	if (keeper->broker)
		kill(keeper->broker->pid, signal);
}

static bool is_own(const struct keeper *keeper, pid_t pid)
{
	const struct keeper_broker *dying;

	DL_FOREACH(keeper->dying, dying)
		if (dying->child.pid == pid)
			return true;
	return pid == keeper->owners.child.pid || (keeper->broker && pid == keeper->broker->child.pid);
}

/* A child of the keeper's own is reaped through the loop, and its end calls this again. */
void keeper_reap_others(const struct keeper *keeper)
{
	siginfo_t info = { .si_pid = 0 };
	int status;
	pid_t pid;

	while (!waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WNOTHREAD) && info.si_pid &&
	       !is_own(keeper, info.si_pid)) {
		pid = waitpid(info.si_pid, &status, WNOHANG);
		info.si_pid = 0;
		if (pid > 0 && keeper->program.reaped)
			keeper->program.reaped(keeper->program.context, pid, status);
	}
}

/* While no broker runs, the next one starts at once, and is asked: it has what the last one left to bring to an end. */
void keeper_stop(struct keeper *keeper)
{
	bool again = keeper->stopping;

	keeper->stopping = true;
	keeper->shared->stops++;
	if (keeper->broker)
		kill(keeper->broker->pid, SIGTERM);
	else if (!keeper->ending && again)
		end(keeper, EXIT_FAILURE, true);
	else if (!keeper->ending)
		start_next(keeper);
}

bool keeper_asks_for_end(struct keeper_end *end)
{
	unsigned stops = *end->stops;
	bool asks = stops != end->stops_seen;

	end->stops_seen = stops;
	return asks;
}

void keeper_deinit(struct keeper *keeper)
{
	struct keeper_broker *dying, *next;

	if (keeper->broker) {
		child_finish(&keeper->broker->child);
		line_drop_end(keeper->broker);
		free(keeper->broker);
	}
	DL_FOREACH_SAFE(keeper->dying, dying, next) {
		child_forget(&dying->child);
		free(dying);
	}
	alive_deinit(&keeper->alive);
	child_finish(&keeper->owners.child);
	watchdog_deinit(&keeper->watchdog);
	kept_clear(&keeper->kept);
	if (keeper->later)
		event_free(keeper->later);
	if (keeper->shared)
		munmap(keeper->shared, sizeof *keeper->shared);
	*keeper = (struct keeper){ 0 };
}

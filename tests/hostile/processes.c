/* SPDX-License-Identifier: Apache-2.0 */
/*
 * processes.c - attacks by what a process may do to itself and to others: die, fork, stop, exec, be traced, hand its
 * socket on, call itself root in a namespace of its own, look into others.
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "attacks.h"
#include "common/socket.h"

#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

/* ---- dying between any two messages ---- */

struct life {
	struct speaker      s;
	struct wire_message hello, answer;
	struct wire_grant   grant;
	struct ticket        ticket;
};

static void say(struct life *life, enum wire_type type)
{
	struct wire_message message = speaker_message(type, "attacker/life");

	if (type == WIRE_ACQUIRE)
		message.acquire.rights = BOTH;
	if (type == WIRE_CREATE)
		message.create.flags = GPUB_TIMELINE;
	if (type == WIRE_WRITER || type == WIRE_CLOSED || type == WIRE_QUIESCED) {
		message.grant_id.mapping = life->grant.mapping;
		message.grant_id.serial = life->grant.serial;
	}
	if (type == WIRE_REDEEM)
		message.redeem = (struct wire_redeem){ .ticket = life->ticket };
	WANT(!speaker_say(&life->s, &message));
}

static void told(struct life *life)
{
	int fd;

	WANT(!speaker_receive(&life->s, &life->answer, &fd));
	if (life->answer.type == WIRE_MEMORY) {
		life->s.memory_fd = fd;
		WANT(!speaker_receive(&life->s, &life->answer, &fd));
	}
	if (fd >= 0)
		close(fd);
	if (life->answer.type == WIRE_GRANT)
		life->grant = life->answer.grant;
	if (life->answer.type == WIRE_TICKET)
		life->ticket = life->answer.ticket;
}

static void life_dial(struct life *life)
{
	WANT(!speaker_dial(&life->s));
}

static void life_challenged(struct life *life)
{
	WANT(!speaker_hello(&life->s, &life->hello));
}

static void life_greets(struct life *life)
{
	WANT(!speaker_say(&life->s, &life->hello));
}

static void life_welcomed(struct life *life)
{
	WANT(!speaker_welcome(&life->s));
}

static void life_maps(struct life *life)
{
	WANT(speaker_map(&life->s, &life->grant));
}

#define TELLS(type) \
	static void life_says_##type(struct life *life) { say(life, WIRE_##type); }
TELLS(CREATE)
TELLS(ACQUIRE)
TELLS(WRITER)
TELLS(ISSUE)
TELLS(REDEEM)
TELLS(CLOSED)
TELLS(QUIESCED)
TELLS(DRAIN)
TELLS(LEAVE)

typedef void life_step(struct life *life);

static life_step *const steps[] = { life_dial,        life_challenged,  life_greets,      life_welcomed,
				    life_says_CREATE, told,          life_says_ACQUIRE, told,
				    life_maps,        life_says_WRITER, told,          life_says_ISSUE,
				    told,          life_says_REDEEM, told,          life_says_CLOSED,
				    life_says_ACQUIRE, told,         life_says_QUIESCED,   life_says_CLOSED,
				    life_says_DRAIN,   life_says_LEAVE };

#define STEPS (sizeof steps / sizeof steps[0])

static void live_and_die(size_t count)
{
	struct life life = { 0 };

	for (size_t i = 0; i < count; i++)
		steps[i](&life);
	raise(SIGKILL);
}

/* The next one can make that name anew: nothing of the last one stands in its way for long. */
static void die_everywhere(void)
{
	for (size_t count = 1; count <= STEPS; count++) {
		struct speaker s;
		int status = 0;
		pid_t pid = fork();

		if (!pid)
			live_and_die(count);
		WANT(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
		join(&s);
		speaker_named(&s, WIRE_UNLINK, "attacker/life");
		speaker_end(&s);
	}
}

/* ---- living on in other ways ---- */

static struct speaker session;

static void map_given(void)
{
	struct wire_grant grant;

	join(&session);
	WANT(!speaker_acquire(&session, GIVEN, BOTH, &grant));
	WANT(speaker_map(&session, &grant));
}

static void sleep_on(void)
{
	for (;;)
		pause();
}

/* Its child has the socket and the mapping, and nobody is left who opened them. */
static void fork_and_die(void)
{
	pid_t pid = fork();

	if (!pid) {
		map_given();
		pid = fork();
		if (!pid)
			sleep_on();
		stage->pid[1] = pid;
		raise(SIGKILL);
	}
	WANT(waitpid(pid, NULL, 0) == pid);
	WANT(kill(stage->pid[1], 0) == 0);
	attack_done();
	hold();
}

static bool given_is_kept_for_the_child(void)
{
	return given_outlives_its_name() && given_goes_with(stage->pid[1]);
}

static void stop_itself(void)
{
	struct wire_message stat = speaker_message(WIRE_STAT, "no");

	map_given();
	for (int i = 0; i < 200; i++)
		WANT(!speaker_say(&session, &stat));
	attack_done();
	atomic_store(&stage->ready, true);
	raise(SIGSTOP);
	sleep_on();
}

static bool given_is_kept_for_the_attacker(void)
{
	return given_outlives_its_name() && given_goes_with(stage->pid[0]);
}

/* Traced, stopped by its tracer, and after its death not waited for. */
static void be_traced(void)
{
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		map_given();
		atomic_store(&stage->number[1], 1);
		sleep_on();
	}
	stage->pid[1] = pid;
	while (!atomic_load(&stage->number[1]))
		usleep(1000);
	if (!ptrace(PTRACE_SEIZE, pid, NULL, NULL)) {
		WANT(!ptrace(PTRACE_INTERRUPT, pid, NULL, NULL));
		waitpid(pid, NULL, __WALL);
	}
	attack_done();
	hold();
}

static void prepare_trace(void)
{
	atomic_store(&stage->number[1], 0);
	make_given();
}

/* Another program in the same process, which knows nothing of what this one mapped. */
static void exec_program(void)
{
	map_given();
	attack_done();
	atomic_store(&stage->ready, true);
	execlp("sleep", "sleep", "60", NULL);
	_exit(1);
}

static void exec_with_socket(void)
{
	map_given();
	fcntl(session.sock, F_SETFD, 0);
	attack_done();
	atomic_store(&stage->ready, true);
	execlp("sleep", "sleep", "60", NULL);
	_exit(1);
}

/* ---- the socket in other hands ---- */

static void speak_for_another(void)
{
	struct wire_grant grant;
	pid_t pid;

	join(&session);
	WANT(!speaker_acquire(&session, GIVEN, BOTH, &grant));
	WANT(speaker_map(&session, &grant));
	pid = fork();
	if (!pid) {
		speaker_closed(&session, grant.mapping);
		_exit(0);
	}
	WANT(waitpid(pid, NULL, 0) == pid);
	WANT(!speaker_receive_end(&session));
	attack_done();
	hold();
	sleep_on();
}

/* ---- root of its own ---- */

static void map_user(const char *file, unsigned outside)
{
	char path[40], text[40];
	int fd;

	snprintf(path, sizeof path, "/proc/self/%s", file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (write(fd, text, (size_t)snprintf(text, sizeof text, "0 %u 1", outside)) < 0)
		text[0] = 0;
	close(fd);
}

static void call_itself_root(void)
{
	struct wire_message stat = speaker_message(WIRE_STAT, "attacker/root"), answer;
	uid_t uid = geteuid();
	struct wire_grant grant;
	struct speaker s;

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS)) {
		printf("# no user namespace: %m\n");
		return;
	}
	map_user("uid_map", uid);
	WANT(geteuid() == 0 || geteuid() == 65534);
	join(&s);
	WANT(!speaker_create(&s, "attacker/root", 4096, 0600, 0));
	WANT(!speaker_ask(&s, &stat, &answer, NULL) && answer.info.owner == uid);
	WANT(speaker_acquire(&s, SECRET, GPUB_READ, &grant) == -EACCES);
	WANT(speaker_named(&s, WIRE_UNLINK, SECRET) == -EACCES);
	speaker_end(&s);
}

/* ---- looking into others ---- */

static void open_of(pid_t pid, const char *what)
{
	char path[64];

	snprintf(path, sizeof path, "/proc/%d/%s", pid, what);
	WANT(open(path, O_RDONLY | O_CLOEXEC) < 0);
}

static void pry_into(pid_t pid)
{
	static char buffer[64];
	struct iovec here = { buffer, sizeof buffer }, there = { (void *)stage, sizeof buffer };
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);

	WANT(ptrace(PTRACE_SEIZE, pid, NULL, NULL));
	WANT(ptrace(PTRACE_ATTACH, pid, NULL, NULL));
	WANT(process_vm_readv(pid, &here, 1, &there, 1, 0) < 0);
	for (int fd = 0; fd < 32; fd++)
		WANT(pidfd < 0 || syscall(SYS_pidfd_getfd, pidfd, fd, 0) < 0);
	open_of(pid, "mem");
	open_of(pid, "maps");
	open_of(pid, "environ");
	open_of(pid, "fd/3");
	open_of(pid, "fd/5");
	WANT(kill(pid, SIGSTOP) && kill(pid, SIGKILL));
	close(pidfd);
}

static void pry(void)
{
	pid_t server = server_of(arena_broker.pid);

	pry_into(arena_broker.pid);
	if (server)
		pry_into(server);
	pry_into(stage->victim);
}

/* Another path to it, or another broker in its place. */
static void replace_socket(void)
{
	const char *path = arena_broker.address + 5;
	char directory[128], other[160];

	strcpy(directory, path);
	*strrchr(directory, '/') = 0;
	snprintf(other, sizeof other, "%s/other", directory);
	WANT(unlink(path) && rename(path, other) && chmod(path, 0) && chmod(directory, 0777));
	WANT(open(other, O_RDWR | O_CREAT | O_CLOEXEC, 0600) < 0);
	WANT(rmdir(directory) && rename(directory, "/tmp/elsewhere"));
}

#define KEPT(name, holds, function, who)                                                                             \
	{                                                                                                             \
		name, holds, .prepare = make_given, .run = function, .during = given_is_kept_for_the_##who             \
	}

const struct attack processes[] = {
	{ "dies between messages", "invariant 10: the accounting is exact wherever it dies", .run = die_everywhere },
	KEPT("forks and dies", "invariant 9: what a forked child may touch stays until that is dead, too", fork_and_die,
	     child),
	KEPT("stops itself", "invariant 7: what it maps stays, and nobody waits for it", stop_itself, attacker),
	{ "is traced", "invariant 9: what it maps stays while it is stopped by a tracer, and goes with it",
	  .prepare = prepare_trace, .run = be_traced, .during = given_is_kept_for_the_child },
	KEPT("execs", "invariant 9: what it mapped stays until the process is dead", exec_program, attacker),
	KEPT("execs with its socket", "also when the socket goes on", exec_with_socket, attacker),
	KEPT("lends its socket", "invariant 2: another process's CLOSED is not its own", speak_for_another, attacker),
	{ "calls itself root", "in a namespace of its own it is who it is outside", .run = call_itself_root,
	  .flags = NEEDS_USERS },
	{ "pries into processes", "neither the broker nor the victim can be traced, read, robbed or signalled",
	  .run = pry, .flags = NEEDS_USERS },
	{ "replaces the socket", "nothing can be put in its place", .run = replace_socket, .flags = NEEDS_USERS },
	{ 0 },
};

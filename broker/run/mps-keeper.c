/* SPDX-License-Identifier: Apache-2.0 */
/* mps-keeper.c - see mps-keeper.h */
#include "mps-keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/error.h"
#include "common/now.h"

#define PROGRAM       "nvidia-cuda-mps-control"
#define PARENT_DIED   SIGUSR1
#define START_SECONDS 5  /* the daemon of an idle machine took 10 ms (docs/facts.md) */
#define END_SECONDS   5  /* after SIGTERM it took less than 0.5 s there */
#define LOOK_MS       10
#define SOCKET_MAX    88 /* bytes of the directory's path: the longest name of a socket in it is /control_privileged */

struct keeper {
	pid_t    parent;
	sigset_t signals;
	pid_t    daemon; /* 0: it has not begun, or has ended */
	pid_t    quit;   /* tells it to end; 0: not asked for */
	uint64_t kill_at, leave_at; /* nanoseconds, CLOCK_MONOTONIC; 0: never */
};

static uint64_t in_seconds(unsigned seconds)
{
	return now_ns(CLOCK_MONOTONIC) + seconds * UINT64_C(1000000000);
}

/* ---- programs ---- */

/* A job script may ignore signals (trap '' TERM), and programs inherit that. */
static void signals_reset(void)
{
	sigset_t none;

	for (int number = 1; number < NSIG; number++)
		signal(number, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Says why not through failed, if the program cannot begin. argument: NULL, or its only one. */
static _Noreturn void program_run(const char *argument, const char *log, int input, int failed)
{
	int output = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600), error;

	signals_reset();
	if (input < 0)
		input = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (output >= 0 && input >= 0 && dup2(input, STDIN_FILENO) >= 0 && dup2(output, STDOUT_FILENO) >= 0 &&
	    dup2(output, STDERR_FILENO) >= 0)
		execlp(PROGRAM, PROGRAM, argument, NULL);
	error = errno;
	(void)!write(failed, &error, sizeof error);
	_exit(1);
}

/* Of a program that has begun: its pid. Else negative errno. dies: it ends with this process. */
static pid_t program_fork(const char *argument, const char *log, int input, bool dies)
{
	int failed[2], error = 0;
	pid_t keeper = getpid(), pid;

	if (pipe2(failed, O_CLOEXEC))
		return -errno;
	pid = fork();
	if (!pid) {
		if (dies)
			prctl(PR_SET_PDEATHSIG, SIGTERM);
		if (dies && getppid() != keeper)
			_exit(0);
		program_run(argument, log, input, failed[1]);
	}
	error = pid < 0 ? errno : 0;
	close(failed[1]);
	if (pid > 0 && read(failed[0], &error, sizeof error) == sizeof error)
		waitpid(pid, NULL, 0);
	close(failed[0]);
	return error ? -error : pid;
}

/* Gives the daemon a command as its users do: a line on the input of its own program. Negative errno: it cannot be given. */
static pid_t command_fork(const char *line)
{
	int input[2];
	pid_t pid;

	if (pipe2(input, O_CLOEXEC))
		return -errno;
	pid = write(input[1], line, strlen(line)) < 0 ? -errno : 0;
	close(input[1]);
	if (!pid)
		pid = program_fork(NULL, "/dev/null", input[0], false);
	close(input[0]);
	return pid;
}

/* ---- the start ---- */

#define OUTPUT_NAME "output" /* beside the daemon's control.log and server.log */

/* The last line of a file of the daemon's: "" where there is none. */
static void last_line(const char *directory, const char *name, char text[MPS_ANSWER_MAX])
{
	char line[MPS_ANSWER_MAX], path[PATH_MAX];
	FILE *file;

	snprintf(path, sizeof path, "%s/%s", directory, name);
	file = fopen(path, "re");
	*text = 0;
	while (file && fgets(line, sizeof line, file)) {
		line[strcspn(line, "\n")] = 0;
		if (*line)
			strcpy(text, line);
	}
	if (file)
		fclose(file);
}

/* What it printed or logged last; "" where it said nothing. */
static void find_cause(const char *directory, char text[MPS_ANSWER_MAX])
{
	last_line(directory, OUTPUT_NAME, text);
	if (!*text)
		last_line(directory, "control.log", text);
}

static int say_ended(int status, const char *directory)
{
	char text[MPS_ANSWER_MAX];

	find_cause(directory, text);
	if (!*text)
		snprintf(text, sizeof text, WIFSIGNALED(status) ? "signal %d" : "status %d",
			 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	return error_set(-EIO, "the MPS daemon ended at its start: %.160s", text);
}

static int say_silent(const char *directory)
{
	char text[MPS_ANSWER_MAX];

	find_cause(directory, text);
	return error_set(-ETIMEDOUT, "the MPS daemon did not answer for %d s%s%.140s: see whether nvidia-smi answers", START_SECONDS,
			 *text ? "; it said last: " : "", text);
}

/* A signal that ends what the keeper does now. */
static bool is_over(const struct keeper *keeper, int signal)
{
	return signal == SIGTERM || (signal == PARENT_DIED && getppid() != keeper->parent);
}

static int look(struct keeper *keeper)
{
	const struct timespec pause = { .tv_nsec = LOOK_MS * 1000000 };

	return sigtimedwait(&keeper->signals, NULL, &pause);
}

/* It answers its users when it can serve clients: that is asked by a command, which may hang as well. */
static int daemon_await(struct keeper *keeper, const char *directory, pid_t *question)
{
	char control[sizeof ((struct mps_order *)0)->directory + sizeof "/control"];
	uint64_t deadline = in_seconds(START_SECONDS);
	int status;

	snprintf(control, sizeof control, "%s/control", directory);
	while (now_ns(CLOCK_MONOTONIC) < deadline) {
		if (waitpid(keeper->daemon, &status, WNOHANG) == keeper->daemon) {
			keeper->daemon = 0;
			return say_ended(status, directory);
		}
		if (*question > 0 && waitpid(*question, &status, WNOHANG) == *question) {
			*question = 0;
			if (!status)
				return 0;
		}
		if (*question <= 0 && !access(control, F_OK))
			*question = command_fork("get_server_list\n");
		if (is_over(keeper, look(keeper)))
			return error_set(-EINTR, "the job ended before its MPS daemon served");
	}
	return say_silent(directory);
}

static int daemon_wait(struct keeper *keeper, const char *directory)
{
	pid_t question = 0;
	int error = daemon_await(keeper, directory, &question);

	if (question > 0)
		kill(question, SIGKILL);
	if (error && keeper->daemon)
		kill(keeper->daemon, SIGKILL);
	return error;
}

static int environment_set(const struct mps_order *order)
{
	if (setenv("CUDA_MPS_PIPE_DIRECTORY", order->directory, 1) || setenv("CUDA_MPS_LOG_DIRECTORY", order->directory, 1) ||
	    (*order->visible ? setenv("CUDA_VISIBLE_DEVICES", order->visible, 1) : unsetenv("CUDA_VISIBLE_DEVICES")))
		return error_set(-ENOMEM, "no memory for the MPS daemon's environment");
	return 0;
}

/* As long as it is held, nobody takes the directory for one that a dead process left: leftovers.h. */
static int directory_make(const char *directory)
{
	char name[sizeof ((struct mps_order *)0)->directory + sizeof "/lock"];
	int fd;

	if (strlen(directory) > SOCKET_MAX)
		return error_set(-ENAMETOOLONG, "%s is too long for the MPS daemon's sockets: use a shorter --name",
				 directory);
	snprintf(name, sizeof name, "%s/lock", directory);
	if (mkdir(directory, 0700) || (fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) < 0)
		return error_set(-errno, "%s cannot be made for the MPS daemon: %m", directory);
	return leftovers_lock(fd) ? error_set(-EAGAIN, "%s cannot be locked", directory) : 0;
}

static int daemon_start(struct keeper *keeper, const struct mps_order *order)
{
	char log[sizeof order->directory + sizeof "/" OUTPUT_NAME];
	int error = environment_set(order);
	pid_t pid;

	if (!error)
		error = directory_make(order->directory);
	if (error)
		return error;
	snprintf(log, sizeof log, "%s/" OUTPUT_NAME, order->directory);
	pid = program_fork("-f", log, -1, true);
	if (pid == -ENOENT)
		return error_set(pid, "no " PROGRAM " is in PATH: it comes with the NVIDIA driver");
	if (pid < 0)
		return error_set(pid, PROGRAM " cannot be started: %s", strerror(-pid));
	keeper->daemon = pid;
	return daemon_wait(keeper, order->directory);
}

/* ---- its life and end ---- */

static void daemon_terminate(struct keeper *keeper)
{
	if (keeper->daemon)
		kill(keeper->daemon, SIGTERM);
	if (!keeper->kill_at)
		keeper->kill_at = in_seconds(END_SECONDS);
}

/* False: no child is left. The daemon's servers become children of this process when it ends. */
static bool reap(struct keeper *keeper)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		if (pid == keeper->daemon)
			keeper->daemon = 0;
		else if (pid == keeper->quit && status) /* the daemon could not be reached */
			daemon_terminate(keeper);
	return !pid;
}

/* One that does not end by SIGTERM is killed; a process that the kernel cannot end is left behind. */
static bool past_patience(struct keeper *keeper)
{
	uint64_t now = now_ns(CLOCK_MONOTONIC);

	if (keeper->kill_at && now >= keeper->kill_at && !keeper->leave_at) {
		if (keeper->daemon)
			kill(keeper->daemon, SIGKILL);
		keeper->leave_at = in_seconds(END_SECONDS);
	}
	return keeper->leave_at && now >= keeper->leave_at;
}

/* The workers may still save what they have: the daemon waits for its clients. */
static void daemon_quit(struct keeper *keeper)
{
	keeper->quit = command_fork("quit\n");
	if (keeper->quit < 0)
		daemon_terminate(keeper);
}

static void keep(struct keeper *keeper)
{
	while (reap(keeper) && !past_patience(keeper)) {
		int signal = keeper->kill_at ? look(keeper) : sigwaitinfo(&keeper->signals, NULL);

		if (!is_over(keeper, signal))
			continue;
		if (signal == SIGTERM)
			daemon_terminate(keeper);
		else if (!keeper->quit)
			daemon_quit(keeper);
	}
}

/* ---- a process of its own ---- */

/* Its name, session and descriptors are not broker-run's: it gets no signal and holds no file that is meant for that. */
static void detach(int *gate, int *answer)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), high_gate = fcntl(*gate, F_DUPFD_CLOEXEC, 16),
	    high_answer = fcntl(*answer, F_DUPFD_CLOEXEC, 16);

	if (null < 0 || high_gate < 0 || high_answer < 0)
		_exit(1);
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		dup2(null, fd);
	*gate = dup3(high_gate, STDERR_FILENO + 1, O_CLOEXEC);
	*answer = dup3(high_answer, STDERR_FILENO + 2, O_CLOEXEC);
	if (*gate < 0 || *answer < 0)
		_exit(1);
	closefrom(STDERR_FILENO + 3); /* also where the kernel has no close_range(2) (before Linux 5.9) */
	prctl(PR_SET_NAME, "mps-keeper");
	setsid();
}

static void signals_take(struct keeper *keeper)
{
	signal(PARENT_DIED, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	sigemptyset(&keeper->signals);
	sigaddset(&keeper->signals, SIGCHLD);
	sigaddset(&keeper->signals, SIGTERM);
	sigaddset(&keeper->signals, PARENT_DIED);
	sigprocmask(SIG_BLOCK, &keeper->signals, NULL);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	prctl(PR_SET_PDEATHSIG, PARENT_DIED);
	if (getppid() != keeper->parent)
		_exit(0);
}

_Noreturn void mps_keeper_main(pid_t parent, int gate, int answer)
{
	struct keeper keeper = { .parent = parent };
	struct mps_order order;
	int error;

	detach(&gate, &answer);
	signals_take(&keeper);
	if (read(gate, &order, sizeof order) != sizeof order)
		_exit(0);
	error = daemon_start(&keeper, &order);
	if (error)
		(void)!write(answer, error_text(), strnlen(error_text(), MPS_ANSWER_MAX - 1) + 1);
	else
		(void)!write(answer, "", 1);
	close(answer);
	if (getppid() != parent)
		raise(PARENT_DIED);
	if (error)
		keeper.kill_at = in_seconds(END_SECONDS);
	keep(&keeper);
	_exit(0);
}

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
/* seconds that the daemon's start may take; on an idle machine a start took 10 ms (docs/facts.md) */
#define START_SECONDS 5
/* seconds that the daemon's end may take after SIGTERM; on an idle machine an end took less than 0.5 s */
#define END_SECONDS   5
#define LOOK_MS       10
/* largest length of the directory's path: the path of the daemon's socket in it must fit, too */
#define SOCKET_MAX    88

struct keeper {
	pid_t    parent;   /* pid of broker-run, the keeper's parent */
	/* signals that the keeper blocks and reads by sigwaitinfo(2): SIGCHLD, SIGTERM, PARENT_DIED */
	sigset_t signals;
	pid_t    daemon;   /* pid of the daemon; 0: it has not begun, or has ended */
	/*
	 * pid of the process that tells the daemon to quit; 0: none was started; negative errno: none could be started
	 */
	pid_t    quit;
	uint64_t kill_at;  /* when the daemon gets SIGKILL, in nanoseconds of CLOCK_MONOTONIC; 0: never */
	/* when the keeper exits though it has children left, in nanoseconds of CLOCK_MONOTONIC; 0: never */
	uint64_t leave_at;
};

static uint64_t in_seconds(unsigned seconds)
{
	return now_ns(CLOCK_MONOTONIC) + seconds * UINT64_C(1000000000);
}

/* ---- programs ---- */

/* Sets default actions and an empty mask: a job script may ignore signals (trap '' TERM), which programs inherit. */
static void signals_reset(void)
{
	sigset_t none;

	for (int number = 1; number < NSIG; number++)
		signal(number, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/*
 * Called in a forked child, which becomes PROGRAM. input: descriptor of its standard input; -1: none. log: file for its
 * output. failed: descriptor to which a failure writes its errno.
 */
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

/*
 * Starts PROGRAM. dies: true: the program gets SIGTERM when the keeper dies. Returns its pid, or negative errno if it
 * cannot start.
 */
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

/* Starts PROGRAM with a line of input, which is a command to the daemon. Returns its pid or negative errno. */
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

#define OUTPUT_NAME "output" /* file for what the daemon prints, in the directory of its logs */

/* Copies the last line that is not empty of the file `name` in the daemon's directory to text; "" if there is none. */
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

/* Copies the last line that the daemon printed, or else logged, to text; "" if there is none. */
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
	return error_set(-ETIMEDOUT, "the MPS daemon did not answer for %d s%s%.140s: see whether nvidia-smi answers",
			 START_SECONDS, *text ? "; it said last: " : "", text);
}

/* Returns true if the signal means that the job ends: SIGTERM, or PARENT_DIED if the parent has really died. */
static bool is_over(const struct keeper *keeper, int signal)
{
	return signal == SIGTERM || (signal == PARENT_DIED && getppid() != keeper->parent);
}

/* Waits for a signal, at most LOOK_MS. Returns its number, or -1. */
static int look(struct keeper *keeper)
{
	const struct timespec pause = { .tv_nsec = LOOK_MS * 1000000 };

	return sigtimedwait(&keeper->signals, NULL, &pause);
}

/*
 * Waits until the daemon answers a command, which shows that it can serve clients. Sets *question to the pid of the
 * process that sends the command and may hang, or to 0 or less if none runs. Returns 0 or negative errno with the error
 * message.
 */
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
	if (setenv("CUDA_MPS_PIPE_DIRECTORY", order->directory, 1) ||
	    setenv("CUDA_MPS_LOG_DIRECTORY", order->directory, 1) ||
	    (*order->visible ? setenv("CUDA_VISIBLE_DEVICES", order->visible, 1) : unsetenv("CUDA_VISIBLE_DEVICES")))
		return error_set(-ENOMEM, "no memory for the MPS daemon's environment");
	return 0;
}

/* Makes the daemon's directory with a lock. While the keeper holds the lock, no broker removes it as a leftover. */
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

/* ---- the daemon's life and end ---- */

static void daemon_terminate(struct keeper *keeper)
{
	if (keeper->daemon)
		kill(keeper->daemon, SIGTERM);
	if (!keeper->kill_at)
		keeper->kill_at = in_seconds(END_SECONDS);
}

/* Reaps children, also servers that the daemon left to the keeper at its end. Returns false if none is left. */
static bool reap(struct keeper *keeper)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		if (pid == keeper->daemon)
			keeper->daemon = 0;
		else if (pid == keeper->quit && status) /* the command "quit" has not reached the daemon */
			daemon_terminate(keeper);
	return !pid;
}

/* Sends SIGKILL to the daemon if it has not ended by kill_at. Returns true from leave_at on: the keeper then exits. */
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

/* Has the daemon end after its last client, so that workers whose broker-run died may still save their data. */
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

/* ---- how the keeper becomes independent ---- */

/*
 * Gives the keeper its own name and session, and closes all descriptors but the two pipes: the keeper gets no signal
 * that is sent to broker-run's group, and keeps no file of broker-run open.
 */
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
	closefrom(STDERR_FILENO + 3); /* also works on kernels without close_range(2), before Linux 5.9 */
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

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

#define PROGRAM       "nvidia-cuda-mps-control"
#define PARENT_DIED   SIGUSR1
#define START_TRIES   5000 /* of a millisecond each: the daemon of an idle machine took 10 ms (docs/facts.md) */
#define SOCKET_MAX    88   /* bytes of the directory's path: the longest name of a socket in it is /control_privileged */

/* ---- programs ---- */

/* argument: NULL, or its only one */
static _Noreturn void program_run(const char *argument, const char *log, int input)
{
	sigset_t none;
	int output = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

	sigemptyset(&none);
	signal(SIGPIPE, SIG_DFL);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (input < 0)
		input = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (output < 0 || input < 0)
		_exit(126);
	dup2(input, STDIN_FILENO);
	dup2(output, STDOUT_FILENO);
	dup2(output, STDERR_FILENO);
	close_range(STDERR_FILENO + 1, UINT_MAX, 0);
	execlp(PROGRAM, PROGRAM, argument, NULL);
	_exit(errno == ENOENT ? 127 : 126);
}

/* The daemon in the foreground, so that it is this process's child. It ends with this process. */
static pid_t daemon_fork(const char *log)
{
	pid_t keeper = getpid(), pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != keeper)
		_exit(0);
	program_run("-f", log, -1);
}

/* Gives the daemon a command as its users do: a line on the input of its own program. */
static pid_t command_fork(const char *line)
{
	int input[2];
	pid_t pid;

	if (pipe2(input, O_CLOEXEC))
		return -1;
	pid = fork();
	if (!pid)
		program_run(NULL, "/dev/null", input[0]);
	if (write(input[1], line, strlen(line)) < 0 && pid > 0)
		kill(pid, SIGKILL);
	close(input[0]);
	close(input[1]);
	return pid;
}

static bool command_succeeds(const char *line)
{
	pid_t pid = command_fork(line);
	int status;

	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status);
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

static int say_why(int status, const char *directory)
{
	char text[MPS_ANSWER_MAX];

	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		return error_set(-ENOENT, "no " PROGRAM " is in PATH: it comes with the NVIDIA driver");
	if (WIFEXITED(status) && WEXITSTATUS(status) == 126)
		return error_set(-EACCES, PROGRAM " cannot be executed by this user: see its mode");
	last_line(directory, OUTPUT_NAME, text);
	if (!*text)
		last_line(directory, "control.log", text);
	if (!*text)
		snprintf(text, sizeof text, WIFSIGNALED(status) ? "signal %d" : "status %d",
			 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	return error_set(-EIO, "the MPS daemon ended at its start: %.160s", text);
}

/* It answers its users when it can serve clients. */
static int daemon_wait(pid_t daemon, const char *directory)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	char control[sizeof ((struct mps_order *)0)->directory + sizeof "/control"];
	int status;

	snprintf(control, sizeof control, "%s/control", directory);
	for (int tries = 0; tries < START_TRIES; tries++) {
		if (waitpid(daemon, &status, WNOHANG) == daemon)
			return say_why(status, directory);
		if (!access(control, F_OK) && command_succeeds("get_server_list\n"))
			return 0;
		nanosleep(&pause, NULL);
	}
	kill(daemon, SIGKILL);
	return error_set(-ETIMEDOUT, "the MPS daemon did not answer for %d s", START_TRIES / 1000);
}

static int environment_set(const struct mps_order *order)
{
	if (setenv("CUDA_MPS_PIPE_DIRECTORY", order->directory, 1) || setenv("CUDA_MPS_LOG_DIRECTORY", order->directory, 1) ||
	    (*order->visible ? setenv("CUDA_VISIBLE_DEVICES", order->visible, 1) : unsetenv("CUDA_VISIBLE_DEVICES")))
		return error_set(-ENOMEM, "no memory for the MPS daemon's environment");
	return 0;
}

/* The daemon's pid, or negative errno with the error message. */
static pid_t daemon_start(const struct mps_order *order)
{
	char log[sizeof order->directory + sizeof "/" OUTPUT_NAME];
	pid_t daemon;
	int error = environment_set(order);

	if (error)
		return error;
	if (strlen(order->directory) > SOCKET_MAX)
		return error_set(-ENAMETOOLONG, "%s is too long for the MPS daemon's sockets: use a shorter --name or XDG_RUNTIME_DIR",
				 order->directory);
	if (mkdir(order->directory, 0700))
		return error_set(-errno, "%s cannot be made: %m", order->directory);
	snprintf(log, sizeof log, "%s/" OUTPUT_NAME, order->directory);
	daemon = daemon_fork(log);
	if (daemon < 0)
		return error_set(-errno, "the MPS daemon cannot be forked: %m");
	error = daemon_wait(daemon, order->directory);
	return error ? error : daemon;
}

/* ---- its life and end ---- */

struct children {
	pid_t daemon; /* 0: it has ended */
	pid_t quit;   /* tells it to end; 0: not asked for */
};

static void daemon_terminate(const struct children *children)
{
	if (children->daemon)
		kill(children->daemon, SIGTERM);
}

/* True: no child is left. The daemon's servers become children of this process when it ends. */
static bool reap(struct children *children)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		if (pid == children->daemon)
			children->daemon = 0;
		else if (pid == children->quit && status) /* the daemon could not be reached */
			daemon_terminate(children);
	return pid < 0;
}

static void keep(pid_t daemon, const sigset_t *signals)
{
	struct children children = { .daemon = daemon };

	while (!reap(&children))
		switch (sigwaitinfo(signals, NULL)) {
		case SIGTERM:
			daemon_terminate(&children);
			break;
		case PARENT_DIED:
			/* the workers may still save what they have: the daemon waits for its clients */
			children.quit = command_fork("quit\n");
			break;
		}
}

_Noreturn void mps_keeper_main(int gate, int answer)
{
	struct mps_order order;
	sigset_t signals;
	pid_t daemon, parent = getppid();

	sigemptyset(&signals);
	sigaddset(&signals, SIGCHLD);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, PARENT_DIED);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	setsid(); /* the terminal's signals are for the workers */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	prctl(PR_SET_PDEATHSIG, PARENT_DIED);
	if (read(gate, &order, sizeof order) != sizeof order)
		_exit(0);
	daemon = daemon_start(&order);
	if (daemon < 0)
		(void)!write(answer, error_text(), strnlen(error_text(), MPS_ANSWER_MAX - 1) + 1);
	else
		(void)!write(answer, "", 1);
	close(answer);
	if (getppid() != parent)
		raise(PARENT_DIED);
	keep(daemon > 0 ? daemon : 0, &signals);
	_exit(0);
}

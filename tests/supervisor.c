/* SPDX-License-Identifier: Apache-2.0 */
/*
 * supervisor.c - runs a test, and ends every process that the test started when the test ends, however that ends.
 *
 *     supervisor SECONDS COMMAND [ARGUMENT ...]
 *
 * A child subreaper: whoever loses its parent below it becomes its child, whatever its session, process group or user
 * is. So it needs no list of what a test starts: after the test it kills its own children until it has none. There are
 * two of it, one the parent of the other, so that SIGKILL may hit any one process: a test that loses its supervisor is
 * killed, and the outer one kills what the inner one would have. Ends with whoever started it, past SECONDS (exit 124),
 * and when it is told to: the test is sent SIGTERM then, and SIGKILL after GRACE_SECONDS. Otherwise its exit status is
 * the test's, as a shell gives it. The test starts with all signals as by default, whatever the caller ignores or
 * blocks. Never touches a process that is not its own child.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define GRACE_SECONDS 10
#define TOO_LATE      124 /* timeout(1)'s exit status */
#define FAILED        125
#define NO_TIME       0 /* wait without a limit */

static struct {
	pid_t pid;
	int   status; /* exit status as a shell gives it, once the test has ended */
	bool  ended;
} test;

static sigset_t wanted;
static pid_t first; /* the outer supervisor */

/* ---- processes ---- */

_Noreturn static void fail(const char *what)
{
	fprintf(stderr, "supervisor: %s: %s\n", what, strerror(errno));
	exit(FAILED);
}

/* False: there is no child any more. */
static bool reap(void)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		if (pid == test.pid) {
			test.ended = true;
			test.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
		}
	return !pid;
}

static time_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec;
}

/* The signal that came, SIGCHLD or one that says to end; 0: none within that many seconds. */
static int next_signal(time_t seconds)
{
	struct timespec left = { .tv_sec = seconds };
	int number = seconds == NO_TIME ? sigwaitinfo(&wanted, NULL) : sigtimedwait(&wanted, NULL, &left);

	return number > 0 ? number : 0;
}

/* How wait_for_test() came to an end. */
enum outcome { ENDED, TOLD, LATE };

static enum outcome wait_for_test(time_t seconds)
{
	time_t start = now(), left = seconds;
	int number;

	for (;;) {
		reap();
		if (test.ended)
			return ENDED;
		number = next_signal(left);
		if (number && number != SIGCHLD)
			return TOLD;
		if (seconds != NO_TIME) {
			left = seconds - (now() - start);
			if (left <= 0)
				return LATE;
		}
	}
}

/* ---- what the test left ---- */

/* The name and the parent of a process, from its stat file; 0: it is gone. A name may hold anything but a 0. */
static pid_t parent_of(const char *pid, char name[64])
{
	char path[64], text[512], *last;
	FILE *file;
	int parent = 0;
	size_t size;

	snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	size = fread(text, 1, sizeof text - 1, file);
	fclose(file);
	text[size] = 0;
	last = strrchr(text, ')');
	if (!last || sscanf(last, ") %*c %d", &parent) != 1)
		return 0;
	*last = 0;
	snprintf(name, 64, "%.63s", strchr(text, '(') ? strchr(text, '(') + 1 : "");
	return parent;
}

/* A child that is killed keeps its pid until reap(), so this never hits another process. */
static void kill_children(bool speaks)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	char name[64];

	if (!proc)
		fail("/proc");
	while ((entry = readdir(proc))) {
		pid_t pid = (pid_t)atoi(entry->d_name);

		if (pid <= 0 || parent_of(entry->d_name, name) != getpid())
			continue;
		kill(pid, SIGKILL);
		if (speaks)
			fprintf(stderr, "# supervisor: killed what the test left running: %s (pid %d)\n", name, pid);
	}
	closedir(proc);
}

/* Each round kills all children; theirs become children before the next. */
static void kill_what_is_left(bool speaks)
{
	time_t start = now();

	for (; reap(); speaks = false) {
		if (now() - start > GRACE_SECONDS) {
			fprintf(stderr, "supervisor: some of what the test left cannot be killed\n");
			exit(FAILED);
		}
		kill_children(speaks);
		next_signal(1);
	}
}

/* Its last act. */
_Noreturn static void supervise(time_t seconds, time_t grace)
{
	enum outcome outcome = wait_for_test(seconds);

	if (outcome != ENDED) {
		kill(test.pid, SIGTERM);
		kill(test.pid, SIGCONT);
		if (wait_for_test(grace) != ENDED)
			kill(test.pid, SIGKILL);
	}
	kill_what_is_left(outcome == ENDED && test.status < 128);
	exit(outcome == LATE ? TOO_LATE : test.status);
}

/* ---- starting ---- */

/* It is sent that signal when its parent ends. */
static void end_with(pid_t parent, int number)
{
	if (prctl(PR_SET_PDEATHSIG, number))
		fail("PR_SET_PDEATHSIG");
	if (getppid() != parent)
		exit(FAILED);
}

/* Whoever kills by a test's name (pkill -f) means the test, and not what cleans up after it. */
static void forget_the_name(char **argv)
{
	for (; *argv; argv++)
		memset(*argv, 0, strlen(*argv));
}

/* In the parent, which supervises the child, it does not return. */
static void split(int number, time_t seconds, time_t grace, char **command)
{
	pid_t parent = getpid();

	/* qemu-user 7.2 does not pass it on: a test is better run there without it than not at all */
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) && parent == first)
		fprintf(stderr, "# supervisor: no child subreaper here: what a killed test leaves is not found\n");
	test.pid = fork();
	if (test.pid < 0)
		fail("fork");
	if (!test.pid) {
		end_with(parent, number);
		return;
	}
	forget_the_name(command);
	supervise(seconds, grace);
}

/*
 * For the test, which does not depend on its caller (nohup(1), a shell's background), and for waitpid(): of children of
 * whom SIGCHLD is ignored it says nothing.
 */
static void use_default_signals(void)
{
	for (int number = 1; number <= SIGRTMAX; number++)
		signal(number, SIG_DFL); /* but for those that have no other */
}

static time_t parse_seconds(const char *text)
{
	char *end;
	long seconds = text ? strtol(text, &end, 10) : 0;

	return seconds > 0 && seconds < INT_MAX && !*end ? (time_t)seconds : NO_TIME;
}

int main(int argc, char **argv)
{
	static const int numbers[] = { SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT };
	time_t seconds = parse_seconds(argv[1]);

	if (argc < 3 || seconds == NO_TIME) {
		fprintf(stderr, "usage: supervisor SECONDS COMMAND [ARGUMENT ...]\n");
		return FAILED;
	}
	sigemptyset(&wanted);
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		sigaddset(&wanted, numbers[i]);
	first = getpid();
	use_default_signals();
	sigprocmask(SIG_SETMASK, &wanted, NULL);
	end_with(getppid(), SIGTERM);
	/* a group's signal for who started this, or for the test, is for no supervisor */
	setpgid(0, 0);
	setenv("GPUB_SUPERVISED", "yes", 1);
	split(SIGTERM, NO_TIME, 2 * GRACE_SECONDS, argv + 2);
	split(SIGKILL, seconds, GRACE_SECONDS, argv + 2);
	setpgid(0, 0);
	sigemptyset(&wanted);
	sigprocmask(SIG_SETMASK, &wanted, NULL);
	execvp(argv[2], argv + 2);
	fail(argv[2]);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* harness-broker.c - the broker of a test: its start, its end, and what its status file says. See harness.h. */
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broker/show/read.h"
#include "common/error.h"

/* ---- start and end ---- */

const char *broker_pool;

static void program_path(const char *name, char path[PATH_MAX])
{
	const char *build = getenv("top_builddir");

	snprintf(path, PATH_MAX, "%s/broker/%s", build ? build : ".", name);
}

/*
 * In the child: sets its standard input (-1: the parent's), output (-1: the log), error output (the log) and signals.
 */
static void streams_take(const struct broker_process *broker, int in, int out)
{
	int log = open(broker->log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGPIPE, SIG_DFL);
	if ((in >= 0 && dup2(in, STDIN_FILENO) < 0) || dup2(out < 0 ? log : out, STDOUT_FILENO) < 0 ||
	    dup2(log, STDERR_FILENO) < 0)
		_exit(126);
	close_range(3, ~0u, 0);
}

static _Noreturn void run_exec(const struct broker_process *broker, const char *device, int in, int out)
{
	/* it gets the signals of broker_weather(), too */
	static const char worker[] =
		"trap '' USR1 USR2 ALRM VTALRM PROF XCPU RTMIN; echo \"$GPUBROKER\"; read -r line || :";
	char path[PATH_MAX];

	streams_take(broker, in, out);
	program_path("broker-run", path);
	if (broker_pool)
		execl(path, path, "--device", device, "--name", broker->instance, "--pool", broker_pool, "--", "sh",
		      "-c", worker, NULL);
	execl(path, path, "--device", device, "--name", broker->instance, "--", "sh", "-c", worker, NULL);
	_exit(127);
}

static void read_line(int fd, char *line, size_t size)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	size_t at = 0;

	while (at < size - 1 && poll(&p, 1, ANSWER_MS) > 0 && read(fd, line + at, 1) == 1 && line[at] != '\n')
		at++;
	line[at] = 0;
}

static void broker_show_log(const struct broker_process *broker)
{
	FILE *log = fopen(broker->log, "r");
	char line[512];

	while (log && fgets(line, sizeof line, log))
		printf("# %s", line);
	if (log)
		fclose(log);
}

/* broker-run on that device, whose worker says the address. */
static void run_start(struct broker_process *broker, const char *device)
{
	int in[2], out[2];

	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
		bail_out("no pipe: %s", strerror(errno));
	broker->pid = fork();
	if (!broker->pid)
		run_exec(broker, device, in[0], out[1]);
	close(in[0]);
	close(out[1]);
	broker->in = in[1];
	read_line(out[0], broker->address, sizeof broker->address);
	close(out[0]);
}

bool broker_answers(const struct broker_process *broker)
{
	struct shown shown;

	if (access(broker->address + strlen("unix:"), F_OK) || shown_read(&shown, broker->instance))
		return false;
	shown_free(&shown);
	return true;
}

/* brokerd on that device, at a socket beside its log. */
static void daemon_start(struct broker_process *broker, const char *device)
{
	char path[PATH_MAX], config[PATH_MAX];
	FILE *file;

	snprintf(broker->address, sizeof broker->address, "unix:%s.socket", broker->log);
	snprintf(config, sizeof config, "%s.conf", broker->log);
	file = fopen(config, "w");
	if (!file ||
	    fprintf(file, "socket = \"%s\"\ninstance = \"%s\"\ndevice = \"%s\"\n", broker->address + strlen("unix:"),
		    broker->instance, device) < 0 ||
	    (broker_pool && fprintf(file, "pool = \"%s\"\n", broker_pool) < 0) || fclose(file))
		bail_out("%s: %s", config, strerror(errno));
	program_path("brokerd", path);
	broker->in = -1;
	broker->pid = fork();
	if (!broker->pid) {
		streams_take(broker, -1, -1);
		execl(path, path, "--config", config, NULL);
		_exit(127);
	}
	if (!SOON(broker_answers(broker)))
		broker->address[0] = 0;
}

void broker_start(struct broker_process *broker, const char *device)
{
	static int brokers;
	const char *wanted = getenv("TEST_BROKER"), *instead = getenv("TEST_DEVICE");

	brokers++;
	/* 20 characters at most, of which a pid may have 7 */
	snprintf(broker->instance, sizeof broker->instance, "%.7s-%d-%d", harness_program(), getpid(), brokers);
	snprintf(broker->log, sizeof broker->log, "%s/%d", harness_directory(), brokers);
	if (wanted && !strcmp(wanted, "brokerd"))
		daemon_start(broker, instead ? instead : device);
	else
		run_start(broker, instead ? instead : device);
	if (strncmp(broker->address, "unix:", 5)) {
		broker_show_log(broker);
		bail_out("the broker does not start");
	}
}

bool broker_said(const struct broker_process *broker, const char *text)
{
	FILE *log = fopen(broker->log, "r");
	char *line = NULL;
	size_t size = 0;
	bool said = false;

	while (log && !said && getline(&line, &size, log) > 0)
		said = strstr(line, text);
	free(line);
	if (log)
		fclose(log);
	return said;
}

bool child_reaped(pid_t pid, int *status)
{
	return waitpid(pid, status, WNOHANG) == pid;
}

void stop_child(pid_t pid)
{
	siginfo_t stopped;

	if (kill(pid, SIGSTOP) || waitid(P_PID, (id_t)pid, &stopped, WSTOPPED))
		bail_out("process %d cannot be stopped: %s", (int)pid, strerror(errno));
}

int broker_wait(struct broker_process *broker, int signal)
{
	int status = 0;

	if (broker->in < 0 && !signal)
		signal = SIGTERM;
	if (signal)
		kill(broker->pid, signal);
	if (broker->in >= 0)
		close(broker->in);
	if (!SOON(child_reaped(broker->pid, &status))) {
		broker_show_log(broker);
		kill(broker->pid, SIGKILL);
		waitpid(broker->pid, &status, 0);
		bail_out("the broker does not end");
	}
	broker->pid = 0;
	return status;
}

void broker_end(struct broker_process *broker)
{
	int status = broker_wait(broker, 0);
	bool good = !status && broker_said(broker, "; balanced") && !broker_said(broker, "VIOLATION");

	POINT(good, "invariant 10: the broker ends with balanced accounting and frees nothing too early");
	if (!good)
		printf("# wait status %#x\n", (unsigned)status);
	if (!good)
		broker_show_log(broker);
}

/* ---- its status ---- */

json_t *status_json(const struct broker_process *broker)
{
	struct shown shown;
	json_t *text;

	if (shown_read(&shown, broker->instance)) {
		broker_show_log(broker);
		bail_out("no status of the broker: %s", error_text());
	}
	text = json_incref(shown.text);
	shown_free(&shown);
	return text;
}

int64_t status_number(const struct broker_process *broker, const char *key)
{
	json_t *text = status_json(broker), *value = json_object_get(text, key);
	int64_t number = json_is_integer(value) ? json_integer_value(value) : -1;

	json_decref(text);
	return number;
}

static int64_t number_of(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

static bool text_is(const json_t *object, const char *key, const char *wanted)
{
	const char *text = json_string_value(json_object_get(object, key));

	return !wanted || (text && !strcmp(text, wanted));
}

int64_t status_counter(const struct broker_process *broker, const char *key)
{
	json_t *text = status_json(broker);
	int64_t number = number_of(json_object_get(text, "counters"), key);

	json_decref(text);
	return number;
}

int64_t status_buffers(const struct broker_process *broker, const char *name, const char *state)
{
	json_t *text = status_json(broker), *buffer;
	int64_t count = 0;
	size_t i;

	json_array_foreach(json_object_get(text, "buffers"), i, buffer)
		count += text_is(buffer, "name", name) && text_is(buffer, "state", state);
	json_decref(text);
	return count;
}

int64_t status_holders(const struct broker_process *broker, const char *name, pid_t pid)
{
	json_t *text = status_json(broker), *buffer, *holder;
	int64_t count = 0;
	size_t i, j;

	json_array_foreach(json_object_get(text, "buffers"), i, buffer) {
		if (!text_is(buffer, "name", name))
			continue;
		json_array_foreach(json_object_get(buffer, "holders"), j, holder)
			count += !pid || number_of(holder, "pid") == pid;
	}
	json_decref(text);
	return count;
}

bool status_session(const struct broker_process *broker, pid_t pid, const char *state)
{
	json_t *text = status_json(broker), *session;
	bool found = false;
	size_t i;

	json_array_foreach(json_object_get(text, "sessions"), i, session)
		found |= number_of(session, "pid") == pid && text_is(session, "state", state);
	json_decref(text);
	return found;
}

/* What the puppet sent before is done when this is answered, and the status file says so. */
void status_stable(const struct broker_process *broker, struct puppet *puppet)
{
	(void)broker;
	ask(puppet, do_stat, .name = "no/such/buffer");
}


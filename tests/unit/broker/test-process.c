/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-process.c - what is added to a session about its process: of children that run, are stopped, are zombies and are
 * gone, and of a process that came later by the same number.
 */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "broker/base/process-start.h"
#include "broker/show/process.h"

static int held_open;

/* Waits until it has executed another program. */
static pid_t child_new(void)
{
	int ends[2], in[2];
	pid_t child;
	char byte;

	assert_int_equal(pipe(ends), 0);
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(in[0], STDIN_FILENO);
		dup2(ends[1], STDOUT_FILENO);
		execl("/bin/sh", "sh", "-c", "echo; read -r line", NULL);
		_exit(1);
	}
	assert_true(child > 0 && read(ends[0], &byte, 1) == 1);
	close(ends[0]);
	close(ends[1]);
	close(in[0]);
	held_open = in[1]; /* until the next child, or the end: what it reads does not end */
	return child;
}

static void end(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

/* The session of that process, with what was added. start: of the process that the broker saw. */
static json_t *session_of(pid_t pid, uint64_t start)
{
	union status_record *record = calloc(1, sizeof *record);
	struct shown shown = { .state = SHOWN_RUNNING,
			       .header = { .pid = (uint64_t)getpid(),
					   .start_time = process_start((uint64_t)getpid(), NULL) },
			       .records = record,
			       .count = 1 };
	json_t *session = json_pack("{s:i,s:i}", "session", 7, "pid", (int)pid);

	assert_non_null(record);
	record->session = (struct status_session){ .type = TRACKED_SESSION, .id = 7, .start = start };
	shown.text = json_pack("{s:[O]}", "sessions", session);
	assert_non_null(shown.text);
	processes_add(&shown);
	shown_free(&shown);
	return session;
}

static void assert_process(json_t *session, const char *process)
{
	const char *text = json_string_value(json_object_get(session, "process"));

	if (process)
		assert_string_equal(text ? text : "nothing", process);
	else
		assert_null(text);
	json_decref(session);
}

static void test_states(void **state)
{
	pid_t child = child_new();
	uint64_t start = process_start((uint64_t)child, NULL);
	siginfo_t info;

	(void)state;
	assert_process(session_of(child, start), "running");
	kill(child, SIGSTOP);
	assert_int_equal(waitpid(child, NULL, WUNTRACED), child);
	assert_process(session_of(child, start), "stopped");
	kill(child, SIGKILL);
	assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
	assert_process(session_of(child, start), "zombie");
	waitpid(child, NULL, 0);
	assert_process(session_of(child, start), "gone");
	assert_process(session_of(0, start), NULL);
	assert_process(session_of(-1, start), NULL);
}

/*
 * It has the number of a process that was there before it. Where the broker could not tell when that started, nobody
 * can.
 */
static void test_another_process(void **state)
{
	pid_t child = child_new();

	(void)state;
	assert_process(session_of(child, process_start((uint64_t)child, NULL) - 1), "gone");
	assert_process(session_of(child, 0), NULL);
	end(child);
}

/* The end by value: the main thread's stack ends with it. */
static void *go_on(void *end)
{
	char byte;

	if (read((int)(intptr_t)end, &byte, 1) < 0)
		_exit(1);
	return NULL;
}

/* Its main thread is a zombie while another one runs. */
static void test_a_main_thread_that_has_ended(void **state)
{
	int ends[2];
	pthread_t thread;
	char letter = 0;
	pid_t child;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (pthread_create(&thread, NULL, go_on, (void *)(intptr_t)ends[0]))
			_exit(1);
		pthread_exit(NULL);
	}
	for (int tries = 0; letter != 'Z' && tries < 5000; tries++) {
		process_start((uint64_t)child, &letter);
		usleep(1000);
	}
	assert_process(session_of(child, process_start((uint64_t)child, NULL)), "no main thread");
	end(child);
	close(ends[0]);
	close(ends[1]);
}

/* In another pid namespace the numbers mean other processes. */
static void test_far_broker(void **state)
{
	struct shown shown = { .state = SHOWN_RUNNING, .header = { .pid = (uint64_t)getpid(), .start_time = 1 } };

	(void)state;
	shown.text = json_pack("{s:[{s:i,s:I}]}", "sessions", "pid", (int)getpid(), "since", (json_int_t)time(NULL));
	processes_add(&shown);
	assert_null(json_object_get(json_array_get(json_object_get(shown.text, "sessions"), 0), "process"));
	shown_free(&shown);
}

/* A file may claim any number of sessions. */
static void test_many(void **state)
{
	struct shown shown = { .state = SHOWN_DEAD, .text = json_pack("{s:[]}", "sessions") };
	json_t *sessions = json_object_get(shown.text, "sessions");

	(void)state;
	for (int i = 0; i < PROCESSES_MAX + 1; i++)
		json_array_append_new(sessions, json_pack("{s:i,s:i}", "pid", 1 << 30, "since", 1));
	processes_add(&shown);
	assert_non_null(json_object_get(json_array_get(sessions, PROCESSES_MAX - 1), "process"));
	assert_null(json_object_get(json_array_get(sessions, PROCESSES_MAX), "process"));
	shown_free(&shown);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_states), cmocka_unit_test(test_another_process),
		cmocka_unit_test(test_a_main_thread_that_has_ended),
		cmocka_unit_test(test_far_broker), cmocka_unit_test(test_many),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests_name("process", tests, NULL, NULL);
}

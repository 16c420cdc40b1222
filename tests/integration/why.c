/* SPDX-License-Identifier: Apache-2.0 */
/*
 * why.c - what broker-status --why says of programs that hang, word by word: circles of timelines, stopped writers, drains, full
 * devices, names that nobody makes, a broker that is stopped or dead.
 *
 * How long something has lasted differs from run to run and is cut off; all else is compared.
 */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "harness.h"

#define MIB (1u << 20)

static struct broker_process broker;
static struct puppet a, b, c;

/* ---- asking ---- */

static char answer[8192];

/* "12 s: rank 0 ..." without the time. */
static const char *without_age(const char *line)
{
	size_t digits = strspn(line, "0123456789");
	const char *colon = strstr(line, ": ");

	return digits && line[digits] == ' ' && colon && colon - line < 12 ? colon + 2 : line;
}

/* The exit status; what was said is in answer. */
static int why(const char *about)
{
	char command[512], line[4096];
	FILE *pipe;
	int status;

	snprintf(command, sizeof command, "exec timeout 30 %s/broker/broker-status --why %s %s 2>&1", getenv("top_builddir"), about,
		 broker.instance);
	pipe = popen(command, "r");
	if (!pipe)
		bail_out("no pipe: %m");
	answer[0] = 0;
	while (fgets(line, sizeof line, pipe))
		strncat(answer, without_age(line), sizeof answer - strlen(answer) - 1);
	status = pclose(pipe);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool says(int code, const char *about, const char *format, ...) __attribute__((format(printf, 3, 4)));

static bool says(int code, const char *about, const char *format, ...)
{
	char wanted[sizeof answer];
	va_list args;
	int got = why(about);

	va_start(args, format);
	vsnprintf(wanted, sizeof wanted, format, args);
	va_end(args);
	if (got == code && !strcmp(answer, wanted))
		return true;
	printf("# wanted %d:\n# %s# got %d:\n# %s", code, wanted, got, answer);
	return false;
}

/* ---- clients that have ranks ---- */

/* As broker-run tells it to its workers. */
static int do_rank(const struct order *order)
{
	char text[24];

	snprintf(text, sizeof text, "%llu", (unsigned long long)order->value);
	return setenv("GPUBROKER_RANK", text, 1);
}

static void start(struct puppet *puppet, unsigned rank)
{
	puppet_start_unconnected(puppet, &broker);
	ask(puppet, do_rank, .value = rank);
	if (ask(puppet, do_connect) || ask(puppet, do_stream))
		bail_out("no client: %s", puppet->last.text);
}

/* Three clients, each with a lease of each of three buffers with timelines; each has signalled once on its own. */
static void begin(void)
{
	static const char *const names[] = { "heat/0", "heat/1", "heat/2" };
	struct puppet *const puppets[] = { &a, &b, &c };

	broker_start(&broker, "host");
	for (unsigned i = 0; i < 3; i++)
		start(puppets[i], i);
	for (unsigned i = 0; i < 3; i++)
		if (ask(&a, do_create, .name = "", .flags = 0) == 0)
			bail_out("a buffer without a name");
	for (int i = 0; i < 3; i++) {
		struct order create = { .run = do_create, .flags = GPUB_TIMELINE };

		strcpy(create.name, names[i]);
		puppet_tell(puppets[i], create);
		receive(puppets[i]);
	}
	for (int i = 0; i < 3; i++)
		for (int j = 0; j < 3; j++) {
			struct order acquire = { .run = do_acquire, .slot = j, .rights = GPUB_READ | GPUB_WRITE };

			strcpy(acquire.name, names[j]);
			puppet_tell(puppets[i], acquire);
			if (receive(puppets[i]))
				bail_out("no lease: %s", puppets[i]->last.text);
		}
	for (int i = 0; i < 3; i++)
		ask(puppets[i], do_signal, .slot = i, .value = 3);
	for (int i = 0; i < 3; i++)
		ask(puppets[i], do_sync);
}

static void end(void)
{
	puppet_end(&a);
	puppet_end(&b);
	puppet_end(&c);
	broker_end(&broker);
}

static void test_stopped_writer(void)
{
	begin();
	POINT(says(0, "", "Nothing waits.\n"), "where nothing waits, that is the answer");
	ask(&c, do_wait, .slot = 1, .value = 3);
	POINT(says(0, "", "Nothing waits.\n"), "a value that was reached is not waited for");
	ask(&c, do_wait, .slot = 1, .value = 4);
	POINT(says(0, "",
		   "rank 2 (pid %d) waits for heat/1 to reach 4; it is at 3; its writer, rank 1 (pid %d), runs and waits for "
		   "nothing that the broker knows of: gdb -p %d shows what it does\n",
		   c.pid, b.pid, b.pid),
	      "a stream that waits, and a writer that is at work");
	kill(b.pid, SIGSTOP);
	POINT(says(0, "",
		   "rank 2 (pid %d) waits for heat/1 to reach 4; it is at 3; its writer, rank 1 (pid %d), is stopped by a "
		   "signal: kill -CONT %d\n",
		   c.pid, b.pid, b.pid),
	      "a writer that is stopped, and what to do");
	POINT(says(0, "heat/0", "Nothing waits for heat/0.\n"), "another buffer is not waited for");
	POINT(says(1, "heat/9", "broker-status: there is neither a buffer nor a process 'heat/9' here: broker-status lists them\n"),
	      "a name that is not there: exit 1");
	ask(&a, do_wait, .slot = 2, .value = 9);
	POINT(says(0, "heat/2",
		   "rank 0 (pid %d) waits for heat/2 to reach 9; it is at 3; its writer, rank 2 (pid %d), waits for heat/1 to "
		   "reach 4; it is at 3; its writer, rank 1 (pid %d), is stopped by a signal: kill -CONT %d\n",
		   a.pid, c.pid, b.pid, b.pid),
	      "a chain is followed to its end");
	kill(b.pid, SIGCONT);
	ask(&b, do_signal, .slot = 1, .value = 4);
	ask(&c, do_sync);
	ask(&c, do_signal, .slot = 2, .value = 9);
	ask(&a, do_sync);
	POINT(says(0, "", "Nothing waits.\n"), "when all have come on, nothing waits");
	end();
}

static void test_circle(void)
{
	char number[16];

	begin();
	ask(&a, do_wait, .slot = 1, .value = 4);
	ask(&b, do_wait, .slot = 2, .value = 5);
	POINT(says(0, "heat/1",
		   "rank 0 (pid %d) waits for heat/1 to reach 4; it is at 3; its writer, rank 1 (pid %d), waits for heat/2 to "
		   "reach 5; it is at 3; its writer, rank 2 (pid %d), runs and waits for nothing that the broker knows of: gdb "
		   "-p %d shows what it does\n",
		   a.pid, b.pid, c.pid, c.pid),
	      "two that wait, one after the other, are no deadlock");
	ask(&c, do_wait, .slot = 0, .value = 6);
	for (int i = 0; i < 3; i++)
		POINT(says(3, "",
			   "deadlock 1: rank 0 (pid %d) waits for heat/1 to reach 4 (it is at 3), which rank 1 (pid %d) writes; "
			   "rank 1 (pid %d) waits for heat/2 to reach 5 (it is at 3), which rank 2 (pid %d) writes; rank 2 (pid "
			   "%d) waits for heat/0 to reach 6 (it is at 3), which rank 0 (pid %d) writes: none of them can go on, "
			   "end one: kill %d\n",
			   a.pid, b.pid, b.pid, c.pid, c.pid, a.pid, c.pid),
		      "three that wait for each other are one deadlock, told the same each time: exit 3 (%d)", i);
	snprintf(number, sizeof number, "%d", b.pid);
	POINT(why(number) == 3, "also where one of them is asked about");
	/* each is released by the end of the next one's timeline */
	puppet_kill(&c);
	POINT(SOON(!ask(&b, do_sync)), "as it says: with one of them gone the others go on");
	ask(&b, do_signal, .slot = 1, .value = 4);
	ask(&a, do_sync);
	puppet_end(&a);
	puppet_end(&b);
	broker_end(&broker);
}

static void test_drain(void)
{
	gpub_client *manager;

	broker_start(&broker, "host");
	start(&a, 0);
	start(&b, 1);
	ask(&a, do_create, .name = "u");
	ask(&b, do_acquire, .name = "u");
	(void)manager;
	end();
}

int main(void)
{
	harness_begin("why", 120);
	test_stopped_writer();
	test_circle();
	return harness_end();
	test_drain();
}

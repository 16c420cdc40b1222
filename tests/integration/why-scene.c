/* SPDX-License-Identifier: Apache-2.0 */
/* why-scene.c - see why-scene.h */
#include "why-scene.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

struct broker_process broker;
struct puppet a, b, c;

char answer[8192];

/* "12 s: rank 0 ..." without the time. */
static const char *without_age(const char *line)
{
	size_t digits = strspn(line, "0123456789");
	const char *colon = strstr(line, ": ");

	return digits && line[digits] == ' ' && colon && colon - line < 12 ? colon + 2 : line;
}

int why(const char *about)
{
	char command[512], line[4096];
	FILE *pipe;
	int status;

	snprintf(command, sizeof command, "exec timeout 30 %s/broker/broker-status --why %s %s 2>&1",
		 getenv("top_builddir"), about, broker.instance);
	pipe = popen(command, "r");
	if (!pipe)
		bail_out("no pipe: %m");
	answer[0] = 0;
	while (fgets(line, sizeof line, pipe))
		strncat(answer, without_age(line), sizeof answer - strlen(answer) - 1);
	status = pclose(pipe);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool says(int code, const char *about, const char *format, ...)
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

void start(struct puppet *puppet, unsigned rank)
{
	puppet_start_unconnected(puppet, &broker);
	ask(puppet, do_rank, .value = rank);
	if (ask(puppet, do_connect) || ask(puppet, do_stream))
		bail_out("no client: %s", puppet->last.text);
}

void begin(void)
{
	static const char *const names[] = { "heat/0", "heat/1", "heat/2" };
	struct puppet *const puppets[] = { &a, &b, &c };

	broker_start(&broker, "host");
	for (unsigned i = 0; i < 3; i++)
		start(puppets[i], i);
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

void end(void)
{
	puppet_end(&a);
	puppet_end(&b);
	puppet_end(&c);
	broker_end(&broker);
}

int do_drain(const struct order *order)
{
	return gpub_drain(client, order->name, order->timeout);
}

bool waits_are(int64_t count)
{
	return SOON(status_number(&broker, "waiting") == count);
}

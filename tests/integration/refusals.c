/* SPDX-License-Identifier: Apache-2.0 */
/* refusals.c - see refusals.h */
#include "refusals.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int bad_line;

/* The call must give that errno and an error message of at least 15 characters in one line. */
void refuse_at(int line, int got, int wanted)
{
	const char *text = gpub_strerror_last();

	if (!bad_line && (got != wanted || strlen(text) < 15 || strchr(text, '\n'))) {
		bad_line = line;
		fprintf(stderr, "# line %d: %d, not %d: %s\n", line, got, wanted, text);
	}
}

int verdict(void)
{
	int line = bad_line;

	bad_line = 0;
	return line;
}

void small_broker_start(struct broker_process *broker, const char *faults)
{
	setenv("GPUB_HOST_MEMORY", "1M", 1);
	if (faults)
		setenv("GPUB_HOST_FAIL", faults, 1);
	broker_start(broker, "host");
	unsetenv("GPUB_HOST_MEMORY");
	unsetenv("GPUB_HOST_FAIL");
}

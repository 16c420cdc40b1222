/* SPDX-License-Identifier: Apache-2.0 */
/* broker-kills-victim.c - processes of broker-kills that are killed or cut off, and tools that are run. */
#include "broker-kills.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE 8192u /* of a victim's buffer; the first half is written */

extern char **environ;

pid_t victim_start(struct hand *hand, const char *name, unsigned flags, uint64_t last)
{
	struct victim *victim = &kills->victims[hand->number];
	char number[16], flags_text[16], last_text[24];
	char *arguments[] = { (char *)"broker-kills", getenv("BROKER_KILLS_FILE"), (char *)"victim", number,
			      (char *)name, flags_text, last_text, NULL };

	pid_t pid;

	atomic_store(&victim->ready, 0);
	snprintf(number, sizeof number, "%u", hand->number);
	snprintf(flags_text, sizeof flags_text, "%u", flags);
	snprintf(last_text, sizeof last_text, "%" PRIu64, last);
	return posix_spawn(&pid, "/proc/self/exe", NULL, NULL, arguments, environ) ? -1 : pid;
}

static bool prepare(struct hand *hand, const char *name, unsigned flags, uint64_t last)
{
	gpub_spec spec = GPUB_SPEC_INIT;
	gpub_lease lease;

	spec.size = SIZE;
	spec.flags = flags;
	spec.timeout_ms = -1;
	if (!hand_connect(hand) || !WANT(CREATE, 0, gpub_create(*hand->client, name, &spec)) ||
	    !WANT(ACQUIRE, 0, gpub_acquire(*hand->client, name, GPUB_READ | GPUB_WRITE, 0, &lease)) ||
	    !hand_check(hand, &lease, 0, 0, name) || !hand_write(hand, &lease, 0, SIZE / 2, hand_stamp(name, 0, 0)))
		return false;
	for (uint64_t value = 1; value <= last; value++)
		if (!WANT(SIGNAL, 0, gpub_signal_on(&lease, value, hand->stream)))
			return false;
	return hand_sync(hand);
}

int victim_main(char **arguments)
{
	struct victim *victim = &kills->victims[strtoul(arguments[0], NULL, 10) % HANDS];
	struct hand hand = { .host = calloc(1, LARGE), .wanted = calloc(1, LARGE) };
	gpub_client *client = NULL;
	gpub_lease lease;
	bool good;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	hand.client = &client;
	good = hand.host && hand.wanted &&
	       prepare(&hand, arguments[1], (unsigned)strtoul(arguments[2], NULL, 10),
		       strtoull(arguments[3], NULL, 10));
	note_add(&victim->ready, good ? 1 : 2);
	if (good) /* so that it is killed, or cut off, while a request waits */
		gpub_acquire(client, "never", GPUB_READ, -1, &lease);
	for (;;)
		pause();
}

void victim_end(pid_t pid)
{
	int status;

	kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
}

bool tool_run(const char *script, const char *argument)
{
	char *arguments[] = { (char *)"sh", (char *)"-c", (char *)script, (char *)"sh", (char *)argument, NULL };
	posix_spawn_file_actions_t actions;
	uint64_t began = note_now();
	int error, status = -1;
	pid_t pid;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	error = posix_spawn(&pid, "/bin/sh", &actions, NULL, arguments, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (!error)
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
	note_call(CALL_TOOL, began);
	return HOLDS(!error && !status, "sh -c '%s' %s: status %#x", script, argument, status);
}

bool victim_evict(pid_t pid)
{
	char text[16];

	snprintf(text, sizeof text, "%d", (int)pid);
	return tool_run("session=$($BROKER_CTL sessions --json | awk -v pid=\"$1\" -F '[:,]' '"
			"/\"session\":/ { session = $2 } $1 ~ /\"pid\"/ && $2 + 0 == pid { print session + 0 }') && "
			"$BROKER_CTL evict \"$session\"",
			text);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* attacks.c - see attacks.h */
#include "attacks.h"

#include <signal.h>
#include <sys/socket.h>

void join(struct speaker *speaker)
{
	WANT(!speaker_greet(speaker));
}

void want_served(struct speaker *speaker)
{
	WANT(speaker_named(speaker, WIRE_STAT, "no/such/buffer") == -ENOENT);
}

void want_cut(struct speaker *speaker)
{
	WANT(!speaker_receive_end(speaker));
	speaker_end(speaker);
}

int drain(const struct speaker *speaker)
{
	struct wire_message message;
	ssize_t got;

	do
		got = recv(speaker->sock, &message, sizeof message, MSG_DONTWAIT);
	while (got > 0);
	return got < 0 && errno == EAGAIN ? 0 : -ECONNRESET;
}

/* ---- the given buffer ---- */

void make_given(void)
{
	struct speaker owner;

	join(&owner);
	WANT(!speaker_create(&owner, GIVEN, GIVEN_SIZE, 0606, 0));
	speaker_end(&owner);
}

static void unlink_given(void)
{
	struct speaker owner;

	join(&owner);
	WANT(!speaker_named(&owner, WIRE_UNLINK, GIVEN));
	speaker_end(&owner);
}

static bool given_is(const char *state)
{
	return status_buffers(&arena_broker, GIVEN, state) == 1;
}

bool given_outlives_its_name(void)
{
	if (!arena_run(VICTIM, unlink_given) || !SOON(given_is("draining")))
		return false;
	/* it would be gone by now, were it to go */
	return newcomer_works(BYSTANDER) && newcomer_works(BYSTANDER) && given_is("draining");
}

static bool given_is_gone(void)
{
	return !status_buffers(&arena_broker, GIVEN, NULL);
}

bool given_goes_with(pid_t pid)
{
	if (pid <= 0 || kill(pid, SIGKILL))
		return false;
	return SOON(given_is_gone());
}

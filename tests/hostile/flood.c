/* SPDX-License-Identifier: Apache-2.0 */
/* flood.c - see flood.h */
#include "flood.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "attacks.h"

#define BURST 32 /* sent to one session before the next */

static void burst(const struct speaker *s, const struct wire_message *message)
{
	for (int i = 0; i < BURST; i++)
		if (speaker_send(s, message, sizeof *message, MSG_DONTWAIT))
			break;
	WANT(!drain(s));
}

void flood(unsigned sessions, unsigned milliseconds)
{
	struct wire_message stat = speaker_message(WIRE_STAT, SHOWN);
	struct speaker *s = calloc(sessions, sizeof *s);
	uint64_t end = now_us() + milliseconds * 1000ull;

	WANT(s);
	for (unsigned i = 0; i < sessions; i++)
		join(&s[i]);
	while (now_us() < end)
		for (unsigned i = 0; i < sessions; i++)
			burst(&s[i], &stat);
	for (unsigned i = 0; i < sessions; i++)
		speaker_end(&s[i]);
	free(s);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* clock.c - see clock.h */
#include "clock.h"

struct timespec client_deadline(int64_t milliseconds)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec += milliseconds / 1000;
	t.tv_nsec += milliseconds % 1000 * 1000000;
	if (t.tv_nsec >= 1000000000) {
		t.tv_sec++;
		t.tv_nsec -= 1000000000;
	}
	return t;
}

int client_remaining_ms(const struct timespec *deadline)
{
	struct timespec now = client_deadline(0);
	int64_t left = (deadline->tv_sec - now.tv_sec) * 1000 + (deadline->tv_nsec - now.tv_nsec) / 1000000;

	return left > 1 ? (int)left : 1;
}

bool client_past(const struct timespec *deadline)
{
	struct timespec now;

	if (!deadline)
		return false;
	now = client_deadline(0);
	return now.tv_sec > deadline->tv_sec || (now.tv_sec == deadline->tv_sec && now.tv_nsec >= deadline->tv_nsec);
}

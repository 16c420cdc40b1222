/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h - deadlines, on CLOCK_MONOTONIC. Owns nothing; never sleeps. */
#ifndef GPUB_CLOCK_H
#define GPUB_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* Returns the time that is `milliseconds` from now. */
struct timespec client_deadline(int64_t milliseconds);

/* Returns the milliseconds from now to the deadline, but at least 1, also if the deadline has passed. */
int client_remaining_ms(const struct timespec *deadline);

/* Whether the deadline has passed. False for NULL, which means no deadline. */
bool client_past(const struct timespec *deadline);

#endif

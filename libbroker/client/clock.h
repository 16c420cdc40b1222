/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h - deadlines, on CLOCK_MONOTONIC. Owns nothing; never sleeps. */
#ifndef GPUB_CLOCK_H
#define GPUB_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* So many milliseconds from now. */
struct timespec client_deadline(int64_t milliseconds);

/* The milliseconds that are left until then: at least 1. */
int client_remaining_ms(const struct timespec *deadline);

/* Whether the deadline has passed. NULL, no deadline, never has. */
bool client_past(const struct timespec *deadline);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flood.h - as much as one user can ask of a broker, for so long: requests, connections, greetings.
 *
 * Requests go over so many sessions, in packets of so many. One process sends, another reads the answers: so that there
 * is always more to read, and nobody is cut off.
 */
#ifndef GPUB_TESTS_HOSTILE_FLOOD_H
#define GPUB_TESTS_HOSTILE_FLOOD_H

#include <stdint.h>

#include "common/wire.h"

/* Of STATs. */
void flood(unsigned sessions, unsigned packed, unsigned milliseconds);

/* Of these messages, a packet after the other; each has an answer. How many were answered. */
uint64_t flood_with(unsigned sessions, const struct wire_message *packet, unsigned packed, unsigned milliseconds);
/* From several processes: connections that are closed at once, and sessions that end when they are welcome. */
void flood_connections(unsigned milliseconds);
void flood_greetings(unsigned milliseconds);

#endif

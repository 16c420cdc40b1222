/* SPDX-License-Identifier: Apache-2.0 */
/* flood.h - as many requests as can be sent, over so many sessions of one process, for so long; answers are read. */
#ifndef GPUB_TESTS_HOSTILE_FLOOD_H
#define GPUB_TESTS_HOSTILE_FLOOD_H

void flood(unsigned sessions, unsigned milliseconds);

#endif

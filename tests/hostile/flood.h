/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flood.h - as many requests as can be sent, over so many sessions, for so long, in packets of so many.
 *
 * One process sends, another reads the answers: so that there is always more to hear, and nobody is cut off.
 */
#ifndef GPUB_TESTS_HOSTILE_FLOOD_H
#define GPUB_TESTS_HOSTILE_FLOOD_H

void flood(unsigned sessions, unsigned packed, unsigned milliseconds);

#endif

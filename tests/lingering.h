/* SPDX-License-Identifier: Apache-2.0 */
/* lingering.h - sockets whose close waits: what nobody wants to be the last to close. */
#ifndef GPUB_TESTS_LINGERING_H
#define GPUB_TESTS_LINGERING_H

/*
 * A TCP socket full of what nobody reads: its last close waits for so many seconds, or until *far is closed, the end at
 * which it would be read. -1: there is none, and *far is as it was.
 */
int lingering_socket(int *far, int seconds);

#endif

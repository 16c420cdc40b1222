/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server.h - a server that is no broker: it answers a client as an input says.
 *
 * It has a real, sealed board and one real memory object of the host device, so that what it sends can be right to the
 * last bit, or wrong in one. Runs in a thread of its own for one connection; it answers well where the input is silent,
 * and hangs up when the client neither asks nor leaves for a moment, so every call of the client ends.
 */
#ifndef GPUB_FUZZ_SERVER_H
#define GPUB_FUZZ_SERVER_H

#include "fuzz.h"

#define SERVER_ADDRESS_SIZE 64

/* Once a process: the board, the memory, the socket in a directory of its own. */
void server_set_up(char address[SERVER_ADDRESS_SIZE]);

/* Serves the next connection as the script says; server_end() waits until it is over. */
void server_begin(struct input script);
void server_end(void);

#endif

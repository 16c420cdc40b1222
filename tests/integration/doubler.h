/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doubler.h - a proxy between a client and a real broker that sends the broker's messages to the client twice, as the
 * successor of a broker does that died after it had sent them.
 *
 * It runs in two threads of the client's own process, because the broker identifies a client by the process that
 * connects. What belongs to the greeting comes once: a connection that breaks in its greeting is made anew. Descriptors
 * come with both copies. The proxy also counts, for each mapping, the GRANTs that came with its handle place and the
 * client's CLOSEDs.
 */
#ifndef GPUB_TESTS_DOUBLER_H
#define GPUB_TESTS_DOUBLER_H

#include "common/socket.h"

enum doubler_how {
	DOUBLER_PLAIN, /* each packet comes once */
	DOUBLER_EACH,  /* each packet comes twice, one directly after the other */
	/* each packet comes once; then now and then the last of them again, in order: what a dead broker had sent */
	DOUBLER_RUNS
};

/* Counts of one connection, complete after doubler_end(). */
struct doubler_counts {
	unsigned repeated;    /* messages that were sent to the client once more than the broker had sent them */
	unsigned descriptors; /* those of them that had a descriptor */
	unsigned opened;      /* mappings that were granted with a handle place */
	unsigned closed;      /* those of them of which the client has sent a CLOSED */
	unsigned excess;      /* CLOSEDs beyond the first of a mapping */
	unsigned false_ones;  /* CLOSEDs of a mapping that was not granted, or more of them than GRANTs */
	unsigned types[WIRE_TYPES]; /* `repeated`, for each type of message */
};

/*
 * Listens at a new address, and passes the next client that connects there on to the broker at `broker`. Returns the
 * address. One connection at a time.
 */
const char *doubler_start(const char *broker, enum doubler_how how);

/* After the client's end: waits for the threads, and closes the proxy's descriptors. */
const struct doubler_counts *doubler_end(void);

#endif

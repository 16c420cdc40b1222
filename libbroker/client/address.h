/* SPDX-License-Identifier: Apache-2.0 */
/*
 * address.h - which broker a program means: by an address, by the name of an instance, or by neither.
 *
 * Trusts nothing that it finds: trust.h decides about the server. Owns nothing; connects to nothing.
 */
#ifndef GPUB_ADDRESS_H
#define GPUB_ADDRESS_H

#include "common/name.h"
#include "common/socket.h"

struct broker_place {
	char address[SOCKET_ADDRESS_SIZE]; /* "unix:PATH" */
	char instance[INSTANCE_SIZE];      /* of the broker that must listen there; "": whichever does */
	bool is_claimed;                   /* a status file says so: nobody has checked who wrote that */
};

/*
 * given: "unix:PATH", or the name of an instance; NULL: what $GPUBROKER says, and without that the default sockets.
 * Negative errno with the error message set.
 */
int broker_place_find(const char *given, struct broker_place *place);

/* The address alone. */
int client_address(const char *given, char address[SOCKET_ADDRESS_SIZE]);

#endif

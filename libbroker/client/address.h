/* SPDX-License-Identifier: Apache-2.0 */
/*
 * address.h - finds the broker that a program means: by an address, by the name of an instance, or by defaults.
 *
 * The result is not trusted: trust.h decides whether the server may be used. Owns nothing; connects to nothing.
 */
#ifndef GPUB_ADDRESS_H
#define GPUB_ADDRESS_H

#include "common/name.h"
#include "common/socket.h"

struct broker_place {
	char address[SOCKET_ADDRESS_SIZE]; /* "unix:PATH" */
	char instance[INSTANCE_SIZE];      /* instance name that the broker at `address` must have; "": any name */
	bool is_claimed;                   /* true: `address` is from a status file, which any user may have written */
};

/*
 * Finds the address of the broker that `given` means. given: "unix:PATH", or the name of an instance; NULL: uses
 * $GPUBROKER or, if that variable is not set, the default sockets. Returns 0 and *place, or a negative errno with the
 * error message set.
 */
int broker_place_find(const char *given, struct broker_place *place);

/* As broker_place_find(), but stores only the address. */
int client_address(const char *given, char address[SOCKET_ADDRESS_SIZE]);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* address.c - see address.h */
#include "address.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/environment.h"
#include "common/error.h"
#include "common/readable.h"
#include "common/status-file.h"

#define DEFAULT_SOCKET "unix:/run/gpubroker/socket" /* the socket of a brokerd that the system started */
#define SCHEME         "unix:"
#define LIST_MAX       120 /* bytes of the list of brokers in an error message at most */

/* ---- the default sockets ---- */

/*
 * Whether this process may not search a directory of the path. A connect to the path fails with a message about that.
 */
static bool is_closed(const char *path)
{
	return !path_is_there(path) && errno == EACCES;
}

/*
 * Environment variables that name the directories of the default sockets, in the order of the search. DEFAULT_SOCKET is
 * searched last. The pods of a Kubernetes resource claim share the directory of the second variable.
 */
static const char *const places[] = { "XDG_RUNTIME_DIR", "NVIDIA_DRA_LOCAL_IPC_DIR" };

static bool place_address(size_t i, char address[SOCKET_ADDRESS_SIZE])
{
	const char *directory = environment_get(places[i]);
	size_t length = SOCKET_ADDRESS_SIZE;

	if (directory)
		length = (size_t)snprintf(address, SOCKET_ADDRESS_SIZE, SCHEME "%s/gpubroker/socket", directory);
	return length < SOCKET_ADDRESS_SIZE;
}

/*
 * Stores the address of the first default socket for whose path passes() returns true. False: passes() returns true for
 * none.
 */
static bool place_find(bool (*passes)(const char *path), char address[SOCKET_ADDRESS_SIZE])
{
	for (size_t i = 0; i < sizeof places / sizeof *places; i++)
		if (place_address(i, address) && passes(address + strlen(SCHEME)))
			return true;
	strcpy(address, DEFAULT_SOCKET);
	return passes(address + strlen(SCHEME));
}

/*
 * Stores the address of a default socket. A socket that exists is preferred to a path that this process may not search,
 * such as in the directory of another user after su(1).
 */
static bool default_find(char address[SOCKET_ADDRESS_SIZE])
{
	return place_find(path_is_there, address) || place_find(is_closed, address);
}

/*
 * Returns the error of a search that found no broker. Does not choose the only running broker, because a program that
 * means one broker must not use another one.
 */
static int none_known(void)
{
	char list[LIST_MAX];

	status_files_list(list, sizeof list);
	if (*list)
		return error_set(-ENOENT, "no broker is known: these run here, of which GPUBROKER may name one: %s; or "
					  "start the program under broker-run",
				 list);
	return error_set(-ENOENT, "no broker is known: start the program under broker-run, set GPUBROKER to unix:PATH "
				  "or a broker's name, or start brokerd");
}

/* ---- the name of an instance ---- */

/* Adds a list of the running brokers to the error message. */
static int add_list(int error)
{
	char text[ERROR_TEXT_MAX], list[LIST_MAX];

	status_files_list(list, sizeof list);
	if (!*list)
		return error;
	snprintf(text, sizeof text, "%s", error_text());
	return error_set(error, "%.180s; these run: %s", text, list);
}

/*
 * Finds the address of the instance place->instance. If the instance's status file is not readable for this user, or is
 * in another mount namespace, stores the address of a default socket. So the caller must check the broker's name after
 * the connect.
 */
static int instance_find(struct broker_place *place)
{
	int error = status_file_address(place->instance, place->address);

	if (!error)
		place->is_claimed = true;
	if ((error == -ENOENT || error == -EACCES) && default_find(place->address))
		return 0;
	return error == -ENOENT ? add_list(error) : error;
}

/* ---- either ---- */

static int given_find(const char *given, struct broker_place *place)
{
	if (!strncmp(given, SCHEME, strlen(SCHEME))) {
		if (strlen(given) >= sizeof place->address)
			return error_set(-EINVAL, "the broker's address is too long");
		strcpy(place->address, given);
		return 0;
	}
	if (instance_check(given))
		return error_set(-EINVAL, "'%.100s' is no broker's address or name: write unix:PATH, or the name of an "
					  "instance",
				 given);
	strcpy(place->instance, given);
	return instance_find(place);
}

int broker_place_find(const char *given, struct broker_place *place)
{
	struct broker_place found = { .instance = "" };
	int error;

	if (!given)
		given = environment_get("GPUBROKER");
	error = given ? given_find(given, &found) : default_find(found.address) ? 0 : none_known();
	if (!error)
		*place = found;
	return error;
}

int client_address(const char *given, char address[SOCKET_ADDRESS_SIZE])
{
	struct broker_place place;
	int error = broker_place_find(given, &place);

	if (!error)
		strcpy(address, place.address);
	return error;
}

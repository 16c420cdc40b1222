/* SPDX-License-Identifier: Apache-2.0 */
/*
 * program.c - a user's first program, compiled as C and as C++ against the installed files. Without a broker
 * it can do one real thing: ask for one, and be refused with an error message.
 */
#include <gpubroker.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
	gpub_client *client = NULL;
	gpub_spec    spec = GPUB_SPEC_INIT;
	int          status = gpub_connect(&client, "unix:/nonexistent/gpubroker.socket");
	const char  *message = gpub_strerror_last();

	printf("gpub_connect: %d, %s\n", status, message);
	if (status != -ENOENT || client != NULL)
		return 1;
	if (strstr(message, "/nonexistent/gpubroker.socket") == NULL)
		return 2;
	if (gpub_create(NULL, "name", &spec) != -EINVAL)
		return 3;
	gpub_disconnect(client);
	return 0;
}

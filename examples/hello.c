/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hello.c - worker 0 writes a number into the buffer "u", and worker 1 reads it:
 *     broker-run -n 2 -b u=64K,timeline -- ./hello
 */
#include <gpubroker.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
	const char  *rank = getenv("GPUBROKER_RANK");
	int          reads = rank && atoi(rank), number = reads ? 0 : 42;
	gpub_client *client;
	gpub_lease   u;
	void        *stream;

	if (gpub_connect(&client, NULL) || gpub_stream_create(client, GPUB_CURRENT, &stream) ||
	    gpub_acquire(client, "u", reads ? GPUB_READ : GPUB_READ | GPUB_WRITE, -1, &u) ||
	    (reads ? gpub_wait_on(&u, 1, stream) || gpub_copy_on(client, &number, u.ptr, sizeof number, stream)
		   : gpub_copy_on(client, u.ptr, &number, sizeof number, stream) || gpub_signal_on(&u, 1, stream)) ||
	    gpub_stream_sync(stream) || gpub_timeline_wait(&u, 1, 0, NULL) || gpub_return_on(&u, stream))
		return fprintf(stderr, "%s\n", gpub_strerror_last()), 1;
	printf("worker %d: %d\n", reads, number);
	gpub_disconnect(client);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * view-client.c - a client that does what its command line says, for view.sh: with the library's inner functions, in
 * one file that can be copied under another name.
 *
 *     create NAME MODE   acquire NAME   unlink NAME   mark FILE (makes it)   wait FILE (until it is there)
 *     raw FILE (all bytes of what the broker shows; makes FILE.all if that is everybody's)
 *     signal NAME VALUE   await NAME VALUE (a stream does, from here on)
 *     again COUNT (has it shown so often)
 *
 * Holds what it acquired until its end.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include "client/manage.h"
#include "gpubroker.h"

static gpub_client *client;

static int create(const char *name, const char *mode)
{
	gpub_spec spec = GPUB_SPEC_INIT;

	spec.size = 4096;
	spec.mode = (uint32_t)strtoul(mode, NULL, 8);
	return gpub_create(client, name, &spec);
}

static int mark(const char *file)
{
	int fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	return fd < 0 ? -errno : close(fd);
}

static int wait_for(const char *file)
{
	while (access(file, F_OK))
		usleep(5000);
	return 0;
}

static int copy(int from, const char *path)
{
	int to = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	off_t at = 0;
	ssize_t sent;

	do
		sent = sendfile(to, from, &at, 1 << 20);
	while (sent > 0);
	close(to);
	return sent ? -EIO : 0;
}

static int raw(const char *path)
{
	char marker[4096];
	bool all;
	int file, error = client_snapshot(client, &file, &all);

	if (error)
		return error;
	error = copy(file, path);
	close(file);
	snprintf(marker, sizeof marker, "%s.all", path);
	return error || !all ? error : mark(marker);
}

static int again(int count)
{
	int file, error = 0;
	bool all;

	for (int i = 0; !error && i < count; i++) {
		error = client_snapshot(client, &file, &all);
		if (!error)
			close(file);
	}
	return error;
}

/* On a timeline that is there. */
static int signal_one(const char *name, uint64_t value)
{
	gpub_lease lease;
	int error = gpub_acquire(client, name, GPUB_READ | GPUB_WRITE, 0, &lease);

	return error ? error : gpub_signal_on(&lease, value, NULL);
}

/* Is not waited for: who awaits what never comes is to be killed. */
static int await(const char *name, uint64_t value)
{
	gpub_lease lease;
	void *stream;
	int error = gpub_stream_create(client, GPUB_CURRENT, &stream);

	if (!error)
		error = gpub_acquire(client, name, GPUB_READ, 10000, &lease);
	return error ? error : gpub_wait_on(&lease, value, stream);
}

/* Does one command; *words is moved to its last word. */
static int step(char ***words)
{
	const char *verb = **words, *what = *++*words;
	gpub_lease lease;

	if (!strcmp(verb, "create"))
		return create(what, *++*words);
	if (!strcmp(verb, "acquire"))
		return gpub_acquire(client, what, GPUB_READ, 0, &lease);
	if (!strcmp(verb, "signal"))
		return signal_one(what, (uint64_t)atoi(*++*words));
	if (!strcmp(verb, "await"))
		return await(what, (uint64_t)atoi(*++*words));
	if (!strcmp(verb, "unlink"))
		return gpub_unlink(client, what);
	if (!strcmp(verb, "raw"))
		return raw(what);
	if (!strcmp(verb, "again"))
		return again(atoi(what));
	return !strcmp(verb, "mark") ? mark(what) : wait_for(what);
}

int main(int argc, char **argv)
{
	int error;

	(void)argc;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(900); /* a script's time */
	error = gpub_connect(&client, NULL);
	for (char **word = argv + 1; !error && *word; word++)
		error = step(&word);
	if (error)
		fprintf(stderr, "view-client: %s\n", gpub_strerror_last());
	gpub_disconnect(client);
	return error ? 1 : 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status-client.c - a client that does what its command line says, so that status.sh has something to look at.
 *
 *     create NAME MIB   acquire NAME   unlink NAME   churn NAME COUNT (creates and unlinks it)
 *     flood NAME COUNT (creates it where it is there: each is refused)
 *     call NAME (itself; the first, if at all)
 *     several NAME COUNT (creates NAME0, NAME1 ... of 4 KiB)
 *     signal NAME VALUE (creates NAME with a timeline, and signals that)
 *     await NAME VALUE (a stream does, from here on)
 *     reach NAME VALUE (waits until NAME's timeline has that)
 *     redeem FILE (the ticket in it; prints the lease's rights)
 *     mark FILE (makes it)   wait FILE (until it is there)
 *     complain NAME (calls that are refused, on a name that is there: prints what each says)
 *
 * Says nothing else unless something fails. Holds what it acquired until its end. Ends with its broker-run, and at the
 * latest when a script has no time left: a killed run of the tests leaves none that waits for ever.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "gpubroker.h"

static gpub_client *client;

static int create(const char *name, uint64_t size)
{
	gpub_spec spec = GPUB_SPEC_INIT;

	spec.size = size;
	return gpub_create(client, name, &spec);
}

static int churn(const char *name, int count)
{
	int error = 0;

	for (int i = 0; !error && i < count; i++) {
		error = create(name, 4096);
		if (!error)
			error = gpub_unlink(client, name);
	}
	return error;
}

/* Of what is there: each is refused. */
static int flood(const char *name, int count)
{
	while (count-- && create(name, 4096) == -EEXIST)
		;
	return count == -1 ? 0 : -1;
}

static int several(const char *name, int count)
{
	char full[96];
	int error = 0;

	for (int i = 0; !error && i < count; i++) {
		snprintf(full, sizeof full, "%s%d", name, i);
		error = create(full, 4096);
	}
	return error;
}

static int acquire(const char *name)
{
	gpub_lease lease;

	return gpub_acquire(client, name, GPUB_READ, 0, &lease);
}

static int signal_one(const char *name, uint64_t value)
{
	gpub_spec spec = GPUB_SPEC_INIT;
	gpub_lease lease;
	int error;

	spec.size = 4096;
	spec.flags = GPUB_TIMELINE;
	error = gpub_create(client, name, &spec);
	if (!error)
		error = gpub_acquire(client, name, GPUB_READ | GPUB_WRITE, 0, &lease);
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

static int reach(const char *name, uint64_t value)
{
	gpub_lease lease;
	uint64_t at = 0;
	int error = gpub_acquire(client, name, GPUB_READ, 30000, &lease);

	while (!error && at < value) {
		usleep(1000);
		error = gpub_timeline(&lease, &at);
	}
	return error;
}

static int redeem(const char *path)
{
	char text[GPUB_TICKET_MAX] = "";
	FILE *file = fopen(path, "re");
	gpub_lease lease;
	int error;

	if (file && fgets(text, sizeof text, file))
		text[strcspn(text, "\n")] = 0;
	if (file)
		fclose(file);
	error = gpub_redeem(client, text, &lease);
	if (!error)
		printf("rights %u\n", lease.rights);
	return error;
}

static void complain_of(int error, const char *call)
{
	fprintf(stderr, "status-client: %s: %d, %s\n", call, error, gpub_strerror_last());
}

static int complain(const char *name)
{
	gpub_lease lease, none = { 0 };
	gpub_module *module;
	uint64_t value;
	int error = gpub_acquire(client, name, GPUB_READ, 0, &lease);

	if (error)
		return error;
	complain_of(create(name, 4096), "create what is there");
	complain_of(create("huge", 1ull << 60), "create what is too large");
	complain_of(create("a b", 4096), "create by a name that is none");
	complain_of(gpub_unlink(client, "nothing"), "unlink nothing");
	complain_of(gpub_acquire(client, "nothing", GPUB_READ, 1, &none), "acquire nothing");
	complain_of(gpub_acquire(client, name, 64, 0, &none), "acquire with rights that are none");
	complain_of(gpub_timeline(&lease, &value), "timeline of none");
	complain_of(gpub_signal_on(&lease, 1, NULL), "signal none");
	complain_of(gpub_renew(&lease), "renew a held one");
	complain_of(gpub_module_open(&module, client, "nowhere"), "open no module");
	complain_of(gpub_return(&lease) ? -1 : gpub_return(&lease), "return twice");
	complain_of(gpub_return(&none), "return none");
	return 0;
}

static int mark(const char *file)
{
	int fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	return fd < 0 ? -1 : close(fd);
}

static int wait_for(const char *file)
{
	while (access(file, F_OK))
		usleep(5000);
	return 0;
}

/* Does one command; *words is moved to its last word. */
static int step(char ***words)
{
	const char *verb = **words, *what = *++*words;

	if (!strcmp(verb, "create"))
		return create(what, (uint64_t)atoi(*++*words) << 20);
	if (!strcmp(verb, "churn"))
		return churn(what, atoi(*++*words));
	if (!strcmp(verb, "flood"))
		return flood(what, atoi(*++*words));
	if (!strcmp(verb, "several"))
		return several(what, atoi(*++*words));
	if (!strcmp(verb, "signal"))
		return signal_one(what, (uint64_t)atoi(*++*words));
	if (!strcmp(verb, "await"))
		return await(what, (uint64_t)atoi(*++*words));
	if (!strcmp(verb, "reach"))
		return reach(what, (uint64_t)atoi(*++*words));
	if (!strcmp(verb, "acquire"))
		return acquire(what);
	if (!strcmp(verb, "redeem"))
		return redeem(what);
	if (!strcmp(verb, "complain"))
		return complain(what);
	if (!strcmp(verb, "unlink"))
		return gpub_unlink(client, what);
	return !strcmp(verb, "mark") ? mark(what) : wait_for(what);
}

int main(int argc, char **argv)
{
	int error;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(900); /* SCRIPT_SECONDS */
	if (argc > 2 && !strcmp(argv[1], "call")) {
		prctl(PR_SET_NAME, argv[2]);
		argv += 2;
	}
	error = gpub_connect(&client, NULL);
	for (char **word = argv + 1; !error && *word; word++)
		error = step(&word);
	if (error)
		fprintf(stderr, "status-client: %s\n", gpub_strerror_last());
	gpub_disconnect(client);
	return error ? 1 : 0;
}

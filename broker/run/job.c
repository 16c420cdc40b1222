/* SPDX-License-Identifier: Apache-2.0 */
/* job.c - see job.h */
#include "job.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sodium.h>

#include "broker/base/process-start.h"
#include "broker/base/values.h"
#include "common/error.h"

#define RANKS_MAX 1024
#define KEY_BYTES 16

/*
 * The known launchers, with the environment variables that each sets in a job's processes. The variables in job
 * identify the job in the whole cluster, and also the machine, because several machines may share a directory.
 */
static const struct launcher {
	const char *name;
	const char *rank, *size; /* variables with the rank and the number of processes on this machine */
	const char *job[3]; /* variables that identify the job and the machine; NULL: no further ones */
} launchers[] = {
	{ "Open MPI",
	  "OMPI_COMM_WORLD_LOCAL_RANK",
	  "OMPI_COMM_WORLD_LOCAL_SIZE",
	  { "PMIX_NAMESPACE", "PMIX_SERVER_URI2", NULL } },
	{ "MPICH", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", { NULL } },
	{ "Slurm", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE", { "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_NODEID" } },
};

#define LAUNCHERS (sizeof launchers / sizeof *launchers)

static const struct launcher *launcher_find(void)
{
	for (size_t i = 0; i < LAUNCHERS; i++)
		if (getenv(launchers[i].rank) && getenv(launchers[i].size))
			return &launchers[i];
	return NULL;
}

/*
 * Returns the number of the job's processes on one machine. machine: its index in the job, from 0. text: Slurm's list,
 * such as "4(x2),3" for four processes on each of the first two machines and three on the third, or one number for
 * every machine. Returns 0 if text is not understood.
 */
static unsigned tasks_of(const char *text, unsigned long machine)
{
	bool same_everywhere = !text[strspn(text, "0123456789")];

	for (;;) {
		char *end;
		unsigned long tasks = strtoul(text, &end, 10), machines = 1;

		if (end == text || tasks > RANKS_MAX)
			return 0;
		if (!strncmp(end, "(x", 2))
			machines = strtoul(end + 2, &end, 10);
		if (machine < machines || same_everywhere)
			return (unsigned)tasks;
		end += *end == ')';
		if (*end != ',')
			return 0;
		machine -= machines;
		text = end + 1;
	}
}

static unsigned size_of(const struct launcher *launcher)
{
	const char *size = getenv(launcher->size), *machine = getenv("SLURM_NODEID");

	return tasks_of(size ? size : "", machine ? strtoul(machine, NULL, 10) : 0);
}

/*
 * Makes a key for the job and the machine: a hash of the launcher's variables. If the launcher has none that identify
 * the job, the parent process is hashed instead, because all processes of a job on a machine have the same parent.
 */
static void key_make(const struct launcher *launcher, char key[2 * KEY_BYTES + 1])
{
	unsigned char hash[KEY_BYTES];
	char text[1024];
	int at = snprintf(text, sizeof text, "%s", launcher->name);

	for (unsigned i = 0; i < 3 && launcher->job[i] && at < (int)sizeof text; i++) {
		const char *value = getenv(launcher->job[i]);

		at += snprintf(text + at, sizeof text - (size_t)at, "\n%s", value ? value : "");
	}
	if (!launcher->job[0])
		snprintf(text + at, sizeof text - (size_t)at, "\n%d %llu", getppid(),
			 (unsigned long long)process_start((uint64_t)getppid(), NULL));
	crypto_generichash(hash, sizeof hash, (const unsigned char *)text, strlen(text), NULL, 0);
	sodium_bin2hex(key, 2 * KEY_BYTES + 1, hash, sizeof hash);
}

/* Returns true if text is a valid job name: graphic ASCII only, because tables show it in a column between blanks. */
static bool is_name(const char *text)
{
	size_t length = 0;

	while (text[length] > ' ' && text[length] <= '~')
		length++;
	return length && length < STATUS_JOB_SIZE && !text[length];
}

void job_name(char launcher[STATUS_LAUNCHER_SIZE], char id[STATUS_JOB_SIZE])
{
	/* Slurm's name comes first, because each mpirun in a script of Slurm makes another PMIx namespace */
	static const char *const known[][2] = { { "Slurm", "SLURM_JOB_ID" }, { "PMIx", "PMIX_NAMESPACE" } };

	launcher[0] = id[0] = 0;
	for (size_t i = 0; i < sizeof known / sizeof *known && !id[0]; i++) {
		const char *value = getenv(known[i][1]);

		if (!value || !is_name(value))
			continue;
		strcpy(launcher, known[i][0]);
		strcpy(id, value);
	}
}

int job_find(struct join_job *job)
{
	const struct launcher *launcher = launcher_find();
	char key[2 * KEY_BYTES + 1];
	uint64_t rank;

	if (!launcher)
		return error_set(-ENOENT, "--join is for processes that mpirun or srun started, and no variable of "
					  "Open MPI, MPICH or Slurm says which one of this machine this is: start it "
					  "with one of them, or leave --join out");
	job->size = size_of(launcher);
	if (!job->size)
		return error_set(-EINVAL, "%s is '%.60s', which does not say how many processes are on this machine",
				 launcher->size, getenv(launcher->size));
	if (number_parse(getenv(launcher->rank), "rank", 0, job->size - 1, &rank))
		return error_set(-EINVAL, "%s is '%.40s', and there are %u processes on this machine", launcher->rank,
				 getenv(launcher->rank), job->size);
	job->rank = (unsigned)rank;
	key_make(launcher, key);
	snprintf(job->name, sizeof job->name, "join-%.18s", key);
	return 0;
}

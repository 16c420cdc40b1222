/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job.h - the place of this process in a job that mpirun or srun started, the name of the directory by which the
 * job's broker-run processes on one machine find each other, and the messages between them.
 *
 * Reads the environment that Open MPI, MPICH (and what is derived from it) or Slurm set. Owns nothing; starts nothing.
 */
#ifndef GPUB_RUN_JOB_H
#define GPUB_RUN_JOB_H

#include <stdint.h>

#include "broker/status/format.h"
#include "children.h"

#define JOB_NAME_SIZE (sizeof "join-" + 18)

struct join_job {
	unsigned patience;   /* seconds that a process which starts early waits for the others; the caller sets it */
	unsigned rank;       /* rank of this process among the job's processes on this machine, from 0 */
	unsigned size;       /* number of the job's processes on this machine */
	char     name[JOB_NAME_SIZE]; /* name of the job's own directory, which has the socket "join" (leftovers.h) */
};

/*
 * Sets rank, size and name of *job from the environment. Returns 0; -ENOENT: no launcher has set its variables;
 * -EINVAL: the variables are not valid.
 */
int job_find(struct join_job *job);

/*
 * Writes the launcher of this process's job, "Slurm" or "PMIx", to launcher, and the job's name, as the launcher's
 * tools take it, to id. Both are empty if there is no job, or if its name is longer than STATUS_JOB_SIZE - 1 or not
 * graphic ASCII.
 */
void job_name(char launcher[STATUS_LAUNCHER_SIZE], char id[STATUS_JOB_SIZE]);

/* ---- the request of a joiner to rank 0 and the answer: one message each, over SOCK_SEQPACKET ---- */

#define JOIN_MAGIC     0x6e696f6a62757067ull /* value of the member `magic` of both messages */
#define JOIN_TEXT_MAX  CHILDREN_ENVIRONMENT_MAX
#define JOIN_PATIENCE  60   /* default --join-timeout in seconds: launchers start processes at about the same time */
#define JOIN_PATIENCE_MAX 86400 /* largest --join-timeout in seconds */

struct join_request {
	uint64_t magic;
	char     version[32]; /* version of the joiner's broker-run; must be that of rank 0 */
	uint32_t rank, size;  /* as in struct join_job; size must be that of rank 0 */
};

struct join_answer {
	uint64_t magic;
	int32_t  error;               /* 0: the joiner runs its command; negative errno: the joiner fails */
	uint32_t used;                /* number of bytes of `text`, the last NUL included */
	/* environment of the joiner, by children_environment(); with an error the error message */
	char     text[JOIN_TEXT_MAX];
};

#endif

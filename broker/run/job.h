/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job.h - the place of this process in a job that mpirun or srun started, and where the broker-runs of a job meet on a machine.
 *
 * Reads the environment that Open MPI, MPICH (and those made of it) or Slurm give a process. Owns nothing; starts nothing.
 */
#ifndef GPUB_RUN_JOB_H
#define GPUB_RUN_JOB_H

#include <stdint.h>

#include "broker/status/format.h"
#include "children.h"

#define JOB_NAME_SIZE (sizeof "join-" + 18)

struct join_job {
	unsigned patience;   /* seconds for which those who start early wait for the others; the caller sets it */
	unsigned rank, size; /* on this machine: from 0, and how many processes there are */
	char     name[JOB_NAME_SIZE]; /* of the directory where they meet (leftovers.h): it is this job's alone */
};

/* 0, or -ENOENT, -EINVAL with the error message: nobody says, or what they say makes no sense. */
int job_find(struct join_job *job);

/*
 * The job that this process is part of, as tools of its launcher name it: launcher is "Slurm" or "PMIx". Both are empty where there
 * is none, or where its name is not one of STATUS_JOB_SIZE - 1 printable characters at most.
 */
void job_name(char launcher[STATUS_LAUNCHER_SIZE], char id[STATUS_JOB_SIZE]);

/* ---- what leader and joiners send each other: one message each, over SOCK_SEQPACKET ---- */

#define JOIN_MAGIC     0x6e696f6a62757067ull /* and in step with the version of both programs */
#define JOIN_TEXT_MAX  CHILDREN_ENVIRONMENT_MAX
#define JOIN_PATIENCE  60   /* seconds unless given: the launcher starts all processes of a machine at about the same time */
#define JOIN_PATIENCE_MAX 86400

struct join_request {
	uint64_t magic;
	char     version[32];
	uint32_t rank, size;
};

struct join_answer {
	uint64_t magic;
	int32_t  error;               /* 0, or negative errno */
	uint32_t used;                /* bytes of text */
	char     text[JOIN_TEXT_MAX]; /* children_environment()'s; or the error message */
};

#endif

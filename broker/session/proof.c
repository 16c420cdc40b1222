/* SPDX-License-Identifier: Apache-2.0 */
/* proof.c - see proof.h */
#include "proof.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "broker/core/broker.h"
#include "broker/base/log.h"

/*
 * Between two questions while the driver tears the process's work down: that takes 50 to 200 ms (facts.md). Where a child
 * keeps it, longer and longer: many such must not keep the thread that asks from those that are about to go.
 */
#define PAUSE_US     10000
#define PAUSE_MAX_US 5000000

static void proof_ask(struct session *session);

static void on_again(evutil_socket_t fd, short what, void *argument)
{
	(void)fd;
	(void)what;
	proof_ask(argument);
}

static void ask_later(struct session *session)
{
	unsigned us = session->proof_pause_us;
	struct timeval pause = { .tv_sec = us / 1000000, .tv_usec = us % 1000000 };

	/* the first second is for those that are about to go */
	if (++session->proof_asked > 100)
		session->proof_pause_us = 2 * us < PAUSE_MAX_US ? 2 * us : PAUSE_MAX_US;
	evtimer_add(session->asking, &pause);
}

static void proof_lacking(struct session *session, const char *text)
{
	session->proof = PROOF_LACKING;
	log_line("pid %d (%s) died and what it mapped stays allocated: %s", session->pid, session->command, text);
	session_unproven(session);
}

static void proof_answered(struct job *job)
{
	struct session *session = session_find(job->context, job->session);

	if (session && job->error == -EBUSY)
		ask_later(session);
	else if (session && job->error)
		proof_lacking(session, job->text);
	else if (session)
		session_proven(session);
	free(job);
}

static void proof_ask(struct session *session)
{
	struct job *job = calloc(1, sizeof *job);

	if (!job) {
		ask_later(session);
		return;
	}
	job->kind = JOB_GONE;
	job->uid = session->who.uid;
	job->pid = session->pid;
	job->mps = session->mps;
	job->session = session->id;
	job->done = proof_answered;
	job->context = session->broker;
	workers_submit(&session->broker->workers, job);
}

void proof_begin(struct session *session)
{
	if (session->proof != PROOF_NONE)
		return;
	session->proof = PROOF_ASKING;
	session->proof_pause_us = PAUSE_US;
	session->asking = evtimer_new(session->broker->base, on_again, session);
	if (session->asking)
		proof_ask(session);
	else
		proof_lacking(session, "the broker is out of memory to ask the device");
}

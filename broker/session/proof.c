/* SPDX-License-Identifier: Apache-2.0 */
/* proof.c - see proof.h */
#include "proof.h"

#include <errno.h>
#include <stdlib.h>

#include "broker/base/context.h"
#include "broker/memory/workers.h"

/*
 * Between two questions while the driver tears the process's work down: that takes 50 to 200 ms (facts.md). Where a child
 * keeps it, longer and longer: many such must not keep the thread that asks from those that are about to go.
 */
#define PAUSE_US     10000
#define PAUSE_MAX_US 5000000

static void proof_ask(struct proof *proof);

static void on_again(evutil_socket_t fd, short what, void *argument)
{
	(void)fd;
	(void)what;
	proof_ask(argument);
}

static void ask_later(struct proof *proof)
{
	unsigned us = proof->pause_us;
	struct timeval pause = { .tv_sec = us / 1000000, .tv_usec = us % 1000000 };

	/* the first second is for those that are about to go */
	if (++proof->asked > 100)
		proof->pause_us = 2 * us < PAUSE_MAX_US ? 2 * us : PAUSE_MAX_US;
	evtimer_add(proof->again, &pause);
}

static void give_up(struct proof *proof, const char *text)
{
	proof->state = PROOF_IMPOSSIBLE;
	proof->hooks->unproven(proof, text);
}

static void proof_answered(struct job *job)
{
	const struct proof_hooks *hooks = job->subject;
	struct proof *proof = hooks->find(job->context, job->session);

	if (proof && job->error == -EBUSY)
		ask_later(proof);
	else if (proof && job->error)
		give_up(proof, job->text);
	else if (proof)
		hooks->proven(proof);
	free(job);
}

static void proof_ask(struct proof *proof)
{
	struct job *job = calloc(1, sizeof *job);

	if (!job) {
		ask_later(proof);
		return;
	}
	job->kind = JOB_GONE;
	job->uid = proof->uid;
	job->pid = proof->pid;
	job->mps = proof->mps;
	job->session = proof->id;
	job->done = proof_answered;
	job->context = proof->broker;
	job->subject = (void *)proof->hooks;
	workers_submit(proof->broker->workers, job);
}

void proof_begin(struct proof *proof)
{
	if (proof->state != PROOF_NONE)
		return;
	proof->state = PROOF_ASKING;
	proof->pause_us = PAUSE_US;
	proof->again = evtimer_new(proof->broker->base, on_again, proof);
	if (proof->again)
		proof_ask(proof);
	else
		give_up(proof, "the broker is out of memory to ask the device");
}

void proof_end(struct proof *proof)
{
	if (proof->again)
		event_free(proof->again);
	proof->again = NULL;
}

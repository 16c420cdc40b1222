/* SPDX-License-Identifier: Apache-2.0 */
/* policy.c - see policy.h */
#include "policy.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#define SIGNALLED 128 /* exit status of a program that ends because of signal N, minus N, as in shells */

void policy_ready(struct policy *policy)
{
	policy->failures = policy->kills = 0;
	policy->cold = false;
	policy->ready = true;
}

/* Whether the signal says that the process itself did something wrong. */
static bool is_fault(int number)
{
	return number == SIGSEGV || number == SIGBUS || number == SIGILL || number == SIGFPE || number == SIGABRT;
}

static enum policy_how how_of(const struct policy_end *end)
{
	if (end->cause == POLICY_HUNG)
		return POLICY_WATCHDOG;
	return end->cause == POLICY_ITSELF && WTERMSIG(end->status) == SIGKILL ? POLICY_KILLED : POLICY_CRASHED;
}

/* Whether the end counts as a failure. Counts SIGKILLs. */
static bool is_failure(struct policy *policy)
{
	if (policy->how == POLICY_KILLED && ++policy->kills < POLICY_KILLS)
		return false;
	policy->kills = 0;
	return true;
}

/* Decides about a broker that was not READY. */
static struct policy_decision decide_unready(struct policy *policy)
{
	struct policy_decision decision = { .step = POLICY_NEXT };

	if (is_failure(policy) && ++policy->failures >= POLICY_FAILURES) {
		if (policy->cold)
			return (struct policy_decision){ .step = POLICY_END, .status = EXIT_FAILURE };
		policy->failures = 0;
		policy->cold = true;
	}
	if (policy->cold)
		decision.step = POLICY_COLD;
	return decision;
}

/* Returns the pause before the successor of a broker that was READY. */
static unsigned pause_after(struct policy *policy, const struct policy_end *end)
{
	unsigned pause = POLICY_PAUSE_MS;

	if (policy->how == POLICY_KILLED)
		return 0;
	policy->quick = end->lived_ms < POLICY_QUICK_MS ? policy->quick + 1 : 0;
	if (policy->quick <= POLICY_QUICK)
		return 0;
	for (unsigned i = POLICY_QUICK + 1; i < policy->quick && pause < POLICY_PAUSE_MAX_MS; i++)
		pause *= 2;
	return pause < POLICY_PAUSE_MAX_MS ? pause : POLICY_PAUSE_MAX_MS;
}

struct policy_decision policy_decide(struct policy *policy, const struct policy_end *end)
{
	bool ready = policy->ready;
	int number;

	policy->ready = false;
	if (WIFEXITED(end->status))
		return (struct policy_decision){ .step = POLICY_END, .status = WEXITSTATUS(end->status) };
	number = WTERMSIG(end->status);
	policy->how = how_of(end);
	if ((end->stopping && policy->how != POLICY_KILLED) ||
	    (end->cause == POLICY_ITSELF && number != SIGKILL && !is_fault(number)))
		return (struct policy_decision){ .step = POLICY_END, .status = SIGNALLED + number };
	if (ready)
		return (struct policy_decision){ .step = POLICY_NEXT, .pause_ms = pause_after(policy, end) };
	return decide_unready(policy);
}

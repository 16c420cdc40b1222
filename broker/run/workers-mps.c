/* SPDX-License-Identifier: Apache-2.0 */
/* workers-mps.c - see workers-mps.h */
#include "workers-mps.h"

#include <string.h>

#include "broker/base/log.h"
#include "common/error.h"
#include "common/mps.h"
#include "common/size.h"
#include "device/device.h"

/* ---- hints and messages ---- */

static void say_own(const struct workers_mps *mps)
{
	if (run_hints(mps->options))
		log_say("the workers run under an MPS daemon of their own: when one dies in a kernel, the CUDA calls "
			"of the others fail");
}

/*
 * Logs a hint that MPS is not used, if there are more workers than GPUs, so that several share one. Without MPS a GPU
 * runs one process at a time, and each change of the process waits for a time slice (facts.md). why: why MPS was not
 * started; "" if it was not asked for.
 */
static void say_without(const struct workers_mps *mps, const char *why)
{
	unsigned devices = mps->board->devices, workers = mps->options->workers;
	const char *advice = "--mps auto may be ten times as fast, see";

	if (!run_hints(mps->options) || mps->board->device_kind != DEVICE_CUDA || workers <= devices)
		return;
	if (mps_plan_too_many(workers, devices))
		advice = "they are too many for MPS, see";
	else if (mps->options->mps.mode != MPS_NO)
		advice = "see";
	log_say("hint: %u workers share %u GPU%s without MPS%s%s, so they take turns in time slices: %s broker-run(1) "
		"(--no-hints leaves this out)",
		workers, devices, PLURAL(devices), *why ? ": " : "", why, advice);
}

/* Logs that, if the first failed worker had a fault in a kernel, CUDA calls of the other workers fail, too. */
static void say_shared_fate(const struct workers_mps *mps, const struct children *children)
{
	if (run_hints(mps->options) && mps->plan == MPS_OWN)
		log_say("if worker %u died in a kernel, the CUDA calls of the others fail from now on, with "
			"CUDA_ERROR_ILLEGAL_ADDRESS as a rule: they share an MPS server",
			children->first);
}

/* ---- the start ---- */

int workers_mps_prepare(struct workers_mps *mps, const struct run_options *options)
{
	mps->options = options;
	mps->present = mps_is_here(NULL);
	mps->answers = mps->present && mps_answers();
	if (mps->present || options->mps.mode == MPS_NO || !strncmp(options->broker.device, "host", strlen("host")))
		return 0;
	return mps_daemon_prepare(&mps->daemon);
}

static void on_done(void *context, int error, const char *text)
{
	struct workers_mps *mps = context;

	if (!error) {
		say_own(mps);
	} else if (mps->options->mps.mode == MPS_AUTO) {
		mps->plan = MPS_WITHOUT;
		say_without(mps, text);
		error = 0;
	}
	mps->ready(mps->context, error, text);
}

int workers_mps_begin(struct workers_mps *mps, struct event_base *base, const struct board_header *board,
		      const char *directory, mps_daemon_done *ready, void *context)
{
	int error;

	mps->board = board;
	mps->ready = ready;
	mps->context = context;
	error = mps_plan_make(&mps->options->mps, mps->present, board, mps->options->workers, &mps->plan);
	if (error)
		return error;
	if (mps->plan == MPS_OWN) {
		mps_order_make(&mps->order, directory, board);
		error = mps_daemon_start(&mps->daemon, base, &mps->order, on_done, mps);
		if (error)
			on_done(mps, error, error_text());
		return 0;
	}
	if (mps->plan == MPS_PRESENT && mps->options->mps.mode == MPS_YES && !mps->answers)
		return error_set(-ECONNREFUSED, "CUDA_MPS_PIPE_DIRECTORY (/tmp/nvidia-mps unless set) leads to an MPS "
						"daemon that has ended: remove what it left there, or start it again");
	mps_daemon_stop(&mps->daemon);
	if (mps->plan == MPS_WITHOUT)
		say_without(mps, "");
	ready(context, 0, "");
	return 0;
}

bool workers_mps_under(const struct workers_mps *mps)
{
	return mps->plan == MPS_OWN || mps->plan == MPS_PRESENT;
}

int workers_mps_tell(const struct workers_mps *mps, struct children *children)
{
	if (mps->plan == MPS_OWN && !mps->daemon.serves)
		return error_set(-EIO,
				 "the MPS daemon of this job was ended before the workers began: see who ended it");
	return mps_plan_tell(children, &mps->options->mps, mps->plan, &mps->order, mps->board->devices);
}

/* ---- the end ---- */

void workers_mps_ended(struct workers_mps *mps, pid_t pid)
{
	mps_daemon_ended(&mps->daemon, pid);
}

void workers_mps_child(struct workers_mps *mps, const struct children *children, bool others_run)
{
	if (mps_daemon_lost(&mps->daemon))
		log_say("the MPS daemon of this job was ended: the CUDA calls of its workers fail, with "
			"CUDA_ERROR_MPS_RPC_FAILURE");
	if (others_run)
		say_shared_fate(mps, children);
}

void workers_mps_stop(struct workers_mps *mps)
{
	mps_daemon_stop(&mps->daemon);
}

void workers_mps_end(struct workers_mps *mps)
{
	mps_daemon_stop(&mps->daemon);
	mps_daemon_wait(&mps->daemon);
}

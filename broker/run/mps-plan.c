/* SPDX-License-Identifier: Apache-2.0 */
/* mps-plan.c - see mps-plan.h */
#include "mps-plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/base/uuid-text.h"
#include "common/error.h"
#include "device/device.h"

#define MIB (1ull << 20)

const char *const mps_modes[] = { [MPS_NO] = "no", [MPS_AUTO] = "auto", [MPS_YES] = "yes", NULL };

int take_mps_memory(void *field, const char *text)
{
	struct mps_options *options = field;
	const char *equals = strchr(text, '=');
	uint64_t device = DEVICE_MAX, size = 0;
	char number[32] = "";
	int error = 0;

	if (equals && equals - text >= (int)sizeof number)
		return error_set(-EINVAL, "'%.40s' names no device", text);
	if (equals) {
		snprintf(number, sizeof number, "%.*s", (int)(equals - text), text);
		error = number_parse(number, "device's number", 0, DEVICE_MAX - 1, &device);
	}
	if (!error)
		error = take_size_or_0(&size, equals ? equals + 1 : text);
	if (error)
		return error;
	if (size < MIB)
		return error_set(-EINVAL,
				 "'%.40s' is too small: MPS counts in MiB, and a worker's context alone needs hundreds "
				 "of them",
				 text);
	*(equals ? &options->memory[device] : &options->memory_each) = size;
	return 0;
}

/* ---- the decision ---- */

bool mps_plan_too_many(unsigned workers, unsigned devices)
{
	return workers > MPS_CLIENTS_MAX * devices;
}

static bool is_worth_it(const struct board_header *board, unsigned workers)
{
	return workers > board->devices && !mps_plan_too_many(workers, board->devices);
}

int mps_plan_make(const struct mps_options *options, bool present, const struct board_header *board, unsigned workers,
		     enum mps_plan *plan)
{
	bool cuda = board->device_kind == DEVICE_CUDA;

	if (options->mode == MPS_YES && !cuda)
		return error_set(-EINVAL,
				 "--mps yes is for GPUs, and these are host devices: leave it out, or use --mps auto");
	for (unsigned i = board->devices; i < DEVICE_MAX; i++)
		if (options->memory[i])
			return error_set(-ENODEV, "--mps-memory is given for device %u, and there are %u, from 0", i,
					 board->devices);
	if (present)
		*plan = MPS_PRESENT;
	else if (options->mode == MPS_YES || (options->mode == MPS_AUTO && cuda && is_worth_it(board, workers)))
		*plan = MPS_OWN;
	else
		*plan = MPS_WITHOUT;
	return 0;
}

/* ---- variables for the daemon and the workers ---- */

/*
 * Writes the value of CUDA_VISIBLE_DEVICES for the daemon and its clients to text: the UUIDs of the broker's GPUs,
 * because a daemon that sees only some GPUs numbers them anew for its clients. Writes "" if the variable need not be
 * set. For slices of divided GPUs (MIG) copies the variable, because it has the slices' own UUIDs already.
 */
static void list_visible(const struct board_header *board, char text[MPS_UUIDS_MAX])
{
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");
	size_t at = 0;

	*text = 0;
	if (!visible)
		return;
	if ((strstr(visible, "MIG") || strstr(board->device[0].name, "MIG")) && strlen(visible) < MPS_UUIDS_MAX) {
		strcpy(text, visible);
		return;
	}
	for (unsigned i = 0; i < board->devices; i++) {
		char uuid[UUID_TEXT_SIZE];

		at += (size_t)snprintf(text + at, MPS_UUIDS_MAX - at, "%sGPU-%s", i ? "," : "",
				       uuid_format(board->device[i].uuid, uuid));
	}
}

void mps_order_make(struct mps_order *order, const char *directory, const struct board_header *board)
{
	memset(order, 0, sizeof *order);
	snprintf(order->directory, sizeof order->directory, "%s/mps", directory);
	list_visible(board, order->visible);
}

/* Formats the memory limits in MiB, "0=4096M,1=512M": CUDA silently ignores a limit in KiB (docs/facts.md). */
static void format_memory(const struct mps_options *options, unsigned devices, char *text, size_t size)
{
	size_t at = 0;

	*text = 0;
	for (unsigned i = 0; i < devices; i++) {
		uint64_t bytes = options->memory[i] ? options->memory[i] : options->memory_each;

		if (bytes)
			at += (size_t)snprintf(text + at, size - at, "%s%u=%lluM", at ? "," : "", i,
					       (unsigned long long)(bytes / MIB));
	}
}

static int tell_limits(struct children *children, const struct mps_options *options, unsigned devices)
{
	char text[DEVICE_MAX * 32], percent[16];
	int error = 0;

	snprintf(percent, sizeof percent, "%u", options->threads);
	if (options->threads)
		error = children_set(children, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", percent);
	format_memory(options, devices, text, sizeof text);
	if (!error && *text)
		error = children_set(children, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", text);
	return error;
}

int mps_plan_tell(struct children *children, const struct mps_options *options, enum mps_plan plan,
		  const struct mps_order *order, unsigned devices)
{
	int error = 0;

	if (plan == MPS_WITHOUT)
		return 0;
	if (plan == MPS_OWN)
		error = children_set(children, "CUDA_MPS_PIPE_DIRECTORY", order->directory);
	if (!error && plan == MPS_OWN && *order->visible)
		error = children_set(children, "CUDA_VISIBLE_DEVICES", order->visible);
	return error ? error : tell_limits(children, options, devices);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * other-exports.c - two more kinds of export, which stand in a table alone: a program that has this file in place of
 * libbroker/common/export.c serves them, or opens them, on the host device. other-exports.sh runs such programs.
 */
#include "common/export.h"

const struct export exports[] = {
	[EXPORT_IPC] = { .name = "ipc", .close_waits = true, .ends_at_reset = true, .pid_matters = true },
	[EXPORT_VMM] = { .name = "vmm", .by_descriptor = true, .views = true, .growable = true },
	/* as handles for machines that share a fabric would be: the handle is enough, and there are views */
	{ .name = "fabric", .views = true },
	/* the reverse: it comes by a descriptor, and lives as memory that came by CUDA IPC */
	{ .name = "file", .by_descriptor = true, .views = true, .close_waits = true, .ends_at_reset = true },
};
const unsigned export_count = sizeof exports / sizeof exports[0];

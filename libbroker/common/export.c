/* SPDX-License-Identifier: Apache-2.0 */
/*
 * export.c - the table of the kinds of export (export.h). Nothing else is in this file, so a test can replace the
 * table.
 */
#include "export.h"

const struct export exports[] = {
	[EXPORT_IPC] = { .name = "ipc", .close_waits = true, .ends_at_reset = true, .pid_matters = true },
	[EXPORT_VMM] = { .name = "vmm", .by_descriptor = true, .views = true, .growable = true },
};
const unsigned export_count = EXPORT_KINDS;

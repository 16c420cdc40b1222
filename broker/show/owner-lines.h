/* SPDX-License-Identifier: Apache-2.0 */
/*
 * owner-lines.h - a few lines about the processes of a broker: which one owns the device memory (owner/process.h), or
 * that another one is starting, and how many owners and brokers have ended.
 *
 * For the table, --watch and broker-ctl doctor. Says only what the status says. Owns nothing.
 */
#ifndef GPUB_SHOW_OWNER_LINES_H
#define GPUB_SHOW_OWNER_LINES_H

#include "grid.h"
#include "read.h"

#define OWNER_LINES_MAX 5
#define OWNER_TEXT_MAX  160

struct owner_line {
	enum tone tone; /* TONE_ALARM: none owns the device memory, or all was lost; TONE_WARNING: one has ended */
	char      text[OWNER_TEXT_MAX];
};

/*
 * Fills in the first entries of `lines` and returns their number. 0: the broker is dead, and its owner with it; or the
 * broker is older than this program, and does not tell.
 */
size_t owner_lines(const struct shown *shown, struct owner_line lines[OWNER_LINES_MAX]);

#endif

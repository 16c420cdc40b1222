/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status-text.h - the books as JSON, piece by piece: the keys that broker-status(1) documents and keeps stable.
 *
 * Owns the piece that was made last and how far the text has come. The books may change between two pieces: what is
 * behind stands as it was, what is ahead will stand as it is then, and nothing stands twice. A piece takes as long as
 * it is long, whatever is in the books. Takes only what anybody who may read the file may know: no key, handle, ticket
 * or address.
 */
#ifndef GPUB_STATUS_TEXT_H
#define GPUB_STATUS_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STATUS_PIECE 65536

struct broker;

struct status_text {
	unsigned array;  /* which of the text's arrays is being made */
	bool     inside; /* it is begun */
	bool     comma;  /* what comes next needs one before it */
	bool     whole;  /* there is no more */
	uint64_t cursor; /* in the array: what comes next, or for sessions what came last */
	size_t   length; /* of the piece */
	char     piece[STATUS_PIECE];
};

void status_text_begin(struct status_text *text);

/* Makes the next piece, which may be empty. */
void status_text_next(struct status_text *text, const struct broker *broker);

#endif

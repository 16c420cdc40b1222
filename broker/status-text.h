/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status-text.h - the books as JSON: the keys that broker-status(1) documents and keeps stable.
 *
 * Owns nothing. Takes only what anybody who may read the file may know: no key, handle, ticket or address.
 */
#ifndef GPUB_STATUS_TEXT_H
#define GPUB_STATUS_TEXT_H

struct broker;

/* The text, to be freed by the caller; NULL when memory is short. */
char *status_text(const struct broker *broker);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * speaker.h - the protocol spoken by hand, so that it can be spoken wrongly.
 *
 * Owns one connection and what came over it. Checks nothing that it sends; looks at all that it receives for bytes that
 * only another user may see. Knows nothing of tests: it returns what came.
 */
#ifndef GPUB_TESTS_SPEAKER_H
#define GPUB_TESTS_SPEAKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/board.h"
#include "common/wire.h"

struct speaker {
	int          sock, board_fd; /* the descriptor as it came; -1 */
	int          memory_fd;      /* the last that came with MEMORY; -1 */
	uint64_t     session, request;
	uint8_t      key[WIRE_KEY_SIZE];
	struct board board;
};

/* Where the broker listens, and bytes that must never be received ("canary"): before the first call. */
void speaker_setup(const char *path, const void *canary, size_t size);

/* Whether those bytes have been received by this process. */
bool speaker_saw_canary(void);

/* ---- from the connection to the welcome, step by step or at once: 0 or a negative errno ---- */

int  speaker_dial(struct speaker *speaker);
int  speaker_hello(struct speaker *speaker, struct wire_message *hello); /* reads CHALLENGE, makes what answers it */
int  speaker_welcome(struct speaker *speaker);                           /* reads it; a refusal's errno */
int  speaker_greet(struct speaker *speaker);                             /* all three */
void speaker_end(struct speaker *speaker);                               /* closes; says nothing */

/* ---- messages ---- */

/* A message with its name filled in where it has one, and what makes sense beside it. */
struct wire_message speaker_message(enum wire_type type, const char *name);

/* Sends that many bytes as one message. -EAGAIN where flags has MSG_DONTWAIT. */
int speaker_send(const struct speaker *speaker, const void *bytes, size_t size, int flags);
int speaker_say(const struct speaker *speaker, const struct wire_message *message);

/* The same with descriptors. */
int speaker_send_fds(const struct speaker *speaker, const struct wire_message *message, const int *fds, unsigned count);

/* The next message, within ten seconds: -ETIMEDOUT; -ECONNRESET the end; fd NULL: a descriptor is not wanted. */
int speaker_receive(const struct speaker *speaker, struct wire_message *message, int *fd);

/* Takes what is there until the end. 0: it came; -ETIMEDOUT. */
int speaker_receive_end(const struct speaker *speaker);

/* Asks and waits for that request's answer, notices passed over. The refusal's errno, or another failure's. */
int speaker_ask(struct speaker *speaker, const struct wire_message *message, struct wire_message *answer, int *fd);

/* ---- whole requests ---- */

int speaker_create(struct speaker *speaker, const char *name, uint64_t size, unsigned mode, unsigned flags);
int speaker_named(struct speaker *speaker, enum wire_type type, const char *name); /* UNLINK, STAT */
int speaker_acquire(struct speaker *speaker, const char *name, unsigned rights, struct wire_grant *grant);
int speaker_redeem(struct speaker *speaker, const struct ticket *ticket, struct wire_grant *grant);
int speaker_closed(const struct speaker *speaker, uint64_t mapping); /* no answer comes */
int speaker_quiesced(const struct speaker *speaker, uint64_t mapping, uint64_t serial);
int speaker_issue(struct speaker *speaker, const char *name, const struct wire_issue *terms, struct ticket *ticket);

/* Opens the GRANT's sealed handle. -EKEYREJECTED: it is not this session's. */
int speaker_unseal(const struct speaker *speaker, const struct wire_grant *grant, struct device_handle *handle);

/* Maps what was granted, as the host device does it but without the lock that tells its owner. NULL: it cannot be. */
void *speaker_map(const struct speaker *speaker, const struct wire_grant *grant);

#endif

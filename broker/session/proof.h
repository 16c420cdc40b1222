/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proof.h - asks the devices whether a dead process is gone from there too.
 *
 * Pidfd and hang-up say that a process is dead (invariant 9). Both can come early: a client that forked a child and
 * closed its socket in both leaves the child the GPU's descriptors, and with them its running kernels; under MPS a server
 * may run them. Where the driver lists processes it lists this one until its work is torn down (facts.md), so the end of
 * a session that has grants waits for that. Owns the questions. Never blocks the loop: a thread that is no device's asks
 * (workers.h).
 */
#ifndef GPUB_PROOF_H
#define GPUB_PROOF_H

#include <stdbool.h>

struct session;

enum proof_state {
	PROOF_NONE,    /* not begun */
	PROOF_ASKING,  /* the device lists it still */
	PROOF_LACKING, /* no device can tell: held for the broker's life */
};

/*
 * The session's process is dead and its socket hung up. session_proven() follows when no device has anything of it any
 * more; never, where none can tell. Later calls do nothing.
 */
void proof_begin(struct session *session);

#endif

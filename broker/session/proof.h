/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proof.h - asks the devices whether a dead process is gone from there too.
 *
 * Pidfd and hang-up say that a process is dead (invariant 9). Both can come early: a client that forked a child and
 * closed its socket in both leaves the child the GPU's descriptors, and with them its running kernels; under MPS a server
 * may run them. Where the driver lists processes it lists this one until its work is torn down (facts.md), so the end of
 * a session that has grants waits for that. Owns the questions. Never blocks the loop: a thread that is no device's asks
 * (workers.h). Never decides what follows.
 */
#ifndef GPUB_PROOF_H
#define GPUB_PROOF_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct broker;
struct event;
struct proof;

/* Who asks. */
struct proof_hooks {
	/* The proof that bears that id; NULL: it is gone, and its answer is of no use. */
	struct proof *(*find)(struct broker *broker, uint64_t id);
	/* No device has anything of the process any more. */
	void (*proven)(struct proof *proof);
	/* Nobody can tell, text says why: what the process mapped stays allocated for the broker's life. */
	void (*unproven)(struct proof *proof, const char *text);
};

enum proof_state {
	PROOF_NONE,      /* not begun */
	PROOF_ASKING,    /* a device lists the process still */
	PROOF_IMPOSSIBLE /* no device can tell */
};

/* Set all but the last members, which are proof.c's; zero those. */
struct proof {
	struct broker            *broker;
	const struct proof_hooks *hooks;
	uint64_t                  id;
	uid_t                     uid;
	pid_t                     pid;
	bool                      mps; /* it said that it ran under MPS */

	enum proof_state state;
	unsigned         asked, pause_us;
	struct event    *again; /* when it is asked next */
};

/* The process is dead and its socket hung up. One hook follows, maybe at once. Later calls do nothing. */
void proof_begin(struct proof *proof);

/* It is asked no more. One that was not begun is fine. */
void proof_end(struct proof *proof);

#endif

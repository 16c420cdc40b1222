/* SPDX-License-Identifier: Apache-2.0 */
/*
 * master-key.h - the secret from which a broker's other keys are derived, so that the next broker, which is given the
 * same secret, has the same keys, and no key stands in the ledger.
 *
 * Owns the secret, in memory of sodium_malloc(). A derived key tells nothing of the secret or of other derived keys.
 */
#ifndef GPUB_MASTER_KEY_H
#define GPUB_MASTER_KEY_H

#include <stddef.h>
#include <stdint.h>

#define MASTER_KEY_SIZE 32

/* What a derived key is for. */
enum master_use {
	MASTER_SESSION, /* seals the handles of the session with the id */
	MASTER_TICKETS, /* stamps tickets; the number is 0 */
	MASTER_USES
};

/* All zeroes: there is no secret. */
struct master_key {
	uint8_t *secret;
};

/*
 * Takes the secret from a descriptor of master_key_share(), which stays the caller's; -1: makes a random secret.
 * Returns 0, or a negative errno with the error message set. -EBADMSG: the descriptor has no secret.
 */
int master_key_init(struct master_key *master, int fd);

/*
 * Returns a descriptor of sealed memory with the secret, for the keeper alone; or a negative errno with the error
 * message set. Owners close all descriptors that they inherit, so they never have it.
 */
int master_key_share(const struct master_key *master);

/* Derives the key of `size` bytes, from 16 to 64, for the use and the number. */
void master_key_derive(const struct master_key *master, enum master_use use, uint64_t number, uint8_t *key,
		       size_t size);

/* Does nothing if there is no secret. */
void master_key_deinit(struct master_key *master);

#endif

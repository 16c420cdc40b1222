/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kept.h - the descriptors that outlive a broker: a table of descriptors by a 64-bit key.
 *
 * The keeper puts into its table what the broker asks it to keep. A broker, which is forked from the keeper, inherits
 * the table with the descriptors: for the broker it is the list of what the brokers before it left. Owns the
 * descriptors in it. Never knows what a descriptor or a key is.
 */
#ifndef GPUB_KEEPER_KEPT_H
#define GPUB_KEEPER_KEPT_H

#include <stdbool.h>
#include <stdint.h>

struct handover;
struct kept_fd;

/* All zeroes: an empty table. Needs tables_init(). */
struct kept {
	struct kept_fd *by_key;
};

/*
 * Stores fd, which is the table's from then on, under the key, and closes the descriptor that had the key before.
 * Returns 0; -ENOMEM: the table is unchanged, and fd is the caller's.
 */
int kept_put(struct kept *kept, uint64_t key, int fd);

/* Returns the descriptor, which stays in the table; -1: there is none with this key. */
int kept_find(const struct kept *kept, uint64_t key);

/* Removes the descriptor from the table and returns it, now the caller's; -1: there is none with this key. */
int kept_take(struct kept *kept, uint64_t key);

/* Removes the descriptor from the table and closes it. Returns false if there is none with this key. */
bool kept_drop(struct kept *kept, uint64_t key);

/* Calls visit() for each descriptor. visit() may take or drop that descriptor, and no other one. */
void kept_each(struct kept *kept, void (*visit)(void *context, uint64_t key, int fd), void *context);

unsigned kept_count(const struct kept *kept); /* returns the number of descriptors */

/* Adds all descriptors, which stay the table's, with their keys. */
void kept_pack(struct kept *kept, struct handover *handover);

/* Stores what kept_pack() has added in the program before. Returns 0, or -ENOMEM with the error message set. */
int kept_resume(struct kept *kept, const struct handover *from);

void kept_clear(struct kept *kept); /* closes all descriptors */

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handover.h - what a program passes on to the program that it executes in its own place: descriptors and numbers.
 *
 * The process stays the same, with its children, and its memory is gone. So all that must survive is an entry of a kind
 * that both programs know, in a memfd whose number is in the environment. Kinds are only added and never change, and a
 * program passes over those that it does not know: so programs of two releases understand each other. Owns the entries.
 * The descriptors in them belong to whoever has added them and, in the program that is executed, to whoever takes them.
 */
#ifndef GPUB_KEEPER_HANDOVER_H
#define GPUB_KEEPER_HANDOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum handover_kind {
	HANDOVER_PURPOSE = 1,      /* enum handover_purpose */
	HANDOVER_KEPT = 2,         /* a descriptor of the keeper's table (kept.h), and its key; any number of entries */
	HANDOVER_OWNER = 3,        /* pid of the owner that runs; 0: none does */
	HANDOVER_OWNERS = 4,       /* number of owners that have begun */
	HANDOVER_OWNER_STATUS = 5, /* how the last owner ended */
	HANDOVER_OWNER_SPEAKS = 6, /* OWNER_VERSION of the owner */
	HANDOVER_BROKERS = 7,      /* number of brokers that have begun */
	HANDOVER_COLD_STARTS = 8,
	HANDOVER_DEATH = 9,        /* CLOCK_MONOTONIC in ns when the last broker's end was noticed */
	HANDOVER_HOW = 10,         /* enum policy_how: how the last broker ended */
	HANDOVER_BOARD = 11,       /* a descriptor for board_adopt() */
	HANDOVER_NOTIFY = 12,      /* the service manager's socket, and the microseconds of its watchdog */
	HANDOVER_IMAGE = 13,       /* a descriptor of the previous program's file */
	HANDOVER_CONFIG = 14,      /* a descriptor of the configuration with which the program began */
};

enum handover_purpose {
	HANDOVER_TRIAL = 1,  /* looks whether it could go on; a child of the program that serves */
	HANDOVER_GOES_ON = 2
};

struct handover_entry {
	uint32_t kind;
	int32_t  fd; /* -1: the entry has no descriptor */
	uint64_t value;
};

/* All zeroes: empty. */
struct handover {
	struct handover_entry *entry;
	size_t                 count, room;
	bool                   failed; /* an entry could not be added */
};

/* Adds an entry. Where memory lacks, handover_exec() fails. */
void handover_add(struct handover *handover, enum handover_kind kind, uint64_t value, int fd);

/* Returns the first entry of the kind; NULL: there is none. */
const struct handover_entry *handover_find(const struct handover *handover, enum handover_kind kind);

/* Returns the value or the descriptor of the first entry of the kind; without one 0, and -1. */
uint64_t handover_value(const struct handover *handover, enum handover_kind kind);
int handover_fd(const struct handover *handover, enum handover_kind kind);

/*
 * Executes the program that the descriptor leads to, with the arguments and this program's environment, and passes the
 * entries on. All other descriptors that are close-on-exec are closed. Returns only if that fails: a negative errno
 * with the error message set, and nothing has changed.
 */
int handover_exec(const struct handover *handover, int program, char *const argv[]);

/*
 * Takes what was passed on to this program, whose descriptors are close-on-exec from then on, and forgets it in the
 * environment. Returns 1; 0: nothing was passed on; or -EBADMSG or -ENOMEM with the error message set.
 */
int handover_take(struct handover *handover);

/* Frees the entries. The descriptors stay open. */
void handover_free(struct handover *handover);

#endif

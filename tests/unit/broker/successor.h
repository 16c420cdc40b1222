/* SPDX-License-Identifier: Apache-2.0 */
/*
 * successor.h - a second broker in this process, which loads the ledger of the harness's broker and serves nobody.
 *
 * It inherits duplicates of the descriptors that a keeper has, which reads the living broker's line as keeper.c does.
 * Its orders wait for an owner that never starts, its words and ends are in a board of its own. So it can be made after
 * each change of the living broker, and be compared with that.
 */
#ifndef GPUB_TESTS_SUCCESSOR_H
#define GPUB_TESTS_SUCCESSOR_H

#include "broker-text.h"
#include "session-harness.h"

#include "broker/core/inherited.h"
#include "broker/core/keep.h"
#include "broker/core/load.h"
#include "broker/core/note.h"
#include "broker/keeper/kept.h"

extern struct broker successor;
extern struct note note; /* of the harness's broker, after successor_note() */

/* Has the harness's broker note what it has, in each broker_publish(). Called when a test begins. */
void successor_note(void);

/* Ends that. Called when a test ends, before the teardown of the harness. */
void successor_forget(void);

/* A session of another user, charged to that one; a successor takes it for one, too. */
struct peer join_as_charged(uid_t uid);

/* Called after each commit. NULL: nothing. */
extern void (*successor_committed)(void);

/* Has the keeper carry out what is in the line. */
void keeper_read(void);

/* The keeper reads its line only in keeper_read(), and for a load; or at all times again. */
void keeper_hang(bool hangs);

unsigned     keeper_puts(void); /* returns the number of PUTs that were carried out */
struct kept *keeper_kept(void); /* returns what the keeper has */

/* Loads a ledger into a new successor, at once or in two steps. Returns what load_ledger() returns. */
int successor_load(int ledger, struct loaded *loaded);
void successor_begin(void);
int successor_go_on(int ledger, struct loaded *loaded);

/* When the living broker seems to be killed: it has received a message, or has noted all that the message changes. */
enum successor_moment { KILL_RECEIVED, KILL_COMMITTED, KILL_MOMENTS };

/* Copies the ledger at that moment of the next message. successor_is_killed(): that was done. */
void successor_kill_at(enum successor_moment moment);
bool successor_is_killed(void);

/*
 * Loads the copy and goes on where it ends, then fails unless the successor equals the living broker, if the device has
 * no work that the successor's never does. Called when the living broker has handled the message.
 */
void successor_expect_same_effect(void);

struct inherited *successor_inherited(void); /* returns what the successor that is loaded has inherited */

/* Ends the successor, and frees nothing that the living broker has. */
void successor_end(void);

/* Fails unless both texts are the same, and says which lines differ. Frees both. */
void expect_same(const char *what, char *one, char *other);

/*
 * Fails unless a successor, after it has loaded a copy of the ledger, notes the same in a new ledger, which has the
 * hand, too, and leaves the copy as it is. damaged: as note_loaded() has it.
 */
void expect_replaced_ledger(bool damaged);

/*
 * Fails unless the ledger has what the living broker has, the successor that loads it is its equal, and notes the same
 * when it goes on with it.
 */
void expect_equal_successor(void);

#endif

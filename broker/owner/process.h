/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process.h - the broker's side of the owner's process: speaks the first words to it, and closes its sockets at the
 * end.
 *
 * The owner's process (forked.h) has no descriptor of the broker but its ends of the socket pairs and standard error.
 * The keeper forks it, and has a duplicate of the broker's end of its socket: so a broker that does not end regularly
 * leaves the owner to the next one. An owner ends regularly when a broker ends its side of all sockets. Owns the
 * broker's ends of the socket pairs.
 */
#ifndef GPUB_OWNER_PROCESS_H
#define GPUB_OWNER_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "start.h"

struct line;

/* An owner, or a place for one. All zeros before open(). The sockets are the broker's ends, non-blocking. */
struct owner_link {
	struct line *line;             /* to the keeper that forks owners; NULL: in a unit test */
	bool     runs;                 /* the keeper has an owner whose end it has not told yet */
	int      ended;                /* readable when the owner has ended; -1: never */
	int      sock;                 /* for setup and end; -1: there is no owner */
	pid_t    pid;                  /* of the owner, which exports the memory; known when it has answered */
	uint64_t broker;               /* which of the owner's brokers this is (serve.h); 0: the first */
	unsigned awaited;              /* number of answers to this broker that were not received yet */
	unsigned lanes;                /* number of lanes: one more than there are devices */
	int      lane[DEVICE_MAX + 1]; /* for orders (serve.h) */
	bool     crashed;              /* the last owner has ended otherwise than the broker asked it to */
	bool     killed;               /* by SIGKILL: nothing that it did has ended it */
};

/* A way to run owners, one after the other. */
struct owner_place {
	/* Prepares the place. Returns 0, or a negative errno with the error message set. */
	int (*open)(struct owner_link *link);
	/* Starts an owner that waits for its setup. Returns 0, or a negative errno with the error message set. */
	int (*begin)(struct owner_link *link);
	/* Ends the owner at once, whatever it does; link->ended tells when it has ended. */
	void (*kill)(struct owner_link *link);
	/*
	 * Ends the link, waits until the owner has ended, and sets `crashed` and `killed`. Does nothing if there is
	 * none.
	 */
	void (*end)(struct owner_link *link);
	/* Undoes open(), after end(). Does nothing if the place is not open. */
	void (*close)(struct owner_link *link);
};

/*
 * Sends the setup, waits until the devices have started, and makes the lanes. Returns 0 and *facts, or a negative errno
 * with the error message set: those of owner_start(), socketpair(2) and thread_start(); -ECONNRESET: the owner ended.
 */
int owner_link_start(struct owner_link *link, const struct owner_setup *setup, struct owner_facts *facts);

/*
 * The steps of owner_link_start(), for a loop that does not wait: sends the setup, then makes `count` lanes, as many as
 * there were before and one, then receives answers when link->sock can be read. Return 0 or a negative errno with the
 * error message set.
 */
int owner_link_setup(struct owner_link *link, const struct owner_setup *setup);
int owner_link_lanes(struct owner_link *link, unsigned count);

/* Returns 0 and *facts when all answers have come; -EAGAIN: not yet. */
int owner_link_answer(struct owner_link *link, struct owner_facts *facts);

/*
 * Joins an owner that has served another broker, which has ended: makes new lanes to the owner, through which the owner
 * first lists what it has and has done (serve.h). sock: a duplicate of that broker's end of the owner's socket; it
 * belongs to the link from now on, also after a failure. broker: a number other than 0 that no broker of this owner had
 * before. The rest of *link is zero, or as open() has left it. Returns as owner_link_start(); -ECONNRESET: the owner
 * has ended, or had no setup. Waits for no device call, but until the devices have started.
 */
int owner_link_join(struct owner_link *link, int sock, uint64_t broker, struct owner_facts *facts);

/*
 * The first step of owner_link_join(), for a loop that does not wait: tells the owner that another broker has come. The
 * other steps are owner_link_answer(), owner_link_lanes() and owner_link_answer(). Returns as owner_link_join();
 * -EAGAIN, without an error message: the owner has not received all that the brokers before sent. Then the caller calls
 * this function again a little later.
 */
int owner_link_come(struct owner_link *link, int sock, uint64_t broker);

/*
 * Ends the broker's side of all sockets, waits until the owner has carried out all orders and ended its side, and
 * closes them. For end().
 */
void owner_link_close(struct owner_link *link);

/* Closes the lanes. */
void owner_link_close_lanes(struct owner_link *link);

/* Closes the sockets of an owner that has ended. For end(). */
void owner_link_drop(struct owner_link *link);

/*
 * Begins a link without lanes. Returns the owner's end of its socket, or a negative errno with the error message set.
 * For begin().
 */
int owner_link_open(struct owner_link *link);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * line.h - what a broker asks of its keeper, over a socket pair: to keep descriptors, and to begin and kill owners.
 *
 * A broker's requests are carried out in the order in which they were made, also if the broker dies after it has sent
 * them: the keeper reads the line of a dead broker to its end before it forks the next one. So a descriptor is kept
 * from the moment at which its PUT is sent: a broker that is about to depend on that calls line_flush_wait(). Only
 * BEGIN is answered, when the owner ends. The broker's side never blocks but in line_flush_wait(), and the keeper never
 * waits for the broker. Owns the broker's end of the line, and the requests that the socket has no room for. Belongs to
 * the thread of the broker's loop.
 *
 * Nobody's loop may make the last close of memory or of a client's socket, since that can take long:
 * - device memory is dropped only while the owner has a duplicate, so that the last close is the owner's;
 * - a socket is dropped here first, and closed by a thread of the broker when the DROP has been sent.
 */
#ifndef GPUB_KEEPER_LINE_H
#define GPUB_KEEPER_LINE_H

#include <stdbool.h>
#include <stdint.h>

#include <event2/event.h>

enum line_kind {
	LINE_ALIVE, /* the broker holds the mutex of alive.h; sent before all others, by keeper.c */
	LINE_PUT,   /* keeps the descriptor under the key, in place of what was kept there */
	LINE_DROP,  /* closes what is kept under the key */
	LINE_READY, /* the broker has taken over what the last one left, and serves */
	LINE_BEGIN, /* forks an owner that serves the socket which comes with the request; none runs */
	LINE_KILL,  /* ends the owner by SIGKILL, if one runs */
	LINE_KINDS
};

/* A packet (owner/packet.h). */
struct line_request {
	uint64_t kind; /* enum line_kind */
	uint64_t key;  /* of PUT and DROP; 0 for the others */
};

/* ---- the broker's side ---- */

struct line_queued;

struct line {
	int                 sock;     /* -1: the line is not open */
	struct line_queued *queue;    /* requests that are not sent yet, with duplicates of their descriptors */
	struct event       *writable; /* sends the queue when the socket has room */
	struct event       *pause;    /* sends the queue after a pause, where the socket has room and the kernel none */
};

/* Opens the broker's side, and owns the socket from then on. Returns 0, or -ENOMEM with the error message set. */
int line_open(struct line *line, struct event_base *base, int sock);

/* Closes the socket. Requests that are not sent are dropped. Does nothing if the line is not open. */
void line_close(struct line *line);

/*
 * Send a request, or queue it. Descriptors stay the caller's, which may close them at once. Return 0; -ECONNRESET: the
 * keeper has ended; -ENOMEM, -EMFILE: the request can neither be sent nor queued. With the error message set.
 */
int line_put(struct line *line, uint64_t key, int fd);
int line_drop(struct line *line, uint64_t key);
int line_ready(struct line *line);
int line_begin(struct line *line, int sock); /* the last owner has ended; line_owner_ended() tells of this one */
int line_kill(struct line *line);

/* Sends LINE_ALIVE over a line that is not open yet. Returns 0, or -ECONNRESET: the keeper has ended. */
int line_say_alive(int sock);

/* Waits until all requests are sent. Returns 0, or -ECONNRESET with the error message set: the keeper has ended. */
int line_flush_wait(struct line *line);

/*
 * Receives how an owner ended, when line->sock can be read: its status of wait(2), or -1 if none could be forked, which
 * the owner's socket has told, too. Returns 0; -EAGAIN: no owner has ended; -ECONNRESET: the keeper has ended.
 */
int line_owner_ended(struct line *line, int *status);

/* ---- the keeper's side, whose socket is non-blocking ---- */

/*
 * Receives a request. Stores the descriptor of a PUT or BEGIN, now the caller's; -1: the request has none; -EMFILE: it
 * was lost, because this process has no descriptor left. Returns 0; -EAGAIN: none has come; -ECONNRESET: the broker's
 * end is closed; -EPROTO: what came is no request, and was dropped.
 */
int line_receive(int sock, struct line_request *request, int *fd);

/* Tells the broker how its owner ended. Returns 0; -EAGAIN: not now; -ECONNRESET: the broker's end is closed. */
int line_tell(int sock, int status);

#endif

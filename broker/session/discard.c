/* SPDX-License-Identifier: Apache-2.0 */
/* discard.c - see discard.h */
#include "discard.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <event2/event.h>
#include <utlist.h>

#include "broker/users/accounting.h"
#include "common/error.h"
#include "common/socket.h"
#include "common/tables.h"
#include "common/thread.h"

#define MOST_MAX     4096 /* largest value of discard.most */
#define MOST_PART    8    /* a user may have 1/MOST_PART of the process's limit of open files pending */
/* largest number of threads: while closes of fewer users block, they do not delay those of others */
#define THREADS_MAX  64
#define STOP_SECONDS 1    /* seconds that discard_stop() waits for the threads at most */
/* number of pending sockets from which on no connections are accepted (discard_is_behind()) */
#define SOCKETS_MAX  64
/* used in place of a uid for the pending sockets of all users, whose closes do not block */
#define SOCKETS      ((uid_t)-1)

/* An item to close: the descriptors of one packet, or one socket with unread messages. Linked in two lists. */
struct discarded {
	uid_t                uid;
	struct discard_user *user;
	struct charge        charge;
	unsigned             count;
	int                  fds[SOCKET_DESCRIPTORS_MAX];
	struct discarded    *prev, *next;                 /* links in the list user->items */
	struct discarded    *queue_prev, *queue_next;     /* links in the list user->queue or closers->done */
};

struct discard_user {
	uid_t               uid;
	unsigned            pending; /* number of the user's descriptors that are not closed yet */
	struct discarded   *items;   /* list of all items of the user that are not closed yet */
	UT_hash_handle      hh;      /* handle in the hash table discard->users */

	/* the members below are protected by closers->lock */
	struct discarded   *queue;   /* items that no thread has begun to close */
	bool                served;  /* a thread is closing an item of the user */
	struct discard_user *prev, *next; /* links in the list closers->ready */
};

/* State that the threads share with the loop. discard_stop() frees it, or the last thread if the close of one hangs. */
struct closers {
	pthread_mutex_t      lock;
	/* signalled when an item was queued, a thread has ended, or `stopping` was set */
	pthread_cond_t       changed;
	/* users that have items in their queue and are not served; the next one to serve is first */
	struct discard_user *ready;
	struct discarded    *done;      /* items whose descriptors are closed, for the loop to refund and free */
	unsigned             threads;   /* number of threads */
	unsigned             idle;      /* number of threads that are not closing anything */
	bool                 stopping;  /* discard_stop() has begun; a thread that has nothing to close ends */
	bool                 abandoned; /* discard_stop() has left threads running; the last one frees this struct */
	struct discard_user *users;     /* from discard_stop() on: all users, which closers_free() frees; NULL before */
	int                  wake;      /* eventfd that wakes the loop when an item was added to done */
	int                  slot;      /* copy of wake with a low number, at which close_at_exit() puts a socket */
};

/* ---- the threads ---- */

static void closers_free(struct closers *closers);
static void *closer_main(void *argument);

/*
 * Starts a thread unless one is idle or THREADS_MAX run, so that the next user is served at once. Called with the lock
 * taken, or before any thread runs. Returns 0 or a negative errno.
 */
static int closer_start(struct closers *closers)
{
	pthread_t thread;
	int error;

	if (closers->idle || closers->threads == THREADS_MAX)
		return 0;
	error = thread_start(&thread, closer_main, closers);
	if (error)
		return error;
	pthread_detach(thread);
	closers->threads++;
	closers->idle++;
	return 0;
}

/* State that close_at_exit() and its thread share. */
struct last_holder {
	int   slot;   /* number of the socket in the thread's table of descriptors */
	sem_t has_it; /* posted when the thread has its own table of descriptors, with the socket in it */
	sem_t alone;  /* posted when the thread's table has the only descriptor of the socket */
};

static void wait_for(sem_t *semaphore)
{
	while (sem_wait(semaphore))
		;
}

/*
 * Main function of the thread of close_at_exit(). Copies its table of descriptors up to holder->slot, waits until all
 * other descriptors of the socket in that slot are closed, and exits, which closes the last one.
 */
static void *last_holder_main(void *argument)
{
	struct last_holder *holder = argument;

	syscall(SYS_close_range, holder->slot + 1, ~0u, CLOSE_RANGE_UNSHARE);
	sem_post(&holder->has_it);
	wait_for(&holder->alone);
	return NULL;
}

/*
 * Closes a client's socket, and with it the unread descriptors in its queue, by the exit of a thread that has the only
 * descriptor of the socket. The kernel does not let a thread that exits wait for sockets that linger (PF_EXITING in
 * inet_release()), and a descriptor that nobody received is never flushed. So the close takes the same time whatever
 * the client sent. Before Linux 5.9 (close_range(2)), or if that thread cannot start, the calling thread makes the last
 * close, which may block.
 */
static void close_at_exit(struct closers *closers, int sock)
{
	struct last_holder holder = { .slot = closers->slot };
	pthread_t thread;
	bool started;

	sem_init(&holder.has_it, 0, 0);
	sem_init(&holder.alone, 0, 0);
	started = dup3(sock, closers->slot, O_CLOEXEC) >= 0 && !thread_start(&thread, last_holder_main, &holder);
	if (started)
		wait_for(&holder.has_it);
	close(sock);
	dup3(closers->wake, closers->slot, O_CLOEXEC);
	if (!started)
		return;
	sem_post(&holder.alone);
	pthread_join(thread, NULL); /* returns before the kernel closes the thread's descriptors */
}

static void close_item(struct closers *closers, const struct discarded *item)
{
	if (item->user->uid == SOCKETS) {
		close_at_exit(closers, item->fds[0]);
		return;
	}
	for (unsigned i = 0; i < item->count; i++)
		close(item->fds[i]);
}

/* Closes one item of the first user in closers->ready. Called with the lock taken; releases it during the close. */
static void serve_user(struct closers *closers)
{
	struct discard_user *user = closers->ready;
	struct discarded *item = user->queue;

	DL_DELETE(closers->ready, user);
	DL_DELETE2(user->queue, item, queue_prev, queue_next);
	user->served = true;
	closers->idle--;
	closer_start(closers); /* if this fails, other users wait for the close below */
	pthread_mutex_unlock(&closers->lock);
	close_item(closers, item);
	pthread_mutex_lock(&closers->lock);
	closers->idle++;
	user->served = false;
	if (user->queue)
		DL_APPEND(closers->ready, user);
	DL_APPEND2(closers->done, item, queue_prev, queue_next);
	eventfd_write(closers->wake, 1);
}

/*
 * Main function of a closing thread. Closes items until none is queued, and then ends if another thread is idle or the
 * broker stops.
 */
static void *closer_main(void *argument)
{
	struct closers *closers = argument;
	bool last;

	pthread_mutex_lock(&closers->lock);
	while (closers->ready || (!closers->stopping && closers->idle == 1)) {
		if (closers->ready)
			serve_user(closers);
		else
			pthread_cond_wait(&closers->changed, &closers->lock);
	}
	closers->idle--;
	closers->threads--;
	last = closers->abandoned && !closers->threads;
	pthread_cond_broadcast(&closers->changed);
	pthread_mutex_unlock(&closers->lock);
	if (last)
		closers_free(closers);
	return NULL;
}

/* Allocates the shared state, without starting a thread. Returns 0 or a negative errno with the error message set. */
static int closers_new(struct closers **result)
{
	struct closers *closers = calloc(1, sizeof *closers);
	int error;

	if (!closers)
		return error_set(-ENOMEM, "the broker is out of memory");
	closers->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (closers->wake < 0)
		goto refuse;
	closers->slot = fcntl(closers->wake, F_DUPFD_CLOEXEC, 0);
	if (closers->slot < 0)
		goto refuse;
	pthread_mutex_init(&closers->lock, NULL);
	pthread_cond_init(&closers->changed, NULL);
	*result = closers;
	return 0;
refuse:
	error = error_set(-errno, "the thread that closes descriptors cannot start: %m");
	if (closers->wake >= 0)
		close(closers->wake);
	free(closers);
	return error;
}

/* Frees the shared state, with the users and items in closers->users. No other thread may use it. */
static void closers_free(struct closers *closers)
{
	struct discard_user *user, *next_user;
	struct discarded *item, *next;

	HASH_ITER(hh, closers->users, user, next_user) {
		DL_FOREACH_SAFE(user->items, item, next)
			free(item);
		HASH_DEL(closers->users, user);
		free(user);
	}
	pthread_cond_destroy(&closers->changed);
	pthread_mutex_destroy(&closers->lock);
	close(closers->slot);
	close(closers->wake);
	free(closers);
}

/*
 * Takes over the users. Waits until the threads have closed all queued items and have ended, but for STOP_SECONDS at
 * most. Then frees the shared state, or leaves that to the last thread.
 */
static void closers_stop(struct closers *closers, struct discard_user *users)
{
	struct timespec deadline;
	int error = 0;
	bool ended;

	clock_gettime(CLOCK_REALTIME, &deadline);
	deadline.tv_sec += STOP_SECONDS;
	pthread_mutex_lock(&closers->lock);
	closers->users = users;
	closers->stopping = true;
	pthread_cond_broadcast(&closers->changed);
	while (closers->threads && !error)
		error = pthread_cond_timedwait(&closers->changed, &closers->lock, &deadline);
	ended = !closers->threads;
	closers->abandoned = !ended;
	pthread_mutex_unlock(&closers->lock);
	if (ended)
		closers_free(closers);
}

/* ---- whose descriptors are pending ---- */

static struct discard_user *user_find(const struct discard *discard, uid_t uid)
{
	struct discard_user *user;

	HASH_FIND(hh, discard->users, &uid, sizeof uid, user);
	return user;
}

/* Returns the struct discard_user of the user, and allocates it if there is none. NULL: the broker is out of memory. */
static struct discard_user *user_get(struct discard *discard, uid_t uid)
{
	struct discard_user *user = user_find(discard, uid);

	if (user)
		return user;
	user = calloc(1, sizeof *user);
	if (!user)
		return NULL;
	user->uid = uid;
	HASH_ADD(hh, discard->users, uid, sizeof user->uid, user);
	if (table_added(user))
		return user;
	free(user);
	return NULL;
}

/* Refunds and frees an item whose descriptors are closed. Frees its user if that was the user's last item. */
static void item_end(struct discard *discard, struct discarded *item)
{
	struct discard_user *user = item->user;

	charge_release(&item->charge, discard->accounting);
	discard->pending -= item->count;
	user->pending -= item->count;
	DL_DELETE(user->items, item);
	free(item);
	if (user->items)
		return;
	HASH_DEL(discard->users, user);
	free(user);
}

static void on_closed(evutil_socket_t fd, short what, void *argument)
{
	struct discard *discard = argument;
	struct closers *closers = discard->closers;
	struct discarded *done, *item, *next;
	eventfd_t count;

	(void)what;
	eventfd_read(fd, &count);
	pthread_mutex_lock(&closers->lock);
	done = closers->done;
	closers->done = NULL;
	pthread_mutex_unlock(&closers->lock);
	DL_FOREACH_SAFE2(done, item, next, queue_next)
		item_end(discard, item);
}

/*
 * Queues the descriptors in discard->spare for the threads, and allocates another spare. If there is no memory for the
 * user, they stay in it. The charge may fail for a packet that was received while nothing was pending, because
 * discard_admits() does not check such a packet.
 */
static void spare_queue(struct discard *discard)
{
	struct discarded *item = discard->spare;
	struct discard_user *user = user_get(discard, item->uid);
	struct closers *closers = discard->closers;

	if (!user)
		return;
	item->user = user;
	if (item->uid != SOCKETS)
		charge_try(&item->charge, discard->accounting, item->uid, RESOURCE_DESCRIPTORS, item->count);
	DL_APPEND(user->items, item);
	user->pending += item->count;
	discard->pending += item->count;
	discard->spare = calloc(1, sizeof *discard->spare);
	pthread_mutex_lock(&closers->lock);
	if (!user->queue && !user->served)
		DL_APPEND(closers->ready, user);
	DL_APPEND2(user->queue, item, queue_prev, queue_next);
	closer_start(closers);
	pthread_cond_signal(&closers->changed);
	pthread_mutex_unlock(&closers->lock);
}

/* Returns true if discard->spare can take descriptors. If not, tries again to get the memory that was missing. */
static bool spare_is_free(struct discard *discard)
{
	if (!discard->spare)
		discard->spare = calloc(1, sizeof *discard->spare);
	else if (discard->spare->count)
		spare_queue(discard);
	return discard->spare && !discard->spare->count;
}

/* Has the threads close the descriptors. If there is no memory to note them, they are never closed. */
static void submit(struct discard *discard, uid_t uid, const int *fds, unsigned count)
{
	if (!spare_is_free(discard))
		return;
	discard->spare->uid = uid;
	discard->spare->count = count;
	memcpy(discard->spare->fds, fds, count * sizeof *fds);
	spare_queue(discard);
}

/* ---- start and stop ---- */

static unsigned most_of_user(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur / MOST_PART > MOST_MAX)
		return MOST_MAX;
	if (limit.rlim_cur / MOST_PART < SOCKET_DESCRIPTORS_MAX)
		return SOCKET_DESCRIPTORS_MAX;
	return (unsigned)limit.rlim_cur / MOST_PART;
}

/*
 * Returns true if a client has connected already: before the listener refused descriptors, so this client can send
 * some.
 */
static bool somebody_waits(int listener)
{
	struct pollfd p = { .fd = listener, .events = POLLIN };

	return poll(&p, 1, 0) != 0;
}

int discard_start(struct discard *discard, struct event_base *base, struct accounting *accounting, int listener)
{
	memset(discard, 0, sizeof *discard);
	if (socket_refuse_descriptors(listener) && !somebody_waits(listener))
		return 0;
	return discard_start_always(discard, base, accounting);
}

int discard_start_always(struct discard *discard, struct event_base *base, struct accounting *accounting)
{
	struct closers *closers = NULL;
	int error = closers_new(&closers);

	if (error)
		return error;
	*discard = (struct discard){ .most = most_of_user(), .accounting = accounting, .closers = closers };
	discard->spare = calloc(1, sizeof *discard->spare);
	discard->closed = event_new(base, closers->wake, EV_READ | EV_PERSIST, on_closed, discard);
	if (!discard->spare || !discard->closed || event_add(discard->closed, NULL))
		error = error_set(-ENOMEM, "the broker is out of memory");
	else
		error = closer_start(closers);
	discard->needed = true;
	if (error)
		discard_stop(discard);
	return error;
}

void discard_stop(struct discard *discard)
{
	struct discard_user *user, *next_user;
	struct discarded *item;

	if (!discard->needed)
		return;
	discard->needed = false;
	HASH_ITER(hh, discard->users, user, next_user)
		DL_FOREACH(user->items, item)
			charge_release(&item->charge, discard->accounting);
	if (discard->closed)
		event_free(discard->closed);
	free(discard->spare);
	closers_stop(discard->closers, discard->users);
	discard->users = NULL;
	discard->pending = 0;
}

/* ---- what the loop does ---- */

unsigned discard_uncharged(const struct discard *discard)
{
	return discard->needed ? SOCKET_DESCRIPTORS_MAX : 0;
}

/*
 * Returns true if the user may have the descriptors of one more packet pending. Their number is not known before they
 * are received, so there must be room for as many as a packet can have.
 */
static bool has_room(struct discard *discard, uid_t uid)
{
	const struct discard_user *user = user_find(discard, uid);
	struct charge charge = { 0 };
	int error;

	if (!spare_is_free(discard) || (user ? user->pending : 0) + SOCKET_DESCRIPTORS_MAX > discard->most)
		return false;
	error = charge_try(&charge, discard->accounting, uid, RESOURCE_DESCRIPTORS, SOCKET_DESCRIPTORS_MAX);
	charge_release(&charge, discard->accounting);
	return !error;
}

/*
 * Admits a packet without a look at it while no descriptor is pending, because there is room for its descriptors then.
 */
bool discard_admits(struct discard *discard, uid_t uid, int sock)
{
	if (!discard->needed || (spare_is_free(discard) && !discard->pending))
		return true;
	return socket_next(sock) != SOCKET_NEXT_DESCRIPTORS || has_room(discard, uid);
}

void discard_close(struct discard *discard, uid_t uid, const int *fds, unsigned count)
{
	if (count && discard->needed)
		submit(discard, uid, fds, count);
}

bool discard_message(struct discard *discard, uid_t uid, int sock)
{
	struct wire_message message;
	struct socket_extra extra;
	int error = socket_receive(sock, &message, &extra, false, MSG_DONTWAIT);

	discard_close(discard, uid, extra.unwanted, extra.unwanted_count);
	/* an empty message has a sender (SO_PASSCRED), the end of file has no sender */
	return error != -EAGAIN && (error != -ECONNRESET || extra.has_sender);
}

/*
 * Shuts the socket down, so that the client can send nothing more, and returns whether it has unread descriptors. Reads
 * and discards the messages before these.
 */
static bool has_descriptors(int sock)
{
	struct wire_message message;
	struct socket_extra extra;
	enum socket_next next;

	if (socket_stamp_senders(sock) || shutdown(sock, SHUT_RDWR))
		return false;
	while ((next = socket_next(sock)) == SOCKET_NEXT_MESSAGE)
		socket_receive(sock, &message, &extra, false, MSG_DONTWAIT);
	return next == SOCKET_NEXT_DESCRIPTORS;
}

static void socket_close(struct discard *discard, int sock)
{
	if (discard->needed && has_descriptors(sock))
		submit(discard, SOCKETS, &sock, 1);
	else
		close(sock);
}

/* Returns false if there is no memory. */
static bool hold(struct discard *discard, int sock)
{
	unsigned room = discard->held_room ? 2 * discard->held_room : 16;
	int *held;

	if (discard->held_count == discard->held_room) {
		held = reallocarray(discard->held, room, sizeof *held);
		if (!held)
			return false;
		discard->held = held;
		discard->held_room = room;
	}
	discard->held[discard->held_count++] = sock;
	return true;
}

void discard_socket(struct discard *discard, int sock)
{
	if (!discard->holds || !hold(discard, sock))
		socket_close(discard, sock);
}

bool discard_holds_any(const struct discard *discard)
{
	return discard->held_count;
}

void discard_mark(struct discard *discard)
{
	discard->marked = discard->held_count;
}

void discard_let_close(struct discard *discard)
{
	unsigned closed = discard->marked;

	if (!closed)
		return;
	for (unsigned i = 0; i < closed; i++)
		socket_close(discard, discard->held[i]);
	discard->held_count -= closed;
	discard->marked = 0;
	memmove(discard->held, discard->held + closed, discard->held_count * sizeof *discard->held);
}

void discard_hold(struct discard *discard, bool holds)
{
	discard->holds = holds;
	discard_mark(discard);
	discard_let_close(discard);
	free(discard->held);
	discard->held = NULL;
	discard->held_room = 0;
}

bool discard_is_behind(const struct discard *discard)
{
	const struct discard_user *sockets = discard->users ? user_find(discard, SOCKETS) : NULL;

	return sockets && sockets->pending >= SOCKETS_MAX;
}

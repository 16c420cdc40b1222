/* SPDX-License-Identifier: Apache-2.0 */
/* jobs.c - see jobs.h */
#include "jobs.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utlist.h>

#include "broker/owner/packet.h"

#define BLAME    100 /* at which an order fails */
#define AGAIN_MS 10  /* until orders are sent again that the kernel had no memory for */

static struct job *job_of(struct rr_item *item)
{
	return (struct job *)((char *)item - offsetof(struct job, item));
}

static struct lane *lane_of(struct jobs *jobs, const struct order *order)
{
	bool is_question = order->kind == ORDER_GONE || order->kind == ORDER_NAMES;

	return &jobs->lane[is_question ? jobs->lanes - 1 : order->device];
}

/* Bytes that take the device time. */
static uint64_t bytes_of(const struct order *order)
{
	return order->kind == ORDER_ALLOCATE || order->kind == ORDER_ZERO ? order->size : 0;
}

/* Takes the job with the number out of the list. NULL: the list has no such job. */
static struct job *take_number(struct rr_item **list, uint64_t number)
{
	struct rr_item *item;

	DL_FOREACH(*list, item)
		if (job_of(item)->order.number == number)
			break;
	if (!item)
		return NULL;
	DL_DELETE(*list, item);
	return job_of(item);
}

/* Takes the next job that is not sent yet. NULL: there is none. */
static struct job *take_next(struct lane *lane)
{
	struct rr_item *item = lane->held;

	if (!item)
		return job_queue_take(&lane->queue);
	DL_DELETE(lane->held, item);
	return job_of(item);
}

/* ---- orders ---- */

static void try_again(struct jobs *jobs)
{
	static const struct timeval pause = { .tv_usec = AGAIN_MS * 1000 };

	/* without memory for the timer, the next submission or answer has the orders sent */
	(void)event_add(jobs->again, &pause);
}

static bool is_held_back(const struct jobs *jobs, const struct job *job)
{
	return jobs->holds && job->order.kind == ORDER_RELEASE && job->descriptor >= 0 &&
	       job->order.number > jobs->let;
}

static bool has_room_for(const struct lane *lane, const struct order *order)
{
	return lane->count < LANE_LEAST ||
	       (lane->bytes < LANE_BYTES && bytes_of(order) <= LANE_BYTES - lane->bytes);
}

/* The descriptor that goes beside the order; -1: none. */
static int descriptor_of(const struct job *job)
{
	bool has_one = job->order.kind == ORDER_ADOPT || job->order.kind == ORDER_RELEASE;

	return has_one ? job->descriptor : -1;
}

/* Closes the descriptor of a RELEASE, which is sent or will never be. An ADOPT's stays the allocation's. */
static void descriptor_done(struct job *job)
{
	if (job->order.kind == ORDER_RELEASE && job->descriptor >= 0)
		close(job->descriptor);
	job->descriptor = -1;
}

/*
 * Returns whether the order is sent. An owner that has ended is noticed when its answers are read, and the order is the
 * next owner's then.
 */
static bool send_order(struct lane *lane, struct job *job)
{
	int error;

	if (is_held_back(lane->jobs, job) || !has_room_for(lane, &job->order))
		return false;
	job->order.acknowledged = lane->acknowledged;
	error = packet_send(lane->sock, &job->order, sizeof job->order, descriptor_of(job), MSG_DONTWAIT);
	if (error == -EAGAIN)
		try_again(lane->jobs);
	if (error)
		return false;
	descriptor_done(job);
	DL_APPEND(lane->sent, &job->item);
	lane->count++;
	lane->bytes += bytes_of(&job->order);
	return true;
}

/* Sends orders as long as the owner may have more of the lane. The socket has room for LANE_ORDERS. */
static void send_orders(struct lane *lane)
{
	struct job *job;

	while (!lane->listing && lane->count < LANE_ORDERS && (job = take_next(lane)))
		if (!send_order(lane, job)) {
			DL_PREPEND(lane->held, &job->item);
			return;
		}
}

void jobs_send(struct jobs *jobs)
{
	if (!jobs->unsent || jobs->lost)
		return;
	jobs->unsent = false;
	for (unsigned i = 0; i < jobs->lanes; i++)
		send_orders(&jobs->lane[i]);
}

/* Sends orders now, unless they wait for jobs_send(), because why they are given may not be noted yet. */
static void orders_changed(struct jobs *jobs)
{
	jobs->unsent = true;
	if (!jobs->defers)
		jobs_send(jobs);
}

void jobs_hold_releases(struct jobs *jobs, bool holds)
{
	jobs->holds = holds;
	jobs->let = jobs->marked = jobs->numbers;
	jobs->unsent = true;
}

void jobs_mark_releases(struct jobs *jobs)
{
	jobs->marked = jobs->numbers;
}

bool jobs_hold_any(const struct jobs *jobs)
{
	return jobs->holds && jobs->let != jobs->numbers;
}

void jobs_let_release(struct jobs *jobs)
{
	jobs->unsent |= jobs->let != jobs->marked;
	jobs->let = jobs->marked;
}

/* Takes over a job that has its number. */
static void submit(struct jobs *jobs, struct job *job)
{
	struct lane *lane = lane_of(jobs, &job->order);

	jobs->pending++;
	job_queue_add(&lane->queue, job);
	if (jobs->failed)
		event_active(jobs->again, EV_TIMEOUT, 0);
	else if (!jobs->lost)
		orders_changed(jobs);
}

void jobs_submit(struct jobs *jobs, struct job *job)
{
	job->order.number = ++jobs->numbers;
	if (job->order.kind == ORDER_ALLOCATE)
		job->order.memory = job->order.number;
	submit(jobs, job);
}

void jobs_submit_again(struct jobs *jobs, struct job *job)
{
	struct lane *lane = lane_of(jobs, &job->order);

	assert(job->order.number && job->order.kind != ORDER_ADOPT);
	if (jobs->numbers < job->order.number)
		jobs->numbers = job->order.number;
	if (!lane->listing) {
		submit(jobs, job);
		return;
	}
	jobs->pending++;
	DL_APPEND(lane->held, &job->item);
}

/* ---- the owner has ended ---- */

/* Frees a job without a call of done(). */
static void job_drop(struct jobs *jobs, struct job *job)
{
	descriptor_done(job);
	explicit_bzero(&job->order.handle, sizeof job->order.handle);
	tracked_end(jobs->tracking, &job->tracked);
	jobs->pending--;
	free(job);
}

static void fail(struct jobs *jobs, struct job *job)
{
	if (job->order.kind == ORDER_ADOPT) {
		job_drop(jobs, job);
		return;
	}
	descriptor_done(job);
	if (job->unusable)
		job->order.kind = ORDER_ALLOCATE;
	job->outcome = (struct outcome){ .error = -EIO, .descriptor = -1 };
	snprintf(job->outcome.text, sizeof job->outcome.text,
		 job->blame < BLAME ? "the process that owns the devices has ended: start the broker anew" :
				      "the process that owns the devices ended at it again and again; the log may say "
				      "why");
	jobs->pending--;
	job->done(job);
}

/* Lets the jobs fail that the list has now; done() may submit further ones. */
static void fail_all(struct jobs *jobs, struct rr_item **list)
{
	struct rr_item *failing = *list, *item;

	*list = NULL;
	while ((item = failing)) {
		DL_DELETE(failing, item);
		fail(jobs, job_of(item));
	}
}

/* No job of the lane will be sent. */
static void give_to_fail(struct lane *lane)
{
	struct job *job;

	while ((job = take_next(lane)))
		DL_APPEND(lane->failing, &job->item);
}

static void on_again(evutil_socket_t fd, short what, void *argument)
{
	struct jobs *jobs = argument;

	(void)fd;
	(void)what;
	for (unsigned i = 0; i < jobs->lanes; i++) {
		if (jobs->failed)
			give_to_fail(&jobs->lane[i]);
		fail_all(jobs, &jobs->lane[i].failing);
	}
	orders_changed(jobs);
}

/*
 * Puts the orders that the owner has not answered before all that wait; it was carrying out the first of them. Frees
 * the ADOPTs, because the next owner is told anew what to adopt.
 */
static void lane_lose(struct lane *lane)
{
	struct rr_item *item;

	event_del(lane->readable);
	lane->listing = false;
	lane->acknowledged = 0;
	lane->last = lane->sent ? job_of(lane->sent)->order.number : 0;
	DL_CONCAT(lane->sent, lane->held);
	lane->held = NULL;
	while ((item = lane->sent)) {
		DL_DELETE(lane->sent, item);
		if (job_of(item)->order.kind == ORDER_ADOPT)
			job_drop(lane->jobs, job_of(item));
		else
			DL_APPEND(lane->held, item);
	}
	lane->count = 0;
	lane->bytes = 0;
}

static void lane_blame(struct lane *lane, unsigned blame)
{
	struct rr_item *first = lane->held;

	if (!first || job_of(first)->order.number != lane->last || (job_of(first)->blame += blame) < BLAME)
		return;
	DL_DELETE(lane->held, first);
	DL_APPEND(lane->failing, first);
	event_active(lane->jobs->again, EV_TIMEOUT, 0);
}

void jobs_blame(struct jobs *jobs, unsigned blame)
{
	assert(jobs->lost);
	for (unsigned i = 0; i + 1 < jobs->lanes; i++)
		lane_blame(&jobs->lane[i], blame);
}

static void put_first(struct jobs *jobs, struct lane *lane, struct job *job)
{
	jobs->pending++;
	job->order.number = ++jobs->numbers;
	DL_PREPEND(lane->held, &job->item);
}

void jobs_adopt(struct jobs *jobs, struct job *job, int descriptor)
{
	struct lane *lane = lane_of(jobs, &job->order);

	assert((jobs->lost || lane->listing) && job->order.kind == ORDER_ADOPT);
	job->descriptor = descriptor;
	put_first(jobs, lane, job);
}

void jobs_submit_first(struct jobs *jobs, struct job *job)
{
	struct lane *lane = lane_of(jobs, &job->order);

	assert(lane->listing && job->order.kind != ORDER_ADOPT && job->order.kind != ORDER_ALLOCATE);
	put_first(jobs, lane, job);
}

void jobs_fail(struct jobs *jobs)
{
	jobs->failed = true;
	event_active(jobs->again, EV_TIMEOUT, 0);
}

/* ---- answers ---- */

/* The descriptor of new memory did not arrive, as this process has too many: has the memory freed, then fails. */
static void refuse_memory(struct jobs *jobs, struct job *job)
{
	job->unusable = true;
	job->order.kind = ORDER_RELEASE;
	job->descriptor = -1;
	jobs_submit(jobs, job);
}

/* The memory was freed, or an error says that it could not be. */
static void say_unusable(struct job *job)
{
	job->order.kind = ORDER_ALLOCATE;
	if (job->outcome.error)
		return;
	job->outcome.error = -EMFILE;
	snprintf(job->outcome.text, sizeof job->outcome.text,
		 "the broker has no descriptor left for the memory: raise its limit (LimitNOFILE= or ulimit -n)");
}

/* Hands the job back with its outcome. */
static void job_finish(struct jobs *jobs, struct job *job, const struct outcome *outcome, int descriptor)
{
	jobs->pending--;
	jobs->answered += job->order.kind != ORDER_ADOPT;
	job->outcome = *outcome;
	job->outcome.descriptor = descriptor;
	/* memory that the owner does not know was an earlier owner's, and ended with it */
	if (job->order.kind == ORDER_RELEASE && outcome->error == -ENOENT)
		job->outcome.error = 0;
	if (descriptor == -EMFILE) {
		refuse_memory(jobs, job);
		return;
	}
	if (job->unusable)
		say_unusable(job);
	job->done(job);
}

/* Frees a job whose outcome has come, and which nobody waits for any more. */
static void job_forget(struct jobs *jobs, struct job *job, int descriptor)
{
	if (descriptor >= 0)
		close(descriptor);
	job_drop(jobs, job);
}

static void finish(struct lane *lane, const struct outcome *outcome, int descriptor)
{
	struct job *job = take_number(&lane->sent, outcome->number);
	bool kept = job && order_is_kept(job->order.kind);

	if (!job) {
		if (descriptor >= 0)
			close(descriptor);
		return;
	}
	lane->bytes -= bytes_of(&job->order);
	if (lane->jobs->stopping)
		job_forget(lane->jobs, job, descriptor);
	else
		job_finish(lane->jobs, job, outcome, descriptor);
	lane->count--;
	if (kept)
		lane->acknowledged = outcome->number;
}

static int read_answer(struct lane *lane)
{
	struct outcome outcome;
	int descriptor, error = packet_receive(lane->sock, &outcome, sizeof outcome, &descriptor, MSG_DONTWAIT);

	if (!error)
		finish(lane, &outcome, descriptor);
	explicit_bzero(&outcome.handle, sizeof outcome.handle);
	return error;
}

/* ---- what an owner lists ---- */

/* Tells of what no job waits for. */
static void tell_listed(struct lane *lane, struct listed *listed, int descriptor)
{
	struct jobs *jobs = lane->jobs;

	listed->outcome.descriptor = descriptor;
	if (!jobs->stopping)
		jobs->when_listed(jobs->context, (unsigned)(lane - jobs->lane), listed);
	else if (descriptor >= 0)
		close(descriptor);
}

static void outcome_listed(struct lane *lane, struct listed *listed, int descriptor)
{
	struct job *job = take_number(&lane->held, listed->outcome.number);

	if (!job) {
		tell_listed(lane, listed, descriptor);
	} else if (lane->jobs->stopping) {
		job_forget(lane->jobs, job, descriptor);
	} else {
		descriptor_done(job);
		job_finish(lane->jobs, job, &listed->outcome, descriptor);
	}
	lane->acknowledged = listed->outcome.number;
}

/* Puts the jobs that were not listed as done into the queue. */
static void queue_held(struct lane *lane)
{
	struct rr_item *item;

	while ((item = lane->held)) {
		DL_DELETE(lane->held, item);
		job_queue_add(&lane->queue, job_of(item));
	}
}

static int read_listed(struct lane *lane)
{
	struct listed listed;
	int descriptor, error = packet_receive(lane->sock, &listed, sizeof listed, &descriptor, MSG_DONTWAIT);

	if (error)
		return error;
	switch (listed.kind) {
	case LISTED_MEMORY:
		tell_listed(lane, &listed, descriptor);
		break;
	case LISTED_OUTCOME:
		outcome_listed(lane, &listed, descriptor);
		break;
	default:
		queue_held(lane);
		tell_listed(lane, &listed, descriptor);
		lane->listing = false;
	}
	explicit_bzero(&listed.outcome.handle, sizeof listed.outcome.handle);
	return 0;
}

void jobs_join(struct jobs *jobs, void (*when_listed)(void *context, unsigned lane, const struct listed *listed))
{
	jobs->when_listed = when_listed;
	for (unsigned i = 0; i < jobs->lanes; i++)
		jobs->lane[i].listing = true;
}

/* ---- what the owner has sent ---- */

/* Whether an error of packet_receive() says that the owner sends nothing more that can be understood. */
static bool has_ended(int error)
{
	return error && error != -EAGAIN;
}

/* Handles some of what the owner has sent, then lets it have more orders. Returns the error of packet_receive(). */
static int read_answers(struct lane *lane)
{
	int error = 0;

	for (unsigned i = 0; i < LANE_ORDERS && !error; i++)
		error = lane->listing ? read_listed(lane) : read_answer(lane);
	if (!has_ended(error) && !lane->jobs->lost)
		orders_changed(lane->jobs);
	return error;
}

/*
 * No lane has more answers than read_answers() reads. What an owner has not listed yet ends with it: nobody knows of
 * what those orders have changed.
 */
void jobs_lose(struct jobs *jobs)
{
	if (jobs->lost)
		return;
	jobs->lost = true;
	for (unsigned i = 0; i < jobs->lanes; i++)
		if (!jobs->lane[i].listing)
			(void)read_answers(&jobs->lane[i]);
	for (unsigned i = 0; i < jobs->lanes; i++)
		lane_lose(&jobs->lane[i]);
	jobs->when_lost(jobs->context);
}

static void on_readable(evutil_socket_t fd, short what, void *argument)
{
	struct lane *lane = argument;

	(void)fd;
	(void)what;
	if (has_ended(read_answers(lane)))
		jobs_lose(lane->jobs);
}

/* ---- another owner ---- */

static int lane_resume(struct lane *lane, int sock)
{
	lane->sock = sock;
	event_assign(lane->readable, event_get_base(lane->readable), sock, EV_READ | EV_PERSIST, on_readable, lane);
	return event_add(lane->readable, NULL) ? error_set(-ENOMEM, "the broker is out of memory") : 0;
}

int jobs_resume(struct jobs *jobs, const int *socks)
{
	int error = 0;

	for (unsigned i = 0; i < jobs->lanes && !error; i++)
		error = lane_resume(&jobs->lane[i], socks[i]);
	/* frees the ADOPTs, as if the owner had ended */
	for (unsigned i = 0; i < jobs->lanes && error; i++)
		lane_lose(&jobs->lane[i]);
	if (error)
		return error;
	jobs->lost = false;
	orders_changed(jobs);
	return 0;
}

/* ---- begin and end ---- */

static void free_events(struct jobs *jobs)
{
	for (unsigned i = 0; jobs->lane && i < jobs->lanes; i++)
		if (jobs->lane[i].readable)
			event_free(jobs->lane[i].readable);
	if (jobs->again)
		event_free(jobs->again);
	free(jobs->lane);
}

static bool lane_start(struct lane *lane, struct jobs *jobs, struct event_base *base, int sock)
{
	lane->jobs = jobs;
	lane->sock = sock;
	lane->readable = event_new(base, sock, EV_READ | EV_PERSIST, on_readable, lane);
	return lane->readable && !event_add(lane->readable, NULL);
}

int jobs_start(struct jobs *jobs, struct event_base *base, const int *socks, unsigned count,
	       void (*when_lost)(void *context), void *context)
{
	bool good;

	*jobs = (struct jobs){ .when_lost = when_lost, .context = context };
	jobs->again = event_new(base, -1, 0, on_again, jobs);
	jobs->lane = calloc(count, sizeof *jobs->lane);
	good = jobs->again && jobs->lane;
	while (good && jobs->lanes < count) {
		good = lane_start(&jobs->lane[jobs->lanes], jobs, base, socks[jobs->lanes]);
		jobs->lanes++;
	}
	if (good)
		return 0;
	free_events(jobs);
	return error_set(-ENOMEM, "the broker is out of memory");
}

/* Waits until the owner has all orders of the lane, or has ended. */
static void flush(struct lane *lane)
{
	struct pollfd readable = { .fd = lane->sock, .events = POLLIN };

	while ((lane->held || !job_queue_is_empty(&lane->queue)) && !has_ended(read_answers(lane)))
		poll(&readable, 1, AGAIN_MS);
}

void jobs_stop(struct jobs *jobs)
{
	struct rr_item *item, *next;

	jobs->stopping = true;
	jobs->defers = false;
	for (unsigned i = 0; i < jobs->lanes; i++) {
		struct lane *lane = &jobs->lane[i];

		if (!jobs->lost)
			flush(lane);
		give_to_fail(lane);
		DL_CONCAT(lane->failing, lane->sent);
		DL_FOREACH_SAFE(lane->failing, item, next)
			job_drop(jobs, job_of(item));
	}
	free_events(jobs);
}

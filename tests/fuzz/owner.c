/* SPDX-License-Identifier: Apache-2.0 */
/* owner.c - see owner.h */
#include "owner.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "broker/core/devices.h"
#include "broker/memory/jobs.h"
#include "broker/memory/memory.h"
#include "bytes.h"
#include "common/error.h"
#include "device/host-region.h"
#include "device/host-state.h"
#include "fuzz.h"
#include "tests/unit/broker/owner-thread.h"

/* ---- the device, which can be held up ---- */

static struct {
	pthread_mutex_t lock;
	pthread_cond_t  changed;
	bool            closed;       /* the device carries out nothing */
	bool            start_closed; /* the next owner does not start its devices yet */
	bool            dead;         /* the owner has died: only what it was doing can still take effect */
	bool            lands;        /* what it was doing does, when the device is not closed any more */
	bool            start_fails;  /* the owner ends while it starts */
	struct device   device;
} gate = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

void gate_set(bool closed)
{
	pthread_mutex_lock(&gate.lock);
	gate.closed = closed;
	pthread_cond_broadcast(&gate.changed);
	pthread_mutex_unlock(&gate.lock);
}

void gate_start_set(bool closed)
{
	pthread_mutex_lock(&gate.lock);
	gate.start_closed = closed;
	pthread_cond_broadcast(&gate.changed);
	pthread_mutex_unlock(&gate.lock);
}

/* Waits until the device is not closed. Returns 0, or -EIO if the call has no effect because the owner has died. */
static int gate_pass(void)
{
	int error;

	pthread_mutex_lock(&gate.lock);
	while (gate.closed)
		pthread_cond_wait(&gate.changed, &gate.lock);
	error = gate.dead && !gate.lands ? error_set(-EIO, "the owner has died") : 0;
	pthread_mutex_unlock(&gate.lock);
	return error;
}

/* Returns whether the owner starts its devices. */
static bool gate_start(void)
{
	bool starts;

	pthread_mutex_lock(&gate.lock);
	while (gate.start_closed && !gate.dead)
		pthread_cond_wait(&gate.changed, &gate.lock);
	starts = !gate.dead && !gate.start_fails;
	pthread_mutex_unlock(&gate.lock);
	return starts;
}

static int gated_allocate(int ordinal, uint64_t size, unsigned kind, void **ptr)
{
	int error = gate_pass();

	return error ? error : device_host.allocate(ordinal, size, kind, ptr);
}

static int gated_adopt(int ordinal, const struct device_memory *memory, void **ptr)
{
	int error = gate_pass();

	return error ? error : device_host.adopt(ordinal, memory, ptr);
}

static int gated_zero(int ordinal, void *ptr, uint64_t size)
{
	int error = gate_pass();

	return error ? error : device_host.zero(ordinal, ptr, size);
}

static int gated_release(int ordinal, void *ptr)
{
	int error = gate_pass();

	return error ? error : device_host.release(ordinal, ptr);
}

static int gated_gone(pid_t pid, bool mps)
{
	int error = gate_pass();

	return error ? error : device_host.gone(pid, mps);
}

static void gate_install(void)
{
	gate.device = device_host;
	gate.device.allocate = gated_allocate;
	gate.device.adopt = gated_adopt;
	gate.device.zero = gated_zero;
	gate.device.release = gated_release;
	gate.device.gone = gated_gone;
	owner_thread_device = &gate.device;
	owner_thread_starts = gate_start;
}

/* ---- the owner, which can die ---- */

static struct {
	enum { OWNER_RUNS, OWNER_DEAD, OWNER_GONE } state; /* GONE: its end is proven */
	enum owner_fate fate;                              /* of the next owners */
	unsigned        fails;                             /* how many of them have it */
} owner;

static struct broker *broker;

bool owner_dies(bool lands)
{
	if (owner.state != OWNER_RUNS || broker->devices->owner.sock < 0)
		return false;
	owner.state = OWNER_DEAD;
	pthread_mutex_lock(&gate.lock);
	gate.dead = gate.closed = true;
	gate.lands = lands;
	pthread_cond_broadcast(&gate.changed);
	pthread_mutex_unlock(&gate.lock);
	owner_thread_die(&broker->devices->owner);
	return true;
}

void owner_is_gone(void)
{
	if (owner.state != OWNER_DEAD)
		return;
	bytes_check(broker, true);
	gate_set(false);
	owner_thread_gone(&broker->devices->owner);
	owner.state = OWNER_GONE;
	bytes_check(broker, true);
}

static int next_begin(struct owner_link *link)
{
	enum owner_fate fate = owner.fails ? owner.fate : OWNER_BEGINS;

	owner.fails -= owner.fails != 0;
	if (fate == OWNER_NOT_FORKED)
		return error_set(-EAGAIN, "there are too many processes");
	gate.dead = gate.lands = false;
	gate.start_fails = fate == OWNER_ENDS_AT_ONCE;
	/* the host device has started with two */
	strcpy(broker->devices->setup.device, fate == OWNER_WITHOUT_DEVICE ? "host:1" : "host:2");
	owner.state = OWNER_RUNS;
	return owner_thread.begin(link);
}

static struct owner_place place; /* owner_thread, but for begin() */

void owner_follow(void)
{
	if (broker->devices->gone && owner_dies(false))
		owner_is_gone();
}

void owner_pause_over(void)
{
	if (!evtimer_pending(broker->devices->again, NULL))
		return;
	evtimer_del(broker->devices->again);
	event_active(broker->devices->again, EV_TIMEOUT, 0);
}

bool owner_works(void)
{
	return owner.state == OWNER_RUNS && !gate.closed &&
	       (!broker->jobs->lost || (broker->devices->begun && !gate.start_closed));
}

void owner_fail_next(enum owner_fate fate, unsigned count)
{
	owner.fate = fate;
	owner.fails = count;
}

void owner_hold_device(bool held)
{
	if (owner.state == OWNER_RUNS)
		gate_set(held);
}

const struct owner_place *owner_install(struct broker *of)
{
	broker = of;
	memset(&owner, 0, sizeof owner);
	gate_install();
	place = owner_thread;
	place.begin = next_begin;
	return &place;
}

/* ---- what it has ---- */

void owner_check(void)
{
	const struct allocation *allocation;

	if (broker->jobs->lost || broker->jobs->pending)
		return;
	for (allocation = broker->memory->allocations; allocation; allocation = allocation->next)
		FUZZ_HOLDS(allocation->descriptor < 0 || (allocation->slab.closed && allocation->is_private) ||
				   owner_address(&owner_thread_service.server[allocation->device].owner,
						 allocation->memory),
			   "the owner has not adopted memory %llu", (unsigned long long)allocation->memory);
}

unsigned owner_memories(void)
{
	const struct host_region *region;
	unsigned count = 0;

	pthread_mutex_lock(&host_state.lock);
	for (size_t i = 0; (region = host_region_at(i)); i++)
		count += region->kind == HOST_ALLOCATION;
	pthread_mutex_unlock(&host_state.lock);
	return count;
}

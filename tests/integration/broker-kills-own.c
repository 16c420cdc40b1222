/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker-kills-own.c - deeds on buffers that no other hand changes, so that each result, value and byte is known.
 *
 * A buffer of which a call failed is not used any more: what it is has become unknown.
 */
#include "broker-kills.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READ_WRITE (GPUB_READ | GPUB_WRITE)

static gpub_client *client_of(const struct hand *hand)
{
	return *hand->client;
}

/* After a failure: unlinks the buffer, whatever it is now. */
static void abandon(struct hand *hand, struct own *own)
{
	gpub_unlink(client_of(hand), own->name);
	memset(own, 0, sizeof *own);
}

/* Whether no other thread closes mappings of this hand's client, so that a trim ends after each close. */
static bool closes_alone(const struct hand *hand)
{
	return hand->alone && !hand->closer;
}

/* ---- what a buffer is ---- */

static uint32_t flags_of(const struct own *own)
{
	uint32_t flags = own->flags;

	return flags | (own->sealed ? GPUB_SEALED : 0) | (own->reserve ? GPUB_GROWABLE : 0);
}

static bool describes(const gpub_info *info, const struct own *own)
{
	uint32_t all = GPUB_EPHEMERAL | GPUB_TIMELINE | GPUB_SEALED | GPUB_GROWABLE;

	return info->size == own->size && info->reserve == own->reserve && info->mode == own->mode &&
	       info->owner == getuid() && info->state == GPUB_LIVE && !strcmp(info->name, own->name) &&
	       (info->flags & all) == (flags_of(own) & all) &&
	       !memcmp(&info->layout, &own->layout, sizeof own->layout);
}

/* Asks about the buffer. is_new: it must have a generation that is newer than the one that was known. */
static bool stat_own(struct hand *hand, struct own *own, bool is_new)
{
	gpub_info info = { .struct_size = sizeof info };

	if (!WANT(STAT, 0, gpub_stat(client_of(hand), own->name, &info)))
		return false;
	if (!HOLDS(describes(&info, own),
		   "%s is: size %llu of %llu, reserve %llu of %llu, mode %o of %o, flags %#x of %#x", own->name,
		   (unsigned long long)info.size, (unsigned long long)own->size, (unsigned long long)info.reserve,
		   (unsigned long long)own->reserve, info.mode, own->mode, info.flags, flags_of(own)) ||
	    !HOLDS(is_new ? info.generation > own->generation : info.generation == own->generation,
		   "%s has generation %llu, it had %llu", own->name, (unsigned long long)info.generation,
		   (unsigned long long)own->generation))
		return false;
	own->generation = info.generation;
	return true;
}

static bool acquire(struct hand *hand, struct own *own, unsigned rights, gpub_lease *lease)
{
	uint64_t generation = 0;

	return WANT(ACQUIRE, 0, gpub_acquire(client_of(hand), own->name, rights, 0, lease)) &&
	       WANT(LOCAL, 0, gpub_lease_generation(lease, &generation)) &&
	       HOLDS(lease->size == own->size && generation == own->generation && lease->rights == rights,
		     "the lease of %s has size %llu of %llu, generation %llu of %llu, rights %u of %u", own->name,
		     (unsigned long long)lease->size, (unsigned long long)own->size, (unsigned long long)generation,
		     (unsigned long long)own->generation, lease->rights, rights);
}

/* The lease is returned, and may be renewed later. */
static bool put_back(struct hand *hand, struct own *own, gpub_lease *lease)
{
	if (!hand_return(hand, lease))
		return false;
	own->old = *lease;
	own->old_generation = own->generation;
	own->old_deed = hand->deeds;
	return true;
}

static bool fill(struct hand *hand, struct own *own)
{
	gpub_lease lease;

	if (!acquire(hand, own, READ_WRITE, &lease) || !hand_check(hand, &lease, own->written, own->stamp, own->name))
		return false;
	own->stamp = hand_stamp(own->name, own->generation, hand->serial++);
	own->written = own->size;
	return hand_write(hand, &lease, 0, own->size, own->stamp) && put_back(hand, own, &lease);
}

static bool look(struct hand *hand, struct own *own)
{
	gpub_lease lease;

	return acquire(hand, own, GPUB_READ, &lease) &&
	       hand_check(hand, &lease, own->written, own->stamp, own->name) && put_back(hand, own, &lease);
}

/* ---- create ---- */

static bool make_layout(struct hand *hand, struct own *own, gpub_spec *spec)
{
	char text[GPUB_LAYOUT_TEXT_MAX], back[GPUB_LAYOUT_TEXT_MAX];

	snprintf(text, sizeof text, "float32[%llu,4]", (unsigned long long)(1 + hand_random(hand, 1000)));
	if (!WANT(LOCAL, 0, gpub_layout_parse(text, &spec->layout)) ||
	    !WANT(LOCAL, 0, gpub_layout_text(&spec->layout, back)) ||
	    !HOLDS(!strcmp(text, back), "layout %s is read as %s", text, back))
		return false;
	own->layout = spec->layout;
	own->size = spec->layout.shape[0] * 16;
	return true;
}

static bool make(struct hand *hand, struct own *own)
{
	const uint32_t kinds[] = { 0, 0, 0, GPUB_DEDICATED, GPUB_TIMELINE, kills->same_address, GPUB_EPHEMERAL };
	gpub_spec spec = GPUB_SPEC_INIT;

	memset(own, 0, sizeof *own);
	hand_name(hand, "own", own->name);
	own->flags = kinds[hand_random(hand, 7)] | (hand_one_in(hand, 3) ? GPUB_TIMELINE : 0);
	own->size = 1 + hand_random(hand, hand_one_in(hand, 30) ? LARGE : SMALL);
	if (hand_one_in(hand, 4) && !make_layout(hand, own, &spec))
		return false;
	if (!own->layout.ndim && !(own->flags & GPUB_SAME_ADDRESS) && hand_one_in(hand, 3))
		spec.reserve = own->reserve = LARGE;
	own->mode = spec.mode = hand_one_in(hand, 4) ? 0640 : 0600;
	spec.flags = own->flags;
	spec.size = own->layout.ndim ? 0 : own->size;
	spec.timeout_ms = -1;
	if (!WANT(CREATE, 0, gpub_create(client_of(hand), own->name, &spec)) || !stat_own(hand, own, true))
		return false;
	own->there = true;
	return hand_one_in(hand, 4) || fill(hand, own);
}

/* ---- size ---- */

static bool grow(struct hand *hand, struct own *own)
{
	uint64_t size = own->size + 1 + hand_random(hand, own->growths % 4 ? SMALL : LARGE / 2);

	if (!own->reserve)
		return WANT(RESIZE, -EINVAL, gpub_resize(client_of(hand), own->name, size, 0));
	if (size > own->reserve || own->growths > 25)
		return WANT(RESIZE, -ENOSPC, gpub_resize(client_of(hand), own->name, own->reserve + 1, 0));
	own->growths++;
	own->changed = true;
	own->size = size;
	return WANT(RESIZE, 0, gpub_resize(client_of(hand), own->name, size, -1)) && stat_own(hand, own, true) &&
	       look(hand, own);
}

/* Nobody but this hand's client maps it, so the call can close what maps it, but for a lease. */
static bool shrink(struct hand *hand, struct own *own)
{
	uint64_t size = 1 + hand_random(hand, own->size);
	gpub_lease lease;

	if (!own->reserve || size == own->size)
		return true;
	if (!acquire(hand, own, GPUB_READ, &lease) ||
	    !WANT(RESIZE, -EBUSY, gpub_resize(client_of(hand), own->name, size, 0)) ||
	    !hand_check(hand, &lease, own->written, own->stamp, own->name) ||
	    !WANT(RETURN, 0, gpub_return_on(&lease, hand->stream)) || !hand_sync(hand))
		return false;
	if (!closes_alone(hand))
		return stat_own(hand, own, false);
	own->changed = true;
	own->size = size;
	if (own->written > size)
		own->written = size;
	return WANT(RESIZE, 0, gpub_resize(client_of(hand), own->name, size, 0)) && stat_own(hand, own, true) &&
	       look(hand, own);
}

/* ---- names ---- */

/* A returned lease cannot be renewed once a call is answered that took name or generation from its buffer. */
static bool is_stale(struct own *own)
{
	gpub_lease old = own->old;

	own->old.client = NULL;
	return !old.client || WANT(RENEW, -ESTALE, gpub_renew(&old));
}

/* The library may forget a lease that was returned long ago. */
static bool renew(struct hand *hand, struct own *own)
{
	if (!own->old.client || own->old_deed + 15 < hand->deeds)
		return true;
	if (own->old_generation != own->generation)
		return is_stale(own);
	if (own->sealed && own->old.rights & GPUB_WRITE)
		return WANT(RENEW, -EROFS, gpub_renew(&own->old));
	return WANT(RENEW, 0, gpub_renew(&own->old)) &&
	       hand_check(hand, &own->old, own->written, own->stamp, own->name) &&
	       WANT(RETURN, 0, gpub_return_on(&own->old, hand->stream));
}

static bool drop(struct hand *hand, struct own *own)
{
	bool drain = hand_one_in(hand, 3), done;

	if (drain && own->old.client && !WANT(LOCAL, 0, gpub_stream_sync(hand->stream)))
		return false;
	done = drain ? WANT(DRAIN, 0, gpub_drain(client_of(hand), own->name, 30000))
		     : WANT(UNLINK, 0, gpub_unlink(client_of(hand), own->name));
	own->there = false;
	return done && is_stale(own) && hand_misses(hand, own->name);
}

/* A lease outlives the name: a drain waits for it, and the bytes stay. */
static bool drop_held(struct hand *hand, struct own *own)
{
	gpub_lease lease;

	own->there = false;
	return acquire(hand, own, GPUB_READ, &lease) &&
	       WANT(DRAIN, -ETIMEDOUT, gpub_drain(client_of(hand), own->name, (int)hand_random(hand, 4))) &&
	       hand_misses(hand, own->name) && hand_check(hand, &lease, own->written, own->stamp, own->name) &&
	       hand_return(hand, &lease) && WANT(RENEW, -ESTALE, gpub_renew(&lease));
}

static bool rename_away(struct hand *hand, struct own *own)
{
	char before[GPUB_NAME_MAX + 1];
	unsigned flags = own->flags & GPUB_EPHEMERAL && hand_one_in(hand, 2) ? GPUB_PERSIST : 0;

	memcpy(before, own->name, sizeof before);
	hand_name(hand, "name", own->name);
	if (flags)
		own->flags &= ~GPUB_EPHEMERAL;
	own->changed = true;
	return WANT(RENAME, 0, gpub_rename(client_of(hand), before, own->name, flags)) && is_stale(own) &&
	       hand_misses(hand, before) && stat_own(hand, own, true) && look(hand, own);
}

static bool rename_over(struct hand *hand, struct own *own)
{
	struct own *other = &hand->owns[hand_random(hand, OWNS)];
	char before[GPUB_NAME_MAX + 1];

	if (!other->there || other == own)
		return WANT(RENAME, 0, gpub_rename(client_of(hand), own->name, own->name, 0)) &&
		       stat_own(hand, own, false);
	if (hand_one_in(hand, 2))
		return WANT(RENAME, -EEXIST, gpub_rename(client_of(hand), own->name, other->name, 0)) &&
		       stat_own(hand, own, false) && stat_own(hand, other, false);
	memcpy(before, own->name, sizeof before);
	memcpy(own->name, other->name, sizeof own->name);
	own->generation = other->generation > own->generation ? other->generation : own->generation;
	other->there = false;
	own->changed = true;
	return WANT(RENAME, 0, gpub_rename(client_of(hand), before, own->name, GPUB_REPLACE)) && is_stale(other) &&
	       is_stale(own) && hand_misses(hand, before) && stat_own(hand, own, true) && look(hand, own);
}

static bool make_again(struct hand *hand, struct own *own)
{
	gpub_spec spec = GPUB_SPEC_INIT;

	spec.size = 1 + hand_random(hand, SMALL);
	return WANT(CREATE, -EEXIST, gpub_create(client_of(hand), own->name, &spec)) && stat_own(hand, own, false);
}

/* ---- rights ---- */

/* What this client mapped for writing under an earlier name or size would refuse the seal. */
static bool seal(struct hand *hand, struct own *own)
{
	gpub_lease lease;

	if (own->changed && (!closes_alone(hand) || !hand_trim(hand)))
		return !closes_alone(hand);
	own->sealed = true;
	return WANT(SEAL, 0, gpub_seal(client_of(hand), own->name)) && stat_own(hand, own, false) &&
	       WANT(ACQUIRE, -EROFS, gpub_acquire(client_of(hand), own->name, READ_WRITE, 0, &lease)) &&
	       (!own->reserve || WANT(RESIZE, -EROFS, gpub_resize(client_of(hand), own->name, own->reserve, 0))) &&
	       look(hand, own);
}

/* Whether the buffer has an allocation of its own. Another one may have one, too, if no other buffer is in it. */
static bool parts(const struct own *own)
{
	return own->flags & (GPUB_DEDICATED | GPUB_SAME_ADDRESS);
}

static bool change(struct hand *hand, struct own *own)
{
	uint32_t mode = own->mode == 0600 ? 0660 : 0600;
	int error;

	if (hand_one_in(hand, 2))
		return WANT(CHOWN, 0, gpub_chown(client_of(hand), own->name, GPUB_KEEP, getgid())) &&
		       stat_own(hand, own, false);
	error = CALL(CHMOD, gpub_chmod(client_of(hand), own->name, mode));
	if (!HOLDS(!error || (error == -EBUSY && !parts(own)), "chmod of %s: %d: %s", own->name, error,
		   gpub_strerror_last()))
		return false;
	if (!error)
		own->mode = mode;
	return WANT(CHMOD, -EINVAL, gpub_chmod(client_of(hand), own->name, 01000)) && stat_own(hand, own, false);
}

static bool expectations(struct hand *hand, struct own *own)
{
	gpub_expectation expectation = GPUB_EXPECTATION_INIT;
	gpub_layout layout;
	gpub_lease lease;

	expectation.owner = getuid() + 1;
	if (!WANT(ACQUIRE, -EPERM, gpub_acquire_as(client_of(hand), own->name, &expectation, GPUB_READ, 0, &lease)))
		return false;
	expectation.owner = getuid();
	expectation.layout = own->layout;
	if (!WANT(ACQUIRE, 0, gpub_acquire_as(client_of(hand), own->name, &expectation, GPUB_READ, 0, &lease)) ||
	    !WANT(LOCAL, 0, gpub_lease_layout(&lease, &layout)) ||
	    !HOLDS(!memcmp(&layout, &own->layout, sizeof layout), "the lease of %s has another layout", own->name) ||
	    !put_back(hand, own, &lease) || !WANT(LOCAL, -ESTALE, gpub_return(&lease)))
		return false;
	expectation.layout = (gpub_layout){ GPUB_INT, 16, 1, 1, { 7 } };
	return WANT(ACQUIRE, -EMEDIUMTYPE,
		    gpub_acquire_as(client_of(hand), own->name, &expectation, GPUB_READ, 0, &lease));
}

/* ---- tickets ---- */

static bool forged(struct hand *hand, char *ticket)
{
	gpub_lease lease;
	size_t at = strlen(ticket) / 2;

	ticket[at] = ticket[at] == 'a' ? 'b' : 'a';
	return WANT(REDEEM, -EKEYREJECTED, gpub_redeem(client_of(hand), ticket, &lease));
}

static bool redeem(struct hand *hand, struct own *own, const char *ticket)
{
	gpub_lease lease;

	return WANT(REDEEM, 0, gpub_redeem(client_of(hand), ticket, &lease)) &&
	       HOLDS(lease.rights == GPUB_READ && lease.size == own->size, "the ticket's lease of %s is another",
		     own->name) &&
	       hand_check(hand, &lease, own->written, own->stamp, own->name) && hand_return(hand, &lease);
}

static bool tickets(struct hand *hand, struct own *own)
{
	gpub_ticket_terms terms = GPUB_TICKET_TERMS_INIT;
	char ticket[GPUB_TICKET_MAX];
	gpub_lease lease;
	bool once = hand_one_in(hand, 2);

	terms.flags = once ? GPUB_TICKET_ONCE : 0;
	terms.lifetime_ms = hand_one_in(hand, 2) ? 0 : 3600000;
	if (!WANT(ISSUE, 0, gpub_ticket_issue(client_of(hand), own->name, GPUB_READ, &terms, ticket)) ||
	    !redeem(hand, own, ticket))
		return false;
	if (once && !WANT(REDEEM, -EKEYREJECTED, gpub_redeem(client_of(hand), ticket, &lease)))
		return false;
	if (once)
		return forged(hand, ticket);
	return redeem(hand, own, ticket) && rename_away(hand, own) &&
	       WANT(REDEEM, -ESTALE, gpub_redeem(client_of(hand), ticket, &lease)) && forged(hand, ticket);
}

/* ---- timelines ---- */

static bool signal_to(struct hand *hand, struct own *own, const gpub_lease *lease)
{
	uint64_t value = own->timeline + 1 + hand_random(hand, 3), reached = 0;

	if (!WANT(SIGNAL, 0, gpub_signal_on(lease, value, hand->stream)) ||
	    !WANT(WAIT_ON, 0, gpub_wait_on(lease, value, hand->stream)) ||
	    !WANT(TIMELINE_WAIT, 0, gpub_timeline_wait(lease, value, -1, &reached)) ||
	    !HOLDS(reached == value, "the timeline of %s is at %llu, not %llu", own->name,
		   (unsigned long long)reached, (unsigned long long)value))
		return false;
	own->timeline = value;
	return WANT(SIGNAL, -EINVAL, gpub_signal_on(lease, value, hand->stream)) &&
	       WANT(TIMELINE_WAIT, -ETIMEDOUT,
		    gpub_timeline_wait(lease, value + 1, (int)hand_random(hand, 3), NULL)) &&
	       WANT(TIMELINE, 0, gpub_timeline(lease, &reached)) &&
	       HOLDS(reached == value, "the timeline of %s has gone to %llu from %llu", own->name,
		     (unsigned long long)reached, (unsigned long long)value);
}

/* The client that signalled has ended: its last value stays. */
static bool is_ended(struct own *own, const gpub_lease *lease)
{
	uint64_t reached = 0;

	return WANT(TIMELINE, 0, gpub_timeline(lease, &reached)) &&
	       HOLDS(reached == own->timeline, "the timeline of %s is at %llu, not %llu, after its writer's end",
		     own->name, (unsigned long long)reached, (unsigned long long)own->timeline) &&
	       WANT(TIMELINE_WAIT, -EOWNERDEAD, gpub_timeline_wait(lease, own->timeline + 1, -1, &reached));
}

static bool timeline(struct hand *hand, struct own *own)
{
	gpub_lease lease;

	if (!acquire(hand, own, READ_WRITE, &lease))
		return false;
	if (own->ended			 ? !is_ended(own, &lease)
	    : own->flags & GPUB_TIMELINE ? !signal_to(hand, own, &lease)
					 : !WANT(SIGNAL, -EINVAL, gpub_signal_on(&lease, 1, hand->stream)))
		return false;
	return put_back(hand, own, &lease);
}

static bool both_timelines(struct hand *hand, struct own *own, struct own *other)
{
	const gpub_lease *leases[2];
	gpub_lease one, two;
	uint64_t values[2];

	if (!acquire(hand, own, READ_WRITE, &one) || !acquire(hand, other, READ_WRITE, &two))
		return false;
	leases[0] = &one;
	leases[1] = &two;
	values[0] = ++own->timeline;
	values[1] = ++other->timeline;
	return WANT(SIGNAL, 0, gpub_signal_many_on(leases, values, 2, hand->stream)) &&
	       WANT(WAIT_ON, 0, gpub_wait_many_on(leases, values, 2, hand->stream)) && hand_sync(hand) &&
	       WANT(TIMELINE_WAIT, 0, gpub_timeline_wait(&two, values[1], 0, NULL)) && put_back(hand, own, &one) &&
	       put_back(hand, other, &two);
}

static bool many(struct hand *hand, struct own *own)
{
	struct own *other = &hand->owns[hand_random(hand, OWNS)];
	const char *names[2] = { own->name, other->name };
	gpub_lease leases[2];

	if (!other->there)
		return WANT(ACQUIRE_MANY, -ENOENT,
			    gpub_acquire_many(client_of(hand), (const char *[]){ own->name, "nowhere" }, 2, GPUB_READ,
					      0, leases));
	if (other != own && !other->sealed && !own->ended && !other->ended &&
	    own->flags & other->flags & GPUB_TIMELINE)
		return both_timelines(hand, own, other);
	return WANT(ACQUIRE_MANY, 0, gpub_acquire_many(client_of(hand), names, 2, GPUB_READ, 0, leases)) &&
	       hand_check(hand, &leases[0], own->written, own->stamp, own->name) &&
	       hand_check(hand, &leases[1], other->written, other->stamp, other->name) &&
	       hand_return(hand, &leases[0]) && hand_return(hand, &leases[1]);
}

/* ---- questions ---- */

static bool newer(struct hand *hand, struct own *own)
{
	gpub_info info = { .struct_size = sizeof info };

	return WANT(NEWER, 0, gpub_wait_newer(client_of(hand), own->name, own->generation - 1, 0, &info)) &&
	       HOLDS(describes(&info, own) && info.generation == own->generation, "wait_newer of %s tells of another",
		     own->name) &&
	       WANT(NEWER, -ETIMEDOUT, gpub_wait_newer(client_of(hand), own->name, own->generation, 2, &info));
}

struct seen {
	struct hand *hand;
	unsigned count;
};

static int see(const gpub_info *info, void *context)
{
	struct seen *seen = context;

	for (unsigned i = 0; i < OWNS; i++) {
		const struct own *own = &seen->hand->owns[i];

		if (own->there && describes(info, own) && info->generation == own->generation)
			seen->count++;
	}
	return strncmp(info->name, "h", 1) ? 7 : 0;
}

static bool list(struct hand *hand)
{
	struct seen seen = { hand, 0 };
	unsigned there = 0;
	char pattern[32];

	for (unsigned i = 0; i < OWNS; i++)
		there += hand->owns[i].there;
	snprintf(pattern, sizeof pattern, "h%u/*", hand->number);
	return WANT(LIST, 0, gpub_list(client_of(hand), pattern, see, &seen)) &&
	       HOLDS(seen.count == there, "the list has %u of %u buffers of hand %u", seen.count, there,
		     hand->number);
}

static bool small_things(struct hand *hand, const struct own *own)
{
	char node[GPUB_NODE_SIZE], again[GPUB_NODE_SIZE];
	int devices = 0;
	uint64_t *memory;

	if (hand_one_in(hand, 20))
		return tool_run("$BROKER_CTL sessions --json && $BROKER_CTL quota --json && $BROKER_CTL stat \"$1\"",
				own->name);
	if (hand_one_in(hand, 3))
		return WANT(LOCAL, 0, gpub_set_cache(client_of(hand), (unsigned)hand_random(hand, 20), UINT64_MAX)) &&
		       WANT(LOCAL, 0, gpub_set_cache(client_of(hand), 16384, UINT64_MAX));
	return WANT(LOCAL, 0, gpub_node(client_of(hand), node)) &&
	       WANT(LOCAL, 0, gpub_node(client_of(hand), again)) &&
	       HOLDS(!strcmp(node, again) && strlen(node) == 32, "the node's text changes") &&
	       WANT(LOCAL, 0, gpub_device_count(client_of(hand), &devices)) &&
	       HOLDS(devices > 0, "there is no device") &&
	       WANT(LOCAL, 0, gpub_host_alloc(client_of(hand), 4096, (void **)&memory)) &&
	       HOLDS(!memory[0] && !memory[511], "host memory is not zero") &&
	       WANT(LOCAL, 0, gpub_host_free(client_of(hand), memory));
}

/* ---- clients ---- */

/* Another client of this process sees the same bytes; its mapping is its own. */
static bool second_client(struct hand *hand, struct own *own)
{
	gpub_client *mine = *hand->client, *other = NULL;
	gpub_lease lease;
	bool good;

	if (!WANT(CONNECT, 0, gpub_connect(&other, NULL)))
		return false;
	good = WANT(ACQUIRE, 0, gpub_acquire(other, own->name, GPUB_READ, 0, &lease)) &&
	       HOLDS(lease.client == other && mine != other, "the lease is of another client");
	if (good && hand_one_in(hand, 2))
		good = WANT(COPY, 0, gpub_copy_on(other, hand->host, lease.ptr, lease.size, hand->stream)) &&
		       hand_sync(hand) && WANT(RETURN, 0, gpub_return(&lease));
	CALL(DISCONNECT, (gpub_disconnect(other), 0));
	return good;
}

void own_forget_ephemeral(struct hand *hand)
{
	for (unsigned i = 0; i < OWNS; i++) {
		struct own *own = &hand->owns[i];

		own->old.client = NULL;
		if (own->there && own->flags & GPUB_EPHEMERAL) {
			own->there = false;
		} else if (own->timeline) {
			own->ended = true;
		}
	}
}

/* The client ends, and another one finds all as it was. */
static bool reconnect(struct hand *hand)
{
	char gone[OWNS][GPUB_NAME_MAX + 1] = { "" };

	for (unsigned i = 0; i < OWNS; i++)
		if (hand->owns[i].there && hand->owns[i].flags & GPUB_EPHEMERAL)
			memcpy(gone[i], hand->owns[i].name, sizeof gone[i]);
	own_forget_ephemeral(hand);
	hand_disconnect(hand);
	if (!hand_connect(hand))
		return false;
	for (unsigned i = 0; i < OWNS; i++)
		if (*gone[i] && !hand_misses(hand, gone[i]))
			return false;
	return true;
}

/* ---- which ---- */

static bool deed(struct hand *hand, struct own *own)
{
	switch (hand_random(hand, 26)) {
	case 0:
		return grow(hand, own);
	case 1:
		return shrink(hand, own);
	case 2:
		return rename_away(hand, own);
	case 3:
		return rename_over(hand, own);
	case 4:
		return make_again(hand, own);
	case 5:
		return seal(hand, own);
	case 6:
		return change(hand, own);
	case 7:
		return expectations(hand, own);
	case 8:
		return tickets(hand, own);
	case 9:
	case 10:
		return timeline(hand, own);
	case 11:
		return many(hand, own);
	case 12:
		return newer(hand, own);
	case 13:
		return list(hand);
	case 14:
		return small_things(hand, own);
	case 15:
		return hand_one_in(hand, 20) ? hand_interrupted(hand) : renew(hand, own);
	case 16:
		return second_client(hand, own);
	case 17:
		return !hand->alone || reconnect(hand);
	case 18:
		return drop_held(hand, own);
	case 19:
		return hand_trim(hand);
	case 20:
	case 21:
		return drop(hand, own);
	case 22:
		return renew(hand, own);
	default:
		return fill(hand, own);
	}
}

/* A sealed buffer can be looked at, renamed and dropped. */
static bool deed_sealed(struct hand *hand, struct own *own)
{
	switch (hand_random(hand, 4)) {
	case 0:
		return drop(hand, own);
	case 1:
		return renew(hand, own);
	case 2:
		return rename_away(hand, own);
	default:
		return look(hand, own);
	}
}

void own_deed(struct hand *hand)
{
	struct own *own = &hand->owns[hand_random(hand, OWNS)];
	bool good;

	hand->deeds++;
	if (!own->there)
		good = make(hand, own);
	else
		good = own->sealed ? deed_sealed(hand, own) : deed(hand, own);
	if (!good)
		abandon(hand, own);
}

void own_end(struct hand *hand)
{
	for (unsigned i = 0; i < OWNS; i++) {
		struct own *own = &hand->owns[i];

		if (own->there && !(look(hand, own) && drop(hand, own)))
			abandon(hand, own);
		memset(own, 0, sizeof *own);
	}
}

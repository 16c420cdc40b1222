/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker-kills-offers.c - deeds of one hand, the host, with up to three others, its guests.
 *
 * A host opens its offer, and goes on with deeds of its own until guests have come or it has waited long enough. From
 * then on, host and guests do steps in turn. A guest waits for its host alone, and a host for its guests alone; a host
 * is nobody's guest, and a guest no host. So nobody waits in a circle.
 */
#include "broker-kills.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define READ_WRITE (GPUB_READ | GPUB_WRITE)

/* offer.state: no offer, or open or closed for more guests, plus the number of guests that have come */
#define IDLE 0u
#define OPEN 16u
#define CLOSED 32u
#define NUMBER 15u

#define WAITS_DEEDS 30 /* of the host's own, until it goes on without more guests */
#define VALUES 4       /* of the timeline, before its writer ends */

static gpub_client *client_of(const struct hand *hand)
{
	return *hand->client;
}

/* The stamp of the bytes that the host writes. */
static uint64_t stamp_of(const struct offer *offer)
{
	return offer->stamp;
}

/* ---- host ---- */

static bool make(struct hand *hand, struct offer *offer, uint64_t size)
{
	gpub_spec spec = GPUB_SPEC_INIT;

	spec.size = offer->size = size;
	spec.flags = offer->flags;
	spec.reserve = offer->kind == OFFER_NEWER ? LARGE : 0;
	spec.timeout_ms = -1;
	return WANT(CREATE, 0, gpub_create(client_of(hand), offer->name, &spec));
}

/* Creates the buffer and writes it. */
static bool make_full(struct hand *hand, struct offer *offer)
{
	gpub_lease lease;

	if (!make(hand, offer, 1 + hand_random(hand, SMALL)) ||
	    !WANT(ACQUIRE, 0, gpub_acquire(client_of(hand), offer->name, READ_WRITE, 0, &lease)))
		return false;
	offer->at = lease.ptr;
	return WANT(LOCAL, 0, gpub_lease_generation(&lease, &offer->generation)) &&
	       hand_check(hand, &lease, 0, 0, offer->name) &&
	       hand_write(hand, &lease, 0, offer->size, stamp_of(offer)) && hand_return(hand, &lease);
}

static bool prepare(struct hand *hand, struct offer *offer)
{
	gpub_ticket_terms terms = GPUB_TICKET_TERMS_INIT;

	switch (offer->kind) {
	case OFFER_ONCE:
	case OFFER_MANY:
		terms.flags = offer->kind == OFFER_ONCE ? GPUB_TICKET_ONCE : 0;
		return make_full(hand, offer) &&
		       WANT(ISSUE, 0,
			    gpub_ticket_issue(client_of(hand), offer->name, GPUB_READ, &terms, offer->ticket));
	case OFFER_LATER:
	case OFFER_TIMELINE:
	case OFFER_VICTIM:
		return true;
	default:
		return make_full(hand, offer);
	}
}

/* Tells the guests to go on, and waits for them. */
static bool steps(struct offer *offer, uint32_t guests, uint32_t step)
{
	note_add(&offer->step, 1);
	return note_await(&offer->arrived, guests * step, "guests to come");
}

static bool finished(struct offer *offer, uint32_t guests)
{
	return note_await(&offer->finished, guests, "guests to finish");
}

static bool drain(struct hand *hand, struct offer *offer)
{
	return WANT(DRAIN, 0, gpub_drain(client_of(hand), offer->name, 30000));
}

static bool host_once(struct hand *hand, struct offer *offer, uint32_t guests)
{
	note_add(&offer->step, 1);
	if (!finished(offer, guests) ||
	    !HOLDS(offer->winners == 1, "%u of %u got the ticket that is good once", offer->winners, guests))
		return false;
	return drain(hand, offer);
}

static bool host_many(struct hand *hand, struct offer *offer, uint32_t guests)
{
	note_add(&offer->step, 1);
	return finished(offer, guests) && drain(hand, offer);
}

/* Guests wait for the name already, or are about to. */
static bool host_later(struct hand *hand, struct offer *offer, uint32_t guests)
{
	return steps(offer, guests, 1) && make_full(hand, offer) && finished(offer, guests) && drain(hand, offer);
}

/* The drain is answered after the last guest has begun to return its lease. */
static bool host_drain(struct hand *hand, struct offer *offer, uint32_t guests)
{
	uint32_t letting;

	if (!steps(offer, guests, 1))
		return false;
	if (!WANT(DRAIN, 0, gpub_drain(client_of(hand), offer->name, 30000)))
		return false;
	letting = atomic_load(&offer->letting);
	return HOLDS(letting == guests, "the drain of %s was answered while %u of %u guests held it", offer->name,
		     guests - letting, guests) &&
	       finished(offer, guests);
}

/* Writes a part of the buffer and signals, again and again. Guests read each part behind its signal. */
static bool write_parts(struct hand *hand, struct offer *offer, gpub_client *writer)
{
	uint64_t part = offer->size / VALUES;
	gpub_lease lease;

	if (!WANT(ACQUIRE, 0, gpub_acquire(writer, offer->name, READ_WRITE, 0, &lease)))
		return false;
	for (uint64_t i = 0; i < VALUES; i++) {
		uint8_t *bytes = hand->host + part * i;

		memset(bytes, (int)(offer->stamp % 200 + i + 1), part);
		if (!WANT(COPY, 0,
			  gpub_copy_on(writer, (uint8_t *)lease.ptr + part * i, bytes, part, hand->stream)) ||
		    !WANT(SIGNAL, 0, gpub_signal_on(&lease, i + 1, hand->stream)))
			return false;
	}
	return hand_sync(hand) && WANT(RETURN, 0, gpub_return_on(&lease, hand->stream));
}

/* The writer is a client of its own, which disconnects: waits beyond its last value end. */
static bool host_timeline(struct hand *hand, struct offer *offer, uint32_t guests)
{
	gpub_client *writer;
	bool good;

	if (!make(hand, offer, VALUES * (1 + hand_random(hand, SMALL / VALUES))) || !steps(offer, guests, 1) ||
	    !WANT(CONNECT, 0, gpub_connect(&writer, NULL)))
		return false;
	good = write_parts(hand, offer, writer);
	note_add(&offer->step, 1);
	good = good && note_await(&offer->arrived, 2 * guests, "guests to wait");
	CALL(DISCONNECT, (gpub_disconnect(writer), 0));
	return good && finished(offer, guests) && drain(hand, offer);
}

static bool replace(struct hand *hand, struct offer *offer)
{
	char name[GPUB_NAME_MAX + 1];
	gpub_spec spec = GPUB_SPEC_INIT;

	hand_name(hand, "next", name);
	spec.size = offer->size + 1;
	return WANT(CREATE, 0, gpub_create(client_of(hand), name, &spec)) &&
	       WANT(RENAME, 0, gpub_rename(client_of(hand), name, offer->name, GPUB_REPLACE));
}

/* Guests wait for a newer generation, with one byte more. */
static bool host_newer(struct hand *hand, struct offer *offer, uint32_t guests)
{
	if (!steps(offer, guests, 1))
		return false;
	if (hand_one_in(hand, 2) ? !replace(hand, offer)
				 : !WANT(RESIZE, 0, gpub_resize(client_of(hand), offer->name, offer->size + 1, -1)))
		return false;
	return finished(offer, guests) && drain(hand, offer);
}

/* offer->letting: guests whose mapping another thread of theirs may be closing, so that its end comes a little later */
static bool seal_at_last(struct hand *hand, struct offer *offer)
{
	uint64_t until = note_now() + PATIENCE_MS * 1000000ull;
	int error;

	do
		error = CALL(SEAL, gpub_seal(client_of(hand), offer->name));
	while (error == -EBUSY && offer->letting && note_now() < until);
	return HOLDS(!error, "seal of %s, which nobody can write any more: %d: %s", offer->name, error,
		     gpub_strerror_last());
}

/* Nobody can seal what another one may write. */
static bool host_seal(struct hand *hand, struct offer *offer, uint32_t guests)
{
	gpub_lease lease;
	bool other;

	if (!steps(offer, guests, 1))
		return false;
	other = atomic_load(&offer->winners) > 0;
	if (other && !WANT(SEAL, -EBUSY, gpub_seal(client_of(hand), offer->name)))
		return false;
	note_add(&offer->step, 1);
	if (!finished(offer, guests) || !seal_at_last(hand, offer) ||
	    !WANT(ACQUIRE, -EROFS, gpub_acquire(client_of(hand), offer->name, GPUB_WRITE, 0, &lease)))
		return false;
	return drain(hand, offer);
}

/* An ephemeral buffer of a process that was killed loses its name soon; another one keeps it. */
static bool is_left(struct hand *hand, const struct offer *offer)
{
	uint64_t until = note_now() + PATIENCE_MS * 1000000ull;
	gpub_info info = { .struct_size = sizeof info };
	int error;

	if (!(offer->flags & GPUB_EPHEMERAL))
		return WANT(DRAIN, 0, gpub_drain(client_of(hand), offer->name, -1));
	do
		error = CALL(STAT, gpub_stat(client_of(hand), offer->name, &info));
	while (!error && note_now() < until && !usleep(1000));
	return HOLDS(error == -ENOENT, "stat of %s, which is ephemeral, after its creator's death: %d", offer->name,
		     error);
}

static bool host_victim(struct hand *hand, struct offer *offer, uint32_t guests)
{
	struct victim *victim = &kills->victims[hand->number];
	bool good;
	pid_t pid;

	offer->last = 1 + hand_random(hand, 5);
	pid = victim_start(hand, offer->name, offer->flags, offer->last);
	if (!HOLDS(pid > 0, "a victim cannot be started"))
		return false;
	good = note_await(&victim->ready, 1, "the victim") && HOLDS(victim->ready == 1, "the victim failed") &&
	       steps(offer, guests, 1);
	note_add(&offer->step, 1);
	good = good && note_await(&offer->arrived, 2 * guests, "guests to wait");
	if (good && offer->evicts)
		good = victim_evict(pid) && finished(offer, guests);
	victim_end(pid);
	return good && finished(offer, guests) && is_left(hand, offer);
}

typedef bool host_fn(struct hand *, struct offer *, uint32_t guests);

static host_fn *const hosts[OFFER_KINDS] = { host_once,	    host_many,	host_later, host_drain,
					     host_timeline, host_newer, host_seal,  host_victim };

static void open_offer(struct hand *hand, struct offer *offer)
{
	const uint32_t flags[] = { 0, 0, GPUB_DEDICATED, kills->same_address };

	atomic_store(&offer->step, 0);
	atomic_store(&offer->arrived, 0);
	atomic_store(&offer->finished, 0);
	atomic_store(&offer->winners, 0);
	atomic_store(&offer->letting, 0);
	offer->kind = (uint32_t)hand_random(hand, hand_one_in(hand, 4) ? OFFER_KINDS : OFFER_KINDS - 1);
	offer->flags = flags[hand_random(hand, offer->kind == OFFER_NEWER ? 3 : 4)];
	if (offer->kind == OFFER_TIMELINE || offer->kind == OFFER_VICTIM)
		offer->flags |= GPUB_TIMELINE;
	if (offer->kind == OFFER_SEAL)
		offer->flags |= GPUB_DEDICATED; /* so that a guest's trim closes its mapping, whatever else it holds */
	if (offer->kind == OFFER_VICTIM && hand_one_in(hand, 2))
		offer->flags |= GPUB_EPHEMERAL;
	offer->evicts = hand_one_in(hand, 3);
	hand_name(hand, "offer", offer->name);
	offer->stamp = hand_stamp(offer->name, 0, 0);
}

/* Returns how many guests have come. */
static uint32_t await_guests(struct hand *hand, struct offer *offer)
{
	uint32_t wanted = 1 + (uint32_t)hand_random(hand, GUESTS);

	if (offer->kind == OFFER_ONCE)
		wanted = 2 + (uint32_t)hand_random(hand, 2);
	for (unsigned i = 0; i < WAITS_DEEDS && atomic_load(&offer->state) < OPEN + wanted; i++)
		own_deed(hand);
	return atomic_fetch_add(&offer->state, CLOSED - OPEN) & NUMBER;
}

/* The other side waits for what does not come, so the run ends. */
static void end_run(const char *who, const struct offer *offer)
{
	if (atomic_exchange(&kills->stop, 2) < 2)
		fprintf(stderr, "the %s of an offer of kind %u has failed: the run ends\n", who, offer->kind);
}

void offers_host(struct hand *hand)
{
	struct offer *offer = &kills->offers[hand->number];
	uint32_t guests;
	bool good;

	open_offer(hand, offer);
	good = prepare(hand, offer);
	if (!good) {
		gpub_unlink(client_of(hand), offer->name);
		return;
	}
	atomic_store(&offer->state, OPEN);
	guests = await_guests(hand, offer);
	if (guests && hosts[offer->kind](hand, offer, guests))
		atomic_fetch_add(&kills->played[offer->kind], 1);
	else if (guests)
		end_run("host", offer);
	if (!guests && offer->kind != OFFER_LATER && offer->kind != OFFER_TIMELINE && offer->kind != OFFER_VICTIM)
		drain(hand, offer);
	atomic_store(&offer->state, IDLE);
}

/* ---- guest ---- */

static bool arrive(struct offer *offer, uint32_t step)
{
	note_add(&offer->arrived, 1);
	return note_await(&offer->step, step, "the host");
}

static bool guest_once(struct hand *hand, struct offer *offer)
{
	gpub_lease lease;
	int error;

	if (!note_await(&offer->step, 1, "the host"))
		return false;
	error = CALL(REDEEM, gpub_redeem(client_of(hand), offer->ticket, &lease));
	if (error)
		return HOLDS(error == -EKEYREJECTED, "a ticket that is good once: %d: %s", error,
			     gpub_strerror_last());
	atomic_fetch_add(&offer->winners, 1);
	return hand_check(hand, &lease, offer->size, stamp_of(offer), offer->name) && hand_return(hand, &lease);
}

static bool check_address(const struct offer *offer, const gpub_lease *lease)
{
	return !(offer->flags & GPUB_SAME_ADDRESS) ||
	       HOLDS(lease->ptr == offer->at, "%s is at %p here, at %p there", offer->name, lease->ptr, offer->at);
}

static bool guest_many(struct hand *hand, struct offer *offer)
{
	gpub_lease lease;

	return note_await(&offer->step, 1, "the host") &&
	       WANT(REDEEM, 0, gpub_redeem(client_of(hand), offer->ticket, &lease)) && check_address(offer, &lease) &&
	       hand_check(hand, &lease, offer->size, stamp_of(offer), offer->name) && hand_return(hand, &lease);
}

static bool guest_later(struct hand *hand, struct offer *offer)
{
	gpub_info info = { .struct_size = sizeof info };
	gpub_lease lease;

	if (!arrive(offer, 1))
		return false;
	if (hand_one_in(hand, 3) && !WANT(NEWER, 0, gpub_wait_newer(client_of(hand), offer->name, 0, -1, &info)))
		return false;
	return WANT(ACQUIRE_WAIT, 0, gpub_acquire(client_of(hand), offer->name, GPUB_READ, PATIENCE_MS, &lease)) &&
	       hand_check_either(hand, &lease, stamp_of(offer), offer->name) && hand_return(hand, &lease);
}

/* Holds a lease until the name is gone, so that the drain has begun, and some time more. */
static bool guest_drain(struct hand *hand, struct offer *offer)
{
	gpub_info info = { .struct_size = sizeof info };
	unsigned looks = (unsigned)hand_random(hand, 10);
	gpub_lease lease, late;
	int error;

	if (!WANT(ACQUIRE, 0, gpub_acquire(client_of(hand), offer->name, GPUB_READ, 0, &lease)) ||
	    !check_address(offer, &lease) || !arrive(offer, 1))
		return false;
	do
		error = CALL(STAT, gpub_stat(client_of(hand), offer->name, &info));
	while (!error && kills->stop < 2);
	if (!HOLDS(error == -ENOENT, "stat of %s: %d", offer->name, error))
		return false;
	late = lease;
	do
		if (!hand_check(hand, &lease, offer->size, stamp_of(offer), offer->name))
			return false;
	while (looks--);
	atomic_fetch_add(&offer->letting, 1);
	return hand_return(hand, &lease) && WANT(RENEW, -ESTALE, gpub_renew(&late)) && hand_trim(hand);
}

/*
 * Whether the timeline ended at that value. A writer that was cut off marks its timelines by itself, perhaps before the
 * broker has read the last value, which nobody knows then.
 */
static bool ended_at(struct offer *offer, gpub_lease *lease, uint64_t last)
{
	uint64_t reached = 0;
	int error = CALL(TIMELINE_WAIT, gpub_timeline_wait(lease, last, 0, &reached));

	if (error == -EOWNERDEAD && offer->kind == OFFER_VICTIM && offer->evicts)
		return true;
	if (error)
		(void)gpub_timeline(lease, &reached);
	return HOLDS(!error && reached == last, "the timeline of %s ended at %#llx, not %llu: %d: %s", offer->name,
		     (unsigned long long)reached, (unsigned long long)last, error, gpub_strerror_last());
}

/* Whether a wait ended because the writer did, at the last value. A stream that waits is released. */
static bool is_over(struct hand *hand, struct offer *offer, gpub_lease *lease, uint64_t last, int wanted)
{
	uint64_t reached = 0;

	note_add(&offer->arrived, 1);
	return WANT(TIMELINE_WAIT, -EOWNERDEAD, gpub_timeline_wait(lease, last + 1, -1, NULL)) && hand_sync(hand) &&
	       WANT(TIMELINE, wanted, gpub_timeline(lease, &reached)) && ended_at(offer, lease, last) &&
	       WANT(RETURN, 0, gpub_return_on(lease, hand->stream)) && hand_trim(hand);
}

static bool check_part(struct hand *hand, struct offer *offer, const gpub_lease *lease, uint64_t i)
{
	uint64_t part = offer->size / VALUES;
	uint8_t value = (uint8_t)(offer->stamp % 200 + i + 1);

	if (!WANT(COPY, 0,
		  gpub_copy_on(client_of(hand), hand->host, (uint8_t *)lease->ptr + part * i, part, hand->stream)) ||
	    !hand_sync(hand))
		return false;
	atomic_fetch_add(&kills->bytes, part);
	for (uint64_t at = 0; at < part; at++)
		if (!HOLDS(hand->host[at] == value, "byte %llu of %s is %u, not %u, behind value %llu",
			   (unsigned long long)(part * i + at), offer->name, hand->host[at], value,
			   (unsigned long long)i + 1)) {
			atomic_fetch_add(&kills->wrong, 1);
			return false;
		}
	return true;
}

static bool guest_timeline(struct hand *hand, struct offer *offer)
{
	uint64_t reached = 0;
	gpub_lease lease;

	if (!note_await(&offer->step, 1, "the host") ||
	    !WANT(ACQUIRE, 0, gpub_acquire(client_of(hand), offer->name, GPUB_READ, 0, &lease)))
		return false;
	note_add(&offer->arrived, 1);
	for (uint64_t i = 0; i < VALUES; i++) {
		bool by_stream = hand->alone && hand_one_in(hand, 2);

		if (by_stream ? !WANT(WAIT_ON, 0, gpub_wait_on(&lease, i + 1, hand->stream))
			      : !WANT(TIMELINE_WAIT, 0, gpub_timeline_wait(&lease, i + 1, -1, &reached)) ||
					!HOLDS(reached > i && reached <= VALUES, "the wait for %llu reached %llu",
					       (unsigned long long)i + 1, (unsigned long long)reached))
			return false;
		if (!check_part(hand, offer, &lease, i))
			return false;
	}
	if (!note_await(&offer->step, 2, "the host") ||
	    (hand->alone && !WANT(WAIT_ON, 0, gpub_wait_on(&lease, VALUES + 1, hand->stream))))
		return false;
	return is_over(hand, offer, &lease, VALUES, 0);
}

static bool guest_newer(struct hand *hand, struct offer *offer)
{
	gpub_info info = { .struct_size = sizeof info };
	bool grown;

	if (!arrive(offer, 1) ||
	    !WANT(NEWER, 0, gpub_wait_newer(client_of(hand), offer->name, offer->generation, -1, &info)))
		return false;
	grown = info.flags & GPUB_GROWABLE;
	return HOLDS(info.generation > offer->generation && info.size == offer->size + 1 && (grown || !info.reserve),
		     "newer than %llu is %llu, with %llu bytes", (unsigned long long)offer->generation,
		     (unsigned long long)info.generation, (unsigned long long)info.size);
}

/* winners: guests that are another session than the host */
static bool guest_seal(struct hand *hand, struct offer *offer, bool is_other)
{
	gpub_info info = { .struct_size = sizeof info };
	gpub_lease lease;

	if (!note_await(&offer->step, 1, "the host") ||
	    !WANT(ACQUIRE, 0, gpub_acquire(client_of(hand), offer->name, READ_WRITE, 0, &lease)))
		return false;
	if (is_other)
		atomic_fetch_add(&offer->winners, 1);
	if (!hand->alone || hand->closer)
		atomic_fetch_add(&offer->letting, 1);
	note_add(&offer->arrived, 1);
	/* once the stat is answered, the broker has read what the trim told it */
	return note_await(&offer->step, 2, "the host") &&
	       hand_check(hand, &lease, offer->size, stamp_of(offer), offer->name) &&
	       WANT(RETURN, 0, gpub_return_on(&lease, hand->stream)) && hand_sync(hand) && hand_trim(hand) &&
	       WANT(STAT, 0, gpub_stat(client_of(hand), offer->name, &info));
}

static bool guest_victim(struct hand *hand, struct offer *offer)
{
	gpub_lease lease;

	if (!note_await(&offer->step, 1, "the host") ||
	    !WANT(ACQUIRE, 0, gpub_acquire(client_of(hand), offer->name, GPUB_READ, 0, &lease)))
		return false;
	note_add(&offer->arrived, 1);
	return hand_check(hand, &lease, 4096, stamp_of(offer), offer->name) &&
	       note_await(&offer->step, 2, "the host") &&
	       (!hand->alone || WANT(WAIT_ON, 0, gpub_wait_on(&lease, offer->last + 1, hand->stream))) &&
	       is_over(hand, offer, &lease, offer->last, -EOWNERDEAD);
}

static bool be_guest(struct hand *hand, struct offer *offer, bool is_other)
{
	switch (offer->kind) {
	case OFFER_ONCE:
		return guest_once(hand, offer);
	case OFFER_MANY:
		return guest_many(hand, offer);
	case OFFER_LATER:
		return guest_later(hand, offer);
	case OFFER_DRAIN:
		return guest_drain(hand, offer);
	case OFFER_TIMELINE:
		return guest_timeline(hand, offer);
	case OFFER_NEWER:
		return guest_newer(hand, offer);
	case OFFER_SEAL:
		return guest_seal(hand, offer, is_other);
	default:
		return guest_victim(hand, offer);
	}
}

static unsigned worker_of(unsigned hand)
{
	return hand < THREADED * THREADS ? hand / THREADS : hand - THREADED * (THREADS - 1);
}

static bool enter(struct offer *offer)
{
	uint32_t state = atomic_load(&offer->state);

	while (state >= OPEN && state < OPEN + GUESTS)
		if (atomic_compare_exchange_weak(&offer->state, &state, state + 1))
			return true;
	return false;
}

bool offers_visit(struct hand *hand)
{
	unsigned first = (unsigned)hand_random(hand, HANDS);

	for (unsigned i = 0; i < HANDS; i++) {
		unsigned host = (first + i) % HANDS;
		struct offer *offer = &kills->offers[host];

		if (host == hand->number || !enter(offer))
			continue;
		if (!be_guest(hand, offer, worker_of(host) != hand->worker))
			end_run("guest", offer);
		hand_trim(hand); /* of what a ticket mapped, too, which nothing else closes */
		note_add(&offer->finished, 1);
		return true;
	}
	return false;
}

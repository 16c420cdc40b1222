/* SPDX-License-Identifier: Apache-2.0 */
/*
 * orders.c - what a device wrote for one process is read whole by the device of another, in eight orders of their work.
 *
 * Two processes play ping-pong with 1 MiB. In each round ping writes a buffer and hands it over; pong checks each word,
 * writes a buffer of its own and hands that over; ping checks it before its next round. A word says for which round and
 * place it was written, so one word of another round is found and named. A side writes a buffer again only after the
 * other side has checked it: a hand-over that comes too early is found as a word of a later round.
 *
 * The table below has the orders: who writes where, on which streams, on one device or two, and what orders the work.
 * Timelines do, but in one case: there a name that is created after the write does, and memory is used again after a
 * return in stream order. With timelines the processes queue up to WINDOW rounds ahead and synchronise nothing in
 * between.
 *
 *   ORDERS_ROUNDS=N  rounds in all, divided over the orders that can run: 1,000, on CUDA 100,000
 *   ORDERS_BREAK=1   pong leaves out its waits: each order must fail, which shows that a missing wait is seen
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "harness.h"
#include "kernels/kernels.h"

#define SIZE    (1u << 20)
#define WORDS   (SIZE / sizeof(uint64_t))
#define STREAMS 3u /* of a process, at most */

#define WARM   2u   /* first rounds, one process after the other: kernels are loaded there, behind no waiting stream */
#define WINDOW 64u  /* rounds that may be queued and unfinished */
#define CHUNK  256u /* rounds of one step; the device does not run dry between two */
#define PARKED 16u  /* the same, where one process has queued all of them before the other queues the first */

#define ACQUIRE_MS 10000
#define LATE_EACH  8u /* of so many checks one is late */
#define LATE_MS    4u

static const struct handover {
	const char *what;
	enum { BY_KERNEL, WRITER_COPIES, READER_COPIES } by;
	enum { QUEUE_AHEAD, WAIT_FIRST, BY_NAME } how;
	unsigned streams;     /* of each process, used in rotation; 0: the legacy stream */
	bool     two_devices; /* ping on the first, pong on the second */
	bool     at_reader;   /* a buffer is on its reader's device, not on its writer's */
	unsigned share;       /* of all rounds */
} handovers[] = {
	{ "one device: kernels write and read", BY_KERNEL, QUEUE_AHEAD, 1, false, false, 12 },
	{ "one device: three streams a process, one side queues its waits before the other its signals", BY_KERNEL,
	  WAIT_FIRST, 3, false, false, 12 },
	{ "one device: the reader copies, then checks", READER_COPIES, QUEUE_AHEAD, 1, false, false, 8 },
	{ "one device: signals and waits on the legacy stream", BY_KERNEL, QUEUE_AHEAD, 0, false, false, 8 },
	{ "one device: names and returns in stream order instead of timelines", BY_KERNEL, BY_NAME, 2, false, false,
	  3 },
	{ "two devices: kernels read the peer's memory", BY_KERNEL, QUEUE_AHEAD, 1, true, false, 20 },
	{ "two devices: kernels write the peer's memory, three streams, waits before signals", BY_KERNEL, WAIT_FIRST, 3,
	  true, true, 20 },
	{ "two devices: the writer copies into the peer's memory", WRITER_COPIES, QUEUE_AHEAD, 1, true, true, 20 },
};

#define HANDOVERS (sizeof handovers / sizeof handovers[0])

/* order.flags */
#define IS_PING   1u
#define IS_BROKEN 2u /* pong leaves out its waits */

/* ---- inside a process ---- */

static gpub_kernel stamp, stamp_check, late_write_kernel;

/* One process's end of a hand-over, from do_open to do_close. */
static struct {
	const struct handover *handover;
	bool        is_ping, is_broken, waits;
	unsigned    rotation;        /* rounds go to the first so many streams in rotation */
	void       *stream[STREAMS]; /* NULL: the legacy stream */
	gpub_lease  out, in, copied; /* what it writes, what it reads, and its own memory for copies */
	gpub_lease  verdict;         /* stamp_check's, and a word more for late_write */
	uint64_t    seen[4];         /* the verdict, copied */
} end;

/* "PLACE-IN-TABLE/ping/WHAT" of the buffer that ping (or pong) writes. */
static const char *name_of(bool ping, const char *what, uint64_t round)
{
	static char name[GPUB_NAME_MAX + 1];

	snprintf(name, sizeof name, "%u/%s/%s/%" PRIu64, (unsigned)(end.handover - handovers), ping ? "ping" : "pong",
		 what, round);
	return name;
}

static int make(const char *name, int device, uint64_t size, unsigned flags)
{
	gpub_spec spec = GPUB_SPEC_INIT;

	spec.size = size;
	spec.device = device;
	spec.flags = flags;
	return gpub_create(client, name, &spec);
}

/* Memory of this process alone, on its device. */
static int make_private(const char *name, uint64_t size, gpub_lease *held)
{
	int error = make(name, GPUB_CURRENT, size, 0);

	if (!error)
		error = gpub_acquire(client, name, GPUB_READ | GPUB_WRITE, 0, held);
	return error ? error : gpub_unlink(client, name);
}

static int launch_stamp(void *words, uint64_t round, void *stream)
{
	gpub_launch_config config = linear_grid(WORDS, stream);
	uint64_t count = WORDS;
	void *args[] = { &words, &round, &count };

	return gpub_launch(stamp, &config, args);
}

static int launch_check(void *words, uint64_t round, void *stream)
{
	gpub_launch_config config = linear_grid(WORDS, stream);
	uint64_t count = WORDS;
	void *args[] = { &end.verdict.ptr, &words, &round, &count };

	return gpub_launch(stamp_check, &config, args);
}

static int launch_delay(uint64_t milliseconds, void *stream)
{
	gpub_launch_config config = single_grid(stream);
	uint64_t *word = (uint64_t *)end.verdict.ptr + 4, value = 0;
	void *args[] = { &word, &value, &milliseconds };

	return gpub_launch(late_write_kernel, &config, args);
}

static int write_round(void *words, uint64_t round, void *stream)
{
	int error;

	if (end.handover->by != WRITER_COPIES)
		return launch_stamp(words, round, stream);
	error = launch_stamp(end.copied.ptr, round, stream);
	return error ? error : gpub_copy_on(client, words, end.copied.ptr, SIZE, stream);
}

static int check_round(void *words, uint64_t round, void *stream)
{
	int error;

	if (end.handover->by != READER_COPIES)
		return launch_check(words, round, stream);
	error = gpub_copy_on(client, end.copied.ptr, words, SIZE, stream);
	return error ? error : launch_check(end.copied.ptr, round, stream);
}

/* Waits until the timeline has that round. -ETIME: it does not move any more; answer.value is where it stands. */
static int reach(const gpub_lease *timeline, uint64_t round)
{
	unsigned scans = 0, most = on_cuda() ? 200000 : 60000;
	uint64_t now = 0, before = 0;
	int error = gpub_timeline(timeline, &now);

	while (!error && now < round && scans++ < most) {
		usleep(50);
		error = gpub_timeline(timeline, &now);
		scans = now == before ? scans : 0;
		before = now;
	}
	step_value = now;
	return error || now >= round ? error : -ETIME;
}

/* ---- a round by timelines ---- */

static int signal_round(uint64_t round, void *stream)
{
	int error = round > WINDOW ? reach(&end.out, round - WINDOW) : 0;

	if (!error)
		error = write_round(end.out.ptr, round, stream);
	return error ? error : gpub_signal_on(&end.out, round, stream);
}

static int wait_round(uint64_t round, void *stream)
{
	int error = end.waits ? gpub_wait_on(&end.in, round, stream) : 0;

	return error ? error : check_round(end.in.ptr, round, stream);
}

/* ---- a round by names: each round has new buffers, in memory that an earlier round had ---- */

/* The name "written" is created after the data is written. */
static int give_round(uint64_t round)
{
	gpub_lease data;
	int error = make(name_of(end.is_ping, "data", round), GPUB_CURRENT, SIZE, 0);

	if (!error)
		error = gpub_acquire(client, name_of(end.is_ping, "data", round), GPUB_READ | GPUB_WRITE, 0, &data);
	if (!error)
		error = write_round(data.ptr, round, end.stream[0]);
	if (!error)
		error = gpub_return_on(&data, end.stream[0]);
	if (!error)
		error = gpub_stream_sync(end.stream[0]);
	return error ? error : make(name_of(end.is_ping, "written", round), GPUB_CURRENT, 1, GPUB_EPHEMERAL);
}

static int await_written(uint64_t round)
{
	gpub_lease written;
	int error = gpub_acquire(client, name_of(!end.is_ping, "written", round), GPUB_READ, ACQUIRE_MS, &written);

	if (!error)
		error = gpub_return_on(&written, end.stream[1]);
	return error ? error : gpub_unlink(client, name_of(!end.is_ping, "written", round));
}

/*
 * The name is unlinked while the check is queued or runs, and nothing here waits for that but for the bound of WINDOW.
 * Some checks are late: memory that served another buffer before the return in stream order would be zeroed before they
 * read it.
 */
static int take_round(uint64_t round)
{
	gpub_lease data;
	int error = end.waits ? await_written(round) : 0;

	if (!error && round % WINDOW == 0)
		error = gpub_stream_sync(end.stream[1]);
	if (!error)
		error = gpub_acquire(client, name_of(!end.is_ping, "data", round), GPUB_READ, ACQUIRE_MS, &data);
	if (!error && round % LATE_EACH == 0)
		error = launch_delay(LATE_MS, end.stream[1]);
	if (!error)
		error = check_round(data.ptr, round, end.stream[1]);
	if (!error)
		error = gpub_return_on(&data, end.stream[1]);
	if (!error && !end.waits)
		/* the writer has acquired what is unlinked next, but the check is too early */
		error = await_written(round);
	return error ? error : gpub_unlink(client, name_of(!end.is_ping, "data", round));
}

/* ---- steps ---- */

static int open_kernels(void)
{
	static gpub_module *module;
	int error;

	if (module)
		return 0;
	error = gpub_module_open(&module, client, "kernels");
	if (!error)
		error = gpub_module_kernel(module, "stamp", &stamp);
	if (!error)
		error = gpub_module_kernel(module, "stamp_check", &stamp_check);
	return error ? error : gpub_module_kernel(module, "late_write", &late_write_kernel);
}

static int open_streams(void)
{
	int error = 0;

	for (unsigned i = 0; i < end.handover->streams && !error; i++)
		error = gpub_stream_create(client, GPUB_CURRENT, &end.stream[i]);
	return error;
}

static int open_memory(int own_device, int peer_device)
{
	int error = make_private(name_of(end.is_ping, "verdict", 0), sizeof end.seen + sizeof(uint64_t), &end.verdict);

	if (!error && end.handover->by != BY_KERNEL)
		error = make_private(name_of(end.is_ping, "copied", 0), SIZE, &end.copied);
	if (error || end.handover->how == BY_NAME)
		return error;
	error = make(name_of(end.is_ping, "data", 0), end.handover->at_reader ? peer_device : own_device, SIZE,
		     GPUB_TIMELINE);
	return error ? error :
		       gpub_acquire(client, name_of(end.is_ping, "data", 0), GPUB_READ | GPUB_WRITE, 0, &end.out);
}

/* -ENODEV: there is no second device, or it does not reach the first one's memory. */
static int do_second_device(const struct order *order)
{
	gpub_lease held;
	int error = gpub_set_device(client, 1);

	(void)order;
	if (!error)
		error = make("second", 0, SIZE, GPUB_EPHEMERAL);
	if (!error)
		error = gpub_acquire(client, "second", GPUB_READ | GPUB_WRITE, 0, &held);
	if (!error)
		error = gpub_return(&held);
	return error ? error : gpub_unlink(client, "second");
}

/* order.slot: which hand-over. */
static int do_open(const struct order *order)
{
	int pong_device, own, peer, error;

	memset(&end, 0, sizeof end);
	end.handover = &handovers[order->slot];
	end.is_ping = order->flags & IS_PING;
	end.is_broken = order->flags & IS_BROKEN;
	end.waits = end.is_ping || !end.is_broken;
	/* without waits nothing orders signals on several streams */
	end.rotation = end.handover->streams > 1 && !end.is_broken ? end.handover->streams : 1;
	pong_device = end.handover->two_devices;
	own = end.is_ping ? 0 : pong_device;
	peer = end.is_ping ? pong_device : 0;
	error = gpub_set_device(client, own);
	if (!error)
		error = open_kernels();
	if (!error)
		error = open_streams();
	return error ? error : open_memory(own, peer);
}

/* After do_open of both. */
static int do_meet(const struct order *order)
{
	(void)order;
	if (end.handover->how == BY_NAME)
		return 0;
	return gpub_acquire(client, name_of(!end.is_ping, "data", 0), GPUB_READ, ACQUIRE_MS, &end.in);
}

static int take(uint64_t round, void *stream)
{
	return end.handover->how == BY_NAME ? take_round(round) : wait_round(round, stream);
}

static int give(uint64_t round, void *stream)
{
	return end.handover->how == BY_NAME ? give_round(round) : signal_round(round, stream);
}

/*
 * Rounds order.value to order.size. On several streams the timelines alone order this process's own rounds: each waits
 * for the peer's round, which waited for this process's round before, on another stream.
 */
static int do_rounds(const struct order *order)
{
	int error = 0;

	for (uint64_t round = order->value; round <= order->size && !error; round++) {
		void *stream = end.stream[round % end.rotation];
		uint64_t from = end.is_ping ? round - 1 : round;

		error = from ? take(from, stream) : 0;
		if (!error)
			error = give(round, stream);
	}
	return error;
}

static int sync_all(void)
{
	int error = 0;

	for (unsigned i = 0; i < end.handover->streams && !error; i++)
		error = gpub_stream_sync(end.stream[i]);
	return error;
}

/* order.value: the last round, in which ping has still to check pong's buffer. Then reads the verdict. */
static int do_finish(const struct order *order)
{
	int error = end.is_ping ? take(order->value, end.stream[0]) : 0;

	if (!error && end.handover->how != BY_NAME)
		error = reach(&end.out, order->value);
	if (!error && end.handover->how != BY_NAME)
		error = reach(&end.in, order->value);
	if (!error)
		error = sync_all();
	if (!error)
		error = gpub_copy_on(client, end.seen, end.verdict.ptr, sizeof end.seen, end.stream[0]);
	return error ? error : gpub_stream_sync(end.stream[0]);
}

/* Word order.slot of the verdict. */
static int do_verdict(const struct order *order)
{
	step_value = end.seen[order->slot];
	return 0;
}

static int close_timelines(void)
{
	int error = gpub_return_on(&end.out, end.stream[0]);

	if (!error)
		error = gpub_return_on(&end.in, end.stream[0]);
	return error ? error : gpub_unlink(client, name_of(end.is_ping, "data", 0));
}

static int do_close(const struct order *order)
{
	int error = end.handover->how == BY_NAME ? 0 : close_timelines();

	(void)order;
	if (!error && end.handover->by != BY_KERNEL)
		error = gpub_return_on(&end.copied, end.stream[0]);
	if (!error)
		error = gpub_return_on(&end.verdict, end.stream[0]);
	for (unsigned i = 0; i < end.handover->streams; i++)
		gpub_stream_destroy(end.stream[i]);
	return error;
}

/* ---- the test ---- */

static struct broker_process broker;
static struct puppet ping, pong;

struct verdict {
	uint64_t stale, round, index, found;
};

static const char *side_of(const struct puppet *puppet)
{
	return puppet == &ping ? "ping" : "pong";
}

/* After an error the other process's streams may wait for ever, so the test ends. */
static void heed(const struct handover *handover, const struct puppet *puppet)
{
	if (puppet->last.result == -ETIME)
		bail_out("%s: %s waits for a later round, and the timeline stays at %" PRIu64, handover->what,
			 side_of(puppet), puppet->last.value);
	if (puppet->last.result)
		bail_out("%s: %s: %s: %s", handover->what, side_of(puppet), strerror(-puppet->last.result),
			 puppet->last.text);
}

static void both(const struct handover *handover, struct order order)
{
	puppet_tell(&ping, order);
	puppet_tell(&pong, order);
	receive(&ping);
	receive(&pong);
	heed(handover, &ping);
	heed(handover, &pong);
}

static void one(const struct handover *handover, struct puppet *puppet, struct order order)
{
	puppet_tell(puppet, order);
	receive(puppet);
	heed(handover, puppet);
}

static void open_both(const struct handover *handover, bool broken)
{
	struct order order = { .run = do_open, .slot = (int)(handover - handovers), .flags = broken ? IS_BROKEN : 0 };

	one(handover, &pong, order);
	order.flags |= IS_PING;
	one(handover, &ping, order);
	both(handover, (struct order){ .run = do_meet });
}

/* Rounds that are queued on one side, then on the other. */
static void play_in_turn(const struct handover *handover, struct puppet *first, uint64_t from, uint64_t to)
{
	struct order rounds = { .run = do_rounds, .value = from, .size = to };

	one(handover, first, rounds);
	one(handover, first == &ping ? &pong : &ping, rounds);
}

static void play(const struct handover *handover, uint64_t rounds)
{
	uint64_t many = handover->how == WAIT_FIRST ? PARKED : CHUNK;

	for (uint64_t round = 1; round <= WARM; round++)
		play_in_turn(handover, &ping, round, round);
	for (uint64_t from = WARM + 1; from <= rounds; from += many) {
		uint64_t to = from + many - 1 < rounds ? from + many - 1 : rounds;

		if (handover->how == WAIT_FIRST)
			play_in_turn(handover, from / many % 2 ? &ping : &pong, from, to);
		else
			both(handover, (struct order){ .run = do_rounds, .value = from, .size = to });
	}
	both(handover, (struct order){ .run = do_finish, .value = rounds });
}

static struct verdict verdict_of(struct puppet *puppet)
{
	uint64_t word[4];

	for (int i = 0; i < 4; i++) {
		ask(puppet, do_verdict, .slot = i);
		word[i] = puppet->last.value;
	}
	return (struct verdict){ word[0], word[1], word[2], word[3] };
}

static void explain(const struct puppet *puppet, const struct verdict *verdict)
{
	if (verdict->stale)
		printf("# %s read %" PRIu64 " stale words: first in round %" PRIu64 ", word %" PRIu64
		       ": expected %#" PRIx64 ", found %#" PRIx64 ", which is word %u of round %u\n",
		       side_of(puppet), verdict->stale, verdict->round, verdict->index,
		       stamp_word(verdict->round, verdict->index), verdict->found, (unsigned)verdict->found,
		       (unsigned)(verdict->found >> 32));
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* How many words were stale. */
static uint64_t run(const struct handover *handover, uint64_t rounds, bool broken)
{
	struct verdict at_ping, at_pong;
	double began;

	open_both(handover, broken);
	began = seconds();
	play(handover, rounds);
	printf("# %.1f s, %.0f us a round\n", seconds() - began, 1e6 * (seconds() - began) / (double)rounds);
	at_ping = verdict_of(&ping);
	at_pong = verdict_of(&pong);
	explain(&ping, &at_ping);
	explain(&pong, &at_pong);
	both(handover, (struct order){ .run = do_close });
	return at_ping.stale + at_pong.stale;
}

/* Shows that the check can fail. */
static void test_missing_wait(const struct handover *handover, uint64_t rounds)
{
	uint64_t stale = run(handover, rounds, true);

	POINT(stale, "%s: where one side does not wait, %" PRIu64 " words are stale", handover->what, stale);
}

static void test_handover(const struct handover *handover, uint64_t rounds, bool broken)
{
	int64_t made = status_counter(&broker, "allocations_made");
	uint64_t stale = run(handover, rounds, broken);

	POINT(!stale, "%s: %" PRIu64 " rounds, %" PRIu64 " hand-overs of 1 MiB, %" PRIu64 " stale words",
	      handover->what, rounds, 2 * rounds, stale);
	if (handover->how != BY_NAME)
		return;
	made = status_counter(&broker, "allocations_made") - made;
	POINT((uint64_t)made < rounds / 2 + WARM, "invariant 2: these %" PRIu64 " buffers were in %" PRId64
	      " allocations: memory serves again, and after the check alone", 2 * rounds, made);
}

/* False: the reason says why not. */
static bool have_two_devices(char *reason, size_t size)
{
	int error = ask(&pong, do_second_device);

	snprintf(reason, size, "%s", pong.last.text);
	if (error && error != -ENODEV)
		bail_out("the second device: %s", reason);
	return !error;
}

static uint64_t rounds_in_all(void)
{
	const char *told = getenv("ORDERS_ROUNDS");
	uint64_t rounds = told ? strtoull(told, NULL, 10) : on_cuda() ? 100000 : 1000;

	return rounds ? rounds : 1;
}

static uint64_t rounds_of(unsigned which, bool two)
{
	uint64_t shares = 0, rounds;

	for (unsigned i = 0; i < HANDOVERS; i++)
		shares += two || !handovers[i].two_devices ? handovers[i].share : 0;
	rounds = (rounds_in_all() * handovers[which].share + shares - 1) / shares;
	return rounds > WARM ? rounds : WARM + 1;
}

int main(void)
{
	bool broken = getenv("ORDERS_BREAK"), two;
	char reason[256];

	harness_begin("orders", 150 + (unsigned)(rounds_in_all() / 1000));
	setenv("GPUB_HOST_SEED", "1", 0);
	broker_start(&broker, "host:2");
	puppet_start(&ping, &broker);
	puppet_start(&pong, &broker);
	two = have_two_devices(reason, sizeof reason);
	test_missing_wait(&handovers[0], 2 * WINDOW);
	for (unsigned i = 0; i < HANDOVERS; i++)
		if (two || !handovers[i].two_devices)
			test_handover(&handovers[i], rounds_of(i, two), broken);
		else
			POINT(true, "%s # SKIP %s", handovers[i].what, reason);
	puppet_end(&ping);
	puppet_end(&pong);
	broker_end(&broker);
	return harness_end();
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline-pages.c - what is mapped and registered for timelines, by their writer, their reader and the broker, does
 * not grow with the number of timelines that they ever had, and nothing of it is left behind a disconnect.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "device/host.h"
#include "harness.h"

#define TURNS  2000u
#define ROUNDS 20u /* of TURNS / ROUNDS cycles, with a disconnect between */
#define FEW    16  /* pages: those of the last cycles */
#define SLACK  64u /* maps that the allocator, a sanitizer and the driver may add */

static struct broker_process broker;
static struct puppet a, b; /* the writer, the reader */

/* ---- what is mapped ---- */

static unsigned lines(const char *path, const char *word)
{
	FILE *maps = fopen(path, "re");
	unsigned count = 0;
	char line[512];

	while (maps && fgets(line, sizeof line, maps))
		count += strstr(line, word) != NULL;
	if (maps)
		fclose(maps);
	return count;
}

static int do_pages(const struct order *order)
{
	(void)order;
	step_value = lines("/proc/self/maps", "gpubroker-timeline");
	return 0;
}

static unsigned pages(struct puppet *puppet)
{
	ask(puppet, do_pages);
	return (unsigned)puppet->last.value;
}

static int do_maps(const struct order *order)
{
	(void)order;
	step_value = lines("/proc/self/maps", "");
	return 0;
}

static unsigned maps(struct puppet *puppet)
{
	ask(puppet, do_maps);
	return (unsigned)puppet->last.value;
}

/* What its host device knows of. */
static int do_registered(const struct order *order)
{
	(void)order;
	step_value = on_cuda() ? 0 : host_pages();
	return 0;
}

static unsigned registered(struct puppet *puppet)
{
	ask(puppet, do_registered);
	return (unsigned)puppet->last.value;
}

/* The broker's descriptors of timelines. */
static unsigned broker_pages(void)
{
	char path[64], target[64], link[400];
	const struct dirent *entry;
	unsigned count = 0;
	DIR *directory;

	snprintf(path, sizeof path, "/proc/%d/fd", server_of(broker.pid));
	directory = opendir(path);
	while (directory && (entry = readdir(directory))) {
		ssize_t length;

		snprintf(link, sizeof link, "%s/%s", path, entry->d_name);
		length = readlink(link, target, sizeof target - 1);
		target[length > 0 ? length : 0] = 0;
		count += strstr(target, "memfd:gpubroker-timeline") != NULL;
	}
	if (directory)
		closedir(directory);
	return count;
}

/* ---- steps ---- */

/* Small, so that it shares its memory with others, unless order.flags say otherwise. */
static int do_make(const struct order *order)
{
	gpub_spec spec = GPUB_SPEC_INIT;

	spec.size = 256;
	spec.flags = order->flags | GPUB_TIMELINE;
	return gpub_create(client, order->name, &spec);
}

static int do_drain(const struct order *order)
{
	return gpub_drain(client, order->name, order->timeout);
}

static int do_cache(const struct order *order)
{
	return gpub_set_cache(client, (unsigned)order->value, UINT64_MAX);
}

/* ---- the world ---- */

static void begin(void)
{
	broker_start(&broker, "host:2");
	puppet_start(&a, &broker);
	puppet_start(&b, &broker);
	ask(&a, do_stream);
	ask(&b, do_stream);
}

static void end(void)
{
	puppet_end(&a);
	puppet_end(&b);
	POINT(SOON(!broker_pages()), "the broker has no page of a buffer that is gone");
	broker_end(&broker);
}

static bool goes(struct puppet *puppet, struct order order)
{
	puppet_tell(puppet, order);
	if (!puppet_receive(puppet))
		return true;
	printf("# %s\n", puppet->last.text);
	return false;
}

#define GOES(puppet, ...) goes((puppet), (struct order){ .run = __VA_ARGS__ })

/* Both have a lease of a new buffer, one signals, the other waits, and both give it back. */
static bool turn(const char *name, unsigned flags)
{
	struct order make = { .run = do_make, .flags = flags }, take = { .run = do_acquire };

	snprintf(make.name, sizeof make.name, "%s", name);
	snprintf(take.name, sizeof take.name, "%s", name);
	return goes(&a, make) && goes(&a, take) && goes(&b, take) && GOES(&b, do_wait, .value = 1) &&
	       GOES(&a, do_signal, .value = 1) && GOES(&b, do_sync) && GOES(&a, do_sync) &&
	       GOES(&b, do_return_on) && GOES(&b, do_sync) && GOES(&a, do_return_on) && GOES(&a, do_sync);
}

/* The buffer goes, and is awaited to be gone. */
static bool turn_over(const char *name)
{
	struct order order = { .run = do_drain, .timeout = 10000 };

	snprintf(order.name, sizeof order.name, "%s", name);
	return goes(&a, order);
}

/* The reader's closer thread may have had no processor yet. */
static unsigned reader_pages(void)
{
	unsigned had = pages(&b);

	return had > FEW && SOON(pages(&b) <= FEW) ? pages(&b) : had;
}

/*
 * *most: the most pages that each of them had after a cycle. Ends early where those are too many: to count them takes
 * long.
 */
static bool turns(unsigned count, unsigned flags, unsigned most[2])
{
	for (unsigned i = 0; i < count && most[0] <= FEW && most[1] <= FEW; i++) {
		unsigned had[2];

		if (!turn("t", flags) || !turn_over("t"))
			return false;
		had[0] = pages(&a);
		had[1] = reader_pages();
		most[0] = had[0] > most[0] ? had[0] : most[0];
		most[1] = had[1] > most[1] ? had[1] : most[1];
	}
	return true;
}

/* ---- tests ---- */

/* A reader that closes by itself, in shared memory and in memory of the buffer's own; the writer's drains close. */
static void test_turns(unsigned count, unsigned flags, const char *what)
{
	unsigned most[2] = { 0 };
	bool good;

	begin();
	ask(&b, do_flags, .flags = GPUB_BACKGROUND_CLOSE);
	good = turns(count, flags, most);
	POINT(good && most[0] <= FEW && most[1] <= FEW,
	      "%u timelines one after another, %s: their writer has few pages, and their reader", count, what);
	printf("# at most %u and %u\n", most[0], most[1]);
	POINT(SOON(pages(&b) <= 1), "and when all are gone the reader has but the last one's");
	end();
}

/* Nobody calls what closes: where there are many, an acquire gives them back. */
static void test_without_closing(void)
{
	unsigned most[2] = { 0 };
	bool good;

	begin();
	ask(&b, do_cache, .value = 160);
	good = turns(TURNS / 4, 0, most);
	POINT(good && most[1] <= FEW,
	      "a process that never closes gives them back where there are more than a part of its cache");
	printf("# at most %u\n", most[1]);
	ask(&b, do_trim);
	POINT(pages(&b) == 0, "a trim gives back the last ones");
	end();
}


static void test_disconnects(void)
{
	unsigned before[2] = { 0 }, most[2] = { 0 }, words[2] = { 0 };
	bool good = true, none = true;

	begin();
	for (unsigned round = 0; good && round < ROUNDS; round++) {
		good = turns(TURNS / ROUNDS / 2, 0, most) && turn("kept", 0);
		good = good && !ask(&a, do_disconnect) && !ask(&b, do_disconnect);
		none = none && !pages(&a) && !pages(&b);
		if (round == 1) {
			before[0] = maps(&a);
			before[1] = maps(&b);
			words[0] = registered(&a);
			words[1] = registered(&b);
		}
		good = good && !ask(&a, do_connect) && !ask(&b, do_connect) && !ask(&a, do_unlink, .name = "kept");
	}
	POINT(good && none, "behind each disconnect neither writer nor reader has a page, used or not");
	ask(&a, do_disconnect);
	ask(&b, do_disconnect);
	printf("# maps %u and %u, then %u and %u; registered %u and %u, then %u and %u\n", before[0], before[1],
	       maps(&a), maps(&b), words[0], words[1], registered(&a), registered(&b));
	POINT(maps(&a) <= before[0] + SLACK && maps(&b) <= before[1] + SLACK,
	      "nor more maps than behind the second one");
	POINT(registered(&a) == words[0] && registered(&b) == words[1], "nor more memory registered");
	ask(&a, do_connect);
	ask(&b, do_connect);
	end();
}

/* order.value connections, with a lease that is returned in stream order in each. */
static int do_connections(const struct order *order)
{
	int error = 0;

	for (uint64_t i = 0; !error && i < order->value; i++) {
		gpub_disconnect(client);
		error = gpub_connect(&client, NULL);
		if (!error)
			error = gpub_acquire(client, "x", GPUB_READ, 0, &lease[0]);
		if (!error)
			error = gpub_return_on(&lease[0], work);
	}
	return error;
}

/* The words that returns land in are a client structure's, which serves the next connection. */
static void test_words(void)
{
	unsigned before, words;

	begin();
	ask(&a, do_create, .name = "x");
	ask(&b, do_connections, .value = 20);
	before = maps(&b);
	words = registered(&b);
	for (int i = 0; i < 10; i++)
		if (!GOES(&b, do_connections, .value = 50))
			bail_out("no connection");
	POINT(maps(&b) <= before + SLACK, "500 more connections of one process: it has no more maps");
	POINT(registered(&b) == words, "nor more memory registered for returns");
	printf("# maps %u, then %u\n", before, maps(&b));
	end();
}

/* As long as it takes the broker to answer others some hundred times. */
static bool stays(struct puppet *puppet, unsigned count)
{
	for (int i = 0; i < 300; i++)
		if (pages(puppet) != count || ask(puppet, do_stat, .name = "gate"))
			return false;
	return true;
}

/* It waits as a close does, on the closer's thread, and holds up nothing but launches. */
static void test_parked(void)
{
	begin();
	ask(&a, do_make, .name = "gate");
	ask(&a, do_acquire, .name = "gate", .slot = 1);
	ask(&b, do_acquire, .name = "gate", .slot = 1);
	turn("t", 0);
	POINT(pages(&b) == 2, "a reader has two timelines");
	POINT(!ask(&b, do_wait, .slot = 1, .value = 1), "one of its streams waits for the one");
	ask(&b, do_flags, .flags = GPUB_BACKGROUND_CLOSE);
	ask(&a, do_unlink, .name = "t");
	POINT(stays(&b, 2), "the other's page is not given back as long as it does, and the process goes on");
	ask(&a, do_signal, .slot = 1, .value = 1);
	POINT(!ask(&b, do_sync), "the signal ends the wait");
	POINT(SOON(pages(&b) == 1), "and then the page goes");
	ask(&b, do_return, .slot = 1);
	ask(&a, do_return, .slot = 1);
	ask(&a, do_unlink, .name = "gate");
	ask(&a, do_trim);
	end();
}

/* What has closed its mapping is the writer still. */
static void test_writer_without_mapping(void)
{
	begin();
	turn("t", 0);
	ask(&b, do_acquire, .name = "t");
	ask(&b, do_wait, .value = 2);
	ask(&a, do_trim);
	POINT(!ask(&a, do_acquire, .name = "t", .slot = 1) && ask(&a, do_signal, .slot = 1, .value = 1) == -EINVAL,
	      "a writer that has it mapped again goes on where it stopped");
	ask(&a, do_return, .slot = 1);
	ask(&a, do_trim);
	tell(&b, do_sync);
	broker_wait(&broker, SIGKILL);
	POINT(!receive(&b), "a writer that has it mapped no more ends it all the same when the broker is killed");
	/* the mark may be there before this process's own library has noticed */
	ask(&b, do_timeline);
	POINT(b.last.result == -EOWNERDEAD || b.last.result == -ECONNRESET, "as a dead writer's");
	ask(&a, do_disconnect);
	ask(&b, do_disconnect);
	POINT(!pages(&a) && !pages(&b), "without a broker, too, nothing is left behind a disconnect");
	puppet_kill(&a);
	puppet_kill(&b);
}

int main(void)
{
	harness_begin("timeline-pages", 120);
	test_turns(TURNS, 0, "in shared memory");
	test_turns(TURNS / 4, GPUB_DEDICATED, "each with memory of its own");
	test_without_closing();
	test_disconnects();
	test_words();
	test_parked();
	test_writer_without_mapping();
	return harness_end();
}

/* SPDX-License-Identifier: Apache-2.0 */
/* arena.c - see arena.h */
#include "arena.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "arena-broker.h"
#include "arena-killer.h"
#include "arena-users.h"
#include "broker/show/read.h"
#include "tests/integration/weather.h"
#include "victim.h"

#define LINGER_MS  300 /* that an attacker whose memory ends goes on while it waits */
#define POOLED         8 /* descriptors of pooled memory; a leak would have more after some attacks */
#define RSS_MAX        (64l << 20) /* what the broker may have grown by: malloc keeps some of what it once needed */

struct stage *stage;
struct broker_process arena_broker;

static pid_t victim, home;
static json_t *baseline, *before;
static int descriptors_before;
static long rss_before;
static long log_from;
static enum arena_mortal mortal; /* who dies during the attacks */
static const char *const suffixes[] = { [ARENA_NOBODY] = "",
					[ARENA_OWNER] = ", while the owner dies again and again",
					[ARENA_BROKER] = ", while the broker dies again and again" };
static char wrong[512]; /* what the attack that runs now has broken; the first that was seen */

uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

__attribute__((format(printf, 1, 2))) static void complain(const char *format, ...)
{
	va_list args;

	if (wrong[0])
		return;
	va_start(args, format);
	vsnprintf(wrong, sizeof wrong, format, args);
	va_end(args);
}

/* ---- attacks, from inside ---- */

void attack_failed(const char *file, int line, const char *what)
{
	const char *slash = strrchr(file, '/');

	if (!atomic_exchange(&stage->failed, true))
		snprintf(stage->failure, sizeof stage->failure, "%s:%d: not so: %s", slash ? slash + 1 : file, line,
			 what);
	_exit(1);
}

void hold(void)
{
	atomic_store(&stage->ready, true);
	while (!atomic_load(&stage->go_on))
		usleep(2000);
}

void attack_done(void)
{
	atomic_store(&stage->done, true);
}

static void (*attack_run)(void);

static void attack_process(void)
{
	struct rlimit limit;

	setpgid(0, 0);
	if (!getrlimit(RLIMIT_NOFILE, &limit)) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	stage->pid[0] = getpid();
	attack_run();
	WANT(!speaker_saw_canary());
	attack_done();
}

/* ---- the accounting ---- */

int64_t counted(const char *counter)
{
	return status_counter(&arena_broker, counter) - json_integer_value(json_object_get(before, counter));
}

int64_t charged(enum user user, const char *resource)
{
	json_t *text = status_json(&arena_broker), *one;
	int64_t amount = 0;
	size_t i;

	json_array_foreach(json_object_get(text, "users"), i, one)
		if (json_integer_value(json_object_get(one, "uid")) == arena_uid(user))
			amount = json_integer_value(json_object_get(json_object_get(one, "used"), resource));
	json_decref(text);
	return amount;
}

static void keep(json_t *to, const json_t *from, const char *const *keys)
{
	for (; *keys; keys++)
		json_object_set(to, *keys, json_object_get(from, *keys));
}

static json_t *kept_array(const json_t *array, const char *const *keys)
{
	json_t *kept = json_array(), *element;
	size_t i;

	json_array_foreach(array, i, element) {
		json_t *one = json_object();

		keep(one, element, keys);
		json_array_append_new(kept, one);
	}
	return kept;
}

/* Buffers by name and state, in any order. */
static json_t *by_name(json_t *buffers)
{
	json_t *named = json_object(), *buffer;
	char key[300];
	size_t i;

	json_array_foreach(buffers, i, buffer) {
		snprintf(key, sizeof key, "%s, %s", json_string_value(json_object_get(buffer, "name")),
			 json_string_value(json_object_get(buffer, "state")));
		json_object_set(named, key, buffer);
	}
	json_decref(buffers);
	return named;
}

/* What is held, by whom, and nothing that changes by itself. */
static json_t *status_kept(void)
{
	static const char *const buffer[] = { "generation", "name", "state", "owner", "mode", "grants", "held", NULL };
	static const char *const session[] = { "session", "pid", "state", "mappings", NULL };
	static const char *const user[] = { "uid", "used", NULL };
	json_t *text = status_json(&arena_broker), *held = json_object();

	json_object_set(held, "waiting", json_object_get(text, "waiting"));
	json_object_set_new(held, "buffers",
			    by_name(kept_array(json_object_get(text, "buffers"), buffer + stage->names_end)));
	json_object_set_new(held, "sessions", kept_array(json_object_get(text, "sessions"), session));
	json_object_set_new(held, "users", kept_array(json_object_get(text, "users"), user));
	json_decref(text);
	return held;
}

static bool status_is_back(void)
{
	json_t *held = status_kept();
	bool same = json_equal(held, baseline);

	json_decref(held);
	return same;
}

static void check_status(void)
{
	char *text;

	if (SOON(status_is_back()))
		return;
	text = json_dumps(status_kept(), JSON_COMPACT);
	complain("the status is not back to what it was: %.400s", text);
	free(text);
}

/* ---- the broker as the system sees it ---- */

static void show_log(void)
{
	FILE *log = fopen(arena_broker.log, "r");
	char line[512];

	while (log && fgets(line, sizeof line, log))
		printf("# %s", line);
	if (log)
		fclose(log);
}

static void check_broker(void)
{
	int status;

	if (arena_ended(arena_broker.pid, &status)) {
		show_log();
		bail_out("the broker is dead, wait status %#x: %s", (unsigned)status, wrong);
	}
}

/* Whether it has reported memory that was freed too early, since the attack began. */
static bool log_has_violation(void)
{
	FILE *log = fopen(arena_broker.log, "r");
	char line[1024];
	bool found = false;

	if (!log)
		return false;
	fseek(log, log_from, SEEK_SET);
	while (fgets(line, sizeof line, log))
		found |= strstr(line, "VIOLATION") != NULL;
	log_from = ftell(log);
	fclose(log);
	return found;
}

/* ---- clients after an attack ---- */

bool newcomer_works(enum user user)
{
	uint64_t begin = now_us();
	int status = 0;
	bool works = arena_wait_for(arena_fork(user, newcomer_run), &status, ARENA_ENTRY_MS / 1000) && !status;

	return works && now_us() - begin < ARENA_ENTRY_MS * 1000ull;
}

/* What was sent before is done when this is answered, and the status file says so. */
static void finish(struct speaker *s)
{
	speaker_named(s, WIRE_STAT, "no/such/buffer");
}

/* As a user that may: unlinks what the attack has left behind. */
static void sweep(void)
{
	struct speaker broom;
	json_t *text, *buffer;
	size_t i;

	WANT(!speaker_greet(&broom));
	finish(&broom);
	text = status_json(&arena_broker);
	json_array_foreach(json_object_get(text, "buffers"), i, buffer) {
		const char *name = json_string_value(json_object_get(buffer, "name"));

		if (!victim_owns(name))
			speaker_named(&broom, WIRE_UNLINK, name);
	}
	speaker_end(&broom);
}

static bool sweep_everything(void)
{
	int status = 0;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (!pid) {
		sweep();
		_exit(0);
	}
	return arena_wait_for(pid, &status, 20) && !status;
}

static bool all_bytes_are(const uint8_t *bytes, size_t size, uint8_t byte)
{
	return bytes[0] == byte && !memcmp(bytes, bytes + 1, size - 1);
}

/*
 * Most of what the attacker may have: whoever freed it, it is zeros at first sight. It goes back full of other bytes.
 */
static void hunt(void)
{
	enum { COUNT = 9, SIZE = 4 << 20 };
	struct speaker hunter;
	struct wire_grant grant;
	uint8_t *bytes;
	char name[32];
	int error;

	WANT(!speaker_greet(&hunter));
	for (int i = 0; i < COUNT; i++) {
		snprintf(name, sizeof name, "hunter/%d", i);
		/* what the attack had may be on its way back */
		if (!SOON((error = speaker_create(&hunter, name, SIZE, 0600, 0)) != -EDQUOT && error != -ENOMEM))
			break;
		WANT(!error);
		WANT(!speaker_acquire(&hunter, name, GPUB_READ | GPUB_WRITE, &grant));
		bytes = speaker_map(&hunter, &grant);
		WANT(bytes);
		WANT(all_bytes_are(bytes, SIZE, 0));
		memset(bytes, 0xee, SIZE);
		munmap(bytes, SIZE);
		WANT(!speaker_closed(&hunter, grant.mapping));
	}
	WANT(!error);
	for (int i = 0; i < COUNT; i++) {
		snprintf(name, sizeof name, "hunter/%d", i);
		WANT(!speaker_named(&hunter, WIRE_UNLINK, name));
	}
	WANT(!speaker_saw_canary());
	speaker_end(&hunter);
}

/* ---- the victim's latency ---- */

static int by_size(const void *a, const void *b)
{
	return (*(const uint32_t *)a > *(const uint32_t *)b) - (*(const uint32_t *)a < *(const uint32_t *)b);
}

/* The share'th thousandth; of what is sorted. */
static uint32_t quantile(const uint32_t *sorted, unsigned count, unsigned share)
{
	return count ? sorted[(uint64_t)(count - 1) * share / 1000] : 0;
}

static unsigned taken(_Atomic unsigned *count)
{
	unsigned now = atomic_load(count);

	return now < SAMPLES ? now : SAMPLES;
}

static void measure_begin(void)
{
	atomic_store(&stage->trips, 0);
	atomic_store(&stage->acquires, 0);
}

static bool is_paused(bool paused)
{
	return atomic_load(&stage->paused) == paused;
}

static bool victim_pause(bool pause)
{
	atomic_store(&stage->pause, pause);
	return SOON(is_paused(pause));
}

void arena_measure(void)
{
	if (!victim_pause(true))
		bail_out("the victim hangs");
	measure_begin();
	victim_pause(false);
}

uint32_t arena_measured(unsigned share, unsigned *count)
{
	if (!victim_pause(true))
		bail_out("the victim hangs");
	*count = taken(&stage->acquires);
	qsort(stage->acquire_us, *count, sizeof stage->acquire_us[0], by_size);
	return quantile(stage->acquire_us, *count, share);
}

/* With the victim paused. */
static void check_latency(const struct attack *attack)
{
	unsigned count = taken(&stage->trips);
	uint32_t *trips = stage->trip_us, p99, worst;

	qsort(trips, count, sizeof *trips, by_size);
	p99 = quantile(trips, count, 990);
	worst = quantile(trips, count, 1000);
	printf("# %s: %u round trips of the victim: p50 %u us, p99 %u us, worst %u us; broker %+ld KiB; %u owners were "
	       "killed\n", attack->name, count, quantile(trips, count, 500), p99, worst,
	       (arena_broker_rss(&arena_broker) - rss_before) >> 10, atomic_load(&stage->killed));
	if (attack->flags & TAKES_SECONDS && p99 > ARENA_P99_MS * 1000)
		complain("one in a hundred round trips of the victim took %u ms or more", p99 / 1000);
	if (worst > ARENA_TRIP_MS * 1000)
		complain("a round trip of the victim took %u ms", worst / 1000);
	if (!count)
		complain("the victim got nothing done");
}

/* ---- one attack ---- */

static void attack_begin(const struct attack *attack)
{
	static unsigned attacks;
	json_t *text;

	wrong[0] = 0;
	if (!broker_weather(&arena_broker, attacks++))
		complain("a name of the broker that was removed does not come again");
	text = status_json(&arena_broker);
	json_decref(before);
	before = json_incref(json_object_get(text, "counters"));
	json_decref(text);
	atomic_store(&stage->ready, false);
	atomic_store(&stage->go_on, false);
	atomic_store(&stage->done, false);
	atomic_store(&stage->failed, false);
	measure_begin();
	if (attack->prepare && !arena_run(VICTIM, attack->prepare))
		complain("it cannot be prepared: %s", stage->failure);
	atomic_store(&stage->killed, 0);
	if (mortal)
		arena_kill(mortal);
}

static bool come_to(const _Atomic bool *flag, pid_t pid, int *status, bool *over)
{
	if (!atomic_load(flag) && !*over)
		*over = arena_ended(pid, status);
	return atomic_load(flag) || *over;
}

/* What must hold while the attacker waits. Spares the owner for what looks at pooled memory. */
static bool holds_during(const struct attack *attack)
{
	if (attack->flags & COUNTS_POOLED)
		arena_spare();
	return attack->during();
}

/* The attack with memory that ends with its owner: it goes on until the attacker fails, is done, or waits. */
static void attack_with_ends(const struct attack *attack)
{
	bool over = false;
	int status = 0;
	pid_t pid;

	attack_run = attack->run;
	pid = arena_fork(attack->flags & AS_BROKER_USER ? BROKER_USER : ATTACKER, attack_process);
	SOON(come_to(&stage->ready, pid, &status, &over));
	usleep(LINGER_MS * 1000);
	kill(-pid, SIGKILL);
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) > 0 || waitpid(-pid, NULL, 0) > 0)
		;
	arena_spare();
}

static void attack_do(const struct attack *attack)
{
	bool over = false, looked = !attack->during;
	int status = 0;
	pid_t pid;

	attack_run = attack->run;
	pid = arena_fork(attack->flags & AS_BROKER_USER ? BROKER_USER : ATTACKER, attack_process);
	if (attack->during) {
		for (int i = 0; i < 3; i++)
			if (SOON(come_to(&stage->ready, pid, &status, &over)))
				break;
		looked = atomic_load(&stage->ready) && holds_during(attack);
		/* some only end when they are killed */
		if (!looked)
			kill(pid, SIGKILL);
	}
	atomic_store(&stage->go_on, true);
	if (!over && !arena_wait_for(pid, &status, ATTACK_SECONDS))
		complain("the attacker hangs");
	/* what it forked */
	kill(-pid, SIGKILL);
	while (waitpid(-pid, NULL, 0) > 0)
		;
	if (atomic_load(&stage->failed))
		complain("%s", stage->failure);
	else if (!atomic_load(&stage->done))
		complain("the attacker came to a strange end: wait status %#x", (unsigned)status);
	else if (!looked)
		complain("what must hold during the attack does not");
	else if (attack->after && !attack->after())
		complain("what must hold after the attack does not");
}

static void check_everybody(void)
{
	check_broker();
	if (!newcomer_works(BYSTANDER))
		complain("a newcomer cannot connect and work within %d ms: %s", ARENA_ENTRY_MS, stage->failure);
	if (!sweep_everything())
		complain("an administrator cannot tidy up: %s", stage->failure);
	if (!arena_run(ATTACKER, hunt))
		complain("new memory: %s", stage->failure);
}

/* Whether the broker has as many descriptors as before. If brokers die, what is pooled may change, and has some. */
static bool descriptors_are_back(void)
{
	int more = arena_broker_descriptors(&arena_broker) - descriptors_before;

	return mortal == ARENA_BROKER ? abs(more) <= POOLED : !more;
}

static void check_system(void)
{
	long rss = arena_broker_rss(&arena_broker);

	if (!SOON(descriptors_are_back()))
		complain("the broker has %d descriptors, and had %d", arena_broker_descriptors(&arena_broker),
			 descriptors_before);
	if (rss > rss_before + RSS_MAX)
		complain("the broker has grown by %ld MiB", (rss - rss_before) >> 20);
}

static void check_victim(const struct attack *attack)
{
	if (!victim_pause(true))
		complain("the victim hangs in a call");
	if (atomic_load(&stage->wronged))
		complain("the victim: %s", stage->wrong);
	check_latency(attack);
}

static bool is_left_out(const struct attack *attack)
{
	bool missing = attack->flags & NEEDS_USERS && !arena_has_users();

	if (missing)
		POINT(true, "%s # SKIP needs root: several users", attack->name);
	return missing;
}

static void remember_how_it_was(void)
{
	if (!SOON(atomic_load(&stage->trips) > 100) || !victim_pause(true))
		bail_out("the victim does not work: %s", stage->wrong);
	if (!SOON(status_number(&arena_broker, "waiting") == 0 && status_holders(&arena_broker, SECRET, victim) == 1 &&
		  !status_holders(&arena_broker, SECRET_2, 0)))
		bail_out("the status does not come to rest");
	usleep(200000);
	baseline = status_kept();
	descriptors_before = arena_broker_descriptors(&arena_broker);
	rss_before = arena_broker_rss(&arena_broker);
	victim_pause(false);
}

bool arena_has(const struct attack *attack, const char *text)
{
	return strstr(attack->name, text) || strstr(suffixes[mortal], text);
}

void arena_dies(enum arena_mortal who)
{
	mortal = who;
	atomic_store(&stage->names_end, who == ARENA_OWNER && !tested_export()->by_descriptor);
	/* a broker that goes on has another number of descriptors than the first one */
	if (who == ARENA_BROKER && (kill(server_of(arena_broker.pid), SIGKILL) || !newcomer_works(BYSTANDER)))
		bail_out("the next broker does not serve: %s", stage->failure);
	/* a broker that goes on has other descriptors, and buffers that were made anew have other generations */
	if (who != ARENA_OWNER || !tested_export()->by_descriptor)
		remember_how_it_was();
}

void arena_attack(const struct attack *attack)
{
	if (is_left_out(attack))
		return;
	attack_begin(attack);
	if (stage->names_end)
		attack_with_ends(attack);
	else
		attack_do(attack);
	check_everybody();
	arena_spare();
	if (mortal && !newcomer_works(BYSTANDER))
		complain("the last process does not serve: %s", stage->failure);
	check_victim(attack);
	check_status();
	check_system();
	if (log_has_violation() && !(attack->flags & HURTS_ITSELF))
		complain("memory was freed while somebody could touch it");
	check_broker();
	POINT(!wrong[0], "%s%s: %s", attack->name, suffixes[mortal], attack->holds);
	if (wrong[0])
		printf("# %s\n", wrong);
	if (atomic_load(&stage->wronged))
		bail_out("the victim works no more: what comes after would mean nothing");
	victim_pause(false);
}

void arena_attack_status_file(const struct attack *attack)
{
	attack_begin(attack);
	attack_do(attack);
	check_broker();
	if (!newcomer_works(BYSTANDER))
		complain("a newcomer cannot connect and work");
	check_victim(attack);
	POINT(!wrong[0], "%s: %s", attack->name, attack->holds);
	if (wrong[0])
		printf("# %s\n", wrong);
	victim_pause(false);
}

/* ---- beginning and end ---- */

static void stage_make(void)
{
	stage = mmap(NULL, sizeof *stage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (stage == MAP_FAILED || getrandom(stage->canary, CANARY_SIZE, 0) != CANARY_SIZE)
		bail_out("no memory to share: %s", strerror(errno));
	for (int i = 0; i < CANARY_SIZE; i++)
		stage->canary[i] |= 1; /* unlike zeros, poison and junk */
}

static void on_exit_remove(void)
{
	if (getpid() == home)
		arena_broker_remove();
}

void arena_begin(const char *name, unsigned seconds)
{
	harness_begin(name, seconds);
	home = getpid();
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	arena_users_choose();
	stage_make();
	atexit(on_exit_remove);
	arena_broker_start(&arena_broker, arena_has_users() ? arena_uid(BROKER_USER) : (uid_t)-1);
	speaker_setup(arena_broker.address + 5, stage->canary, CANARY_SIZE);
	victim = stage->victim = arena_fork(VICTIM, victim_run);
	remember_how_it_was();
}

int arena_end(void)
{
	int status = 0;
	bool good;

	arena_killer_end();
	atomic_store(&stage->stop, true);
	atomic_store(&stage->pause, false);
	POINT(arena_wait_for(victim, &status, 10) && !status, "the victim ends as it always does");
	kill(arena_broker.pid, SIGTERM);
	good = arena_wait_for(arena_broker.pid, &status, 20) && !status;
	POINT(good, "the broker ends when it is told to, with balanced accounting");
	if (!good) {
		printf("# wait status %#x\n", (unsigned)status);
		show_log();
	}
	return harness_end();
}

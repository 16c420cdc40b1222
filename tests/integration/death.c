/* SPDX-License-Identifier: Apache-2.0 */
/*
 * death.c - two hundred times one of three busy clients is killed at a random moment; after each the accounting is
 * exact. On CUDA, where a process takes a second to start, twenty-four times.
 *
 *     death [SECONDS [CLIENTS]]     the soak test: so long, with so many; the broker's memory, descriptors and objects
 *                                   must not grow (make soak). Between rounds signals, removed names and floods of
 *                                   connections come over the broker
 *
 * The clients create, acquire, launch, return, renew, unlink, signal and trim at random, and connect anew when they
 * were replaced. After a kill the living pause, close what they do not lease, and report what they do; then the
 * broker's accounting, and the memory there really is, must be that and nothing more. The seed is printed; DEATH_SEED
 * sets it.
 */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"
#include "weather.h"

#define ROUNDS    (on_cuda() ? 24 : 200)
#define CLIENTS   64 /* at most */
#define NAMES     5
/* The longest a round goes on before its kill. */
#define BUSY_US   (on_cuda() ? 900000u : soak_seconds ? 60000u : 6000u)
#define SAMPLES   4096
#define GRANULE   4096u

static struct broker_process broker;
static struct puppet worker[CLIENTS];
static int clients = 3;
static unsigned soak_seconds;
static uint64_t random_state;

static uint64_t random_next(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state >> 8;
}

/* ---- in a client: whatever comes ---- */

static bool held[SLOTS], had[SLOTS];

static const char *random_name(void)
{
	static const char *const names[NAMES] = { "a", "b", "c", "d", "e" };

	return names[random_next() % NAMES];
}

static int random_create(int slot)
{
	gpub_spec spec = GPUB_SPEC_INIT;

	(void)slot;
	/* a kernel writes a word of it: a smaller one would be overrun, and the device says so */
	spec.size = sizeof(uint64_t) + random_next() % (3 * GRANULE);
	/* alone, so that what the status says of buffers says all of memory and mappings */
	spec.flags = (uint32_t)(random_next() % 4) | GPUB_DEDICATED;
	return gpub_create(client, random_name(), &spec);
}

static int random_acquire(int slot)
{
	int error;

	if (held[slot])
		return 0;
	error = gpub_acquire(client, random_name(), GPUB_READ | GPUB_WRITE, (int)(random_next() % 3), &lease[slot]);
	held[slot] = !error;
	had[slot] |= !error;
	return error;
}

static int random_renew(int slot)
{
	int error;

	if (!had[slot] || held[slot])
		return 0;
	error = gpub_renew(&lease[slot]);
	held[slot] = !error;
	return error;
}

static int random_launch(int slot)
{
	return held[slot] ? late_write(lease[slot].ptr, 1, random_next() % 3) : 0;
}

static int random_signal(int slot)
{
	static uint64_t value;

	return held[slot] ? gpub_signal_on(&lease[slot], ++value, work) : 0;
}

static int random_return(int slot)
{
	if (!held[slot])
		return 0;
	held[slot] = false;
	return random_next() % 2 ? gpub_return(&lease[slot]) : gpub_return_on(&lease[slot], work);
}

static int random_unlink(int slot)
{
	(void)slot;
	return gpub_unlink(client, random_name());
}

static int random_trim(int slot)
{
	(void)slot;
	return gpub_trim(client);
}

typedef int deed(int slot);

static deed *const deeds[] = { random_create, random_create, random_acquire, random_acquire, random_acquire,
			       random_renew,  random_launch, random_signal,  random_return,  random_return,
			       random_unlink, random_unlink, random_trim };

#define DEEDS (sizeof deeds / sizeof deeds[0])

/* What may go wrong when others do the same to the same names. */
static bool expected(int error)
{
	static const int errors[] = { 0, -ENOENT, -ETIMEDOUT, -EEXIST, -ESTALE, -EBUSY, -EINVAL, -EOWNERDEAD, -ENOMEM };

	for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
		if (error == errors[i])
			return true;
	return false;
}

static bool ordered(void)
{
	struct pollfd p = { .fd = order_sock, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

/* Until the next order; the first error that nobody expects. */
static int riot(const struct order *order)
{
	int error = 0;

	random_state = order->value;
	if (!client)
		error = gpub_connect(&client, NULL);
	if (!error && !work)
		error = gpub_stream_create(client, GPUB_CURRENT, &work);
	while (!error && !ordered()) {
		error = deeds[random_next() % DEEDS]((int)(random_next() % SLOTS));
		if (expected(error))
			error = 0;
	}
	return error;
}

/* Closes all that is not held; step_value: how many mappings the held leases need. */
static int calm(const struct order *order)
{
	int error = gpub_trim(client);

	(void)order;
	for (int i = 0; i < SLOTS; i++) {
		bool first = held[i];

		for (int j = 0; j < i; j++)
			first &= !held[j] || lease[j].ptr != lease[i].ptr;
		step_value += first;
	}
	return error;
}

/* ---- the accounting after a death ---- */

static int64_t number(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

/* Holders of that process in all buffers, or of all processes (pid 0). */
static int64_t holders_of(const json_t *text, pid_t pid)
{
	json_t *buffer, *holder;
	int64_t count = 0;
	size_t i, j;

	json_array_foreach(json_object_get(text, "buffers"), i, buffer)
		json_array_foreach(json_object_get(buffer, "holders"), j, holder)
			count += !pid || number(holder, "pid") == pid;
	return count;
}

/* Every session is a living client's and has as many mappings as it said. */
static bool sessions_exact(const json_t *text, int victim)
{
	const json_t *sessions = json_object_get(text, "sessions");
	json_t *session;
	size_t i;

	if (json_array_size(sessions) != (size_t)clients - 1)
		return false;
	json_array_foreach(sessions, i, session) {
		int living = 0;

		for (int w = 0; w < clients; w++)
			if (w != victim && worker[w].pid == number(session, "pid"))
				living += number(session, "mappings") == (int64_t)worker[w].last.value &&
					  holders_of(text, worker[w].pid) == (int64_t)worker[w].last.value;
		if (!living)
			return false;
	}
	return true;
}

/* Every buffer is live, or drains for somebody; what was made and not freed is what there is. */
static bool memory_exact(const json_t *text)
{
	const json_t *counters = json_object_get(text, "counters"), *buffers = json_object_get(text, "buffers");
	json_t *buffer;
	int64_t bytes = 0;
	size_t i;

	json_array_foreach(buffers, i, buffer) {
		const char *state = json_string_value(json_object_get(buffer, "state"));

		if (strcmp(state, "live") && (strcmp(state, "draining") || !number(buffer, "grants")))
			return false;
		bytes += number(buffer, "allocated");
	}
	return number(counters, "bytes_made") - number(counters, "bytes_freed") == bytes &&
	       number(counters, "allocations_made") - number(counters, "allocations_freed") ==
		       (int64_t)json_array_size(buffers) &&
	       number(counters, "mappings_opened") - number(counters, "mappings_closed") -
			       number(counters, "mappings_died") == holders_of(text, 0) &&
	       !number(text, "waiting") && memory_objects(&broker) == (int64_t)json_array_size(buffers);
}

static bool status_is_exact(int victim)
{
	json_t *text = status_json(&broker);
	bool exact = sessions_exact(text, victim) && memory_exact(text);

	json_decref(text);
	return exact;
}

static void show_status(void)
{
	json_t *text = status_json(&broker);
	char *line = json_dumps(text, JSON_COMPACT);

	printf("# %lld objects; %s\n", (long long)memory_objects(&broker), line);
	free(line);
	json_decref(text);
}

/* ---- rounds ---- */

static void start_riot(int w)
{
	struct order order = { .run = riot, .value = random_next() | 1 };

	puppet_tell(&worker[w], order);
}

/* The kill may come while the victim connects, or waits in a call. */
static bool round_passes(int victim)
{
	struct timespec busy = { .tv_nsec = (long)(random_next() % BUSY_US) * 1000 };
	int error = 0, stopped = soak_seconds ? (int)(random_next() % (unsigned)clients) : victim;

	for (int w = 0; w < clients; w++)
		start_riot(w);
	if (soak_seconds)
		kill(worker[stopped].pid, SIGSTOP);
	nanosleep(&busy, NULL);
	kill(worker[victim].pid, SIGKILL);
	if (stopped != victim)
		kill(worker[stopped].pid, SIGCONT);
	for (int w = 0; w < clients; w++) {
		if (w == victim)
			continue;
		tell(&worker[w], calm);
		error = receive(&worker[w]);
		if (!error)
			error = receive(&worker[w]);
		if (error) {
			printf("# client %d: error %d: %s\n", w, error, worker[w].last.text);
			return false;
		}
	}
	puppet_kill(&worker[victim]);
	if (SOON(status_is_exact(victim)))
		return true;
	show_status();
	return false;
}

static void seed(void)
{
	const char *text = getenv("DEATH_SEED");
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	random_state = text ? strtoull(text, NULL, 10) : (uint64_t)now.tv_nsec ^ (uint64_t)getpid() << 32;
	random_state |= 1;
	printf("# DEATH_SEED=%llu\n", (unsigned long long)random_state);
}

/* ---- what comes over a broker in a long run ---- */

#define FLOOD 60 /* connections, each with a packet of so many descriptors, and no greeting */
#define MANY  200

static void send_descriptors(int sock)
{
	static char junk[] = "junk";
	union {
		struct cmsghdr header;
		char           bytes[CMSG_SPACE(MANY * sizeof(int))];
	} control = { .header = { .cmsg_len = CMSG_LEN(MANY * sizeof(int)),
				  .cmsg_level = SOL_SOCKET,
				  .cmsg_type = SCM_RIGHTS } };
	struct iovec io = { junk, 4 };
	struct msghdr message = {
		.msg_iov = &io, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control.bytes
	};

	memset(CMSG_DATA(&control.header), 0, MANY * sizeof(int)); /* of standard input */
	if (sendmsg(sock, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) /* a kernel that keeps them out */
		(void)!send(sock, "junk", 4, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void flood(void)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	int sock[FLOOD];

	strcpy(name.sun_path, broker.address + strlen("unix:"));
	for (int i = 0; i < FLOOD; i++) {
		sock[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (!connect(sock[i], (struct sockaddr *)&name, sizeof name))
			send_descriptors(sock[i]);
	}
	for (int i = 0; i < FLOOD; i++)
		close(sock[i]);
}

static bool weather(void)
{
	unsigned which = (unsigned)(random_next() % (4 * WEATHERS)); /* mostly fair */

	if (which == WEATHERS)
		flood();
	return which >= WEATHERS || broker_weather(&broker, which);
}

/* ---- what must not grow ---- */

static struct sample {
	int64_t resident_kib, descriptors, objects;
} samples[SAMPLES];

static unsigned sample_count;

static int64_t resident_kib(pid_t pid)
{
	char path[40], line[100];
	long kib = 0;
	FILE *file;

	snprintf(path, sizeof path, "/proc/%d/status", pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof line, file))
		if (sscanf(line, "VmRSS: %ld", &kib) == 1)
			break;
	if (file)
		fclose(file);
	return kib;
}

static int64_t descriptors(pid_t pid)
{
	char path[40];
	int64_t count = 0;
	DIR *dir;

	snprintf(path, sizeof path, "/proc/%d/fd", pid);
	dir = opendir(path);
	while (dir && readdir(dir))
		count++;
	if (dir)
		closedir(dir);
	return count;
}

static void sample(void)
{
	struct sample *s = &samples[sample_count];

	if (sample_count == SAMPLES)
		return;
	sample_count++;
	s->resident_kib = resident_kib(broker.pid) + resident_kib(owner_of(broker.pid));
	s->descriptors = descriptors(broker.pid) + descriptors(owner_of(broker.pid));
	s->objects = memory_objects(&broker);
	printf("# %u: %lld KiB resident, %lld descriptors, %lld memory objects\n", sample_count,
	       (long long)s->resident_kib, (long long)s->descriptors, (long long)s->objects);
	fflush(stdout);
}

/* The mean of some samples, of one of their numbers. */
static int64_t mean(unsigned from, unsigned to, size_t offset)
{
	int64_t sum = 0;

	for (unsigned i = from; i < to; i++)
		sum += *(const int64_t *)((const char *)&samples[i] + offset);
	return to > from ? sum / (to - from) : 0;
}

/* The first tenth is warming up; what the second half needs the first needed, too, but for a little. */
static void check_flat(const char *what, size_t offset, int64_t slack)
{
	int64_t first = mean(sample_count / 10, sample_count / 2, offset),
		second = mean(sample_count / 2, sample_count, offset);

	POINT(second <= first + first / 20 + slack, "%s: on average %lld in the first half, %lld in the second", what,
	      (long long)first, (long long)second);
}

static int64_t seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

/* Rounds until all are done, or the time of a soak is over. */
static int rounds(bool *passes)
{
	int64_t began = seconds_now(), sampled = began;
	int round;

	for (round = 0; *passes && (soak_seconds ? seconds_now() - began < soak_seconds : round < ROUNDS); round++) {
		int victim = (int)(random_next() % (unsigned)clients);

		*passes = round_passes(victim) && (!soak_seconds || weather());
		puppet_start_unconnected(&worker[victim], &broker);
		if (soak_seconds && seconds_now() - sampled >= soak_seconds / 360 + 1) {
			sampled = seconds_now();
			sample();
		}
	}
	return round;
}

int main(int argc, char **argv)
{
	bool passes = true;
	int round;

	soak_seconds = argc > 1 ? (unsigned)atoi(argv[1]) : 0;
	clients = argc > 2 ? atoi(argv[2]) : clients;
	if (clients < 2 || clients > CLIENTS)
		return 2;
	harness_begin("death", 120 + 2 * soak_seconds);
	seed();
	broker_pool = "0";
	broker_start(&broker, "host");
	for (int w = 0; w < clients; w++)
		puppet_start_unconnected(&worker[w], &broker);
	round = rounds(&passes);
	POINT(passes, "invariant 10: %d clients killed at a random moment, the accounting exact after each", round);
	POINT(status_counter(&broker, "mappings_died") > round / 4, "and many of them held something");
	for (int w = 0; w < clients; w++)
		puppet_kill(&worker[w]);
	if (soak_seconds) {
		check_flat("resident memory (KiB)", offsetof(struct sample, resident_kib), 512);
		check_flat("descriptors", offsetof(struct sample, descriptors), 16);
		check_flat("memory objects", offsetof(struct sample, objects), 8);
	}
	broker_end(&broker);
	return harness_end();
}

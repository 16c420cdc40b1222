/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reclaim.c - a client that holds 1,000 leases is killed: from the moment that its pidfd is readable,
 *
 * "reclaim-books": until gpub_stat() says that nobody maps the buffer that it acquired last;
 * "reclaim-memory": until a gpub_create() that waits, since the device is full of what that client alone held, has
 * memory: that create's answer, less what the same create takes where memory is free. Here the leases are four each on
 * 250 buffers that are an allocation of their own.
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "clients.h"

#define LEASES        1000
#define STATUS_ROUNDS 20
#define MEMORY_ROUNDS 9
#define LARGE         250
#define SIZE          (2u << 20)
#define AFTER         (64u << 10) /* of the create that waits: little, so that to make it is little of the figure */

/* Made before this process connects; it acquires when it is told to, says when it has all, and stays. */
struct victim {
	pid_t pid;
	int   pidfd, sock;
};

static void victim_main(int sock, unsigned buffers)
{
	char name[CLIENTS_NAME], word;
	gpub_client *client;
	gpub_lease lease;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (read(sock, &word, 1) != 1)
		_exit(0);
	bench_must(gpub_connect(&client, NULL));
	for (unsigned i = 0; i < LEASES; i++) {
		clients_name(name, i % buffers);
		bench_must(gpub_acquire(client, name, GPUB_READ | GPUB_WRITE, 0, &lease));
	}
	if (write(sock, &word, 1) == 1)
		pause();
	_exit(1);
}

static void victim_make(struct victim *victim, unsigned buffers)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		bench_fail("no socket for a client");
	victim->pid = fork();
	if (!victim->pid) {
		close(pair[0]);
		victim_main(pair[1], buffers);
	}
	close(pair[1]);
	victim->sock = pair[0];
	victim->pidfd = pidfd_open(victim->pid, 0);
	if (victim->pidfd < 0)
		bench_fail("no pidfd of a client");
}

static void victim_acquire(const struct victim *victim)
{
	char word = 0;

	if (write(victim->sock, &word, 1) != 1 || read(victim->sock, &word, 1) != 1)
		bench_fail("a client cannot acquire");
}

/* When it was dead. */
static uint64_t victim_kill(struct victim *victim)
{
	struct pollfd dead = { .fd = victim->pidfd, .events = POLLIN };
	uint64_t when;

	kill(victim->pid, SIGKILL);
	while (poll(&dead, 1, -1) != 1)
		;
	when = bench_now_ns();
	waitpid(victim->pid, NULL, 0);
	close(victim->pidfd);
	close(victim->sock);
	return when;
}

/* ---- the registry ---- */

static uint32_t grants_of(gpub_client *client, unsigned i)
{
	gpub_info info = { .struct_size = sizeof info };
	char name[CLIENTS_NAME];

	clients_name(name, i);
	bench_must(gpub_stat(client, name, &info));
	return info.grants;
}

static void shown_status(struct victim *victims)
{
	struct bench_broker broker;
	struct bench bench;
	gpub_client *client;

	bench_broker_start(&broker, "host");
	for (int i = 0; i < STATUS_ROUNDS; i++)
		victim_make(&victims[i], LEASES);
	bench_must(gpub_connect(&client, NULL));
	if (clients_create(client, LEASES, 4096) < LEASES)
		bench_fail("reclaim: the broker has no room");
	bench_begin(&bench, "reclaim-books", "us");
	for (int i = 0; i < STATUS_ROUNDS; i++) {
		uint64_t dead;

		victim_acquire(&victims[i]);
		dead = victim_kill(&victims[i]);
		while (grants_of(client, LEASES - 1))
			;
		bench_sample(&bench, BENCH_OURS, (double)(bench_now_ns() - dead) / 1e3);
		for (unsigned k = 0; k < LEASES; k++)
			if (grants_of(client, k))
				bench_fail("reclaim: a grant is left");
	}
	bench_end(&bench);
	gpub_disconnect(client);
	bench_broker_stop(&broker);
}

/* ---- the memory ---- */

static void make(gpub_client *client, int timeout_ms)
{
	gpub_spec spec = GPUB_SPEC_INIT;

	spec.size = AFTER;
	spec.flags = GPUB_DEDICATED;
	spec.timeout_ms = timeout_ms;
	bench_must(gpub_create(client, "after", &spec));
}

static double create_us(gpub_client *client)
{
	double took = 0;

	for (int i = 0; i < 10; i++) {
		uint64_t began = bench_now_ns();

		make(client, 0);
		took += (double)(bench_now_ns() - began) / 1e3 / 10;
		bench_must(gpub_drain(client, "after", -1));
	}
	return took;
}

struct waiter {
	gpub_client *client;
	uint64_t     answered;
};

static void *wait_for_memory(void *context)
{
	struct waiter *waiter = context;

	make(waiter->client, -1);
	waiter->answered = bench_now_ns();
	return NULL;
}

static void unlink_all(gpub_client *client)
{
	char name[CLIENTS_NAME];

	for (unsigned i = 0; i < LARGE; i++) {
		clients_name(name, i);
		bench_must(gpub_unlink(client, name));
	}
}

static void memory_round(gpub_client *client, struct victim *victim, struct bench *bench)
{
	struct waiter waiter = { .client = client };
	double alone = create_us(client);
	pthread_t thread;
	uint64_t dead;

	if (clients_create(client, LARGE, SIZE) < LARGE)
		bench_fail("reclaim: the device is too small");
	victim_acquire(victim);
	unlink_all(client);
	if (pthread_create(&thread, NULL, wait_for_memory, &waiter))
		bench_fail("no thread");
	usleep(20000); /* it waits by then: one that does not yet makes the figure worse, not better */
	dead = victim_kill(victim);
	pthread_join(thread, NULL);
	bench_sample(bench, BENCH_OURS, (double)(waiter.answered - dead) / 1e3 - alone);
	bench_must(gpub_drain(client, "after", -1));
}

static void memory(struct victim *victims)
{
	struct bench_broker broker;
	struct bench bench;
	gpub_client *client;

	setenv("GPUB_HOST_MEMORY", "500M", 1);   /* LARGE times SIZE */
	setenv("GPUB_HOST_QUARANTINE", "0", 1); /* what is measured is the broker */
	bench_broker_start(&broker, "host");
	for (int i = 0; i < MEMORY_ROUNDS; i++)
		victim_make(&victims[i], LARGE);
	bench_must(gpub_connect(&client, NULL));
	bench_begin(&bench, "reclaim-memory", "us");
	for (int i = 0; i < MEMORY_ROUNDS; i++)
		memory_round(client, &victims[i], &bench);
	bench_end(&bench);
	gpub_disconnect(client);
	bench_broker_stop(&broker);
}

/* The registry in a process of its own: one that connected must not fork the next victims. */
int main(void)
{
	static struct victim victims[STATUS_ROUNDS];
	pid_t first = fork();
	int status;

	if (!first) {
		shown_status(victims);
		return 0;
	}
	if (waitpid(first, &status, 0) != first || status)
		bench_fail("reclaim-books ended with wait status %#x", (unsigned)status);
	memory(victims);
	return 0;
}

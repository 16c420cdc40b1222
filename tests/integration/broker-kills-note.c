/* SPDX-License-Identifier: Apache-2.0 */
/* broker-kills-note.c - the memory that all processes of broker-kills share: calls, failures, times, kills. */
#include "broker-kills.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define FAILURES_MAX 40 /* more end the run */

struct kills *kills;

#define KIND_TEXT(name, text, waits) { text, waits },
static const struct {
	const char *text;
	bool waits;
} kinds[CALLS] = { KINDS(KIND_TEXT) };

void note_open(const char *path, bool create)
{
	int fd = open(path, O_RDWR | O_CLOEXEC | (create ? O_CREAT | O_TRUNC : 0), 0600);

	if (fd < 0 || (create && ftruncate(fd, sizeof *kills)))
		exit(2);
	kills = mmap(NULL, sizeof *kills, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (kills == MAP_FAILED)
		exit(2);
}

uint64_t note_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void note_under(enum call call, uint64_t ns)
{
	uint32_t i = atomic_fetch_add(&kills->under_count, 1);

	if (i < UNDER_MAX) {
		kills->under[i].call = call;
		kills->under[i].ns = ns;
	}
}

void note_call(enum call call, uint64_t began)
{
	uint64_t ns = note_now() - began, longest = atomic_load(&kills->longest[call]);

	atomic_fetch_add(&kills->calls[call], 1);
	while (ns > longest && !atomic_compare_exchange_weak(&kills->longest[call], &longest, ns))
		;
	if (atomic_load(&kills->last_kill) >= began)
		note_under(call, ns);
}

void note_failure(const char *format, ...)
{
	char text[1024];
	uint64_t before;
	va_list list;

	if (atomic_load(&kills->stop) > 1)
		return; /* processes end in any order, so nothing is as it should be */
	before = atomic_fetch_add(&kills->failures, 1);
	if (before >= FAILURES_MAX) {
		atomic_store(&kills->stop, 2);
		return;
	}
	va_start(list, format);
	vsnprintf(text, sizeof text, format, list);
	va_end(list);
	fprintf(stderr, "FAILED at %.6f s, pid %d: %s\n", (double)(note_now() - kills->begin) / 1e9, (int)getpid(),
		text);
}

void note_add(_Atomic uint32_t *number, uint32_t more)
{
	atomic_fetch_add(number, more);
	syscall(SYS_futex, number, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

bool note_await(_Atomic uint32_t *number, uint32_t least, const char *what)
{
	uint64_t until = note_now() + PATIENCE_MS * 1000000ull;
	const struct timespec look = { 0, 100000000 }; /* how often it looks whether the run has ended */
	uint32_t value;

	while ((value = atomic_load(number)) < least) {
		if (atomic_load(&kills->stop) > 1)
			return false;
		if (note_now() > until) {
			note_failure("waited too long for %s: %u of %u", what, value, least);
			atomic_store(&kills->stop, 2);
			return false;
		}
		syscall(SYS_futex, number, FUTEX_WAIT, value, &look, NULL, 0);
	}
	return true;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/*
 * Prints the median and the 99th percentile of the times of the calls of one kind that were under way at a kill. CALLS:
 * of all kinds that do not wait.
 */
static void print_under(unsigned call)
{
	uint32_t all = atomic_load(&kills->under_count), count = 0;
	uint64_t *times = malloc(UNDER_MAX * sizeof *times);

	if (!times)
		return;
	for (uint32_t i = 0; i < all && i < UNDER_MAX; i++)
		if (call == CALLS ? !kinds[kills->under[i].call].waits : kills->under[i].call == call)
			times[count++] = kills->under[i].ns;
	qsort(times, count, sizeof *times, compare);
	if (count)
		printf("  %-16s %8u under way at a kill: p50 %.3f ms, p99 %.3f ms, longest %.3f ms\n",
		       call == CALLS ? "all but waits" : kinds[call].text, count, (double)times[count / 2] / 1e6,
		       (double)times[count - 1 - count / 100] / 1e6, (double)times[count - 1] / 1e6);
	free(times);
}

static void print_offers(void)
{
	static const char *const texts[OFFER_KINDS] = { "once",	    "many",  "later", "drain",
							"timeline", "newer", "seal",  "victim" };

	printf("  offers:");
	for (unsigned kind = 0; kind < OFFER_KINDS; kind++)
		printf(" %s %u%s", texts[kind], kills->played[kind], kind + 1 < OFFER_KINDS ? "," : "\n");
}

int note_verdict(void)
{
	uint64_t calls = 0;

	for (unsigned call = 0; call < CALLS; call++) {
		calls += kills->calls[call];
		printf("  %-16s %8llu calls, longest %.3f ms%s\n", kinds[call].text,
		       (unsigned long long)kills->calls[call], (double)kills->longest[call] / 1e6,
		       kinds[call].waits ? " (waits for others)" : "");
	}
	for (unsigned call = 0; call <= CALLS && kills->kill_count; call++)
		print_under(call);
	print_offers();
	printf("seed %llu: %.1f s, %u rounds, %llu deeds, %llu calls, %llu MiB checked, %llu results in histories, "
	       "%u pages kept, %u kills: %llu failures, %llu wrong bytes\n",
	       (unsigned long long)kills->seed, (double)(note_now() - kills->begin) / 1e9, kills->round,
	       (unsigned long long)kills->deeds, (unsigned long long)calls, (unsigned long long)kills->bytes >> 20,
	       (unsigned long long)kills->checked, kills->pages_kept, kills->kill_count,
	       (unsigned long long)kills->failures, (unsigned long long)kills->wrong);
	return kills->failures || kills->wrong;
}

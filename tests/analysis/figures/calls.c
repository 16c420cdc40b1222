/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calls.c - logs each function that a process enters, for figures.py. It is preloaded (LD_PRELOAD) into programs that
 * were built with -finstrument-functions, and writes $CALLS_DIRECTORY/PID, which outlives the process however it ends.
 *
 * A record is two 64-bit words: CLOCK_MONOTONIC in ns, and the thread number (16 bits) beside the function's address
 * (48 bits). An address of 1 is a call of pthread_mutex_lock() by an instrumented program.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define RECORDS_MAX (1u << 22) /* of a process; later calls are not logged */
#define MUTEX       1u

struct record {
	uint64_t time, call;
};

static struct record *records;
static _Atomic uint32_t record_count, thread_count;
static _Thread_local uint32_t thread;
static int (*lock)(pthread_mutex_t *mutex);

/* In a forked child too: its calls belong into a file of its own. */
static void log_open(void)
{
	const char *directory = getenv("CALLS_DIRECTORY");
	char path[4096];
	int fd;

	records = NULL;
	record_count = 0;
	if (!directory || snprintf(path, sizeof path, "%s/%d", directory, (int)getpid()) >= (int)sizeof path)
		return;
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (fd < 0)
		return;
	if (!ftruncate(fd, sizeof *records * RECORDS_MAX)) {
		records = mmap(NULL, sizeof *records * RECORDS_MAX, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (records == MAP_FAILED)
			records = NULL;
	}
	close(fd);
}

__attribute__((constructor)) static void begin(void)
{
	*(void **)&lock = dlsym(RTLD_NEXT, "pthread_mutex_lock");
	log_open();
	pthread_atfork(NULL, NULL, log_open);
}

static void log_call(uint64_t address)
{
	struct timespec now;
	uint32_t place;

	if (!records)
		return;
	if (!thread)
		thread = ++thread_count;
	place = record_count++;
	if (place >= RECORDS_MAX)
		return;
	clock_gettime(CLOCK_MONOTONIC, &now);
	records[place] = (struct record){ (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec,
					  (uint64_t)thread << 48 | address };
}

void __cyg_profile_func_enter(void *function, void *caller);
void __cyg_profile_func_exit(void *function, void *caller);

void __cyg_profile_func_enter(void *function, void *caller)
{
	(void)caller;
	log_call((uint64_t)(uintptr_t)function);
}

void __cyg_profile_func_exit(void *function, void *caller)
{
	(void)function;
	(void)caller;
}

/* Only calls from the program itself count, which is not position-independent: its code lies in the first 4 GiB. */
int pthread_mutex_lock(pthread_mutex_t *mutex)
{
	if ((uintptr_t)__builtin_return_address(0) >> 32 == 0)
		log_call(MUTEX);
	if (!lock)
		*(void **)&lock = dlsym(RTLD_NEXT, "pthread_mutex_lock");
	return lock(mutex);
}

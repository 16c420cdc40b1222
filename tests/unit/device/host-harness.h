/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host-harness.h - scenarios on the host device, for unit tests.
 *
 * Each scenario runs in a process of its own, because a violation aborts and because device state does not survive a
 * fork: the test program itself never starts the device. A scenario that needs two processes forks the importer before
 * it starts the device itself. Leaves no object in /dev/shm.
 */
#ifndef GPUB_TESTS_HOST_HARNESS_H
#define GPUB_TESTS_HOST_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "device/device.h"
#include "device/host-gate.h"
#include "device/host-memory.h"
#include "device/host-object.h"
#include "device/host.h"
#include "host-capture.h"

#define PAGE  4096u
#define BLOCK (64u << 10)

extern const struct device *const device;
extern char prefix[32]; /* of the memory's names */
extern char twins[64];  /* the kernels' shared object */

/* Before and after all tests. source: of the kernels' host twins, in the format of printf(1). 0, or it failed. */
int scenarios_begin(const char *source);
int scenarios_end(void);

/* ---- in the test program ---- */

typedef void scenario(void);

/* Runs it; returns its wait status, and what it printed on stderr. */
int  child_status(scenario *run, char *text, size_t size);
void expect_clean(scenario *run);
void expect_violation(scenario *run, const char *part); /* it aborts, and its report contains that part */

/* ---- in a scenario ---- */

_Noreturn void fail_with(int line, const char *what);

#define CHECK(condition)                                  \
	do {                                              \
		if (!(condition))                         \
			fail_with(__LINE__, #condition);  \
	} while (0)

void     start(bool owner, unsigned count);
uint8_t *owner_memory(uint64_t size); /* on device 0, zeroed, and mapped in this process too */

/* Another process, and pipes to it. Start it before this process starts the device. */
struct peer {
	pid_t pid;
	int   in, out;
};

typedef void peer_main(int in, int out);

struct peer peer_start(peer_main *run);
void        peer_end(const struct peer *peer); /* it ends with status 0 */

void tell(int fd, const void *data, size_t size);
void receive(int fd, void *data, size_t size);
void tell_step(int fd);
void receive_token(int fd);

void     export_to(const struct peer *peer, void *ptr);
uint8_t *import_from(int in, int ordinal); /* BLOCK bytes */

/* ---- pages, kernels, time ---- */

uint64_t *host_page(bool writable);
void nap_ms(long ms);
double now_ms(void);
uint64_t word_load(const uint64_t *word);
void *twin(void *module, const char *symbol);
int twin_launch(void *kernel, void *stream, int ordinal, void *first, int second);

#endif

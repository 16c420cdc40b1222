/* SPDX-License-Identifier: Apache-2.0 */
/*
 * facts.h - what the groups of test-driver-facts share: points, a second role in a process of its own, and CUDA.
 */
#ifndef GPUB_TESTS_GPU_FACTS_H
#define GPUB_TESTS_GPU_FACTS_H

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <cuda_runtime_api.h>

#include "device/cuda.h"

#ifndef FACTS_FATBIN
#define FACTS_FATBIN "tests/gpu/facts.fatbin" /* from the build tree's top, where make check runs */
#endif

#define GRANULE       ((size_t)2 << 20)
#define PAGE          4096
#define MILLISECONDS  1000000ull /* nanoseconds in one */
#define GROUP_SECONDS 20
#define TOTAL_SECONDS 55

/* ---- points: a group writes them to the main process, which counts them ---- */

extern int report_fd;

void point(bool ok, const char *title, const char *format, ...) __attribute__((format(printf, 3, 4)));
void point_skip(const char *title, const char *reason);

/* For what a point needs and does not test: the group ends, its other points are not ok. */
void need(bool ok, const char *what);

#define NEED(call) need((call) == 0, #call)

double now(void); /* seconds */
void   pause_ms(long milliseconds);

/* ---- processes ---- */

typedef void role(int fd);

/* Forks a role, before CUDA. Returns this side's end of its socketpair. */
int  role_start(role *run, pid_t *pid);
void die_with_parent(pid_t parent);

/* ---- the exporter: a role that does what it is asked ---- */

enum operation { OP_ALLOCATE, OP_READ, OP_FREE, OP_OPEN, OP_EXPORT };

struct request {
	enum operation     operation;
	uint32_t           value;
	uint64_t           size;
	void              *ptr;
	cudaIpcMemHandle_t handle;
};

struct answer {
	cudaError_t        result;
	uint32_t           value;
	void              *ptr;
	cudaIpcMemHandle_t handle;
};

void          exporter(int fd);
struct answer ask(int fd, struct request request);
struct answer ask_allocate(int fd, uint64_t size, uint32_t value); /* each byte has the value */
struct answer ask_export(int fd, uint64_t size, uint32_t value);   /* the same, made and exported by device_cuda */
cudaError_t   ask_free(int fd, void *ptr);
uint32_t      ask_read(int fd, void *ptr);

/* ---- CUDA in the group's own process ---- */

extern void *module, *kernel_spin, *kernel_read, *kernel_beat;

void         cuda_begin(void);
int          launch(void *kernel, int device, cudaStream_t stream, void **arguments);
int          launch_spin(cudaStream_t stream, uint64_t duration);
cudaStream_t stream_make(void);
uint32_t     memory_read(const void *ptr);
cudaError_t  handle_open(void **ptr, const struct answer *memory);
cudaError_t  kernel_reads(int device, const void *from, uint32_t *value);

/* A page as the library makes it. With readonly, a second mapping of it that cannot be written. */
uint64_t *page_make(uint64_t **readonly);
uint64_t  word_load(const uint64_t *word);
void      word_store(uint64_t *word, uint64_t value);

/* ---- a thread that captures, in global mode, while the others do something ---- */

struct capture {
	pthread_t    thread;
	sem_t        begun, finish;
	unsigned int stream_flags;
	bool         valid; /* ended with a graph that runs */
};

bool capture_end(cudaStream_t stream);
void capture_start(struct capture *capture, unsigned int stream_flags);
bool capture_finish(struct capture *capture);

/* ---- groups ---- */

void ipc_group(void);
void namespaces_group(void);
void order_group(void);
void vmm_group(void);
void fault_group(void);
void death_group(void);
void fork_group(void);
void peer_group(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host.h - the inside of the host device, and what tests and the broker may ask of it beyond the table.
 *
 * The host device is a strict model of CUDA's rules. What CUDA leaves undefined and would go unnoticed (a free while
 * an importer maps, a late write, a write behind a buffer's end, use after a fork) is a VIOLATION here: one line on stderr and abort(). What CUDA
 * refuses is refused. A violation that another process may have brought about by lying (a release while it maps, a late
 * write) must not bring a broker down where liars are expected: with GPUB_HOST_STRICT=0 it is reported and survived.
 *
 *   host.c             the table, its start, the choice of devices, forks
 *   host-fault.c       violations, injected failures, sticky errors
 *   host-memory.c      allocations and mappings
 *   host-object.c      the shm objects behind them: names, and bytes as the owner reaches them
 *   host-region.c      the table of address ranges; registered pages; what queued work may touch
 *   host-quarantine.c  freed memory, poisoned and checked for late writes
 *   host-watch.c       the buffers in mappings: their bounds, and the bytes behind them, poisoned and checked for overruns
 *   host-stream.c      streams and what is queued on them
 *   host-connection.c  the connections that streams share: a wait holds back what was submitted after it
 *   host-module.c      kernels: shared objects and their launches
 *   host-capture.c     graphs
 *
 * Locks, in the order in which they may be taken: the gate (shared by whoever queues, exclusive for whoever closes),
 * host_state.lock (tables), a stream's own lock, the count of unfinished tasks or the connections'.
 */
#ifndef GPUB_DEVICE_HOST_H
#define GPUB_DEVICE_HOST_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "device.h"
#include "gpubroker-host.h"

/* ---- for the broker ---- */

#define HOST_PREFIX_MAX 47 /* bytes: prefix and random name share a device_handle */

/*
 * What the names of this owner's memory objects begin with: '/', no other '/', at most HOST_PREFIX_MAX bytes, ending in
 * ".mem". At first "/gpubroker.mem". A name is the prefix, '/', and 32 hexadecimal digits. Before the first allocate().
 */
int host_set_prefix(const char *prefix);

/* Whether users other than the owner's are to open what they were granted. Before the first allocate(). */
void host_share_memory(bool with_others);

/*
 * What breaks the rules is reported and survived, unless GPUB_HOST_STRICT says otherwise: a broker must not end by what a lying
 * client can bring about (invariant 5). Before start().
 */
void host_survive_violations(void);

/* Makes the directory of the memory now; whoever removes the leftovers removes it. -EEXIST: somebody else has the name. */
int host_keep_directory(void);

/* How many host devices there are, whatever GPUB_HOST_VISIBLE shows of them: what a client's start() must be told. */
unsigned host_total(void);

/* ---- for tests ---- */

/*
 * An owner's pointer only names its memory, and faults when touched (host-object.c says why). This maps the memory
 * there after all, for a test that looks at it or gives it to kernels of its own. Never in a broker.
 */
int host_map_owned(void *ptr);

/* Aborts if freed memory was written after its release. The owner's exit does it too. */
void host_check_quarantine(void);

enum host_call {
	HOST_OTHER, /* count, info, current: never fail by injection */
	HOST_ALLOCATE,
	HOST_ZERO,
	HOST_EXPORT,
	HOST_RELEASE,
	HOST_GONE,
	HOST_OPEN,
	HOST_CLOSE,
	HOST_REGISTER,
	HOST_UNREGISTER,
	HOST_STREAM, /* stream_create */
	HOST_WRITE,
	HOST_WAIT,
	HOST_SYNC,
	HOST_COPY,
	HOST_LAUNCH,
	HOST_MODULE, /* module_load */
	HOST_CALLS
};

/* The next count calls of that kind fail with that errno, before they do anything; count 0 ends it. Also by the
 * environment, read at start: GPUB_HOST_FAIL="close:3:EIO,open:1:ENOMEM", names as in host_call_name[]. */
void host_fail_next(enum host_call call, int count, int error);

/*
 * Loads of modules in this process: those that launches had to do, which no test of a well-made program sees; and those that
 * wait now for what is queued on a device.
 */
unsigned host_late_loads(void);
unsigned host_loads_waiting(void);

/* A sticky error: from now on every call of this process fails with -EIO, and queued work is dropped, not run. */
void host_make_sticky(void);

/*
 * As of a driver whose closes do not wait for the device's work, which CUDA does not promise: sync() says so (-ENOTSUP). last:
 * also the last close of a handle does not, and fails instead (-EIO).
 */
void host_do_not_wait(bool last);

/*
 * As cudaDeviceReset(): waits for the task that runs on each stream of the device, and ends all that this process has there:
 * what is queued is dropped, streams are gone, and so are mappings, whose pointers fault from then on. Registered pages
 * stay: the CUDA device registers them anew by itself.
 */
int host_reset(int ordinal);

/*
 * Capture, as of cudaStreamBeginCapture: launches, copies and host_capture_write() on the stream are recorded instead
 * of run. stream_write, stream_wait and stream_sync refuse with -EBUSY, and the capture stays whole. Calls of other
 * threads do it no harm. The default stream cannot be captured. begin_blocking: as of a blocking stream, so that the default stream
 * of its device is refused meanwhile, too.
 *
 * host_capture_sync() is cudaStreamSynchronize(), as a program calls it: on a stream that is captured, or on the default stream
 * while a blocking one is, it is refused and invalidates the capture, whose end then gives -ECANCELED. So does
 * host_graph_launch() on that default stream.
 */
struct host_graph;
int  host_capture_begin(void *stream);
int  host_capture_begin_blocking(void *stream);
int  host_capture_sync(void *stream);
int  host_capture_end(void *stream, struct host_graph **graph);
int  host_capture_write(void *stream, uint64_t *word, uint64_t value); /* runs at every replay */
int  host_graph_launch(struct host_graph *graph, void *stream);
void host_graph_destroy(struct host_graph *graph);

/* ---- inside ---- */

#define HOST_GRANULE     4096u
#define HOST_MARGIN      64u /* device.margin */
#define HOST_RANDOM_SIZE 16 /* of a memory object's name */
#define HOST_NAME_SIZE   (sizeof("/dev/shm") + HOST_PREFIX_MAX + 1 + 2 * HOST_RANDOM_SIZE)

struct host_stream;

struct host_state {
	_Atomic bool          started;
	bool                  owner;
	unsigned              devices;             /* all of them */
	unsigned              visible_count;       /* those with an ordinal here */
	unsigned              visible[DEVICE_MAX]; /* ordinal -> device */
	uint64_t              memory;              /* bytes of each device */
	uint64_t              quarantine;          /* bytes of freed memory that are kept */
	bool                  seeded;
	uint64_t              seed;
	bool                  survives; /* host_survive_violations(): what lenient is where nothing is set */
	bool                  lenient; /* GPUB_HOST_STRICT=0 */
	_Atomic bool          closes_return, last_closes_return; /* host_do_not_wait() */
	_Atomic uint64_t      resets[DEVICE_MAX]; /* how often each device was reset */
	volatile const int   *alive; /* 1; wiped by a fork */
	pthread_mutex_t       lock;  /* regions, streams, modules */
	pthread_rwlock_t      gate;
};

extern struct host_state host_state;

/* host.c */
bool host_forked(void);
int  host_device_of(int ordinal); /* device number, or -ENODEV */
int  host_current(void);
unsigned host_current_device(void); /* the one whose default stream NULL means */

uint64_t host_epoch(int ordinal);

/* What stands for a context of this process on that device: something was made there. Modules are loaded there when they are opened. */
void host_device_use(unsigned device);
bool host_device_in_use(unsigned device);

/* host-fault.c */
_Noreturn void host_violation(const char *format, ...) __attribute__((format(printf, 1, 2)));
void           host_violation_of_others(const char *format, ...) __attribute__((format(printf, 1, 2)));
int            host_enter(enum host_call call); /* first line of every call: started, not forked, no fault due */
bool           host_sticky(void);
int            host_faults_parse(const char *text);
extern const char *const host_call_name[HOST_CALLS];

/* host-region.c */
enum host_kind { HOST_ALLOCATION, HOST_MAPPING, HOST_PAGE, HOST_FREED };

struct host_region {
	struct host_region  *next; /* in the quarantine */
	uint8_t             *base; /* of an allocation: addresses without memory */
	uint64_t             size;
	enum host_kind       kind;
	unsigned             device;   /* not of a page */
	unsigned             opens;    /* of a mapping */
	bool                 writable; /* of a page */
	int                  fd;       /* allocation, mapping: carries the flock; -1 */
	bool                 watched;  /* of a mapping: its buffers were told of, and nothing lies outside of them */
	struct device_watch *watches;
	struct device_handle handle;
};

/* All under host_state.lock. */
struct host_region *host_region_new(enum host_kind kind, unsigned device, uint64_t size);
int                 host_region_add(struct host_region *region);
struct host_region *host_region_find(const void *ptr);
struct host_region *host_region_at(size_t index); /* in the order of addresses; NULL at the end */
void                host_region_remove(struct host_region *region);
void                host_region_destroy(struct host_region *region); /* unmaps and closes */
uint64_t            host_guard_size(void); /* inaccessible bytes before and behind a mapping: pages may be larger than granules */

/* Aborts if [ptr, ptr + size) is memory that work on that device must not touch; -EINVAL if it leaves its region. */
int host_check_range(const void *ptr, uint64_t size, unsigned device, const char *what);
int host_check_word(const uint64_t *word, bool write);

int  host_page_register(void *page, size_t size, bool writable);
int  host_page_unregister(void *page);
unsigned host_pages(void); /* how many registrations there are; takes the lock: for tests */

/* host-memory.c */
int  host_allocate(int ordinal, uint64_t size, void **ptr);
int  host_room(int ordinal, uint64_t *bytes);
int  host_zero(int ordinal, void *ptr, uint64_t size);
int  host_export(int ordinal, void *ptr, struct device_handle *handle);
int  host_release(int ordinal, void *ptr);
int  host_gone(pid_t pid, bool mps);
int  host_open(int ordinal, const struct device_handle *handle, uint64_t size, void **ptr);
int  host_close(int ordinal, void *ptr);
int  host_sync(int ordinal, const struct device_handle *handle, uint64_t size);
void host_unlink_all(void); /* at the owner's exit */
void host_mappings_end(unsigned device); /* at a reset, under host_state.lock */

/* host-object.c: of regions that are allocations, or were */
bool host_object_name(const struct device_handle *handle, char name[HOST_NAME_SIZE]); /* false: it is none of ours */
int  host_object_create(struct host_region *region); /* its handle and descriptor; pages reserved */
void host_object_unlink(const struct host_region *region);
bool host_object_whole(const struct host_region *region); /* false, reported: somebody changed its size */
int  host_object_fill(const struct host_region *region, uint64_t from, uint64_t size, int byte);
void host_close_inherited(void); /* async-signal-safe */

/* How many bytes from there on are that byte, up to size; fewer also where the object ends early. */
uint64_t host_object_compare(const struct host_region *region, uint64_t from, uint64_t size, uint8_t byte);

/* host-quarantine.c, under host_state.lock */
int  host_fill(const struct host_region *region, int byte); /* all of a small region, both ends of a large one */
bool host_quarantine_put(struct host_region *region); /* false: it cannot be poisoned, or does not fit, and is not taken */
bool host_quarantine_flush(void); /* false: there was nothing in it */

/* host-watch.c */
void host_watch(struct device_watch *watch);
void host_unwatch(struct device_watch *watch);
/* All under host_state.lock. */
int  host_watch_bounds(const struct host_region *mapping, const void *ptr, uint64_t size, const char *what); /* -EINVAL */
void host_watch_verify(const void *ptr); /* behind a kernel that was given ptr */
void host_watch_end(struct host_region *mapping); /* before it is unmapped */

/* host-stream.c */
enum host_task_kind { HOST_TASK_KERNEL, HOST_TASK_WRITE, HOST_TASK_WAIT, HOST_TASK_COPY };

struct host_kernel;

struct host_task {
	struct host_task   *next;
	enum host_task_kind kind;
	size_t              bytes; /* of this struct with its parameters: a task is copied as bytes */
	uint64_t            behind; /* how many waits were submitted before it on its connection */
	union {
		struct {
			uint64_t *word; /* a wait only reads it */
			uint64_t  value;
		} word;
		struct {
			void       *dst;
			const void *src;
			uint64_t    size;
		} copy;
		struct {
			struct host_kernel *kernel;
			gpub_launch_config  config;
		} launch;
	};
	_Alignas(16) uint8_t params[]; /* of a kernel, each at a multiple of 16 */
};

struct host_stream {
	struct host_stream *next;
	unsigned            device, connection;
	uint64_t            resets; /* of the device, when it was made */
	atomic_uint         refs;
	pthread_mutex_t     lock;
	pthread_cond_t      work, done;
	struct host_task   *head, **tail;
	uint64_t            queued, finished;
	bool                running, ending; /* it has a thread; it was destroyed */
	struct host_graph  *capture;
	uint64_t            random;
	bool                is_default; /* of its device: the legacy stream */
};

/* The stream with a reference, or NULL with the error set. NULL names the default stream of that device. */
struct host_stream *host_stream_get(void *stream, unsigned device);
void                host_stream_put(struct host_stream *stream);

/* The gate: whoever queues passes it; nothing is queued between close_gate and open_gate. */
void host_gate_pass(void);
void host_gate_leave(void);
void host_gate_close(void);
void host_gate_open(void);
/* With the gate closed: waits for every queued task of the process on that device, which stands for its context. */
void host_gate_drain(unsigned device);

struct host_task *host_task_new(enum host_task_kind kind, size_t params); /* NULL: error set */
int               host_task_check(const struct host_task *task, unsigned device);
void              host_task_free(struct host_task *list, bool held);

/* Queues or records the list, whose kernels are held; takes it over. Inside the gate. On failure it is freed. */
int host_queue(struct host_stream *stream, struct host_task *list);

/* At a reset, with the gate closed: drops what is queued on the device, waits for what runs, and ends its streams. */
void host_streams_end(unsigned device);

int  host_stream_write(void *stream, uint64_t *word, uint64_t value);
int  host_stream_wait(void *stream, const uint64_t *word, uint64_t value);
int  host_stream_create(int ordinal, void **stream);
int  host_stream_sync(void *stream);
int  host_stream_sync_until(void *stream, int (*over)(void *), void *context);
void host_stream_destroy(void *stream);
int  host_copy(void *stream, void *dst, const void *src, uint64_t size);

/* host-connection.c. A stream calls these for each task: submit when it is queued, enter before it runs, leave when it has run. */
void     host_connections_read(void); /* CUDA_DEVICE_MAX_CONNECTIONS; before the first stream */
unsigned host_connection_next(unsigned device); /* for a stream that is created; the default stream has 0 */
void     host_connection_submit(const struct host_stream *stream, struct host_task *list);
void     host_connection_enter(const struct host_stream *stream, const struct host_task *task); /* waits */
void     host_connection_leave(const struct host_stream *stream, const struct host_task *task);

/* host-module.c */
int  host_kernel_hold(struct host_kernel *kernel); /* -EINVAL: its module is gone */
void host_kernel_drop(struct host_kernel *kernel);
void host_kernel_run(const struct host_task *task);
const uint32_t *host_kernel_sizes(const struct host_kernel *kernel);
int  host_module_load(const char *path, void **module);
int  host_module_ready(void *module, int ordinal);
void host_modules_unload(unsigned device); /* at a reset, under host_state.lock */
int  host_module_kernel(void *module, const char *symbol, void **kernel);
int  host_module_managed(void *module, const char *symbol, void **ptr, size_t *size);
int  host_module_launch(void *kernel, const gpub_launch_config *config, void **args);
int  host_module_unload(void *module);

/* host-capture.c */
int  host_graph_record(struct host_graph *graph, struct host_task *list); /* under the stream's lock */

/* -EBUSY where the stream cannot be used because of a capture, which it does not notice. also_captured: its own counts. */
int  host_capture_refuse(struct host_stream *stream, bool also_captured);

/* The same where the stream is used without having asked: invalidates that capture. Under the stream's lock. */
int  host_capture_punish(const struct host_stream *stream, bool also_captured);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpubroker.h - share GPU memory by name between processes.
 *
 * A broker process (broker-run(1)) allocates all buffers and is the only one that frees them. Workers
 * acquire a buffer by name, run kernels on it, and return it; see gpubroker(7) for the concepts.
 *
 * Conventions that hold for every function here, unless its comment says otherwise:
 *   - It returns 0, or a negative errno; gpub_strerror_last() then gives one sentence with the cause and
 *     the mend. Outputs are untouched on failure.
 *   - It may be called from any thread at any time, also from several at once, but not from a signal
 *     handler and not from a function that CUDA calls (cudaLaunchHostFunc).
 *   - It is no cancellation point: pthread_cancel() of a thread that is in it takes effect behind it.
 *   - It leaves the caller's current CUDA device and context as they were, and never disturbs a graph
 *     capture that another thread, or this one, has under way.
 *   - In a child that was forked after gpub_connect() it returns -ECHILD and touches nothing: exec, then connect.
 *   - Once the broker is gone it returns -ECONNRESET, but leases can still be returned. Memory that is mapped
 *     stays readable until closed.
 *   - Sizes are bytes; times are milliseconds; a stream is a cudaStream_t passed as void *, on the host
 *     device one made by gpub_stream_create(); NULL is the legacy default stream.
 */
#ifndef GPUBROKER_H
#define GPUBROKER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GPUB_VERSION_MAJOR 0
#define GPUB_VERSION_MINOR 1
#define GPUB_VERSION_PATCH 0

/* rights of a lease; at least one, any combination */
#define GPUB_READ  1u
#define GPUB_WRITE 2u
/* beside them, where a buffer is acquired: only where its owner is this user, root or the broker's user, else -EPERM */
#define GPUB_MINE  4u

/* gpub_spec.flags, gpub_info.flags */
#define GPUB_EPHEMERAL 1u /* unlinked by the broker when the session that created it ends */
#define GPUB_TIMELINE  2u /* has a timeline: a 64-bit word that its one writer's GPU advances */
#define GPUB_DEDICATED 4u /* shares its memory with no other small buffer: its mode and owner may change, others may redeem it */
#define GPUB_ALONE     GPUB_DEDICATED /* its old name */

/* gpub_set_flags() */
#define GPUB_BACKGROUND_CLOSE 1u /* close unlinked buffers as soon as no lease holds them, on a thread of its own */

/* gpub_lease.device, gpub_spec.device */
#define GPUB_HOST    (-1) /* what gpub_lease.device says on the host device */
#define GPUB_CURRENT (-2) /* the calling thread's current device */

/* gpub_info.state */
#define GPUB_LIVE     1u /* can be acquired by name */
#define GPUB_DRAINING 2u /* unlinked; somebody may still touch it */

#define GPUB_NAME_MAX     95                  /* bytes of a name, without the terminating zero */
#define GPUB_TIMELINE_MAX ((1ull << 62) - 1)  /* the largest value gpub_signal_on() takes */

/* A connection of this process to one broker. Made by gpub_connect(), ended by gpub_disconnect(). */
typedef struct gpub_client gpub_client;

/*
 * One hold on a buffer. It is a value: copying it holds and frees nothing. Of all copies, the first that is
 * returned gives the buffer back; the others are refused with -ESTALE from then on.
 */
typedef struct gpub_lease {
	void        *ptr;    /* device pointer; a host pointer on the host device */
	uint64_t     size;   /* bytes that may be used */
	int32_t      device; /* CUDA ordinal in this process, GPUB_HOST on the host device */
	uint32_t     rights; /* GPUB_READ | GPUB_WRITE, and GPUB_MINE where that was demanded */
	uint64_t     token;  /* slot and sequence: opaque */
	gpub_client *client;
} gpub_lease;

/* What gpub_create() makes. Start from GPUB_SPEC_INIT; struct_size lets the struct grow in later versions. */
typedef struct gpub_spec {
	uint32_t struct_size;
	uint32_t flags;      /* GPUB_EPHEMERAL | GPUB_TIMELINE | GPUB_DEDICATED */
	uint64_t size;       /* bytes, at least 1 */
	int32_t  device;     /* CUDA ordinal in this process, or GPUB_CURRENT; on the host device its number */
	uint32_t mode;       /* permission bits as of chmod(2): who may acquire it with which rights */
	int32_t  timeout_ms; /* how long to wait for memory when the device is full: 0 not at all, -1 for ever */
	int32_t  reserved;   /* 0 */
} gpub_spec;

#define GPUB_SPEC_INIT { (uint32_t)sizeof(gpub_spec), 0, 0, 0, 0600, 0, 0 }

/* What gpub_stat() tells. Set struct_size = sizeof(gpub_info) before the call. */
typedef struct gpub_info {
	uint32_t struct_size;
	uint32_t flags;
	char     name[96];
	uint64_t size;       /* bytes, as created */
	uint64_t generation; /* serial of this buffer: never reused by the broker */
	int32_t  device;     /* CUDA ordinal in this process; -1 when this process does not see that device */
	uint32_t mode, owner;
	uint32_t state;      /* GPUB_LIVE: a buffer that is GPUB_DRAINING has no name to ask by */
	uint32_t grants;     /* how many use it: one for each session and device that may hold it now */
	uint32_t group;      /* gid whose members the middle three mode bits are for */
	uint8_t  device_uuid[16];
} gpub_info;

/* ---- connection: gpub_connect(3) ---- */

/*
 * Connects to the broker at address ("unix:PATH"). NULL: the environment variable GPUBROKER, which
 * broker-run sets for its workers, then the default socket of a brokerd. The caller owns *client and ends it
 * with gpub_disconnect(). One per process and broker is meant; a second one is independent of the first.
 * Starts one thread, with all signals blocked.
 *   -EINVAL        the address is not of the form unix:PATH
 *   -ECONNREFUSED  no broker listens there     -ENOENT  no such socket, or no address known
 *   -EACCES        this user may not open the socket: the sentence names the part of the path that refuses
 *   -EPERM         the socket or its server belongs to somebody who is not trusted (see gpubroker(7))
 *   -EPROTO        the broker speaks another version, or refused the session (its sentence is passed on)
 *   -ENOTSUP       CUDA was started before this process was forked: it cannot work here; or the driver is too old
 *   -ENODEV        the broker serves CUDA devices and this process has no driver, no device, or none of the broker's
 *   -EIO           the driver or the device is there and does not work: the sentence says what is broken
 *   -ETIMEDOUT     the broker did not answer within 30 seconds
 */
int gpub_connect(gpub_client **client, const char *address);

/*
 * Returns what is still held, closes every mapping, tells the broker so and ends the connection. Waits for
 * the device work of this process in the contexts that map buffers (it synchronises), and, ten seconds at most, for
 * the signals that it queued on timelines anywhere; if one is still on its way then, they end as those of a process
 * that died, and gpub_strerror_last() says so. No other thread may use the client during or after.
 * NULL is ignored. A process that exits without it loses nothing: the broker sees it die.
 */
void gpub_disconnect(gpub_client *client);

/*
 * Sets the client's flags (GPUB_BACKGROUND_CLOSE, or 0). The first time that GPUB_BACKGROUND_CLOSE is set starts
 * a second thread, with all signals blocked. What gpub_trim() says of parked streams then holds at any time.
 * -EINVAL for unknown flags; -EAGAIN no thread can be started.
 */
int gpub_set_flags(gpub_client *client, unsigned flags);

/*
 * Closes every mapping that no lease holds and tells the broker. Waits for the device work that was queued
 * behind gpub_return_on(), and for every running kernel of this process; other threads' launches wait
 * meanwhile. Do not call it while a stream of this process is parked in gpub_wait_on() for a value that
 * only a launch of this process can bring about.
 */
int gpub_trim(gpub_client *client);

/*
 * Bounds what stays open while no lease holds it: so many mappings, and so many bytes of memory behind them (16,384 and
 * UINT64_MAX to begin with). Beyond either, those that were used least recently are closed: by the closer thread where
 * GPUB_BACKGROUND_CLOSE is set, else by the next gpub_acquire() that has to open one, which then synchronises as
 * gpub_trim() does. What leases hold is never closed, so the bound may be exceeded by that. 0 keeps nothing. Pages of
 * timelines whose buffers were let go of are given back in the same places, beyond a sixteenth of the mappings or 1,024.
 */
int gpub_set_cache(gpub_client *client, unsigned mappings, uint64_t bytes);

/*
 * How many devices this client can use: CUDA devices that broker and process both see, or host devices. Ordinals are
 * those of this process, and those that can be used may have gaps between them: a device that the broker does not
 * serve has an ordinal too, and is refused with -ENODEV.
 */
int gpub_device_count(gpub_client *client, int *count);

/*
 * Makes that device current for the calling thread: cudaSetDevice() on CUDA; on the host device the only
 * way to choose one of several. The one call that changes it. Loads open modules there (gpub_module_open()).
 * -ENODEV: no such device.
 */
int gpub_set_device(gpub_client *client, int device);

/* ---- buffers: gpub_create(3) ---- */

/*
 * Makes a buffer of zeros. Its memory belongs to the broker; the name lives until gpub_unlink().
 * Small ones (up to half a granule) of one owner, group, mode and device share memory, which is mapped once for all of them;
 * GPUB_DEDICATED keeps a buffer out of that. What an unlinked one had is zeroed and serves the next of its kind.
 * When the device is full: gives back what this client's own cache holds (as gpub_trim() does), then waits.
 *   -EEXIST  the name is taken     -EINVAL  size 0, unknown flags, a bad name     -ENAMETOOLONG
 *   -ENOMEM  device full (after timeout_ms)     -EDQUOT  a quota, named in the sentence     -ENODEV
 *   -ENOSPC  shared memory is full (host device)     -ECONNREFUSED  the broker is stopping
 *   -EACCES  the broker's configuration does not let this user create
 */
int gpub_create(gpub_client *client, const char *name, const gpub_spec *spec);

/*
 * Takes the name away at once, as shm_unlink(3). The memory is freed by the broker, or serves another buffer of this
 * owner, when nobody can touch it any more. -ENOENT no such name; -EACCES neither its owner nor root.
 */
int gpub_unlink(gpub_client *client, const char *name);

/*
 * Changes who may acquire it from now on, as chmod(2): the owner, root or the broker's own user may. What is mapped
 * already stays mapped. -EINVAL beyond 0777; -EACCES; -ENOENT; -EBUSY: it shares its memory, which others would get with
 * it: create it with GPUB_DEDICATED.
 */
int gpub_chmod(gpub_client *client, const char *name, uint32_t mode);

/*
 * Gives it to another user or group, as chown(2): GPUB_KEEP leaves either as it is. Only root and the broker's user may
 * give it to another user; its owner, only to a group that it is in. The new owner's quota is charged: -EDQUOT. -EBUSY as
 * for gpub_chmod().
 */
#define GPUB_KEEP UINT32_MAX
int gpub_chown(gpub_client *client, const char *name, uint32_t owner, uint32_t group);

/*
 * gpub_unlink(), and waits until the memory is freed or can serve another buffer of its owner: no process uses it any more,
 * or, of another user's, those that did are dead. Closes this client's own idle mappings first, as gpub_trim() does; a
 * lease on the buffer that this process holds is waited for like any other's. timeout_ms as gpub_acquire(): -ETIMEDOUT,
 * and the name is gone all the same.
 */
int gpub_drain(gpub_client *client, const char *name, int timeout_ms);

/* Fills *info (info->struct_size must be set). Asks the broker: one round trip. -ENOENT no such name. */
int gpub_stat(gpub_client *client, const char *name, gpub_info *info);

/* ---- leases: gpub_acquire(3) ---- */

/*
 * Holds the buffer of that name for the calling thread's current device and fills *lease. The first acquire
 * of a buffer in a process asks the broker and maps it; later ones neither block nor make a system call.
 * timeout_ms: 0 does not wait for a name that does not exist (-ENOENT), -1 waits for ever, else -ETIMEDOUT.
 * A buffer whose mapping another thread is closing (gpub_trim()) is waited for whatever the timeout.
 *   -EACCES  the buffer's mode bits refuse these rights     -EINVAL  rights none or unknown, a bad name
 *   -ENAMETOOLONG     -ESTALE  the buffer was unlinked meanwhile     -EKEYREJECTED  a ticket did not open
 *   -ENODEV  the device cannot reach the buffer's device     -ENOMEM  too many leases or no memory here
 *   -EPERM   with GPUB_MINE: somebody else made the name
 */
int gpub_acquire(gpub_client *client, const char *name, unsigned rights, int timeout_ms, gpub_lease *lease);

/* What gpub_acquire_as() expects of a buffer. Start from GPUB_EXPECTATION_INIT; struct_size lets it grow in later versions. */
typedef struct gpub_expectation {
	uint32_t struct_size;
	uint32_t owner; /* uid of its owner, or GPUB_ANY_USER */
} gpub_expectation;

#define GPUB_ANY_USER UINT32_MAX
#define GPUB_EXPECTATION_INIT { (uint32_t)sizeof(gpub_expectation), GPUB_ANY_USER }

/*
 * gpub_acquire() of a buffer that is as expected: else -EPERM, and the sentence names the owner. The owner is the one when this
 * process mapped the buffer. expectation NULL: gpub_acquire().
 */
int gpub_acquire_as(gpub_client *client, const char *name, const gpub_expectation *expectation, unsigned rights,
		    int timeout_ms, gpub_lease *lease);

/*
 * gpub_acquire() of count names with the same rights, into leases[0] to leases[count - 1]: all, or none and leases is as it
 * was. What is not mapped yet is asked for at once, so that many cost little more than the opens. timeout_ms: for all
 * together. A name may stand there twice: that is two leases.
 */
int gpub_acquire_many(gpub_client *client, const char *const *names, unsigned count, unsigned rights, int timeout_ms,
		      gpub_lease *leases);

/*
 * Holds again the buffer of a returned lease, with the same rights, and updates *lease. No name, no hash; as
 * fast as an acquire can be, while it is mapped; else it is opened anew. -ESTALE: that buffer was unlinked, or its
 * mapping was closed long ago (gpub_trim(), gpub_set_cache(); some 256 others were since): acquire its name again.
 * -EBUSY: the lease was not returned yet. -EINVAL: it was never acquired, or is damaged, as for each function that takes one.
 */
int gpub_renew(gpub_lease *lease);

/*
 * Gives the hold back with one store; no CUDA call. Right for work in the device's primary context: the
 * buffer is closed, and so freed, only behind every kernel of that context. It does not tell when that work is done: once
 * unlinked, the buffer waits for a call that synchronises, such as gpub_trim(). -ESTALE: returned before.
 */
int gpub_return(gpub_lease *lease);

/*
 * Gives the hold back in stream order: the GPU releases it after everything queued on that stream so far. Where all of
 * a buffer's leases were, and it is unlinked, the library reports it idle without a synchronisation.
 * Needed for work in another context, and for graphs after their last launch.
 *   -ESTALE  returned before     -EBUSY  the stream is being captured: return after the launch instead
 */
int gpub_return_on(gpub_lease *lease, void *stream);

/* ---- tickets: gpub_ticket_issue(3) ---- */

#define GPUB_TICKET_MAX 256                /* bytes of a ticket's text, with the terminating zero */
#define GPUB_TICKET_ONCE 1u                /* gpub_ticket_terms.flags: it can be redeemed once */

/* What a ticket allows beside its rights. Start from GPUB_TICKET_TERMS_INIT: anybody, once, within an hour. */
typedef struct gpub_ticket_terms {
	uint32_t struct_size;
	uint32_t flags;       /* GPUB_TICKET_ONCE */
	uint32_t user;        /* uid that may redeem it, or GPUB_ANY_USER: whoever has the text */
	uint32_t reserved;    /* 0 */
	uint64_t lifetime_ms; /* from now on; 0: as long as the buffer has its name */
} gpub_ticket_terms;

#define GPUB_TICKET_TERMS_INIT \
	{ (uint32_t)sizeof(gpub_ticket_terms), GPUB_TICKET_ONCE, GPUB_ANY_USER, 0, 3600000 }

/*
 * Writes a ticket for the buffer of that name: text of at most GPUB_TICKET_MAX bytes with its zero, which another process
 * redeems, whatever the buffer's mode bits say to it. Only the buffer's owner, root or the broker's user may. It is a
 * secret like a password: whoever has it may use it. terms NULL: GPUB_TICKET_TERMS_INIT. It ends with the buffer's name.
 *   -EACCES  not the owner     -EINVAL  rights none or unknown, bad terms     -ENOENT     -EDQUOT
 *   -EBUSY   for another user, and the buffer shares its memory: create it with GPUB_DEDICATED
 */
int gpub_ticket_issue(gpub_client *client, const char *name, unsigned rights, const gpub_ticket_terms *terms, char *text);

/*
 * Holds the buffer that a ticket is for, with all rights that it gives, for the calling thread's current device, and fills
 * *lease. Asks the broker each time, and maps: keep the lease, and gpub_renew() it.
 *   -EKEYREJECTED  forged or cut off, another broker's, for another user, or redeemed before     -EKEYEXPIRED  its term is over
 *   -ESTALE  its buffer was unlinked     -EBUSY  it is another user's and shares its memory     -ENODEV     -ENOMEM     -EDQUOT
 */
int gpub_redeem(gpub_client *client, const char *text, gpub_lease *lease);

/* ---- timelines: gpub_signal_on(3) ---- */

/*
 * Sets the buffer's timeline to value when everything queued on that stream so far is done. Needs a lease
 * with GPUB_WRITE on a buffer made with GPUB_TIMELINE. The first session that signals is the timeline's
 * one writer. Values must grow. The first call makes one round trip.
 *   -EBUSY   another session is the writer, or the stream is being captured
 *   -EINVAL  value above GPUB_TIMELINE_MAX, or no timeline     -EACCES  no GPUB_WRITE
 */
int gpub_signal_on(const gpub_lease *lease, uint64_t value, void *stream);

/*
 * Makes that stream wait, on the device, until the timeline is at least value. Never waits for ever on a
 * writer that is gone: when the writing session ends, however it ends, the broker releases all waits, so
 * look at gpub_timeline() after the work to learn whether the value was truly reached. When the broker ends, the
 * writer's library does it; nobody does where a killed broker's writer is dead, too (gpub_signal_on(3)).
 *
 * A stream that waits can hold up other streams of this process, also their signals: CUDA maps streams onto a few
 * connections, which are in order. So queue what other processes wait for first, and the waits behind it: in an order
 * that would also work if all streams of the process were one. Else two processes can wait for each other for ever.
 *   -EBUSY  the stream is being captured     -EINVAL  value above GPUB_TIMELINE_MAX, or no timeline
 */
int gpub_wait_on(const gpub_lease *lease, uint64_t value, void *stream);

/*
 * Reads the timeline without waiting. After its writer disconnected cleanly: the last value it set.
 * -EOWNERDEAD: the writer died, or its connection to the broker ended.
 */
int gpub_timeline(const gpub_lease *lease, uint64_t *value);

/* ---- streams: gpub_stream_create(3) ---- */

/*
 * A non-blocking stream on that device (GPUB_CURRENT, or an ordinal). On CUDA a plain cudaStream_t. Loads open modules
 * there (gpub_module_open()).
 */
int gpub_stream_create(gpub_client *client, int device, void **stream);

/*
 * Waits until everything queued on the stream is done. -EIO: that work failed. -ECONNRESET, -EOWNERDEAD: a stream waits for a
 * timeline that nobody is left to advance or end, and which did not move for 30 seconds (gpub_signal_on(3)). -EBUSY: it is
 * being captured, or it is the legacy default stream and a blocking stream of the device is.
 */
int gpub_stream_sync(void *stream);

/* Destroys it once its work is done; the call itself does not wait on CUDA. */
void gpub_stream_destroy(void *stream);

/*
 * Copies size bytes in stream order between host memory and memory of leases, in any combination. Host
 * memory must stay valid and untouched until the stream got there. A copy keeps to the ptr and size of its leases; the host
 * device refuses one that does not (-EINVAL).
 */
int gpub_copy_on(gpub_client *client, void *dst, const void *src, uint64_t size, void *stream);

/* ---- kernels: gpub_module_open(3) ---- */

/* A file of kernels, open for all devices. */
typedef struct gpub_module gpub_module;

/* One kernel of a module: a value that belongs to no context, may be copied and launched on any device. */
typedef struct gpub_kernel {
	uint64_t token; /* module and its generation: a kernel of a closed module is refused */
	void    *handle; /* no address: which kernel of the module */
} gpub_kernel;

/* Where and how large. Start from GPUB_LAUNCH_INIT. */
typedef struct gpub_launch_config {
	uint32_t struct_size;
	int32_t  device; /* GPUB_CURRENT, or an ordinal: the device of the stream, else -EINVAL */
	uint32_t grid[3], block[3];
	uint32_t shared_bytes; /* dynamic shared memory; the host device has none */
	uint32_t reserved;
	void    *stream;
} gpub_launch_config;

#define GPUB_LAUNCH_INIT \
	{ (uint32_t)sizeof(gpub_launch_config), GPUB_CURRENT, { 1, 1, 1 }, { 1, 1, 1 }, 0, 0, NULL }

/*
 * Loads a module. path is without its ending: ".fatbin" is loaded on CUDA, ".so" (host twins, see
 * gpubroker-host.h) on the host device. A path without '/' is looked for in the directories of
 * GPUBROKER_MODULE_PATH, then in the package's own. -ENOENT no such file; -ENOEXEC not loadable.
 *
 * It is loaded on every device in use. To load waits for all that runs on a device, also for a stream that is parked in
 * gpub_wait_on(). gpub_set_device() and gpub_stream_create() load what is open on a device that comes into use later; where
 * neither was called, the first launch of the module there loads. Look-ups and other launches wait for nothing.
 */
int gpub_module_open(gpub_module **module, gpub_client *client, const char *path);

/* -ENOENT: the module has no kernel of that name. -ESTALE: the module was closed. */
int gpub_module_kernel(gpub_module *module, const char *symbol, gpub_kernel *kernel);

/* Address and size of a __managed__ variable (a global of the shared object on the host device). */
int gpub_module_managed(gpub_module *module, const char *symbol, void **ptr, size_t *size);

/*
 * Queues the kernel on config->stream, a stream of the device's primary context. args[i] points to the i-th parameter, copied
 * before the call returns. On failure nothing was launched. -ESTALE: its module was closed. -EINVAL: a size the device does not
 * take, a stream of another device or context, no kernel that a look-up gave out, or args without one of the parameters (of
 * which a CUDA driver older than 13.2 knows the first alone, and one older than 12.4 none).
 */
int gpub_launch(gpub_kernel kernel, const gpub_launch_config *config, void **args);

/* Refuses further launches, waits for those in flight, unloads. NULL is ignored. -EINVAL: it was closed before. */
int gpub_module_close(gpub_module *module);

/*
 * What went wrong in the calling thread's last failed call: one sentence, with the mend. Never NULL; valid
 * until this thread's next call into the library. Never contains a key, a handle or a ticket.
 */
const char *gpub_strerror_last(void);

#ifdef __cplusplus
}
#endif
#endif

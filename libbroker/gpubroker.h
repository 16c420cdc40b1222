/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpubroker.h - share GPU memory by name between processes.
 *
 * A broker process (broker-run(1)) allocates all buffers and is the only one that frees them. Workers
 * acquire a buffer by name, run kernels on it, and return it; see gpubroker(7) for the concepts.
 *
 * Conventions that hold for every function here, unless its comment says otherwise:
 *   - It returns 0, or a negative errno; gpub_strerror_last() then returns an error message that says what failed, why,
 *     and how to fix it. Outputs are untouched on failure.
 *   - It may be called from any thread at any time, also from several at once, but not from a signal
 *     handler and not from a function that CUDA calls (cudaLaunchHostFunc).
 *   - It is not a cancellation point: pthread_cancel() of a thread that is in it takes effect after it returns.
 *   - It leaves the caller's current CUDA device and context as they were, and never disturbs a graph
 *     capture that this thread or another one has begun.
 *   - In a child that was forked after gpub_connect() it returns -ECHILD and touches nothing: exec, then connect.
 *   - Once the broker is gone it returns -ECONNRESET, but leases can still be returned. Mapped memory stays readable
 *     until it is closed.
 *   - It returns -ENOSYS for a request that the broker, of an older release, does not know. Nothing else changes.
 *   - Sizes are bytes; times are milliseconds. A stream is a cudaStream_t passed as void *, on the host device one made
 *     by gpub_stream_create(). NULL is the legacy default stream.
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

/* rights of a lease: GPUB_READ, GPUB_WRITE, or both */
#define GPUB_READ  1u
#define GPUB_WRITE 2u
/* a further bit of an acquire's rights: the buffer's owner must be this user, root or the broker's user, else -EPERM */
#define GPUB_MINE  4u

/* bits of gpub_spec.flags and gpub_info.flags */
#define GPUB_EPHEMERAL 1u /* the broker unlinks the buffer when the session that created it ends */
#define GPUB_TIMELINE  2u /* the buffer has a timeline, a 64-bit word that its one writer's GPU advances */
/* the buffer has an allocation of its own, so mode and owner may change, and other users may redeem tickets for it */
#define GPUB_DEDICATED 4u
#define GPUB_SEALED    8u /* in gpub_info only: gpub_seal() was called for the buffer */
#define GPUB_SAME_ADDRESS 16u /* all processes map the buffer at one address; it has an allocation of its own */
#define GPUB_GROWABLE  32u /* in gpub_info only: the buffer was created with a reserve */

/* flags of gpub_rename() */
#define GPUB_REPLACE 1u /* a buffer that already has the new name is unlinked */
#define GPUB_PERSIST 2u /* the renamed buffer is not GPUB_EPHEMERAL any more, so it does not end with its creator */

/* flags of gpub_set_flags() */
#define GPUB_BACKGROUND_CLOSE 1u /* a thread of the library closes unlinked buffers as soon as no lease holds them */

/* values of gpub_lease.device, and of arguments and members that name a device, beside ordinals */
#define GPUB_HOST    (-1) /* gpub_lease.device of a buffer on the host device */
#define GPUB_CURRENT (-2) /* as an argument or in gpub_spec.device: the calling thread's current device */

/* values of gpub_info.state */
#define GPUB_LIVE     1u /* the buffer can be acquired by name */
#define GPUB_DRAINING 2u /* the buffer was unlinked, and a process may still use it */

#define GPUB_NAME_MAX     95                  /* bytes of a buffer's name at most, without the terminating zero */
#define GPUB_TIMELINE_MAX ((1ull << 62) - 1)  /* the largest value gpub_signal_on() takes */
#define GPUB_TIMELINES_MAX 255                 /* limit on count of gpub_wait_many_on() and gpub_signal_many_on() */

/* A connection of this process to one broker. gpub_connect() makes the client, gpub_disconnect() ends it. */
typedef struct gpub_client gpub_client;

/*
 * One hold on a buffer. A lease is a value: to copy it or to drop a copy neither holds nor frees anything. The first
 * copy that is returned gives the buffer back; from then on the other copies are refused with -ESTALE.
 */
typedef struct gpub_lease {
	/* device pointer to the buffer; on the host device a host pointer. May differ with and without GPUB_WRITE */
	void        *ptr;
	uint64_t     size;   /* bytes from ptr on that the buffer has */
	int32_t      device; /* CUDA ordinal, in this process, of the device; GPUB_HOST on the host device */
	uint32_t     rights; /* bits GPUB_READ, GPUB_WRITE, and GPUB_MINE if the acquire demanded it (gpub_acquire()) */
	uint64_t     token;  /* opaque: for the library only */
	gpub_client *client;
} gpub_lease;

#define GPUB_DIMS_MAX   8
#define GPUB_ANY_EXTENT UINT64_MAX /* an element of gpub_expectation.layout.shape: the extent may be any */

/* values of gpub_layout.code, the kind of an element, as DLDataTypeCode of DLPack; gpub_layout.bits is its size */
#define GPUB_INT     0u
#define GPUB_UINT    1u
#define GPUB_FLOAT   2u
#define GPUB_BFLOAT  4u
#define GPUB_COMPLEX 5u /* gpub_layout.bits: the bits of both parts together */
#define GPUB_BOOL    6u

/* What the bytes of a buffer are: an array in row-major order. A layout of zeroes only says nothing of the bytes. */
typedef struct gpub_layout {
	uint8_t  code, bits; /* GPUB_INT to GPUB_BOOL; number of bits of an element, or of one lane of a vector */
	uint16_t lanes; /* number of lanes of a vector type; 1: the type is no vector */
	uint32_t ndim;  /* number of dimensions */
	/* extents of the ndim dimensions, that of the slowest index first; then zeroes */
	uint64_t shape[GPUB_DIMS_MAX];
} gpub_layout;

#define GPUB_LAYOUT_TEXT_MAX 200 /* bytes of a layout's text, with the terminating zero */

/* What gpub_create() makes. Start from GPUB_SPEC_INIT; struct_size lets the struct grow in later versions. */
typedef struct gpub_spec {
	uint32_t struct_size;
	uint32_t flags;      /* GPUB_EPHEMERAL | GPUB_TIMELINE | GPUB_DEDICATED | GPUB_SAME_ADDRESS */
	uint64_t size;       /* bytes, at least 1 */
	int32_t  device;     /* ordinal, in this process, of the device that is to have the memory, or GPUB_CURRENT */
	uint32_t mode;       /* permission bits as of chmod(2): who may acquire the buffer with which rights */
	int32_t  timeout_ms; /* how long to wait for memory when the device is full: 0 not at all, -1 without limit */
	int32_t  reserved;   /* must be 0 */
	/* what the bytes are; with a layout, size may be 0, and then is what the layout needs, at least 1 byte */
	gpub_layout layout;
	/* largest size, in bytes, that gpub_resize() may set: at least size; 0: the size is fixed */
	uint64_t reserve;
} gpub_spec;

#define GPUB_LAYOUT_NONE { 0, 0, 0, 0, { 0, 0, 0, 0, 0, 0, 0, 0 } }
#define GPUB_SPEC_INIT   { (uint32_t)sizeof(gpub_spec), 0, 0, 0, 0600, 0, 0, GPUB_LAYOUT_NONE, 0 }

/* What gpub_stat() fills in. Set struct_size = sizeof(gpub_info) before the call. */
typedef struct gpub_info {
	uint32_t struct_size;
	uint32_t flags;
	char     name[96];
	uint64_t size;       /* bytes of the buffer, as created or resized */
	uint64_t generation; /* number that a create, rename or resize sets anew, and that the broker never reuses */
	/* ordinal, in this process, of the device with the memory; -1: this process does not see it */
	int32_t  device;
	uint32_t mode, owner; /* permission bits as of chmod(2); uid of the owner */
	uint32_t state;      /* always GPUB_LIVE, because a buffer that is GPUB_DRAINING has no name to ask by */
	uint32_t grants;     /* number of pairs of a session and a device that may have leases of the buffer now */
	uint32_t group;      /* gid of the group for whose members the middle three bits of mode are */
	uint8_t  device_uuid[16]; /* UUID of the device with the memory */
	gpub_layout layout;  /* layout of the bytes, as created or resized; all zeroes: nothing is said of them */
	uint64_t reserve;    /* largest size, in bytes, that the buffer may grow to; 0: the size is fixed */
} gpub_info;

/* ---- connection: gpub_connect(3) ---- */

/*
 * Connects to the broker at address: "unix:PATH", or the name of an instance. NULL means the environment variable
 * GPUBROKER, which broker-run sets for its workers, then the default socket of a brokerd. The caller owns *client and
 * ends it with gpub_disconnect(). One client for each process and broker is enough; a second one is independent of the
 * first. Starts one thread, with all signals blocked.
 *   -EINVAL        the address is neither unix:PATH nor a name
 *   -ECONNREFUSED  no broker listens at the socket, for a second     -ENOENT  no such socket, or no address is known
 *   -ECONNRESET    each server there hung up before it had answered, for a second
 *   -EACCES        this user may not open the socket: the message names the part of the path that refuses
 *   -EPERM         the socket or its server belongs to a user who is not trusted (see gpubroker(7))
 *   -EDQUOT        the user has as many sessions, connections or descriptors as its quotas and shares allow
 *   -EPROTO        the broker speaks another version, or refused the session (its message is passed on)
 *   -ENOTSUP       CUDA was started before this process was forked: it cannot work here; or the driver is too old
 *   -ENODEV        the broker serves CUDA devices and this process has no driver, no device, or none of the broker's
 *   -EIO           the driver or the device is there and does not work: the message says what is broken
 *   -ETIMEDOUT     the broker did not answer within 30 seconds
 */
int gpub_connect(gpub_client **client, const char *address);

/*
 * Returns all leases that are still held, closes every mapping, tells the broker, and ends the connection. It waits for
 * the device work of this process in the contexts that map buffers. It also waits, at most ten seconds, for the signals
 * that this process queued on timelines. If a signal has not landed by then, the timelines end as if the process had
 * died, and gpub_strerror_last() says so. No other thread may use the client during the call or after it. NULL is
 * ignored. A process that exits without this call loses nothing, because the broker sees that the process has died.
 */
void gpub_disconnect(gpub_client *client);

/*
 * Sets the client's flags (GPUB_BACKGROUND_CLOSE, or 0). Setting GPUB_BACKGROUND_CLOSE for the first time starts a
 * second thread, with all signals blocked. That thread closes at any time, so gpub_trim()'s rule about parked streams
 * always applies. -EINVAL: unknown flags. -EAGAIN: no thread can be started.
 */
int gpub_set_flags(gpub_client *client, unsigned flags);

/*
 * Closes every mapping that no lease holds and tells the broker. Waits for the device work that was queued before each
 * gpub_return_on(), and for every running kernel of this process; meanwhile launches of other threads wait. Do not call
 * it while a stream of this process is parked in gpub_wait_on() for a value that only a launch of this process can
 * reach.
 */
int gpub_trim(gpub_client *client);

/*
 * Limits the mappings that stay open while no lease holds them: their number, and the bytes of memory that they map
 * (initially 16,384 and UINT64_MAX). Beyond either limit, the least recently used mappings are closed. The closer
 * thread does that if GPUB_BACKGROUND_CLOSE is set, else the next gpub_acquire() that has to open a mapping, which then
 * synchronises as gpub_trim() does. Mappings that leases hold are never closed, so their number may exceed the limit.
 * With a limit of 0 no mapping stays open without a lease. Pages of timelines that are no longer used are unmapped in
 * the same calls, once there are more of them than a sixteenth of `mappings`, or than 1,024.
 */
int gpub_set_cache(gpub_client *client, unsigned mappings, uint64_t bytes);

/*
 * Stores the number of devices that this client can use: CUDA devices that broker and process both see, or host
 * devices. Ordinals are those of this process. The ordinals of usable devices may have gaps between them, because a
 * device that the broker does not serve has an ordinal too, and is refused with -ENODEV.
 */
int gpub_device_count(gpub_client *client, int *count);

#define GPUB_NODE_SIZE 33 /* bytes of gpub_node()'s text, with the terminating zero */

/*
 * Writes a text that identifies the client's broker, and so the machine that has all buffers of this client: 32
 * hexadecimal digits, which no other broker has at any time on any machine. Each broker has its own buffers, so two
 * processes of a job can acquire each other's buffers if, and only if, both get the same text. Processes on different
 * machines send data by MPI or NCCL instead. text has room for GPUB_NODE_SIZE bytes.
 */
int gpub_node(gpub_client *client, char *text);

/*
 * Makes the device with this ordinal current for the calling thread, as cudaSetDevice() does on CUDA; on the host
 * device the only way to choose one of several. No other call changes the current device. Loads open modules on the
 * device (gpub_module_open()). -ENODEV: there is no such device, or the broker does not serve it.
 */
int gpub_set_device(gpub_client *client, int device);

/* ---- buffers: gpub_create(3) ---- */

/*
 * Creates a buffer of zeros. Its memory belongs to the broker; the name lives until gpub_unlink(). Small buffers (up to
 * half a granule) of one owner, group, mode and device share an allocation, which is mapped once for all of them;
 * GPUB_DEDICATED gives a buffer an allocation of its own. The bytes of an unlinked small buffer are zeroed and used for
 * another small buffer of the same owner, group, mode and device. When the device is full, this call first closes the
 * mappings of this client that no lease holds (as gpub_trim() does), then waits.
 *   -EEXIST  the name is taken     -EINVAL  size 0, unknown flags, a bad name     -ENAMETOOLONG
 *   -ENOMEM  device full (after timeout_ms)     -EDQUOT  a quota, named in the message     -ENODEV
 *   -ENOSPC  shared memory is full (host device)     -ECONNREFUSED  the broker is stopping
 *   -EACCES  the broker's configuration does not let this user create
 */
int gpub_create(gpub_client *client, const char *name, const gpub_spec *spec);

/*
 * Removes the name at once, as shm_unlink(3). When no process can touch the memory, the broker frees it, or uses it for
 * another buffer of this owner. -ENOENT: no buffer has the name. -EACCES: this user is neither the buffer's owner nor
 * root.
 */
int gpub_unlink(gpub_client *client, const char *name);

/*
 * Changes who may acquire the buffer from now on, as chmod(2). The owner, root and the broker's user may call it.
 * Existing mappings stay. -EINVAL: a mode beyond 0777. -EACCES. -ENOENT. -EBUSY: the buffer shares its allocation, so
 * other users would get access to other buffers: create the buffer with GPUB_DEDICATED.
 */
int gpub_chmod(gpub_client *client, const char *name, uint32_t mode);

/*
 * Gives the buffer to another user or group, as chown(2); GPUB_KEEP leaves either as it is. Only root and the broker's
 * user may give it to another user. Its owner may give it to a group that the owner is in. The new owner is charged for
 * the buffer. -EDQUOT: the new owner's quota is too small. -EBUSY: as for gpub_chmod().
 */
#define GPUB_KEEP UINT32_MAX
int gpub_chown(gpub_client *client, const char *name, uint32_t owner, uint32_t group);

/*
 * Seals a buffer for good: each later acquire or renewal with GPUB_WRITE is refused with -EROFS. Does nothing to a
 * sealed buffer. Leases with GPUB_WRITE that this client holds can still be returned, and their device work may still
 * write: return them and wait for their work before this call, which waits for neither. Prevents mistakes and stops no
 * attacker, because CUDA IPC maps all memory writable.
 *   -EBUSY   another session has mapped it with GPUB_WRITE (gpub_trim() there ends that), or this session has by a
 *            ticket or under a name that the buffer had before; the message says which
 *   -EACCES  this user is not the buffer's owner, root or the broker's user
 *   -ENOENT  there is no such buffer
 */
int gpub_seal(gpub_client *client, const char *name);

/*
 * Gives a buffer another name, in one step. With GPUB_REPLACE the name may belong to another buffer, which is unlinked.
 * An acquire of that name gets the replaced buffer or the renamed one, and always finds a buffer. With GPUB_PERSIST the
 * buffer is not GPUB_EPHEMERAL from then on. So a creator that makes a GPUB_EPHEMERAL buffer, writes it, and renames it
 * with GPUB_PERSIST leaves nothing behind if it dies before. The buffer gets a new generation. Leases of the renamed
 * buffer and of the replaced one stay valid until they are returned, and cannot be renewed (-ESTALE). Tickets for the
 * buffer end. The owner, root and the broker's user may call it; for a replaced buffer, too. To rename a buffer to its
 * own name changes no generation.
 *   -EEXIST  the name is taken, without GPUB_REPLACE     -EBUSY  a buffer of that name is being created
 *   -EACCES     -ENOENT     -EINVAL  unknown flags, a bad name     -ENAMETOOLONG
 */
int gpub_rename(gpub_client *client, const char *name, const char *to, unsigned flags);

/*
 * Gives a buffer that was created with a reserve another size, of at most the reserve. The buffer grows in place: in
 * every process the new bytes are zero and follow the old ones. The buffer gets a new generation: leases stay valid,
 * with the size that they had, until they are returned, and cannot be renewed (-ESTALE); a lease of the next acquire
 * has the new size. Tickets for the buffer end. If the buffer has a layout, its first extent becomes as large as the
 * new size allows. A growth waits for memory as gpub_create() does, with timeout_ms as in gpub_spec. A buffer shrinks
 * only while no process maps it; its memory returns to the device in the steps in which the buffer grew. If memory is
 * short, or to shrink, the call first closes the mappings of this client that no lease holds, as gpub_trim() does. The
 * owner, root and the broker's user may call it.
 *   -EINVAL  the buffer has no reserve, or size is 0
 *   -ENOSPC  size is beyond the reserve, or the buffer has grown 31 times
 *   -EBUSY   a process, which the message names, maps the buffer that is to shrink; or it is being resized already
 *   -ENOMEM  device full (after timeout_ms)     -EDQUOT     -EROFS  the buffer is sealed     -EACCES     -ENOENT
 */
int gpub_resize(gpub_client *client, const char *name, uint64_t size, int timeout_ms);

/*
 * Unlinks the buffer as gpub_unlink() does, then waits until its memory is freed or can serve another buffer of its
 * owner. For that, all processes must have stopped using the memory, and processes of other users that used it must be
 * dead. First closes the mappings of this client that no lease holds, as gpub_trim() does. Waits for leases of this
 * process as for those of other processes. timeout_ms is as in gpub_acquire(); after -ETIMEDOUT the name is removed
 * nevertheless. -ENOENT: no buffer has the name; a buffer that had the name before is not waited for.
 */
int gpub_drain(gpub_client *client, const char *name, int timeout_ms);

/* Fills *info (info->struct_size must be set). Asks the broker, in one round trip. -ENOENT: no buffer has the name. */
int gpub_stat(gpub_client *client, const char *name, gpub_info *info);

/*
 * Calls each() for every buffer whose name matches the pattern and that this user owns or may acquire, in the order of
 * names. Root and the broker's user see all buffers. The pattern is that of fnmatch(3), in which '*' and '?' match '/'
 * too; NULL matches any name. info is filled as by gpub_stat() and valid during each(), which may call any function of
 * the library. If each() returns another value than 0, gpub_list() calls it no more and returns that value. Asks the
 * broker once, and the broker looks at all its buffers in this user's share of its time. A buffer that is created,
 * unlinked or renamed meanwhile may be listed or not. No name is listed twice.
 *   -ETIMEDOUT  the broker took more than a minute     -EDQUOT     -ENOMEM
 */
typedef int gpub_each(const gpub_info *info, void *context);
int gpub_list(gpub_client *client, const char *pattern, gpub_each *each, void *context);

/*
 * Waits until a buffer with this name has a generation above the given one (0: any generation), by a gpub_create(), a
 * gpub_rename() or a gpub_resize(). Then fills *info as gpub_stat() does. timeout_ms: 0 does not wait, -1 waits without
 * limit. -ETIMEDOUT. -ENOENT: timeout_ms is 0 and no buffer has the name. Each broker has its own generations, so after
 * a connect to another broker begin with 0. -EDQUOT: too many requests of this session wait.
 */
int gpub_wait_newer(gpub_client *client, const char *name, uint64_t generation, int timeout_ms, gpub_info *info);

/* ---- leases: gpub_acquire(3) ---- */

/*
 * Holds the buffer of that name for the calling thread's current device and fills *lease. The first acquire of a buffer
 * in a process asks the broker and maps the buffer; later acquires neither block nor make a system call. timeout_ms
 * says how long to wait if no buffer has the name: 0 does not wait (-ENOENT), -1 waits without limit, after another
 * time -ETIMEDOUT. If another thread is closing the buffer's mapping (gpub_trim()), the call waits for the close,
 * whatever the timeout is.
 *   -EACCES  the buffer's mode bits refuse these rights     -EINVAL  rights none or unknown, a bad name
 *   -EROFS   the buffer is sealed and the rights have GPUB_WRITE
 *   -ENAMETOOLONG     -ESTALE  the buffer was unlinked meanwhile     -EKEYREJECTED  a sealed handle did not open
 *   -ENODEV  the device cannot reach the buffer's device     -ENOMEM  too many leases or no memory here
 *   -EPERM   with GPUB_MINE: the buffer belongs to another user
 */
int gpub_acquire(gpub_client *client, const char *name, unsigned rights, int timeout_ms, gpub_lease *lease);

/*
 * What gpub_acquire_as() expects of a buffer. Start from GPUB_EXPECTATION_INIT; struct_size lets the struct grow in
 * later versions.
 */
typedef struct gpub_expectation {
	uint32_t    struct_size;
	uint32_t    owner;  /* uid that must be the buffer's owner, or GPUB_ANY_USER */
	/* layout that the buffer must have, with GPUB_ANY_EXTENT for any extent; all zeroes: any layout */
	gpub_layout layout;
} gpub_expectation;

#define GPUB_ANY_USER UINT32_MAX
#define GPUB_EXPECTATION_INIT { (uint32_t)sizeof(gpub_expectation), GPUB_ANY_USER, GPUB_LAYOUT_NONE }

/*
 * As gpub_acquire(), but refuses a buffer that is not as expected, and the error message says what it is:
 *   -EPERM        the buffer had another owner when this process mapped it
 *   -EMEDIUMTYPE  the buffer has another layout
 * If expectation is NULL, the same as gpub_acquire().
 */
int gpub_acquire_as(gpub_client *client, const char *name, const gpub_expectation *expectation, unsigned rights,
		    int timeout_ms, gpub_lease *lease);

/*
 * Acquires count buffers by their names, as gpub_acquire() does, with the same rights, into leases[0] to leases[count -
 * 1]. After an error it has acquired none of them, and leases is unchanged. Buffers that are not mapped are requested
 * together, which takes little more time than to map them. timeout_ms is for all buffers together. A name that is given
 * twice gets two leases.
 */
int gpub_acquire_many(gpub_client *client, const char *const *names, unsigned count, unsigned rights, int timeout_ms,
		      gpub_lease *leases);

/*
 * Holds again the buffer of a returned lease, with the same rights, and updates *lease. It needs no name and no hash,
 * and is the fastest acquire while the buffer is mapped; else it maps the buffer again. -ESTALE: the buffer was
 * unlinked, or its mapping was closed (gpub_trim(), gpub_set_cache()) and some 256 others since then: acquire its name
 * again. -EBUSY: the lease was not returned. -EINVAL: the lease was never acquired, or is damaged, as for each function
 * that takes a lease.
 */
int gpub_renew(gpub_lease *lease);

/*
 * Returns the lease with one store and no CUDA call. Right for work in the device's primary context, because the buffer
 * is closed, and so freed, only after every kernel of that context. Such a return does not show when the work is done,
 * so an unlinked buffer stays until a call that waits for the device, such as gpub_trim(). -ESTALE: the lease was
 * returned before.
 */
int gpub_return(gpub_lease *lease);

/*
 * Returns the lease in stream order: the GPU ends the hold after all work that is queued on the stream so far. If all
 * leases of an unlinked buffer were returned in stream order, the library tells the broker without waiting for the
 * device that the buffer is not used any more. Needed for work in another context, and for graphs after their last
 * launch.
 *   -ESTALE  the lease was returned before     -EBUSY  the stream is being captured: return after the launch instead
 */
int gpub_return_on(gpub_lease *lease, void *stream);

/* ---- layouts: gpub_layout_parse(3) ---- */

/*
 * Stores the layout that the leased buffer had at the acquire. All zeroes: the buffer was created without a layout.
 * Sends no request. -ESTALE: the lease was returned.
 */
int gpub_lease_layout(const gpub_lease *lease, gpub_layout *layout);

/*
 * Stores the generation that the leased buffer had at the acquire (gpub_info.generation). Sends no request. -ESTALE:
 * the lease was returned.
 */
int gpub_lease_generation(const gpub_lease *lease, uint64_t *generation);

/*
 * Parses a layout such as "float32[1024,1024]", or with the short name of the type "f32[1024,1024]"; "f32x4[100]" is an
 * array of vectors. -EINVAL: the text is no layout; the error message lists the types.
 */
int gpub_layout_parse(const char *text, gpub_layout *layout);

/*
 * Writes the layout as text, at most GPUB_LAYOUT_TEXT_MAX bytes with the terminating zero, such as
 * "float32[1024,1024]", or "bytes" for a layout of zeroes. -EINVAL: *layout is no valid layout.
 */
int gpub_layout_text(const gpub_layout *layout, char *text);

/* ---- tickets: gpub_ticket_issue(3) ---- */

#define GPUB_TICKET_MAX 256                /* bytes of a ticket's text, with the terminating zero */
#define GPUB_TICKET_ONCE 1u                /* in gpub_ticket_terms.flags: the ticket can be redeemed only once */

/*
 * Who may redeem a ticket, how often and how long. Start from GPUB_TICKET_TERMS_INIT: any user, once, within an hour.
 */
typedef struct gpub_ticket_terms {
	uint32_t struct_size;
	uint32_t flags;       /* GPUB_TICKET_ONCE, or 0 */
	uint32_t user;        /* uid of the user who may redeem the ticket, or GPUB_ANY_USER */
	uint32_t reserved;    /* must be 0 */
	/* how long the ticket is valid, from its issue on; 0: as long as the buffer has its name */
	uint64_t lifetime_ms;
} gpub_ticket_terms;

#define GPUB_TICKET_TERMS_INIT \
	{ (uint32_t)sizeof(gpub_ticket_terms), GPUB_TICKET_ONCE, GPUB_ANY_USER, 0, 3600000 }

/*
 * Writes a ticket for the buffer with this name: text of at most GPUB_TICKET_MAX bytes with the terminating zero.
 * Another process can redeem the ticket, whatever the buffer's mode bits are. Only the buffer's owner, root and the
 * broker's user may issue tickets. A ticket is a secret like a password, because any process that has it may use it. A
 * ticket ends when its buffer gets another name or size. terms NULL means GPUB_TICKET_TERMS_INIT.
 *   -EACCES  this user may not     -EINVAL  rights none or unknown, bad terms     -ENOENT     -EDQUOT
 *   -EBUSY   the ticket is for another user, and the buffer shares its allocation: create it with GPUB_DEDICATED
 */
int gpub_ticket_issue(gpub_client *client, const char *name, unsigned rights, const gpub_ticket_terms *terms,
		      char *text);

/*
 * Holds the buffer that a ticket is for, with all rights that the ticket gives, for the calling thread's current
 * device, and fills *lease. Each call asks the broker and maps the buffer: keep the lease and gpub_renew() it.
 *   -EKEYREJECTED  the ticket is forged, cut off, another broker's, for another user, or was redeemed before
 *   -EKEYEXPIRED   the ticket has expired     -ESTALE  the buffer was unlinked
 *   -EBUSY         the buffer is another user's and shares its allocation     -ENODEV     -ENOMEM     -EDQUOT
 */
int gpub_redeem(gpub_client *client, const char *text, gpub_lease *lease);

/* ---- timelines: gpub_signal_on(3) ---- */

/*
 * Sets the buffer's timeline to value when all work that is queued on the stream so far is done. Needs a lease with
 * GPUB_WRITE of a buffer that was created with GPUB_TIMELINE. The first session that signals is the timeline's only
 * writer. Each value must be larger than the one before. A session's first
 * signal of a buffer makes one round trip to the broker.
 *   -EBUSY   another session is the writer, or the stream is being captured
 *   -EINVAL  value above GPUB_TIMELINE_MAX or not larger than the last, or no timeline     -EACCES  no GPUB_WRITE
 *   -EDQUOT  in the first signal: too many descriptors from the broker wait for this process to receive them
 */
int gpub_signal_on(const gpub_lease *lease, uint64_t value, void *stream);

/*
 * Makes the stream wait, on the device, until the timeline is at least value. When the writer's session ends, in
 * whatever way, the broker releases all waits. So call gpub_timeline() after the work to learn whether the value was
 * reached. When the broker ends, the writer's library releases the waits. If the broker was killed and the writer is
 * dead, too, nothing releases them (gpub_signal_on(3)).
 *
 * A stream that waits can hold up other streams of this process, and their signals: CUDA maps streams onto a few
 * connections, each of which is in order. So queue first what other processes wait for, and the waits after it, in an
 * order that would also work if all streams of the process were one. Else two processes can deadlock.
 *   -EBUSY  the stream is being captured     -EINVAL  value above GPUB_TIMELINE_MAX, or no timeline
 */
int gpub_wait_on(const gpub_lease *lease, uint64_t value, void *stream);

/*
 * As gpub_signal_on() and gpub_wait_on(), for several timelines by one operation of the stream, which costs less than
 * an operation for each: values[i] is for the timeline of leases[i]. count is 0 to GPUB_TIMELINES_MAX. After an error
 * nothing is queued. gpub_signal_many_on() takes each timeline only once (else -EINVAL); after an error this session
 * may have become the writer of some of the timelines.
 */
int gpub_signal_many_on(const gpub_lease *const *leases, const uint64_t *values, unsigned count, void *stream);
int gpub_wait_many_on(const gpub_lease *const *leases, const uint64_t *values, unsigned count, void *stream);

/*
 * Stores the value that the timeline has reached, without waiting. After its writer has disconnected, that is the last
 * value set. -EOWNERDEAD: the writer died, or its connection to the broker ended.
 */
int gpub_timeline(const gpub_lease *lease, uint64_t *value);

/*
 * The calling thread waits until the timeline has reached value. Stores the value that the timeline has reached in
 * *reached, unless reached is NULL. A value that was reached before the writer's death counts, so a wait for value 0
 * reads any timeline, however it has ended. Work that this thread queues afterwards runs after the work that was
 * signalled. timeout_ms: 0 does not wait, -1 waits without limit.
 *   -EOWNERDEAD  the timeline ended before that value; the message says at which value     -ETIMEDOUT
 *   -EINVAL      value above GPUB_TIMELINE_MAX, or no timeline
 */
int gpub_timeline_wait(const gpub_lease *lease, uint64_t value, int timeout_ms, uint64_t *reached);

/* ---- interrupts: gpub_set_interrupt(3) ---- */

/*
 * Sets a function for the calling thread: from now on check(context) is called about ten times a second while a call of
 * this thread waits for the broker (also in gpub_connect()), for a buffer, for memory or for a timeline, or in
 * gpub_stream_sync(). When check returns another value than 0, the call ends with -EINTR and has no effect; the broker
 * is told to cancel the request. Work that is queued on streams goes on. check may call the library, and those calls
 * are not interrupted. check NULL: calls are not interrupted, as at first. gpub_disconnect() is never interrupted. For
 * interpreters, whose signal handlers run only where the interpreter calls them. Always returns 0.
 */
typedef int gpub_interrupt(void *context);
int gpub_set_interrupt(gpub_interrupt *check, void *context);

/* ---- streams: gpub_stream_create(3) ---- */

/*
 * Makes a non-blocking stream on the device (GPUB_CURRENT, or an ordinal). On CUDA *stream is a plain cudaStream_t.
 * Loads open modules on the device (gpub_module_open()).
 */
int gpub_stream_create(gpub_client *client, int device, void **stream);

/*
 * As gpub_stream_create(), with a priority as of CUDA: of the streams with work to do, the device takes up the one with
 * the lowest number first. gpub_stream_create() gives priority 0. A number beyond the device's range counts as the
 * nearest one in it. Work that runs is not interrupted. The host device ignores priorities.
 */
int gpub_stream_create_priority(gpub_client *client, int device, int priority, void **stream);

/*
 * Waits until all work that is queued on the stream is done. -EIO: the work failed. -ECONNRESET, -EOWNERDEAD: a stream
 * waits for a timeline that no process can advance or end, and that has not moved for 30 seconds (gpub_signal_on(3)).
 * -EBUSY: the stream is being captured, or it is the legacy default stream and a blocking stream of the device is being
 * captured.
 */
int gpub_stream_sync(void *stream);

/*
 * Makes all work that is queued on stream from now on wait for all work that is queued on other so far. Both are
 * streams of this process, of any devices. A cudaStreamWaitEvent() of an event that is recorded on other does the same.
 *   -EBUSY  one of the streams is being captured
 */
int gpub_stream_wait(void *stream, void *other);

/* Destroys the stream once its work is done. Does not wait for that. NULL is ignored. */
void gpub_stream_destroy(void *stream);

/*
 * Copies size bytes in stream order between host memory and memory of leases, in any combination. Host memory must stay
 * valid and unchanged until the stream has done the copy. A copy must stay within the ptr and size of its leases; the
 * host device refuses a copy that does not (-EINVAL). A copy to memory that is mapped read-only, as that of a lease
 * without GPUB_WRITE may be, is refused: -EINVAL.
 */
int gpub_copy_on(gpub_client *client, void *dst, const void *src, uint64_t size, void *stream);

/*
 * Allocates host memory for copies, zeroed, in whole pages. The device reads and writes this memory by itself
 * ("pinned"), so gpub_copy_on() to or from it never waits; other memory CUDA copies through a buffer of its own, and
 * the call may wait for the stream. A child of fork() does not have the memory. Kernels on any device of this process
 * can use the address, too. -ENOMEM: there is too little memory.
 */
int gpub_host_alloc(gpub_client *client, uint64_t size, void **ptr);

/*
 * Frees memory of gpub_host_alloc(). Every copy and kernel that uses the memory must be done. Waits for all work that
 * runs on the devices, as gpub_trim() does. Memory that is not freed before gpub_disconnect() stays until the process
 * ends. -EINVAL: ptr is not from gpub_host_alloc(). NULL is ignored.
 */
int gpub_host_free(gpub_client *client, void *ptr);

/* ---- kernels: gpub_module_open(3) ---- */

/* A module: a file of kernels, open for all devices. gpub_module_open() makes it, gpub_module_close() ends it. */
typedef struct gpub_module gpub_module;

/* One kernel of a module: a value that belongs to no context, may be copied, and may be launched on any device. */
typedef struct gpub_kernel {
	uint64_t token;  /* opaque: identifies the module, so that a kernel of a closed module is refused */
	void    *handle; /* opaque: identifies the kernel in the module; not an address */
} gpub_kernel;

/* On which device and stream, and with which grid, a kernel is launched. Start from GPUB_LAUNCH_INIT. */
typedef struct gpub_launch_config {
	uint32_t struct_size;
	/* GPUB_CURRENT, or an ordinal in this process; must be the device of the stream, else -EINVAL */
	int32_t  device;
	uint32_t grid[3], block[3]; /* number of blocks, and number of threads in a block, in x, y and z */
	uint32_t shared_bytes; /* bytes of dynamic shared memory for each block; the host device has none */
	uint32_t reserved; /* must be 0 */
	void    *stream; /* the stream to queue the kernel on; NULL: the legacy default stream */
} gpub_launch_config;

#define GPUB_LAUNCH_INIT \
	{ (uint32_t)sizeof(gpub_launch_config), GPUB_CURRENT, { 1, 1, 1 }, { 1, 1, 1 }, 0, 0, NULL }

/*
 * Loads a module. path has no suffix: on CUDA the file path.fatbin is loaded, on the host device the file path.so (host
 * twins, see gpubroker-host.h). A path without '/' is searched in the directories of GPUBROKER_MODULE_PATH, then in the
 * package's own. -ENOENT: there is no such file. -ENOEXEC: the file cannot be loaded.
 *
 * The module is loaded on every device in use. Loading waits for all that runs on a device, also for a stream that is
 * parked in gpub_wait_on(). gpub_set_device() and gpub_stream_create() load open modules on a device that comes into
 * use later; without either call, the module's first launch on the device loads it. Look-ups and other launches do not
 * wait.
 */
int gpub_module_open(gpub_module **module, gpub_client *client, const char *path);

/* Looks up a kernel by its name. -ENOENT: the module has no kernel with this name. -ESTALE: the module was closed. */
int gpub_module_kernel(gpub_module *module, const char *symbol, gpub_kernel *kernel);

/* Stores address and size of a __managed__ variable (on the host device, of a global variable of the shared object). */
int gpub_module_managed(gpub_module *module, const char *symbol, void **ptr, size_t *size);

/*
 * Queues the kernel on config->stream, a stream of the device's primary context. args[i] points to the i-th parameter,
 * which is copied before the call returns. On failure nothing was launched. -ESTALE: the module was closed. -EINVAL: a
 * size that the device refuses, a stream of another device or context, a kernel that is not from gpub_module_kernel(),
 * or a parameter that is missing in args (a CUDA driver older than 13.2 checks the first one only, one older than 12.4
 * none).
 */
int gpub_launch(gpub_kernel kernel, const gpub_launch_config *config, void **args);

/*
 * Refuses further launches of the module's kernels, waits for those in progress, and unloads the module. NULL is
 * ignored. -EINVAL: the module was closed before.
 */
int gpub_module_close(gpub_module *module);

/*
 * The error message of the calling thread's last failed call: what failed, why, and how to fix it. Never NULL; valid
 * until this thread's next call into the library. Never contains a key, a handle or a ticket.
 */
const char *gpub_strerror_last(void);

#ifdef __cplusplus
}
#endif
#endif

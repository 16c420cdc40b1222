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

/* rights of a lease: at least one, in any combination */
#define GPUB_READ  1u
#define GPUB_WRITE 2u
/* added to them in an acquire: the buffer's owner must be this user, root or the broker's user, else -EPERM */
#define GPUB_MINE  4u

/* gpub_spec.flags, gpub_info.flags */
#define GPUB_EPHEMERAL 1u /* unlinked by the broker when the session that created it ends */
#define GPUB_TIMELINE  2u /* has a timeline: a 64-bit word that its one writer's GPU advances */
#define GPUB_DEDICATED 4u /* has an allocation of its own: mode and owner may change, other users may redeem tickets */
#define GPUB_SEALED    8u /* gpub_info alone: gpub_seal() was called for it */
#define GPUB_SAME_ADDRESS 16u /* each process maps it at the same address; it has an allocation of its own */
#define GPUB_GROWABLE  32u /* gpub_info alone: it was created with a reserve */

/* gpub_rename() */
#define GPUB_REPLACE 1u /* a buffer that has the new name is unlinked */
#define GPUB_PERSIST 2u /* the buffer does not end with its creator any more (GPUB_EPHEMERAL) */

/* gpub_set_flags() */
#define GPUB_BACKGROUND_CLOSE 1u /* close unlinked buffers as soon as no lease holds them, on a thread of its own */

/* gpub_lease.device, gpub_spec.device */
#define GPUB_HOST    (-1) /* what gpub_lease.device says on the host device */
#define GPUB_CURRENT (-2) /* the calling thread's current device */

/* gpub_info.state */
#define GPUB_LIVE     1u /* can be acquired by name */
#define GPUB_DRAINING 2u /* unlinked; a process may still use it */

#define GPUB_NAME_MAX     95                  /* bytes of a name, without the terminating zero */
#define GPUB_TIMELINE_MAX ((1ull << 62) - 1)  /* the largest value gpub_signal_on() takes */
#define GPUB_TIMELINES_MAX 255                 /* of one call of gpub_wait_many_on() or gpub_signal_many_on() */

/* A connection of this process to one broker. gpub_connect() makes it, gpub_disconnect() ends it. */
typedef struct gpub_client gpub_client;

/*
 * One hold on a buffer. It is a value: a copy holds and frees nothing. The first copy that is returned gives the buffer
 * back; from then on the others are refused with -ESTALE.
 */
typedef struct gpub_lease {
	/* device pointer; a host pointer on the host device. Leases with and without GPUB_WRITE may differ in it */
	void        *ptr;
	uint64_t     size;   /* bytes that may be used */
	int32_t      device; /* CUDA ordinal in this process, GPUB_HOST on the host device */
	uint32_t     rights; /* bits GPUB_READ, GPUB_WRITE, and GPUB_MINE if the acquire demanded it (gpub_acquire()) */
	uint64_t     token;  /* slot and sequence: opaque */
	gpub_client *client;
} gpub_lease;

#define GPUB_DIMS_MAX   8
#define GPUB_ANY_EXTENT UINT64_MAX /* gpub_expectation.layout.shape: whatever there is */

/* gpub_layout.code, as DLDataTypeCode of DLPack: what an element is; gpub_layout.bits says of how many bits */
#define GPUB_INT     0u
#define GPUB_UINT    1u
#define GPUB_FLOAT   2u
#define GPUB_BFLOAT  4u
#define GPUB_COMPLEX 5u /* bits: of both parts together */
#define GPUB_BOOL    6u

/* What the bytes of a buffer are: an array in row-major order. All zeroes: nothing is said of them. */
typedef struct gpub_layout {
	uint8_t  code, bits;
	uint16_t lanes; /* 1, or the elements of a vector type */
	uint32_t ndim;
	uint64_t shape[GPUB_DIMS_MAX]; /* extents, the slowest first; 0 behind the last */
} gpub_layout;

#define GPUB_LAYOUT_TEXT_MAX 200 /* bytes of a layout's text, with the terminating zero */

/* What gpub_create() makes. Start from GPUB_SPEC_INIT; struct_size lets the struct grow in later versions. */
typedef struct gpub_spec {
	uint32_t struct_size;
	uint32_t flags;      /* GPUB_EPHEMERAL | GPUB_TIMELINE | GPUB_DEDICATED | GPUB_SAME_ADDRESS */
	uint64_t size;       /* bytes, at least 1 */
	int32_t  device;     /* CUDA ordinal in this process, or GPUB_CURRENT; on the host device its number */
	uint32_t mode;       /* permission bits as of chmod(2): who may acquire it with which rights */
	int32_t  timeout_ms; /* how long to wait for memory when the device is full: 0 not at all, -1 without limit */
	int32_t  reserved;   /* must be 0 */
	gpub_layout layout;  /* what the bytes are; with it, size may be 0: as many as the layout needs, at least 1 */
	uint64_t reserve;    /* bytes that gpub_resize() may make of it: at least size; 0: it keeps its size */
} gpub_spec;

#define GPUB_LAYOUT_NONE { 0, 0, 0, 0, { 0, 0, 0, 0, 0, 0, 0, 0 } }
#define GPUB_SPEC_INIT   { (uint32_t)sizeof(gpub_spec), 0, 0, 0, 0600, 0, 0, GPUB_LAYOUT_NONE, 0 }

/* What gpub_stat() fills in. Set struct_size = sizeof(gpub_info) before the call. */
typedef struct gpub_info {
	uint32_t struct_size;
	uint32_t flags;
	char     name[96];
	uint64_t size;       /* bytes, as created or resized */
	uint64_t generation; /* serial of this buffer: never reused by the broker */
	int32_t  device;     /* CUDA ordinal in this process; -1 when this process does not see that device */
	uint32_t mode, owner;
	uint32_t state;      /* GPUB_LIVE: a buffer that is GPUB_DRAINING has no name to ask by */
	uint32_t grants;     /* its users: one for each session and device that may hold it now */
	uint32_t group;      /* gid whose members the middle three mode bits are for */
	uint8_t  device_uuid[16];
	gpub_layout layout;  /* as created or resized; all zeroes: nothing is said of the bytes */
	uint64_t reserve;    /* bytes that it may grow to; 0: it keeps its size */
} gpub_info;

/* ---- connection: gpub_connect(3) ---- */

/*
 * Connects to the broker at address: "unix:PATH", or the name of an instance. NULL means the environment variable
 * GPUBROKER, which broker-run sets for its workers, then the default socket of a brokerd. The caller owns *client and
 * ends it with gpub_disconnect(). One client for each process and broker is enough; a second one is independent of the
 * first. Starts one thread, with all signals blocked.
 *   -EINVAL        the address is neither unix:PATH nor a name
 *   -ECONNREFUSED  no broker listens there     -ENOENT  no such socket, or no address known
 *   -EACCES        this user may not open the socket: the message names the part of the path that refuses
 *   -EPERM         the socket or its server belongs to a user who is not trusted (see gpubroker(7))
 *   -EPROTO        the broker speaks another version, or refused the session (its message is passed on)
 *   -ENOTSUP       CUDA was started before this process was forked: it cannot work here; or the driver is too old
 *   -ENODEV        the broker serves CUDA devices and this process has no driver, no device, or none of the broker's
 *   -EIO           the driver or the device is there and does not work: the message says what is broken
 *   -ETIMEDOUT     the broker did not answer within 30 seconds
 */
int gpub_connect(gpub_client **client, const char *address);

/*
 * Returns what is still held, closes every mapping, tells the broker, and ends the connection. It synchronises: it
 * waits for the device work of this process in the contexts that map buffers. It also waits, at most ten seconds, for
 * the signals that this process queued on timelines. If one has not landed by then, the timelines end as if the process
 * had died, and gpub_strerror_last() says so. No other thread may use the client during the call or after it. NULL is
 * ignored. A process that exits without it loses nothing: the broker sees that it died.
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
 * Bounds what stays open while no lease holds it: the number of mappings, and the bytes of memory behind them
 * (initially 16,384 and UINT64_MAX). Beyond either bound, the least recently used mappings are closed. The closer
 * thread does that if GPUB_BACKGROUND_CLOSE is set, else the next gpub_acquire() that has to open a mapping, which then
 * synchronises as gpub_trim() does. Mappings that leases hold are never closed, so these may exceed the bound. 0 keeps
 * nothing. Pages of timelines that are no longer used are unmapped at the same points, once they are more than a
 * sixteenth of the mappings, or than 1,024.
 */
int gpub_set_cache(gpub_client *client, unsigned mappings, uint64_t bytes);

/*
 * The number of devices that this client can use: CUDA devices that broker and process both see, or host devices.
 * Ordinals are those of this process. The usable ones may have gaps between them: a device that the broker does not
 * serve has an ordinal too, and is refused with -ENODEV.
 */
int gpub_device_count(gpub_client *client, int *count);

#define GPUB_NODE_SIZE 33 /* bytes of gpub_node()'s text, with the terminating zero */

/*
 * Tells which broker this is, and so on which machine all buffers of this client are: 32 hexadecimal digits, which are
 * another broker's at no time and on no machine. Names are a broker's own, so two processes of a job can acquire each
 * other's buffers if, and only if, they have the same text; a program that runs on several machines exchanges the
 * others' by MPI or NCCL. text is GPUB_NODE_SIZE bytes.
 */
int gpub_node(gpub_client *client, char *text);

/*
 * Makes that device current for the calling thread: cudaSetDevice() on CUDA; on the host device the only way to choose
 * one of several. No other call changes the current device. Loads open modules there (gpub_module_open()). -ENODEV: no
 * such device.
 */
int gpub_set_device(gpub_client *client, int device);

/* ---- buffers: gpub_create(3) ---- */

/*
 * Creates a buffer of zeros. Its memory belongs to the broker; the name lives until gpub_unlink(). Small buffers (up to
 * half a granule) of one owner, group, mode and device share an allocation, which is mapped once for all of them;
 * GPUB_DEDICATED keeps a buffer out of that. The range of an unlinked buffer is zeroed and used for the next one of its
 * kind. When the device is full, this call first closes what this client's own cache holds (as gpub_trim() does), then
 * waits.
 *   -EEXIST  the name is taken     -EINVAL  size 0, unknown flags, a bad name     -ENAMETOOLONG
 *   -ENOMEM  device full (after timeout_ms)     -EDQUOT  a quota, named in the message     -ENODEV
 *   -ENOSPC  shared memory is full (host device)     -ECONNREFUSED  the broker is stopping
 *   -EACCES  the broker's configuration does not let this user create
 */
int gpub_create(gpub_client *client, const char *name, const gpub_spec *spec);

/*
 * Removes the name at once, as shm_unlink(3). When no process can touch the memory, the broker frees it, or uses it for
 * another buffer of this owner. -ENOENT: no such name. -EACCES: the caller is neither its owner nor root.
 */
int gpub_unlink(gpub_client *client, const char *name);

/*
 * Changes who may acquire the buffer from now on, as chmod(2). The owner, root and the broker's user may. Existing
 * mappings stay. -EINVAL: a mode beyond 0777. -EACCES. -ENOENT. -EBUSY: the buffer shares its allocation, to which
 * others would get access: create it with GPUB_DEDICATED.
 */
int gpub_chmod(gpub_client *client, const char *name, uint32_t mode);

/*
 * Gives the buffer to another user or group, as chown(2); GPUB_KEEP leaves either as it is. Only root and the broker's
 * user may give it to another user. Its owner may give it to a group that the owner is in. The new owner's quota is
 * charged: -EDQUOT. -EBUSY as for gpub_chmod().
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
 * Gives a buffer another name, in one step. With GPUB_REPLACE it takes the name from a buffer that has it: whoever
 * acquires that name gets the old buffer or the new one at any time. With GPUB_PERSIST the buffer is not GPUB_EPHEMERAL
 * from then on: so a creator that dies before it has written all of a buffer leaves nothing behind. The buffer gets a
 * new generation. Leases of it and of the buffer that it replaces stay valid until they are returned, and cannot be
 * renewed (-ESTALE). Tickets for it end. The owner, root and the broker's user may, of both buffers. To rename a buffer
 * to its own name changes no generation.
 *   -EEXIST  the name is taken, without GPUB_REPLACE     -EBUSY  a buffer of that name is being created
 *   -EACCES     -ENOENT     -EINVAL  unknown flags, a bad name     -ENAMETOOLONG
 */
int gpub_rename(gpub_client *client, const char *name, const char *to, unsigned flags);

/*
 * Gives a buffer that was created with a reserve another size, of at most the reserve. It grows in place: what is new
 * is zero, and lies behind what the buffer has, in every process. The buffer gets a new generation: leases stay valid,
 * with the size that they had, until they are returned, and cannot be renewed (-ESTALE); the next acquire of the name
 * has the new size. Tickets for it end. An array has as many of its slowest extent as fit then. A growth waits for
 * memory as gpub_create() does, with timeout_ms as in gpub_spec. A buffer shrinks only while no process maps it; memory
 * goes back to the device in the steps in which the buffer grew. Where memory is short, or to shrink, the call closes
 * this client's own unused mappings first, as gpub_trim() does. The owner, root and the broker's user may.
 *   -EINVAL  the buffer has no reserve, or size is 0
 *   -ENOSPC  size is beyond the reserve, or the buffer has grown 31 times
 *   -EBUSY   to shrink: a process maps it, which the message names; or it is being resized
 *   -ENOMEM  device full (after timeout_ms)     -EDQUOT     -EROFS  the buffer is sealed     -EACCES     -ENOENT
 */
int gpub_resize(gpub_client *client, const char *name, uint64_t size, int timeout_ms);

/*
 * gpub_unlink(), and waits until the memory is freed or can serve another buffer of its owner: all processes have
 * stopped using it, and those of other users that did are dead. Closes this client's own unused mappings first, as
 * gpub_trim() does. It waits for leases of this process as for any others. timeout_ms as in gpub_acquire(): after
 * -ETIMEDOUT the name is removed, too. -ENOENT: no buffer has the name; one that had it is not waited for.
 */
int gpub_drain(gpub_client *client, const char *name, int timeout_ms);

/* Fills *info (info->struct_size must be set). Asks the broker: one round trip. -ENOENT no such name. */
int gpub_stat(gpub_client *client, const char *name, gpub_info *info);

/*
 * Calls each() for every buffer whose name matches the pattern and that this user owns or may acquire (root, the
 * broker's user: any), in the order of names. The pattern is as of fnmatch(3), where '*' and '?' match '/' too; NULL:
 * any name. info is filled as by gpub_stat() and valid during the call, which may call any function of the library. A
 * value other than 0 that each() returns ends the list, and gpub_list() returns it. Asks the broker once, which goes
 * through its buffers in this user's share of its time: a buffer that comes, goes or gets another name meanwhile is
 * listed or not, and no name twice.
 *   -ETIMEDOUT  the broker took more than a minute     -EDQUOT     -ENOMEM
 */
typedef int gpub_each(const gpub_info *info, void *context);
int gpub_list(gpub_client *client, const char *pattern, gpub_each *each, void *context);

/*
 * Waits until the buffer of that name has a generation above the given one (0: any), by a create, a gpub_rename() or a
 * gpub_resize(). Then fills *info as gpub_stat() does. timeout_ms: 0 does not wait, -1 waits without limit. -ETIMEDOUT.
 * -ENOENT: timeout_ms is 0 and there is no such name. A generation is of one broker: behind a new connection begin with
 * 0. -EDQUOT: too many requests of this session wait.
 */
int gpub_wait_newer(gpub_client *client, const char *name, uint64_t generation, int timeout_ms, gpub_info *info);

/* ---- leases: gpub_acquire(3) ---- */

/*
 * Holds the buffer of that name for the calling thread's current device and fills *lease. The first acquire of a buffer
 * in a process asks the broker and maps it; later ones neither block nor make a system call. timeout_ms, for a name
 * that does not exist: 0 does not wait (-ENOENT), -1 waits without limit, else -ETIMEDOUT. If another thread is closing
 * the buffer's mapping (gpub_trim()), the call waits for that whatever the timeout is.
 *   -EACCES  the buffer's mode bits refuse these rights     -EINVAL  rights none or unknown, a bad name
 *   -EROFS   the buffer is sealed and the rights have GPUB_WRITE
 *   -ENAMETOOLONG     -ESTALE  the buffer was unlinked meanwhile     -EKEYREJECTED  a sealed handle did not open
 *   -ENODEV  the device cannot reach the buffer's device     -ENOMEM  too many leases or no memory here
 *   -EPERM   with GPUB_MINE: the buffer belongs to another user
 */
int gpub_acquire(gpub_client *client, const char *name, unsigned rights, int timeout_ms, gpub_lease *lease);

/*
 * What gpub_acquire_as() expects of a buffer. Start from GPUB_EXPECTATION_INIT; struct_size lets it grow in later
 * versions.
 */
typedef struct gpub_expectation {
	uint32_t    struct_size;
	uint32_t    owner;  /* uid of its owner, or GPUB_ANY_USER */
	gpub_layout layout; /* all zeroes: any; extents may be GPUB_ANY_EXTENT */
} gpub_expectation;

#define GPUB_ANY_USER UINT32_MAX
#define GPUB_EXPECTATION_INIT { (uint32_t)sizeof(gpub_expectation), GPUB_ANY_USER, GPUB_LAYOUT_NONE }

/*
 * gpub_acquire() of a buffer that is as expected. Else the message names what it is:
 *   -EPERM        it has another owner; the owner at the time when this process mapped the buffer counts
 *   -EMEDIUMTYPE  it has another layout
 * expectation NULL: gpub_acquire().
 */
int gpub_acquire_as(gpub_client *client, const char *name, const gpub_expectation *expectation, unsigned rights,
		    int timeout_ms, gpub_lease *lease);

/*
 * gpub_acquire() of count names with the same rights, into leases[0] to leases[count - 1]: all of them, or none, and
 * leases is unchanged. Buffers that are not mapped are requested together, so that many cost little more than the
 * opens. timeout_ms is for all together. A name that is given twice gets two leases.
 */
int gpub_acquire_many(gpub_client *client, const char *const *names, unsigned count, unsigned rights, int timeout_ms,
		      gpub_lease *leases);

/*
 * Holds again the buffer of a returned lease, with the same rights, and updates *lease. It needs no name and no hash,
 * and is the fastest acquire while the buffer is mapped; else it maps the buffer again. -ESTALE: the buffer was
 * unlinked, or its mapping was closed long ago (gpub_trim(), gpub_set_cache(); some 256 others since): acquire its name
 * again. -EBUSY: the lease was not returned. -EINVAL: it was never acquired, or is damaged; so for each function that
 * takes a lease.
 */
int gpub_renew(gpub_lease *lease);

/*
 * Gives the hold back with one store and no CUDA call. Right for work in the device's primary context: the buffer is
 * closed, and so freed, only after every kernel of that context. It does not say when that work is done, so an unlinked
 * buffer stays until a call that synchronises, such as gpub_trim(). -ESTALE: the lease was returned before.
 */
int gpub_return(gpub_lease *lease);

/*
 * Gives the hold back in stream order: the GPU releases it after everything queued on that stream so far. If all leases
 * of an unlinked buffer were returned so, the library reports it quiesced without a synchronisation. Needed for work in
 * another context, and for graphs after their last launch.
 *   -ESTALE  returned before     -EBUSY  the stream is being captured: return after the launch instead
 */
int gpub_return_on(gpub_lease *lease, void *stream);

/* ---- layouts: gpub_layout_parse(3) ---- */

/*
 * Stores the layout of the leased buffer, as of the acquire. All zeroes: the buffer was created without one. Sends no
 * request. -ESTALE: the lease was returned.
 */
int gpub_lease_layout(const gpub_lease *lease, gpub_layout *layout);

/*
 * Stores the generation of the leased buffer, as of the acquire (gpub_info.generation). Sends no request. -ESTALE: the
 * lease was returned.
 */
int gpub_lease_generation(const gpub_lease *lease, uint64_t *generation);

/*
 * Reads "float32[1024,1024]", or with the short name of the type "f32[1024,1024]"; "f32x4[100]" is of vectors.
 * -EINVAL: the message lists the types.
 */
int gpub_layout_parse(const char *text, gpub_layout *layout);

/*
 * Writes the layout as text, at most GPUB_LAYOUT_TEXT_MAX bytes with the zero: "float32[1024,1024]", or "bytes" where
 * nothing is said. -EINVAL: it is none.
 */
int gpub_layout_text(const gpub_layout *layout, char *text);

/* ---- tickets: gpub_ticket_issue(3) ---- */

#define GPUB_TICKET_MAX 256                /* bytes of a ticket's text, with the terminating zero */
#define GPUB_TICKET_ONCE 1u                /* gpub_ticket_terms.flags: it can be redeemed once */

/* What a ticket allows beside its rights. Start from GPUB_TICKET_TERMS_INIT: anybody, once, within an hour. */
typedef struct gpub_ticket_terms {
	uint32_t struct_size;
	uint32_t flags;       /* GPUB_TICKET_ONCE */
	uint32_t user;        /* uid that may redeem it, or GPUB_ANY_USER */
	uint32_t reserved;    /* must be 0 */
	uint64_t lifetime_ms; /* from now on; 0: as long as the buffer has its name */
} gpub_ticket_terms;

#define GPUB_TICKET_TERMS_INIT \
	{ (uint32_t)sizeof(gpub_ticket_terms), GPUB_TICKET_ONCE, GPUB_ANY_USER, 0, 3600000 }

/*
 * Writes a ticket for the buffer of that name: text of at most GPUB_TICKET_MAX bytes with its zero. Another process
 * redeems it, whatever the buffer's mode bits are. Only the buffer's owner, root and the broker's user may issue one. A
 * ticket is a secret like a password: any process that has it may use it. It ends with the buffer's name or size. terms
 * NULL: GPUB_TICKET_TERMS_INIT.
 *   -EACCES  not the owner     -EINVAL  rights none or unknown, bad terms     -ENOENT     -EDQUOT
 *   -EBUSY   for another user, and the buffer shares its memory: create it with GPUB_DEDICATED
 */
int gpub_ticket_issue(gpub_client *client, const char *name, unsigned rights, const gpub_ticket_terms *terms,
		      char *text);

/*
 * Holds the buffer that a ticket is for, with all rights that the ticket gives, for the calling thread's current
 * device, and fills *lease. Each call asks the broker and maps the buffer: keep the lease and gpub_renew() it.
 *   -EKEYREJECTED  forged or cut off, another broker's, for another user, or redeemed before
 *   -EKEYEXPIRED  it has expired     -ESTALE  its buffer was unlinked
 *   -EBUSY  it is another user's and shares its memory     -ENODEV     -ENOMEM     -EDQUOT
 */
int gpub_redeem(gpub_client *client, const char *text, gpub_lease *lease);

/* ---- timelines: gpub_signal_on(3) ---- */

/*
 * Sets the buffer's timeline to value when everything queued on that stream so far is done. Needs a lease with
 * GPUB_WRITE on a buffer that was created with GPUB_TIMELINE. The first session that signals is the timeline's only
 * writer. Values must grow. The first call makes one round trip.
 *   -EBUSY   another session is the writer, or the stream is being captured
 *   -EINVAL  value above GPUB_TIMELINE_MAX, or no timeline     -EACCES  no GPUB_WRITE
 *   -EDQUOT  the first call: too many descriptors from the broker wait for this process to read them
 */
int gpub_signal_on(const gpub_lease *lease, uint64_t value, void *stream);

/*
 * Makes that stream wait, on the device, until the timeline is at least value. When the writing session ends, in
 * whatever way, the broker releases all waits. So call gpub_timeline() after the work to learn whether the value was
 * reached. When the broker ends, the writer's library releases the waits. Nothing does if both a killed broker and the
 * writer are dead (gpub_signal_on(3)).
 *
 * A stream that waits can hold up other streams of this process, and their signals: CUDA maps streams onto a few
 * connections, each of which is in order. So queue first what other processes wait for, and the waits after it, in an
 * order that would also work if all streams of the process were one. Else two processes can deadlock.
 *   -EBUSY  the stream is being captured     -EINVAL  value above GPUB_TIMELINE_MAX, or no timeline
 */
int gpub_wait_on(const gpub_lease *lease, uint64_t value, void *stream);

/*
 * The same for several timelines by one operation of the stream, which costs less than one for each: values[i] is of
 * leases[i]. count is 0 to GPUB_TIMELINES_MAX. All is queued or, after an error, nothing. gpub_signal_many_on() takes
 * each timeline once (-EINVAL); after an error this session may be the writer of some that had none.
 */
int gpub_signal_many_on(const gpub_lease *const *leases, const uint64_t *values, unsigned count, void *stream);
int gpub_wait_many_on(const gpub_lease *const *leases, const uint64_t *values, unsigned count, void *stream);

/*
 * Reads the timeline without waiting. After its writer disconnected cleanly: the last value it set.
 * -EOWNERDEAD: the writer died, or its connection to the broker ended.
 */
int gpub_timeline(const gpub_lease *lease, uint64_t *value);

/*
 * The calling thread waits until the timeline has reached value. Stores what it has reached in *reached, unless reached
 * is NULL. What was reached before the writer's death counts: so value 0 reads a timeline, however it has ended. Work
 * that is queued afterwards comes behind the signal. timeout_ms: 0 does not wait, -1 waits without limit.
 *   -EOWNERDEAD  the timeline ended before that value; the message says at which     -ETIMEDOUT
 *   -EINVAL      value above GPUB_TIMELINE_MAX, or no timeline
 */
int gpub_timeline_wait(const gpub_lease *lease, uint64_t value, int timeout_ms, uint64_t *reached);

/* ---- interrupts: gpub_set_interrupt(3) ---- */

/*
 * From now on check(context) is called about ten times a second while a call of this thread waits: for the broker, also
 * in gpub_connect(); for a buffer, for memory or for a timeline; or in gpub_stream_sync(). When it returns another
 * value than 0, the call ends with -EINTR, and what was asked for does not happen; the broker is told, so that nothing
 * waits there any longer. Work that is queued on streams goes on. check may call the library, and those calls are not
 * interrupted. NULL: calls are not interrupted, as at first. gpub_disconnect() never is. For interpreters, whose signal
 * handlers run only where the interpreter calls them. Always returns 0.
 */
typedef int gpub_interrupt(void *context);
int gpub_set_interrupt(gpub_interrupt *check, void *context);

/* ---- streams: gpub_stream_create(3) ---- */

/*
 * A non-blocking stream on that device (GPUB_CURRENT, or an ordinal). On CUDA a plain cudaStream_t. Loads open modules
 * there (gpub_module_open()).
 */
int gpub_stream_create(gpub_client *client, int device, void **stream);

/*
 * The same with a priority, as CUDA has it: of streams with work to do, the device takes up that of the lower number
 * first. 0 is that of gpub_stream_create(), negative numbers are sooner, and a number beyond the device's range is the
 * nearest in it. Nothing that runs is interrupted. The host device has no priorities.
 */
int gpub_stream_create_priority(gpub_client *client, int device, int priority, void **stream);

/*
 * Waits until everything queued on the stream is done. -EIO: that work failed. -ECONNRESET, -EOWNERDEAD: a stream waits
 * for a timeline that no process can advance or end, and that has not moved for 30 seconds (gpub_signal_on(3)). -EBUSY:
 * the stream is being captured, or it is the legacy default stream and a blocking stream of the device is being
 * captured.
 */
int gpub_stream_sync(void *stream);

/*
 * Makes everything that is queued on stream from now on wait for all that is queued on other so far. Both are streams
 * of this process, of any devices. A cudaStreamWaitEvent() of an event that is recorded on other does the same.
 *   -EBUSY  one of them is being captured
 */
int gpub_stream_wait(void *stream, void *other);

/* Destroys it once its work is done; the call itself does not wait on CUDA. */
void gpub_stream_destroy(void *stream);

/*
 * Copies size bytes in stream order between host memory and memory of leases, in any combination. Host memory must stay
 * valid and unchanged until the stream has done the copy. A copy must stay within the ptr and size of its leases; the
 * host device refuses one that does not (-EINVAL). A copy to memory that is mapped read-only, as that of a lease
 * without GPUB_WRITE may be, is refused: -EINVAL.
 */
int gpub_copy_on(gpub_client *client, void *dst, const void *src, uint64_t size, void *stream);

/*
 * Host memory for copies, zeroed, in whole pages. The device reads and writes it by itself ("pinned"), so
 * gpub_copy_on() to or from it never waits; from other memory CUDA copies through a buffer of its own, and the call may
 * wait for the stream. A child of fork() does not have it. Kernels on any device of this process can use the address,
 * too. -ENOMEM: there is no such memory.
 */
int gpub_host_alloc(gpub_client *client, uint64_t size, void **ptr);

/*
 * Frees memory of gpub_host_alloc(). Every copy and kernel that uses it must be done. Waits for all that runs on the
 * devices, as gpub_trim() does. Memory that is not freed before gpub_disconnect() stays until the process ends.
 * -EINVAL: ptr is not from gpub_host_alloc(). NULL is ignored.
 */
int gpub_host_free(gpub_client *client, void *ptr);

/* ---- kernels: gpub_module_open(3) ---- */

/* A file of kernels, open for all devices. */
typedef struct gpub_module gpub_module;

/* One kernel of a module: a value that belongs to no context, may be copied and launched on any device. */
typedef struct gpub_kernel {
	uint64_t token;  /* the module and its generation: a kernel of a closed module is refused */
	void    *handle; /* which kernel of the module; not an address */
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
 * Loads a module. path has no suffix: ".fatbin" is loaded on CUDA, ".so" (host twins, see gpubroker-host.h) on the host
 * device. A path without '/' is searched in the directories of GPUBROKER_MODULE_PATH, then in the package's own.
 * -ENOENT: no such file. -ENOEXEC: it cannot be loaded.
 *
 * The module is loaded on every device in use. Loading waits for all that runs on a device, also for a stream that is
 * parked in gpub_wait_on(). gpub_set_device() and gpub_stream_create() load open modules on a device that comes into
 * use later; without either call, the module's first launch there loads it. Look-ups and other launches do not wait.
 */
int gpub_module_open(gpub_module **module, gpub_client *client, const char *path);

/* -ENOENT: the module has no kernel of that name. -ESTALE: the module was closed. */
int gpub_module_kernel(gpub_module *module, const char *symbol, gpub_kernel *kernel);

/* Address and size of a __managed__ variable (a global of the shared object on the host device). */
int gpub_module_managed(gpub_module *module, const char *symbol, void **ptr, size_t *size);

/*
 * Queues the kernel on config->stream, a stream of the device's primary context. args[i] points to the i-th parameter,
 * which is copied before the call returns. On failure nothing was launched. -ESTALE: its module was closed. -EINVAL: a
 * size that the device refuses, a stream of another device or context, a kernel that is not from gpub_module_kernel(),
 * or a parameter that is missing in args (a CUDA driver older than 13.2 checks the first one only, one older than 12.4
 * none).
 */
int gpub_launch(gpub_kernel kernel, const gpub_launch_config *config, void **args);

/*
 * Refuses further launches, waits for those in flight, and unloads the module. NULL is ignored. -EINVAL: it was closed
 * before.
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

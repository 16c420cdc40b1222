/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host-object.c - see host-object.h
 *
 * Owns the prefix of the names of objects, and the directory of the objects. An object's name is random. If memory is
 * shared with other users, they can pass through the directory but not list it. So a process of another user can
 * open an object only if it was told the name, as a process on CUDA needs the handle.
 *
 * Memory that is exported by a descriptor is a memfd, which no process can resize. Its name has the random bytes of its
 * handle, so that an importer notices a descriptor that does not belong to the handle.
 *
 * The owner reads and writes an object by system calls and never maps it, because an importer may truncate a file,
 * and an access to a mapping after the new end raises SIGBUS. A changed size is reported as a violation of others.
 */
#include "host-object.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/error.h"
#include "common/readable.h"
#include "common/size.h"
#include "device/descriptors.h"
#include "host-fault.h"

#define SHM   "/dev/shm"
#define CHUNK 16384 /* bytes of one read or write at most */
#define TRIES 10    /* attempts to make and lock the directory, which other processes may remove in between */

static char prefix[HOST_PREFIX_MAX + 1] = "/gpubroker.mem";
static bool shared; /* processes of other users can open the objects (host_share_memory()) */
/*
 * descriptor of the objects' directory, which is locked; -1: the directory is not locked, and removed with its last
 * object
 */
static int  kept = -1;
static bool renewed;   /* the directory was made again since the last host_restore_directory() */

/* Protects the directory, `kept` and `renewed`, which device threads also use. No other mutex is taken under it. */
static pthread_mutex_t directory_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- handles and names ---- */

static bool prefix_is_good(const char *text)
{
	size_t length = strlen(text);

	return length > 5 && length <= HOST_PREFIX_MAX && text[0] == '/' && !strchr(text + 1, '/') &&
	       !strcmp(text + length - 4, ".mem");
}

int host_set_prefix(const char *text)
{
	if (!prefix_is_good(text))
		return error_set(-EINVAL, "'%.60s' is no prefix for host memory: '/', then at most %d bytes without "
					  "'/', ending in .mem", text, HOST_PREFIX_MAX - 1);
	strcpy(prefix, text);
	return 0;
}

void host_share_memory(bool with_others)
{
	shared = with_others;
}

/* A handle has the prefix, padded with zeros to HOST_PREFIX_MAX + 1 bytes, and HOST_RANDOM_SIZE random bytes. */
bool host_object_name(const struct device_handle *handle, char name[HOST_NAME_SIZE])
{
	const char *text = (const char *)handle->bytes;
	const uint8_t *random = handle->bytes + HOST_PREFIX_MAX + 1;
	int length;

	if (handle->bytes[HOST_PREFIX_MAX] || !prefix_is_good(text))
		return false;
	length = snprintf(name, HOST_NAME_SIZE, SHM "%s/", text);
	for (int i = 0; i < HOST_RANDOM_SIZE; i++) {
		name[length++] = "0123456789abcdef"[random[i] >> 4];
		name[length++] = "0123456789abcdef"[random[i] & 15];
	}
	name[length] = 0;
	return true;
}

/* Makes a new random handle. The handle of a memfd has no prefix, because it names no file in /dev/shm. */
static int handle_make(struct device_handle *handle, const struct export *export)
{
	memset(handle, 0, sizeof *handle);
	if (!export->by_descriptor)
		strcpy((char *)handle->bytes, prefix);
	if (getrandom(handle->bytes + HOST_PREFIX_MAX + 1, HOST_RANDOM_SIZE, 0) != HOST_RANDOM_SIZE)
		return error_set(-EIO, "host device: no random bytes for a name: %m");
	return 0;
}

/*
 * Whether `name` ends as the path of an object, in .mem/ and 32 hexadecimal digits, before the " (deleted)" that /proc
 * adds for an unlinked file.
 */
static bool name_is_memory(const char *name, size_t length)
{
	static const char gone[] = " (deleted)";
	size_t cut = sizeof gone - 1;

	if (length > cut && !memcmp(name + length - cut, gone, cut))
		length -= cut;
	if (length < 5 + 2 * HOST_RANDOM_SIZE || memcmp(name + length - 2 * HOST_RANDOM_SIZE - 5, ".mem/", 5))
		return false;
	for (size_t i = length - 2 * HOST_RANDOM_SIZE; i < length; i++)
		if (!((name[i] >= '0' && name[i] <= '9') || (name[i] >= 'a' && name[i] <= 'f')))
			return false;
	return true;
}

/* ---- memfds ---- */

#define MEMFD      "gpubroker.mem/"
#define MEMFD_NAME (sizeof MEMFD + 2 * HOST_RANDOM_SIZE)
#define MEMFD_LINK "/memfd:" /* prefix of a memfd's name in /proc/PID/fd */

/* Stores the name of the memfd that the handle is for. handle NULL: stores the text with which all such names begin. */
static void memfd_name(const struct device_handle *handle, char name[MEMFD_NAME])
{
	const uint8_t *random = handle ? handle->bytes + HOST_PREFIX_MAX + 1 : NULL;
	int length = sprintf(name, MEMFD);

	for (int i = 0; random && i < HOST_RANDOM_SIZE; i++)
		length += sprintf(name + length, "%02x", random[i]);
}

/* Opens the file of the memfd `fd` again. Returns a descriptor of a new open file, which has flocks of its own. */
static int memfd_reopen(int fd)
{
	char path[sizeof "/proc/self/fd/" + 11];
	int again;

	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	again = open(path, O_RDWR | O_CLOEXEC);
	if (again < 0)
		return error_set(-errno, "host device: memory cannot be opened by its descriptor: %m");
	return again;
}

static int memfd_make(struct host_region *region)
{
	char name[MEMFD_NAME];

	memfd_name(&region->handle, name);
	owned_fd_take(&region->file, memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
	if (region->file.fd < 0)
		return error_set(-errno, "host device: no memory object could be made: %m");
	/* processes of other users open the memfd again by /proc, where its mode is checked */
	if (shared && fchmod(region->file.fd, 0666))
		return error_set(-errno, "host device: a memory object cannot be shared: %m");
	region->descriptor = memfd_reopen(region->file.fd);
	return region->descriptor < 0 ? region->descriptor : 0;
}

static int memfd_seal(const struct host_region *region)
{
	return fcntl(region->file.fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) ?
		       error_set(-errno, "host device: a memory object cannot be sealed: %m") : 0;
}

static int memfd_open(const struct device_handle *handle, int descriptor)
{
	char name[MEMFD_NAME], path[sizeof "/proc/self/fd/" + 11], target[sizeof MEMFD_LINK + MEMFD_NAME + 16];
	struct stat st;
	ssize_t length;

	memfd_name(handle, name);
	snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
	length = readlink(path, target, sizeof target - 1);
	if (length < 0 || fstat(descriptor, &st))
		return error_set(-errno, "host device: descriptor %d cannot be looked at: %m", descriptor);
	target[length] = 0;
	if (strncmp(target, MEMFD_LINK, strlen(MEMFD_LINK)) || strncmp(target + strlen(MEMFD_LINK), name, strlen(name)))
		return error_set(-EINVAL, "the descriptor that came is not that of the handle's memory");
	if (host_object_released(&st))
		return error_set(-ENOENT, "the handle's memory does not exist any more");
	return memfd_reopen(descriptor);
}

/* ---- objects ---- */

/*
 * Allocates all pages of the object now, because a later access to a page for which there is no memory would raise
 * SIGBUS.
 */
static int object_reserve(const struct host_region *region)
{
	char text[SIZE_TEXT_MAX];
	uint64_t size = region->size;
	int error;

	do
		error = posix_fallocate(region->file.fd, 0, (off_t)size);
	while (error == EINTR);
	if (error == ENOSPC && region->export->by_descriptor)
		return error_set(-ENOSPC, "this machine has no memory left for %s: make GPUB_HOST_MEMORY smaller",
				 size_format(size, text));
	if (error == ENOSPC)
		return error_set(-ENOSPC, "the shared memory of this machine (/dev/shm) has no room for %s: "
					  "make it larger, or GPUB_HOST_MEMORY smaller", size_format(size, text));
	return error ? error_set(-error, "host device: %s of shared memory cannot be reserved: %s",
				 size_format(size, text), strerror(error)) :
		       0;
}

/*
 * Makes the objects' directory. Returns 1, or 0 if the directory exists already. -EEXIST: a file has the path that is
 * not a directory, or another user's, or has another mode. Any user can make files in /dev/shm. Other errors: those of
 * mkdir(2) and chmod(2).
 */
static int directory_make(const char *path)
{
	mode_t mode = shared ? 0711 : 0700;
	struct stat st;

	if (!mkdir(path, 0700) && !chmod(path, mode))
		return 1;
	if (errno != EEXIST)
		return error_set(-errno, "the directory %s cannot be made: %m", path);
	if (lstat(path, &st) || !S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 0777) != mode)
		return error_set(-EEXIST, "%s is not this broker's: remove it, or choose another instance name", path);
	return 0;
}

/* Whether `path` still leads to the file that is open as `fd`. */
static bool leads_to(const char *path, int fd)
{
	struct stat own, named;

	return !fstat(fd, &own) && !lstat(path, &named) && own.st_dev == named.st_dev && own.st_ino == named.st_ino;
}

/*
 * Makes the objects' directory, if there is none, and locks it. Returns its descriptor. -EAGAIN: another broker has
 * removed the directory meanwhile, as a leftover of a dead process.
 */
static int directory_lock_once(const char *path)
{
	int made = directory_make(path), fd, rc = 0;

	if (made < 0)
		return made;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		rc = errno == ENOENT ? -EAGAIN : error_set(-errno, "%s cannot be opened: %m", path);
		if (made)
			rmdir(path);
		return rc;
	}
	if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
		rc = error_set(-EEXIST, "%s is in use by a broker of that name, whose status file was removed: end "
					"that broker, or choose another instance name", path);
	else if (!leads_to(path, fd))
		rc = -EAGAIN;
	if (!rc)
		return fd;
	close(fd);
	return rc;
}

/* Makes and locks the objects' directory, in up to TRIES attempts, and sets `kept`. Call it under directory_lock. */
static int directory_hold(const char *path)
{
	int fd = -EAGAIN;

	for (int tries = 0; fd == -EAGAIN && tries < TRIES; tries++)
		fd = directory_lock_once(path);
	if (fd == -EAGAIN)
		return error_set(fd, "%s is removed again and again", path);
	if (fd < 0)
		return fd;
	if (kept >= 0)
		close(kept);
	kept = fd;
	return 0;
}

/*
 * Makes the kept directory again if it was removed, with all objects in it, and sets `renewed` then. Call it under
 * directory_lock.
 */
static int directory_restore(const char *path)
{
	int rc;

	if (leads_to(path, kept))
		return 0;
	rc = directory_hold(path);
	renewed |= !rc;
	return rc;
}

/*
 * The broker calls this early, because another user who makes a file with the directory's path first would keep the
 * broker from making memory.
 */
int host_keep_directory(void)
{
	char path[sizeof SHM + HOST_PREFIX_MAX];
	int rc;

	snprintf(path, sizeof path, SHM "%s", prefix);
	pthread_mutex_lock(&directory_lock);
	rc = directory_hold(path);
	pthread_mutex_unlock(&directory_lock);
	return rc;
}

int host_restore_directory(void)
{
	char path[sizeof SHM + HOST_PREFIX_MAX];
	int rc;

	snprintf(path, sizeof path, SHM "%s", prefix);
	pthread_mutex_lock(&directory_lock);
	rc = directory_restore(path);
	if (!rc && renewed) {
		renewed = false;
		rc = 1;
	}
	pthread_mutex_unlock(&directory_lock);
	return rc;
}

void host_leave_directory(void)
{
	pthread_mutex_lock(&directory_lock);
	if (kept >= 0)
		close(kept);
	kept = -1;
	pthread_mutex_unlock(&directory_lock);
}

static void directory_of(const char *name, char path[HOST_NAME_SIZE])
{
	strcpy(path, name);
	*strrchr(path, '/') = 0;
}

static int object_open(const char *name)
{
	char path[HOST_NAME_SIZE];
	int fd = -1, rc;

	directory_of(name, path);
	pthread_mutex_lock(&directory_lock);
	rc = kept >= 0 ? directory_restore(path) : directory_make(path);
	if (rc >= 0)
		fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	pthread_mutex_unlock(&directory_lock);
	if (rc < 0)
		return rc;
	if (fd < 0 || (shared && fchmod(fd, 0666))) {
		rc = error_set(-errno, "host device: no shared memory object could be made: %m");
		if (fd >= 0)
			close(fd);
		return rc;
	}
	return fd;
}

/* Removes the file of an object. Unless the directory is kept, also removes the directory if it is empty now. */
static void object_remove(const char *name)
{
	char path[HOST_NAME_SIZE];

	directory_of(name, path);
	pthread_mutex_lock(&directory_lock);
	unlink(name);
	if (kept < 0)
		rmdir(path);
	pthread_mutex_unlock(&directory_lock);
}

/*
 * Makes the region's memfd with all its pages, and seals its size. After an error, the caller closes the region's
 * descriptors.
 */
static int memfd_create_whole(struct host_region *region)
{
	int rc = memfd_make(region);

	if (!rc)
		rc = object_reserve(region);
	return rc ? rc : memfd_seal(region);
}

static void descriptors_drop(struct host_region *region)
{
	if (region->descriptor >= 0)
		close(region->descriptor);
	region->descriptor = -1;
	owned_fd_close(&region->file);
}

int host_object_create(struct host_region *region)
{
	char name[HOST_NAME_SIZE];
	int rc = handle_make(&region->handle, region->export);

	if (rc)
		return rc;
	if (region->export->by_descriptor) {
		rc = memfd_create_whole(region);
		if (rc)
			descriptors_drop(region);
		return rc;
	}
	host_object_name(&region->handle, name);
	owned_fd_take(&region->file, object_open(name));
	if (region->file.fd < 0)
		return region->file.fd;
	rc = object_reserve(region);
	if (rc) {
		object_remove(name);
		owned_fd_close(&region->file);
	}
	return rc;
}

/*
 * Returns the error for an object whose file `name` does not exist. The owner's directory exists as long as the owner
 * has objects. So if the directory is missing, this process has another /dev/shm, as in a container, or the owner has
 * ended.
 */
static int object_missing(const char *name)
{
	char path[HOST_NAME_SIZE];

	directory_of(name, path);
	if (path_is_there(path))
		return error_set(-ENOENT, "the memory has no name in " SHM " any more: it was freed meanwhile, or "
					  "somebody removed the file, as a logout does; create the buffer anew");
	return error_set(-ENODEV, "the memory of the broker's host device is in %s, which this process does not see: "
				  "its " SHM " is another one. Share the broker's (a container: --ipc=host, or "
				  "-v " SHM ":" SHM "), or start the broker with --export vmm",
			 path);
}

int host_object_open(const struct device_handle *handle, int descriptor)
{
	char name[HOST_NAME_SIZE];
	int fd;

	if (descriptor >= 0)
		return memfd_open(handle, descriptor);
	if (!host_object_name(handle, name))
		return error_set(-EINVAL, "the handle is none of the host device");
	fd = open(name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return object_missing(name);
	if (fd < 0)
		return error_set(-errno, "the handle's memory cannot be opened: %m");
	return fd;
}

/*
 * Marks the object as released by a file mode without any rights, which only the owner can set. The removal of the name
 * is not enough, because a memfd has no name, and because an importer may have opened a file just before.
 */
void host_object_unlink(struct host_region *region)
{
	char name[HOST_NAME_SIZE];

	(void)fchmod(region->file.fd, 0);
	if (region->descriptor >= 0) {
		/*
		 * all importers share this open file; unlock it, because one of them may have locked it and kept it
		 * open
		 */
		flock(region->descriptor, LOCK_UN);
		close(region->descriptor);
	}
	region->descriptor = -1;
	if (host_object_name(&region->handle, name))
		object_remove(name);
}

bool host_object_released(const struct stat *object)
{
	return !(object->st_mode & 0777);
}

bool host_object_whole(const struct host_region *region)
{
	struct stat st;

	if (fstat(region->file.fd, &st))
		return false;
	if ((uint64_t)st.st_size == region->size)
		return true;
	host_violation_of_others("somebody truncated or extended the memory at %p (%llu bytes on device %u)",
				 (void *)region->base, (unsigned long long)region->size, region->device);
	return false;
}

int host_object_fill(const struct host_region *region, uint64_t from, uint64_t size, int byte)
{
	uint8_t chunk[CHUNK];
	ssize_t done;

	memset(chunk, byte, sizeof chunk);
	for (uint64_t at = 0; at < size; at += (uint64_t)done) {
		size_t next = size - at < CHUNK ? (size_t)(size - at) : CHUNK;

		done = pwrite(region->file.fd, chunk, next, (off_t)(from + at));
		if (done < 0 && errno == EINTR)
			done = 0;
		else if (done <= 0)
			return error_set(-EIO, "host device: %llu bytes at %p cannot be written: %m",
					 (unsigned long long)size, (void *)(region->base + from));
	}
	return 0;
}

/* Returns the index of the first of the `size` bytes that differs from `byte`, or `size` if none differs. */
static size_t first_other(const uint8_t *bytes, size_t size, uint8_t byte)
{
	size_t at = 0;

	/* if the bytes equal themselves shifted by one byte, they all equal the first byte */
	if (bytes[0] == byte && !memcmp(bytes, bytes + 1, size - 1))
		return size;
	while (bytes[at] == byte)
		at++;
	return at;
}

uint64_t host_object_compare(const struct host_region *region, uint64_t from, uint64_t size, uint8_t byte)
{
	uint8_t chunk[CHUNK];
	uint64_t at = 0;

	while (at < size) {
		size_t next = size - at < CHUNK ? (size_t)(size - at) : CHUNK, same;
		ssize_t got = pread(region->file.fd, chunk, next, (off_t)(from + at));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return size; /* bytes that cannot be read count as equal */
		if (!got)
			return at; /* a process has truncated the object meanwhile */
		same = first_other(chunk, (size_t)got, byte);
		at += same;
		if (same < (size_t)got)
			return at;
	}
	return size;
}

/* ---- after a fork ---- */

static bool close_if_memory(int descriptor, const char *target)
{
	if ((!strncmp(target, SHM "/", sizeof SHM) && name_is_memory(target, strlen(target))) ||
	    !strncmp(target, MEMFD_LINK MEMFD, strlen(MEMFD_LINK MEMFD)))
		close(descriptor);
	return true;
}

/*
 * Finds the objects by the names of open files in /proc, because another thread may have been changing the table of
 * regions during the fork.
 */
void host_close_inherited(void)
{
	descriptors_each(close_if_memory);
}

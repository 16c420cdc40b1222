/* SPDX-License-Identifier: Apache-2.0 */
/* status-file.c - see status-file.h */
#include "status-file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "error.h"

#define TRIES 20 /* reads at most of a record that the broker may be writing */

#define PATH_SIZE (sizeof SHM_DIR + sizeof STATUS_PREFIX + INSTANCE_SIZE)

/* ---- seals ---- */

/*
 * Returns the checksum of a header or record, which shows that all of it was written. It does not prove who wrote it.
 * A change of any one word changes the sum. Takes half the time of SipHash.
 */
static uint64_t checksum_of(const struct status_seal *seal, size_t size)
{
	const unsigned char *bytes = (const unsigned char *)&seal->sequence;
	uint64_t sum = size, word;

	for (size_t at = 0; at + sizeof word <= size - sizeof seal->checksum; at += sizeof word) {
		memcpy(&word, bytes + at, sizeof word);
		sum = (sum ^ word) * 0x9e3779b97f4a7c15;
		sum = sum << 32 | sum >> 32;
	}
	return sum ? sum : 1;
}

void status_seal(struct status_seal *seal, size_t size, uint64_t sequence)
{
	seal->sequence = sequence;
	seal->checksum = checksum_of(seal, size);
}

bool status_is_whole(const struct status_seal *seal, size_t size)
{
	return seal->checksum == checksum_of(seal, size);
}

/* ---- files ---- */

/*
 * Any user can put a symbolic link or a pipe at the path: O_NOFOLLOW refuses a link, O_NONBLOCK opens a pipe at once.
 */
int status_file_open(const char *instance)
{
	char path[PATH_SIZE];
	int fd;

	snprintf(path, sizeof path, SHM_DIR STATUS_PREFIX "%s", instance);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

/* A broker holds a write lock on its file until its process ends, also if it runs in another container. */
bool status_file_is_held(int fd)
{
	struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET };

	return !fcntl(fd, F_OFD_GETLK, &lock) && lock.l_type == F_WRLCK;
}

/* Returns the instance's name in the name of a file in SHM_DIR. NULL: the file's name is not that of a status file. */
static const char *instance_of(const char *file)
{
	const char *instance = file + strlen(STATUS_PREFIX) - 1;

	if (strncmp(file, &STATUS_PREFIX[1], strlen(STATUS_PREFIX) - 1) || instance_check(instance))
		return NULL;
	return instance;
}

int status_files_each(void (*act)(const char *instance, void *context), void *context)
{
	DIR *dir = opendir(SHM_DIR);
	struct dirent *entry;
	const char *instance;

	if (!dir)
		return -errno;
	while ((entry = readdir(dir))) {
		instance = instance_of(entry->d_name);
		if (instance)
			act(instance, context);
	}
	closedir(dir);
	return 0;
}

/* ---- where a broker listens ---- */

static bool address_is_good(const struct status_address *record)
{
	return status_is_whole(&record->seal, sizeof *record) && record->type == STATUS_ADDRESS_TYPE &&
	       memchr(record->address, 0, SOCKET_ADDRESS_SIZE);
}

/*
 * Reads the address record from its slot in the status file or, if a write of that slot was interrupted, from the copy
 * at STATUS_COPY. False: neither is whole.
 */
static bool address_read_once(int fd, struct status_address *record)
{
	struct {
		uint64_t              offset;
		struct status_address record;
	} copy;

	if (pread(fd, record, sizeof *record, (off_t)STATUS_OFFSET(STATUS_ADDRESS_SLOT)) == sizeof *record &&
	    address_is_good(record))
		return true;
	if (pread(fd, &copy, sizeof copy, STATUS_COPY) != sizeof copy ||
	    copy.offset != STATUS_OFFSET(STATUS_ADDRESS_SLOT) || !address_is_good(&copy.record))
		return false;
	*record = copy.record;
	return true;
}

/* Reads the address record, up to TRIES times. False: no whole record was read, or its address is empty. */
static bool address_read(int fd, struct status_address *record)
{
	static const struct timespec nap = { .tv_nsec = 5000000 };
	bool found = address_read_once(fd, record);

	for (int tries = 1; !found && tries < TRIES; tries++) {
		nanosleep(&nap, NULL);
		found = address_read_once(fd, record);
	}
	return found && record->address[0];
}

static int open_failed(const char *instance, int error)
{
	if (error == -ENOENT)
		return error_set(error, "no broker is named '%s' here", instance);
	if (error == -EACCES)
		return error_set(error, "the status file of the broker '%s' is not for this user, and says where it "
					"listens: ask for its address, unix:PATH",
				 instance);
	return error_set(error, SHM_DIR STATUS_PREFIX "%s cannot be read: %s", instance, strerror(-error));
}

static int address_of(int fd, const char *instance, char address[SOCKET_ADDRESS_SIZE])
{
	struct status_address record;

	if (!status_file_is_held(fd))
		return error_set(-ECONNREFUSED, "the broker '%s' is dead: start it again", instance);
	if (!address_read(fd, &record))
		return error_set(-EBADMSG, SHM_DIR STATUS_PREFIX "%s does not say where its broker listens: give "
							 "unix:PATH",
				 instance);
	strcpy(address, record.address);
	return 0;
}

int status_file_address(const char *instance, char address[SOCKET_ADDRESS_SIZE])
{
	int error, fd = status_file_open(instance);

	if (fd < 0)
		return open_failed(instance, fd);
	error = address_of(fd, instance, address);
	close(fd);
	return error;
}

/* ---- a list ---- */

struct list {
	char  *text;
	size_t size, length;
};

/*
 * Whether the broker lives, and its status file belongs to root or this user. Other users' files are left out, because
 * a user may make any number of them.
 */
static bool is_listed(const char *instance)
{
	int fd = status_file_open(instance);
	struct stat st;
	bool listed = fd >= 0 && !fstat(fd, &st) && (!st.st_uid || st.st_uid == geteuid()) && status_file_is_held(fd);

	if (fd >= 0)
		close(fd);
	return listed;
}

static void list_add(const char *instance, void *context)
{
	struct list *list = context;
	size_t length = strlen(instance) + (list->length ? 2 : 0);

	if (list->length + length >= list->size || !is_listed(instance))
		return;
	list->length += (size_t)sprintf(list->text + list->length, "%s%s", list->length ? ", " : "", instance);
}

void status_files_list(char *text, size_t size)
{
	struct list list = { text, size, 0 };
	SAVE_ERROR();

	*text = 0;
	(void)status_files_each(list_add, &list);
}

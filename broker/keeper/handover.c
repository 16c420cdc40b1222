/* SPDX-License-Identifier: Apache-2.0 */
/* handover.c - see handover.h */
#include "handover.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/error.h"

#define VARIABLE "GPUBROKER_HANDOVER" /* in the environment: "FD PID" of the memfd and of the process */
#define ROOM     64
#define ENTRIES_MAX (1u << 24)

void handover_add(struct handover *handover, enum handover_kind kind, uint64_t value, int fd)
{
	size_t room = handover->room ? 2 * handover->room : ROOM;
	struct handover_entry *grown;

	if (handover->count == handover->room) {
		grown = reallocarray(handover->entry, room, sizeof *grown);
		if (!grown) {
			handover->failed = true;
			return;
		}
		handover->entry = grown;
		handover->room = room;
	}
	handover->entry[handover->count++] = (struct handover_entry){ .kind = kind, .fd = fd, .value = value };
}

const struct handover_entry *handover_find(const struct handover *handover, enum handover_kind kind)
{
	for (size_t i = 0; i < handover->count; i++)
		if (handover->entry[i].kind == kind)
			return &handover->entry[i];
	return NULL;
}

uint64_t handover_value(const struct handover *handover, enum handover_kind kind)
{
	const struct handover_entry *entry = handover_find(handover, kind);

	return entry ? entry->value : 0;
}

int handover_fd(const struct handover *handover, enum handover_kind kind)
{
	const struct handover_entry *entry = handover_find(handover, kind);

	return entry ? entry->fd : -1;
}

/* ---- on the one side ---- */

/* Has the descriptors outlive an exec, or not. */
static void set_flags(const struct handover *handover, int flags)
{
	for (size_t i = 0; i < handover->count; i++)
		if (handover->entry[i].fd >= 0)
			fcntl(handover->entry[i].fd, F_SETFD, flags);
}

/* Returns a memfd with the entries, which an exec leaves open; or a negative errno with the error message set. */
static int share(const struct handover *handover)
{
	size_t size = handover->count * sizeof *handover->entry;
	int error, fd = handover->failed ? -1 : memfd_create("gpubroker-handover", 0);

	if (handover->failed)
		return error_set(-ENOMEM, "out of memory for what is passed on");
	if (fd >= 0 && write(fd, handover->entry, size) == (ssize_t)size)
		return fd;
	error = fd < 0 ? -errno : -ENOSPC;
	if (fd >= 0)
		close(fd);
	return error_set(error, "there is no memory for what is passed on: %s", strerror(-error));
}

int handover_exec(const struct handover *handover, int program, char *const argv[])
{
	int fd = share(handover), error;
	char text[40];

	if (fd < 0)
		return fd;
	snprintf(text, sizeof text, "%d %d", fd, (int)getpid());
	error = setenv(VARIABLE, text, 1) ? -errno : 0;
	set_flags(handover, 0);
	if (!error) {
		execveat(program, "", argv, environ, AT_EMPTY_PATH);
		error = -errno;
	}
	set_flags(handover, FD_CLOEXEC);
	unsetenv(VARIABLE);
	close(fd);
	errno = -error;
	return error_set(error, "the program cannot be executed: %m");
}

/* ---- on the other side ---- */

/* Reads the entries. */
static int read_entries(struct handover *handover, int fd)
{
	struct stat st;
	size_t count;

	if (fstat(fd, &st) || st.st_size % (off_t)sizeof *handover->entry ||
	    st.st_size / (off_t)sizeof *handover->entry > ENTRIES_MAX)
		return error_set(-EBADMSG, "what was passed on cannot be read");
	count = (size_t)st.st_size / sizeof *handover->entry;
	handover->entry = calloc(count + 1, sizeof *handover->entry);
	if (!handover->entry)
		return error_set(-ENOMEM, "out of memory for what was passed on");
	handover->room = count + 1;
	if (pread(fd, handover->entry, (size_t)st.st_size, 0) != st.st_size)
		return error_set(-EBADMSG, "what was passed on cannot be read: %m");
	handover->count = count;
	return 0;
}

int handover_take(struct handover *handover)
{
	const char *text = getenv(VARIABLE);
	int fd, pid, error;

	*handover = (struct handover){ 0 };
	if (!text)
		return 0;
	/* a variable that was meant for a parent is in the environment of its children, too */
	if (sscanf(text, "%d %d", &fd, &pid) != 2 || pid != getpid()) {
		unsetenv(VARIABLE);
		return 0;
	}
	unsetenv(VARIABLE);
	error = read_entries(handover, fd);
	close(fd);
	set_flags(handover, FD_CLOEXEC);
	if (error)
		handover_free(handover);
	return error ? error : 1;
}

void handover_free(struct handover *handover)
{
	free(handover->entry);
	*handover = (struct handover){ 0 };
}

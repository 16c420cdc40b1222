/* SPDX-License-Identifier: Apache-2.0 */
/* board-owner.c - see board-owner.h */
#include "board-owner.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/base/reopen.h"
#include "broker/owner/start.h"
#include "common/error.h"
#include "common/size.h"

static void header_fill_devices(struct board_header *header, const struct owner_facts *facts)
{
	header->device_kind = (uint32_t)facts->kind;
	header->devices = facts->count;
	header->host_total = facts->host_total;
	for (uint32_t i = 0; i < header->devices; i++) {
		const struct device_info *info = &facts->device[i];

		memcpy(header->device[i].uuid, info->uuid, sizeof info->uuid);
		memcpy(header->device[i].name, info->name, sizeof info->name);
		header->device[i].memory = info->memory;
		header->device[i].granule = info->granule;
	}
}

static void header_fill(struct board_header *header, const char *instance, const struct owner_facts *facts,
			uint32_t buffers, uint32_t handles)
{
	memset(header, 0, sizeof *header);
	header->magic = BOARD_MAGIC;
	header->version = WIRE_VERSION;
	randombytes_buf(header->instance_id, sizeof header->instance_id);
	snprintf(header->instance, sizeof header->instance, "%s", instance);
	board_layout(header, buffers, handles);
	header_fill_devices(header, facts);
}

/*
 * Creates the memfd, its writable mapping, the seals and the descriptor for clients, in that order: the seals forbid
 * further writable mappings. No client asks for that seal, because a broker that takes over a board must map it
 * writable. Clients get an open file of their own, because its holders share its flags and offset.
 */
static int board_make(struct board_owner *owner, size_t size, int seals)
{
	int error, fd = memfd_create("gpubroker-board", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -errno;
	error = -posix_fallocate(fd, 0, (off_t)size);
	if (error)
		goto close_fd;
	owner->shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (owner->shared == MAP_FAILED) {
		error = -errno;
		goto close_fd;
	}
	/* 0444: other users can reopen the memfd through /proc for reading only */
	error = fchmod(fd, 0444) || fcntl(fd, F_ADD_SEALS, seals) ? -errno : 0;
	if (!error)
		owner->fd = reopen(fd, O_RDONLY);
	if (!error && owner->fd < 0)
		error = owner->fd;
	if (error)
		munmap(owner->shared, size);
	owner->writable = -1;
	owner->header = NULL;
	if (!error && !(seals & F_SEAL_FUTURE_WRITE)) {
		owner->writable = fd;
		return 0;
	}
close_fd:
	close(fd);
	return error;
}

static int reserve(struct board_owner *owner, uint32_t buffers, uint32_t handles, int seals)
{
	char size[SIZE_TEXT_MAX];
	struct board_header header;
	int error;

	board_layout(&header, buffers, handles);
	error = board_make(owner, header.size, seals);
	if (error)
		return error_set(error, "the board of %s cannot be made: %s",
				 size_format(header.size, size), strerror(-error));
	owner->board.size = header.size;
	return 0;
}

int board_reserve(struct board_owner *owner, uint32_t buffers, uint32_t handles)
{
	return reserve(owner, buffers, handles, BOARD_SEALS | F_SEAL_FUTURE_WRITE);
}

int board_reserve_open(struct board_owner *owner, uint32_t buffers, uint32_t handles)
{
	return reserve(owner, buffers, handles, BOARD_SEALS);
}

int board_adopt(struct board_owner *owner, int fd)
{
	struct board_owner adopted = { .writable = fd };
	struct stat st;

	if (fstat(fd, &st) || st.st_size < (off_t)sizeof *adopted.shared)
		return error_set(-EBADMSG, "the board that was passed on is none");
	adopted.board.size = (size_t)st.st_size;
	adopted.fd = reopen(fd, O_RDONLY);
	if (adopted.fd < 0)
		return error_set(adopted.fd, "the board cannot be opened: %s", strerror(-adopted.fd));
	adopted.shared = mmap(NULL, adopted.board.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (adopted.shared == MAP_FAILED) {
		int error = error_set(-errno, "the board cannot be mapped: %m");

		close(adopted.fd);
		return error;
	}
	*owner = adopted;
	return 0;
}

static int not_taken(const char *why)
{
	return error_set(-EBADMSG, "the board of the last broker cannot be taken over: %s", why);
}

/* Fills a header for the memory that the owner of the board has. -EBADMSG: the memory has another size. */
static int header_fit(struct board_header *header, const struct board_owner *owner, const char *instance,
		      const struct owner_facts *facts, uint32_t buffers, uint32_t handles)
{
	header_fill(header, instance, facts, buffers, handles);
	if (header->size != owner->board.size)
		return not_taken("it was made for other numbers of buffers and handle places");
	return 0;
}

/* Sets the addresses of the board's parts, and the copy of the header. */
static int place(struct board_owner *owner, const struct board_header *header)
{
	if (!owner->header)
		owner->header = malloc(sizeof *header);
	if (!owner->header)
		return error_set(-ENOMEM, "the broker is out of memory");
	*owner->header = *header;
	board_place(&owner->board, owner->shared, header->size);
	owner->board.header = owner->header;
	return 0;
}

int board_fill(struct board_owner *owner, const char *instance, const struct owner_facts *facts, uint32_t buffers,
	       uint32_t handles)
{
	struct board_header header;
	int error = header_fit(&header, owner, instance, facts, buffers, handles);

	if (error)
		return error;
	*owner->shared = header;
	return place(owner, &header);
}

/* Sets what may differ between two starts of the same devices as it is in the other header. */
static void forgive(struct board_header *header, const struct board_header *other)
{
	memcpy(header->instance_id, other->instance_id, sizeof header->instance_id);
	header->host_total = other->host_total;
	for (uint32_t i = 0; i < header->devices; i++)
		header->device[i].memory = other->device[i].memory;
}

int board_restore(struct board_owner *owner, const char *instance, const struct owner_facts *facts, uint32_t buffers,
		  uint32_t handles)
{
	struct board_header header;
	int error = header_fit(&header, owner, instance, facts, buffers, handles);

	if (error)
		return error;
	forgive(&header, owner->shared);
	if (sodium_is_zero(header.instance_id, sizeof header.instance_id))
		return not_taken("it has no instance");
	if (memcmp(&header, owner->shared, sizeof header))
		return not_taken("it is of another instance, or of other devices");
	return place(owner, &header);
}

int board_create(struct board_owner *owner, const char *instance, const struct owner_facts *facts, uint32_t buffers,
		 uint32_t handles)
{
	int error = board_reserve(owner, buffers, handles);

	return error ? error : board_fill(owner, instance, facts, buffers, handles);
}

void board_destroy(struct board_owner *owner)
{
	free(owner->header);
	munmap(owner->shared, owner->board.size);
	close(owner->fd);
	if (owner->writable >= 0)
		close(owner->writable);
}

int board_renew(struct board_owner *owner, uint32_t buffers, uint32_t handles)
{
	struct board_owner next = { 0 };
	int error = owner->writable >= 0 ? board_reserve_open(&next, buffers, handles) :
					   board_reserve(&next, buffers, handles);

	if (error)
		return error;
	board_destroy(owner);
	*owner = next;
	return 0;
}

int board_check_device(const struct board_owner *owner, unsigned device)
{
	unsigned devices = owner->header->devices;

	if (device < devices)
		return 0;
	return error_set(-ENODEV, "there is no device %u: the broker has %u, numbered from 0", device, devices);
}

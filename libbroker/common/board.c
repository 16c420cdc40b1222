/* SPDX-License-Identifier: Apache-2.0 */
/* board.c - see board.h */
#include "board.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"
#include "size.h"

void board_layout(struct board_header *header, uint32_t buffers, uint32_t handles)
{
	header->buffers = buffers;
	header->handles = handles;
	header->words_offset = size_round_up(sizeof *header, 4096);
	header->ends_offset = size_round_up(header->words_offset + buffers * sizeof(uint64_t), 4096);
	header->handles_offset = size_round_up(header->ends_offset + buffers * sizeof(struct board_end), 4096);
	header->size = size_round_up(header->handles_offset + (uint64_t)handles * sizeof(struct sealed_handle), 4096);
}

static void board_point(struct board *board, const struct board_header *header, void *base, size_t size)
{
	board->header = header;
	board->base = base;
	board->words = (_Atomic uint64_t *)((char *)base + header->words_offset);
	board->ends = (struct board_end *)((char *)base + header->ends_offset);
	board->handles = (struct sealed_handle *)((char *)base + header->handles_offset);
	board->size = size;
}

void board_place(struct board *board, void *base, size_t size)
{
	board_point(board, base, base, size);
}

/* Checks a header: its counts are within limits, and its offsets are those that follow from its counts. */
static int header_check(const struct board_header *header, uint64_t size)
{
	struct board_header expected;

	if (header->magic != BOARD_MAGIC || header->version != WIRE_VERSION)
		return -EPROTO;
	if (header->buffers > BOARD_BUFFERS_MAX || header->handles > BOARD_HANDLES_MAX)
		return -EPROTO;
	if (!header->devices || header->devices > DEVICE_MAX || header->instance[23])
		return -EPROTO;
	board_layout(&expected, header->buffers, header->handles);
	if (header->words_offset != expected.words_offset || header->ends_offset != expected.ends_offset ||
	    header->handles_offset != expected.handles_offset || header->size != expected.size || header->size != size)
		return -EPROTO;
	return 0;
}

static int header_read(struct board_header *header, int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	/* further seals are allowed, because the kernel may add one against execution */
	if (seals < 0 || (seals & BOARD_SEALS) != BOARD_SEALS || fstat(fd, &st) ||
	    pread(fd, header, sizeof *header, 0) != sizeof *header)
		return error_set(-EPROTO, "the broker's board is not sealed: the server is no gpubroker");
	if (header_check(header, (uint64_t)st.st_size))
		return error_set(-EPROTO, "the broker's board has another layout than this library knows: "
					  "use broker and library of one release");
	return 0;
}

int board_map(struct board *board, int fd)
{
	char size[SIZE_TEXT_MAX];
	struct board_header *header = malloc(sizeof *header);
	void *base;
	int error = header ? header_read(header, fd) : error_set(-ENOMEM, "out of memory for the board's header");

	if (error)
		goto free_header;
	base = mmap(NULL, (size_t)header->size, PROT_READ, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED) {
		error = error_set(-errno, "the broker's board (%s) cannot be mapped: %m",
				  size_format(header->size, size));
		goto free_header;
	}
	board_point(board, header, base, (size_t)header->size);
	return 0;
free_header:
	free(header);
	return error;
}

void board_unmap(struct board *board)
{
	if (board->header) {
		munmap(board->base, board->size);
		free((void *)board->header);
	}
	memset(board, 0, sizeof *board);
}

int board_find_device(const struct board *board, const uint8_t uuid[16])
{
	for (uint32_t i = 0; i < board->header->devices; i++)
		if (!memcmp(board->header->device[i].uuid, uuid, 16))
			return (int)i;
	return error_set(-ENODEV, "the broker does not serve this device: start it where it sees the device too");
}

struct seal_terms board_grant_terms(const struct board_header *header, uint64_t session, const struct wire_grant *grant)
{
	struct seal_terms terms = { .session = session,
				    .mapping = grant->mapping,
				    .serial = grant->serial,
				    .size = grant->size,
				    .offset = grant->offset,
				    .address = grant->address,
				    .rights = grant->rights,
				    .version = WIRE_VERSION,
				    .exported = grant->exported };

	memcpy(terms.instance, header->instance_id, sizeof terms.instance);
	memcpy(terms.device_uuid, header->device[grant->owner_device].uuid, sizeof terms.device_uuid);
	return terms;
}

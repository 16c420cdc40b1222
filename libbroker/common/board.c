/* SPDX-License-Identifier: Apache-2.0 */
/* board.c - see board.h */
#include "board.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "error.h"
#include "size.h"

void board_layout(struct board_header *header, uint32_t buffers, uint32_t tickets)
{
	header->buffers = buffers;
	header->tickets = tickets;
	header->words_offset = size_round_up(sizeof *header, 4096);
	header->tickets_offset = size_round_up(header->words_offset + buffers * sizeof(uint64_t), 4096);
	header->size = size_round_up(header->tickets_offset + (uint64_t)tickets * sizeof(struct ticket), 4096);
}

void board_place(struct board *board, void *base, size_t size)
{
	const struct board_header *header = base;

	board->header = header;
	board->words = (_Atomic uint64_t *)((char *)base + header->words_offset);
	board->tickets = (struct ticket *)((char *)base + header->tickets_offset);
	board->size = size;
}

/* The layout follows from the counts, so only the counts need believing, and these are bounded. */
static int header_check(const struct board_header *header, uint64_t size)
{
	struct board_header expected;

	if (header->magic != BOARD_MAGIC || header->version != WIRE_VERSION)
		return -EPROTO;
	if (header->buffers > BOARD_BUFFERS_MAX || header->tickets > BOARD_TICKETS_MAX)
		return -EPROTO;
	if (!header->devices || header->devices > DEVICE_MAX || header->instance[23])
		return -EPROTO;
	board_layout(&expected, header->buffers, header->tickets);
	if (header->words_offset != expected.words_offset || header->tickets_offset != expected.tickets_offset ||
	    header->size != expected.size || header->size != size)
		return -EPROTO;
	return 0;
}

int board_map(struct board *board, int fd)
{
	struct stat st;
	void *base;

	int seals = fcntl(fd, F_GET_SEALS);

	/* the kernel may have added a seal against execution */
	if (seals < 0 || (seals & BOARD_SEALS) != BOARD_SEALS || fstat(fd, &st) ||
	    st.st_size < (off_t)sizeof(struct board_header))
		return error_set(-EPROTO, "the broker's board is not a sealed one: the server is no gpubroker");
	base = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED)
		return error_set(-errno, "the broker's board (%lld bytes) cannot be mapped: %m",
				 (long long)st.st_size);
	if (header_check(base, (uint64_t)st.st_size)) {
		munmap(base, (size_t)st.st_size);
		return error_set(-EPROTO, "the broker's board has another layout than this library knows: "
					  "use broker and library of one release");
	}
	board_place(board, base, (size_t)st.st_size);
	return 0;
}

void board_unmap(struct board *board)
{
	if (board->header)
		munmap((void *)board->header, board->size);
	memset(board, 0, sizeof *board);
}

int board_find_device(const struct board *board, const uint8_t uuid[16])
{
	for (uint32_t i = 0; i < board->header->devices; i++)
		if (!memcmp(board->header->device[i].uuid, uuid, 16))
			return (int)i;
	return error_set(-ENODEV, "the broker does not serve this device: start it where it sees the device too");
}

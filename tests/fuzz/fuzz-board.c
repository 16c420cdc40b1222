/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz-board.c - board_map() on whatever a server may send for its board.
 *
 * The input is the file, but for its last byte: which seals it lacks (0xff: all), and whether its version is this
 * one's (bit 3: as it stands in the file), so that the corpus outlives versions. A board that is taken is then read
 * all over, as a client would: every word, end and sealed handle must lie in it.
 */
#include "fuzz.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/board.h"

#define FILE_MAX (64u << 10)

static void seal(int fd, uint8_t how)
{
	static const int missing[] = { 0, 0, 0, 0, F_SEAL_SHRINK, F_SEAL_GROW, 0, F_SEAL_SEAL };

	if (how < 0xff)
		fcntl(fd, F_ADD_SEALS, BOARD_SEALS & ~missing[how % 8]);
}

static int board_file(const uint8_t *data, size_t size, uint8_t how)
{
	static const uint32_t version = WIRE_VERSION;
	int fd = fuzz_file(data, size);

	if (!(how & 8) && size > offsetof(struct board_header, version) + sizeof version &&
	    pwrite(fd, &version, sizeof version, offsetof(struct board_header, version)) != sizeof version)
		fuzz_fail("a file in memory cannot be written");
	seal(fd, how);
	return fd;
}

/* Reading is the check: what lies outside the mapping is a fault. */
static void board_read(const struct board *board)
{
	const struct board_header *header = board->header;
	const uint8_t *end = (const uint8_t *)board->words - header->words_offset + board->size;
	uint64_t sum = strlen(header->instance);
	uint8_t uuid[16] = { 1 };

	FUZZ_HOLDS((const uint8_t *)&board->words[header->buffers] <= end, "the words leave the board");
	FUZZ_HOLDS((const uint8_t *)&board->ends[header->buffers] <= end, "the ends leave the board");
	FUZZ_HOLDS((const uint8_t *)&board->handles[header->handles] <= end, "the sealed handles leave the board");
	for (uint32_t i = 0; i < header->buffers; i++)
		sum += atomic_load(&board->words[i]) + (uint64_t)board_end_of(&board->ends[i], i);
	for (uint32_t i = 0; i < header->handles; i++)
		sum += board->handles[i].nonce[0] + board->handles[i].reserved[23];
	FUZZ_HOLDS(board_find_device(board, uuid) < (int)header->devices, "a device that is not there (%llu)",
		   (unsigned long long)sum);
}

static void board_try(int fd)
{
	struct board board = { 0 };

	if (board_map(&board, fd)) {
		FUZZ_HOLDS(!board.header, "a board that is refused is mapped");
		fuzz_check_message();
		return;
	}
	FUZZ_HOLDS((fcntl(fd, F_GET_SEALS) & BOARD_SEALS) == BOARD_SEALS, "a board without its seals is taken");
	board_read(&board);
	board_unmap(&board);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd;

	if (!size)
		return 0;
	fd = board_file(data, size - 1, data[size - 1]);
	board_try(fd);
	close(fd);
	return 0;
}

/* Half of the time the sizes are repaired, so that the checks behind them are reached, and the file has its length. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned number)
{
	struct board_header header;
	uint8_t how;

	size = LLVMFuzzerMutate(data, size, room);
	if (number % 2 || size <= sizeof header)
		return size;
	how = data[size - 1];
	memcpy(&header, data, sizeof header);
	board_layout(&header, header.buffers % 512, header.handles % 256);
	memcpy(data, &header, sizeof header);
	if (header.size >= room || header.size > FILE_MAX)
		return size;
	if (header.size >= size)
		memset(data + size - 1, 0, header.size - size + 1);
	data[header.size] = how;
	return header.size + 1;
}

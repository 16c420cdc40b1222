/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-board.c - the board: its layout, that nobody but its maker can write or resize it, and that a client accepts
 * no header that a hostile server made up.
 *
 * The devices in it come from a table of functions made here: no real one is started.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <sodium.h>

#include "broker/owner/start.h"
#include "broker/registry/board-owner.h"
#include "common/error.h"
#include "device/device.h"

#define BUFFERS 1000u
#define HANDLES 77u

static int device_count = 2;

static int fake_count(void)
{
	return device_count;
}

static int fake_info(int ordinal, struct device_info *info)
{
	memset(info, 0, sizeof *info);
	memset(info->uuid, 0x10 + ordinal, sizeof info->uuid);
	snprintf(info->name, sizeof info->name, "fake %d", ordinal);
	info->memory = 1ull << 30;
	info->granule = 2u << 20;
	return 0;
}

static const struct device fake = { .kind = DEVICE_HOST, .name = "fake", .count = fake_count, .info = fake_info };
static struct board_owner owner;

static struct owner_facts facts;

static int setup(void **state)
{
	(void)state;
	device_count = 2;
	return sodium_init() < 0 || owner_facts_of(&fake, &facts) ||
	       board_create(&owner, "job", &facts, BUFFERS, HANDLES);
}

static int teardown(void **state)
{
	(void)state;
	board_destroy(&owner);
	return 0;
}

/* ---- layout ---- */

static void expect_layout(uint32_t buffers, uint32_t handles)
{
	struct board_header h;

	board_layout(&h, buffers, handles);
	assert_true(h.words_offset >= sizeof h && h.words_offset % 4096 == 0);
	assert_true(h.ends_offset >= h.words_offset + buffers * sizeof(uint64_t));
	assert_true(h.ends_offset % 4096 == 0);
	assert_true(h.handles_offset >= h.ends_offset + buffers * sizeof(struct board_end));
	assert_true(h.handles_offset % 4096 == 0);
	assert_true(h.size >= h.handles_offset + (uint64_t)handles * sizeof(struct sealed_handle) &&
		    h.size % 4096 == 0);
	assert_true(h.size < sizeof h + buffers * (sizeof(uint64_t) + sizeof(struct board_end)) +
				     (uint64_t)handles * sizeof(struct sealed_handle) + 4 * 4096);
}

static void test_layout_keeps_places_apart(void **state)
{
	(void)state;
	expect_layout(1, 1);
	expect_layout(512, 32);
	expect_layout(513, 33);
	expect_layout(BOARD_BUFFERS_MAX, BOARD_HANDLES_MAX);
}

static void test_header_says_what_it_holds(void **state)
{
	const struct board_header *h = owner.board.header;
	static const uint8_t zeros[16];

	(void)state;
	assert_true(h->magic == BOARD_MAGIC);
	assert_int_equal(h->version, WIRE_VERSION);
	assert_int_equal(h->device_kind, DEVICE_HOST);
	assert_string_equal(h->instance, "job");
	assert_memory_not_equal(h->instance_id, zeros, 16);
	assert_int_equal(h->buffers, BUFFERS);
	assert_int_equal(h->handles, HANDLES);
	assert_int_equal(h->devices, 2);
	assert_string_equal(h->device[1].name, "fake 1");
	assert_int_equal(h->device[1].granule, 2u << 20);
}

static void invariant_8_two_runs_of_an_instance_differ(void **state)
{
	struct board_owner other;

	(void)state;
	assert_int_equal(board_create(&other, "job", &facts, 1, 1), 0);
	assert_memory_not_equal(other.header->instance_id, owner.header->instance_id, 16);
	board_destroy(&other);
}

/* A board that cannot be filled later would kill its broker with SIGBUS: it is allocated at once. */
static void test_allocated_in_full(void **state)
{
	struct stat st;

	(void)state;
	assert_int_equal(fstat(owner.fd, &st), 0);
	assert_true((uint64_t)st.st_size == owner.header->size);
	assert_true(st.st_blocks * 512 >= st.st_size);
	assert_int_equal(st.st_mode & 07777, 0444);
}

/* All clients share it, and none of them anything that the broker uses. */
static void test_what_clients_get_can_only_be_read(void **state)
{
	(void)state;
	assert_int_equal(fcntl(owner.fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	assert_int_equal(fcntl(owner.fd, F_GETFD), FD_CLOEXEC);
	assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, owner.fd, 0), MAP_FAILED);
}

static void test_device_counts(void **state)
{
	struct board_owner other;

	(void)state;
	device_count = 0;
	assert_int_equal(owner_facts_of(&fake, &facts), -ENODEV);
	device_count = -EIO;
	assert_int_equal(owner_facts_of(&fake, &facts), -EIO);
	device_count = DEVICE_MAX + 6;
	assert_int_equal(owner_facts_of(&fake, &facts), 0);
	assert_int_equal(board_create(&other, "job", &facts, 1, 1), 0);
	assert_int_equal(other.header->devices, DEVICE_MAX);
	board_destroy(&other);
}

/* ---- what a client has ---- */

static void test_client_sees_words_and_handles_change(void **state)
{
	struct board board;

	(void)state;
	assert_int_equal(board_map(&board, owner.fd), 0);
	assert_true(board.size == owner.board.size);
	atomic_store(&owner.board.words[0], BOARD_WORD(5, BOARD_LIVE));
	atomic_store(&owner.board.words[BUFFERS - 1], BOARD_WORD(6, BOARD_DRAINING));
	memset(&owner.board.handles[HANDLES - 1], 0x77, sizeof(struct sealed_handle));
	assert_true(atomic_load(&board.words[0]) == (5 << 2 | 1));
	assert_true(atomic_load(&board.words[BUFFERS - 1]) == (6 << 2 | 2));
	assert_memory_equal(&board.handles[HANDLES - 1], &owner.board.handles[HANDLES - 1],
			    sizeof(struct sealed_handle));
	assert_true((char *)&board.handles[HANDLES] <= (char *)board.base + board.size);
	board_unmap(&board);
	assert_null(board.header);
	board_unmap(&board);
}

/* A client that disconnects gives the addresses back, which are many of a large board. */
static void test_the_largest_board_is_mapped_and_unmapped(void **state)
{
	struct board_owner largest;
	struct board board;
	unsigned char pages[1];
	void *base;

	(void)state;
	assert_int_equal(board_create(&largest, "job", &facts, BOARD_BUFFERS_MAX, 1), 0);
	assert_int_equal(board_map(&board, largest.fd), 0);
	base = board.base;
	assert_int_equal(mincore(base, 4096, pages), 0);
	board_unmap(&board);
	assert_true(mincore(base, 4096, pages) && errno == ENOMEM);
	assert_null(board.header);
	board_unmap(&board);
	board_destroy(&largest);
}

static void test_devices_are_found_by_uuid(void **state)
{
	uint8_t uuid[16];

	(void)state;
	memset(uuid, 0x11, sizeof uuid);
	assert_int_equal(board_find_device(&owner.board, uuid), 1);
	uuid[15] ^= 1;
	assert_int_equal(board_find_device(&owner.board, uuid), -ENODEV);
	memset(uuid, 0, sizeof uuid); /* an unused place of the table */
	assert_int_equal(board_find_device(&owner.board, uuid), -ENODEV);
}

/* ---- seals ---- */

static void invariant_3_nobody_else_maps_or_writes_it(void **state)
{
	size_t size = owner.board.size;
	void *base;

	(void)state;
	assert_ptr_equal(mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, owner.fd, 0), MAP_FAILED);
	base = mmap(NULL, size, PROT_READ, MAP_SHARED, owner.fd, 0);
	assert_ptr_not_equal(base, MAP_FAILED);
	assert_int_equal(mprotect(base, size, PROT_READ | PROT_WRITE), -1);
	munmap(base, size);
	assert_int_equal(pwrite(owner.fd, "x", 1, 0), -1);
	assert_int_equal(errno, EBADF);
	assert_int_equal(fallocate(owner.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
	/* a private one may be written: it is the client's own copy */
	base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, owner.fd, 0);
	assert_ptr_not_equal(base, MAP_FAILED);
	memset(base, 0xff, 4096);
	assert_true(owner.header->magic == BOARD_MAGIC);
	munmap(base, size);
}

static void invariant_3_nobody_resizes_or_unseals_it(void **state)
{
	off_t size = (off_t)owner.board.size;

	(void)state;
	assert_int_equal(ftruncate(owner.fd, size - 4096), -1);
	assert_int_equal(ftruncate(owner.fd, size + 4096), -1);
	assert_int_equal(ftruncate(owner.fd, 0), -1);
	assert_int_equal(fcntl(owner.fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	assert_int_equal(fcntl(owner.fd, F_GET_SEALS) & BOARD_SEALS, BOARD_SEALS);
}

/* Root gets a writable descriptor, for the mode does not bind it: the seals must hold there too. */
static void invariant_3_reopening_it_does_not_help(void **state)
{
	size_t size = owner.board.size;
	char path[40];
	int fd;

	(void)state;
	snprintf(path, sizeof path, "/proc/self/fd/%d", owner.fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0) {
		assert_int_equal(errno, EACCES);
		return;
	}
	assert_int_equal(getuid(), 0);
	assert_ptr_equal(mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
	assert_int_equal(pwrite(fd, "x", 1, 0), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(ftruncate(fd, 0), -1);
	close(fd);
}

/* Another user, as a client of root's broker is. 0: it was refused. */
static void invariant_3_another_user_cannot_reopen_it(void **state)
{
	char path[40];
	int status;
	pid_t pid;

	(void)state;
	snprintf(path, sizeof path, "/proc/self/fd/%d", owner.fd);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		/* dumpable, or /proc itself would refuse whatever the mode */
		if (!getuid() && (setuid(65534) || prctl(PR_SET_DUMPABLE, 1)))
			_exit(2);
		_exit(open(path, O_RDONLY) < 0 || open(path, O_RDWR) >= 0 || errno != EACCES);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* ---- the next broker ---- */

/* Runs as a broker does that is forked after another one died. Returns its exit status. */
static int as_broker(int (*run)(void))
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid)
		_exit(run());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static struct board_owner kept; /* in the process that forks brokers */

static int be_first(void)
{
	if (board_fill(&kept, "job", &facts, BUFFERS, HANDLES))
		return 1;
	atomic_store(&kept.board.words[7], BOARD_WORD(5, BOARD_LIVE));
	kept.board.ends[7].how = 3;
	memset(&kept.board.handles[HANDLES - 1], 0x77, sizeof *kept.board.handles);
	return 0;
}

static int be_next(void)
{
	if (board_restore(&kept, "job", &facts, BUFFERS, HANDLES))
		return 1;
	if (atomic_load(&kept.board.words[7]) != BOARD_WORD(5, BOARD_LIVE) || kept.board.ends[7].how != 3 ||
	    *(uint8_t *)&kept.board.handles[HANDLES - 1] != 0x77)
		return 2;
	atomic_store(&kept.board.words[7], BOARD_WORD(5, BOARD_DRAINING));
	return 0;
}

/* The kernel refuses this mapping to anybody, but the inherited one can be written. */
static int map_anew(void)
{
	char path[40];
	int fd;

	snprintf(path, sizeof path, "/proc/self/fd/%d", kept.fd);
	fchmod(kept.fd, 0600);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return 1;
	return mmap(NULL, kept.board.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED || errno != EPERM;
}

static void test_the_next_broker_writes_the_same_board(void **state)
{
	struct board board;
	uint8_t id[16];

	(void)state;
	assert_int_equal(board_reserve(&kept, BUFFERS, HANDLES), 0);
	assert_int_equal(as_broker(be_first), 0);
	assert_int_equal(board_map(&board, kept.fd), 0); /* as a client */
	memcpy(id, board.header->instance_id, sizeof id);
	assert_true(atomic_load(&board.words[7]) == BOARD_WORD(5, BOARD_LIVE));
	assert_int_equal(as_broker(map_anew), 0);
	assert_int_equal(as_broker(be_next), 0);
	assert_true(atomic_load(&board.words[7]) == BOARD_WORD(5, BOARD_DRAINING));
	assert_memory_equal(kept.shared->instance_id, id, sizeof id);
	board_unmap(&board);
	board_destroy(&kept);
}

/* A program that was executed in place of the broker's has no mapping of the board that the clients read. */
static void test_a_board_is_adopted_after_an_exec(void **state)
{
	struct board_owner next, sealed;
	struct board board;
	struct stat st;

	(void)state;
	assert_int_equal(board_reserve_open(&kept, BUFFERS, HANDLES), 0);
	assert_int_equal(as_broker(be_first), 0);
	assert_int_equal(board_map(&board, kept.fd), 0); /* as a client */
	assert_int_equal(board_adopt(&next, dup(kept.writable)), 0);
	assert_int_equal(board_restore(&next, "job", &facts, BUFFERS, HANDLES), 0);
	atomic_store(&next.board.words[7], BOARD_WORD(5, BOARD_DRAINING));
	assert_true(atomic_load(&board.words[7]) == BOARD_WORD(5, BOARD_DRAINING));
	/* what clients get is read-only, and others may not write the file */
	assert_int_equal(fcntl(next.fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	assert_int_equal(fstat(next.fd, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0444);
	board_unmap(&board);
	board_destroy(&kept);
	assert_int_equal(board_renew(&next, BUFFERS, HANDLES), 0); /* of the same kind */
	assert_true(next.writable >= 0);
	board_destroy(&next);
	assert_int_equal(board_reserve(&sealed, BUFFERS, HANDLES), 0);
	assert_int_equal(sealed.writable, -1); /* map_anew() shows that its seal forbids another writable mapping */
	board_destroy(&sealed);
}

#define EXPECT_NOT_TAKEN(field, value)                                                              \
	do {                                                                                        \
		struct board_header before = *owner.shared;                                         \
		owner.shared->field = (value);                                                      \
		assert_int_equal(board_restore(&owner, "job", &facts, BUFFERS, HANDLES), -EBADMSG); \
		*owner.shared = before;                                                             \
	} while (0)

static void test_another_board_is_not_taken_over(void **state)
{
	struct board_owner empty;

	(void)state;
	assert_int_equal(board_restore(&owner, "job", &facts, BUFFERS, HANDLES), 0);
	assert_int_equal(board_restore(&owner, "other", &facts, BUFFERS, HANDLES), -EBADMSG);
	assert_int_equal(board_restore(&owner, "job", &facts, 2 * BUFFERS, HANDLES), -EBADMSG);
	assert_int_equal(board_restore(&owner, "job", &facts, BUFFERS, 2000 * HANDLES), -EBADMSG);
	EXPECT_NOT_TAKEN(magic, BOARD_MAGIC ^ 1);
	EXPECT_NOT_TAKEN(devices, 1);
	EXPECT_NOT_TAKEN(device[1].uuid[3], 1);
	EXPECT_NOT_TAKEN(device[0].granule, 4096);
	EXPECT_NOT_TAKEN(buffers, BUFFERS + 1);
	EXPECT_NOT_TAKEN(words_offset, 0);
	owner.shared->device[0].memory ^= 1; /* a restart of the driver may change it */
	assert_int_equal(board_restore(&owner, "job", &facts, BUFFERS, HANDLES), 0);
	assert_int_equal(board_reserve(&empty, BUFFERS, HANDLES), 0);
	assert_int_equal(board_restore(&empty, "job", &facts, BUFFERS, HANDLES), -EBADMSG);
	assert_int_equal(board_fill(&empty, "job", &facts, 2 * BUFFERS, HANDLES), -EBADMSG);
	board_destroy(&empty);
}

/* ---- hostile servers ---- */

/* A memfd with that header in a file of that size, sealed with those seals. */
static int forge(const struct board_header *header, off_t size, int seals)
{
	int fd = memfd_create("forged", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, header, sizeof *header, 0), sizeof *header);
	assert_int_equal(ftruncate(fd, size), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static int map_forged(const struct board_header *header, off_t size, int seals)
{
	struct board board = { 0 };
	int fd = forge(header, size, seals), error = board_map(&board, fd);

	if (!error)
		board_unmap(&board);
	assert_null(board.header);
	close(fd);
	return error;
}

static int map_changed(const struct board_header *header)
{
	return map_forged(header, (off_t)owner.header->size, BOARD_SEALS);
}

static void test_forged_board_like_the_right_one_maps(void **state)
{
	(void)state;
	assert_int_equal(map_changed(owner.header), 0);
	/* the broker forbids even its own user to map it writable; one that takes over from another cannot */
	assert_int_equal(map_forged(owner.header, (off_t)owner.header->size, BOARD_SEALS | F_SEAL_FUTURE_WRITE), 0);
}

/* Each seal is asked for: without one, the server could take the memory from under its client. */
static void test_unsealed_boards_are_refused(void **state)
{
	static const int seals[] = { F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW };
	struct board board;
	int fd[2];

	(void)state;
	for (int i = 0; i < 3; i++)
		assert_int_equal(map_forged(owner.header, (off_t)owner.header->size, BOARD_SEALS & ~seals[i]), -EPROTO);
	assert_int_equal(board_map(&board, STDIN_FILENO), -EPROTO);
	assert_int_equal(board_map(&board, -1), -EPROTO);
	assert_int_equal(pipe(fd), 0);
	assert_int_equal(board_map(&board, fd[0]), -EPROTO);
	close(fd[0]);
	close(fd[1]);
}

#define EXPECT_REFUSED_WITH(field, value)                              \
	do {                                                           \
		struct board_header h = *owner.header;                 \
		h.field = (value);                                     \
		assert_int_equal(map_changed(&h), -EPROTO);            \
	} while (0)

static void test_hostile_headers_are_refused(void **state)
{
	const struct board_header *right = owner.header;

	(void)state;
	EXPECT_REFUSED_WITH(magic, right->magic ^ 1);
	EXPECT_REFUSED_WITH(version, WIRE_VERSION + 1);
	EXPECT_REFUSED_WITH(buffers, right->buffers + 1024);
	EXPECT_REFUSED_WITH(buffers, UINT32_MAX);
	EXPECT_REFUSED_WITH(handles, right->handles + 1024);
	EXPECT_REFUSED_WITH(handles, UINT32_MAX);
	EXPECT_REFUSED_WITH(devices, 0);
	EXPECT_REFUSED_WITH(devices, DEVICE_MAX + 1);
	EXPECT_REFUSED_WITH(words_offset, 0);
	EXPECT_REFUSED_WITH(words_offset, right->words_offset + 8);
	EXPECT_REFUSED_WITH(words_offset, UINT64_MAX - 7);
	EXPECT_REFUSED_WITH(ends_offset, right->words_offset);
	EXPECT_REFUSED_WITH(ends_offset, UINT64_MAX - 4095);
	EXPECT_REFUSED_WITH(handles_offset, right->words_offset);
	EXPECT_REFUSED_WITH(handles_offset, UINT64_MAX - 4095);
	EXPECT_REFUSED_WITH(size, right->size + 4096);
	EXPECT_REFUSED_WITH(size, 0);
	EXPECT_REFUSED_WITH(instance[23], 'x');
}

static void test_other_sizes_are_refused(void **state)
{
	off_t right = (off_t)owner.header->size;

	(void)state;
	assert_int_equal(map_forged(owner.header, right - 4096, BOARD_SEALS), -EPROTO);
	assert_int_equal(map_forged(owner.header, right + 4096, BOARD_SEALS), -EPROTO);
	assert_int_equal(map_forged(owner.header, 64, BOARD_SEALS), -EPROTO);
	assert_int_equal(map_forged(owner.header, 0, BOARD_SEALS), -EPROTO);
}

/* Counts beyond the bounds that would make a board of terabytes, with all offsets consistent. */
static void test_consistent_but_absurd_counts_are_refused(void **state)
{
	struct board_header h = *owner.header;

	(void)state;
	board_layout(&h, BOARD_BUFFERS_MAX + 1, 1);
	h.buffers = BOARD_BUFFERS_MAX + 1;
	h.handles = 1;
	assert_int_equal(map_forged(&h, (off_t)h.size, BOARD_SEALS), -EPROTO);
	board_layout(&h, 1, BOARD_HANDLES_MAX + 1);
	h.buffers = 1;
	h.handles = BOARD_HANDLES_MAX + 1;
	assert_int_equal(map_forged(&h, (off_t)h.size, BOARD_SEALS), -EPROTO);
}

#define ON_BOARD(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_layout_keeps_places_apart),
		ON_BOARD(test_header_says_what_it_holds),
		ON_BOARD(invariant_8_two_runs_of_an_instance_differ),
		ON_BOARD(test_allocated_in_full),
		ON_BOARD(test_what_clients_get_can_only_be_read),
		ON_BOARD(test_device_counts),
		ON_BOARD(test_the_next_broker_writes_the_same_board),
		ON_BOARD(test_a_board_is_adopted_after_an_exec),
		ON_BOARD(test_another_board_is_not_taken_over),
		ON_BOARD(test_client_sees_words_and_handles_change),
		ON_BOARD(test_the_largest_board_is_mapped_and_unmapped),
		ON_BOARD(test_devices_are_found_by_uuid),
		ON_BOARD(invariant_3_nobody_else_maps_or_writes_it),
		ON_BOARD(invariant_3_nobody_resizes_or_unseals_it),
		ON_BOARD(invariant_3_reopening_it_does_not_help),
		ON_BOARD(invariant_3_another_user_cannot_reopen_it),
		ON_BOARD(test_forged_board_like_the_right_one_maps),
		ON_BOARD(test_unsealed_boards_are_refused),
		ON_BOARD(test_hostile_headers_are_refused),
		ON_BOARD(test_other_sizes_are_refused),
		ON_BOARD(test_consistent_but_absurd_counts_are_refused),
	};

	return cmocka_run_group_tests_name("board", tests, NULL, NULL);
}

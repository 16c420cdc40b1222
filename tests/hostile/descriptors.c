/* SPDX-License-Identifier: Apache-2.0 */
/*
 * descriptors.c - attacks through descriptors: those that the broker gave, written and resized in every way that there
 * is, also through /proc; and those that the attacker sends.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "attacks.h"
#include "tests/lingering.h"

/* ---- what the broker gave ---- */

static void resize(int fd, off_t size)
{
	WANT(ftruncate(fd, 0));
	WANT(ftruncate(fd, size / 2));
	WANT(ftruncate(fd, 4 * size));
	WANT(fallocate(fd, 0, 0, 4 * size));
	WANT(fallocate(fd, FALLOC_FL_COLLAPSE_RANGE, 0, 4096));
	WANT(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) && fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE));
}

static void write_by_calls(int fd)
{
	static const char junk[64] = "junk";
	int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	struct iovec io = { (void *)junk, sizeof junk };

	WANT(write(fd, junk, sizeof junk) < 0);
	WANT(pwrite(fd, junk, sizeof junk, 0) < 0);
	WANT(pwritev(fd, &io, 1, 0) < 0);
	WANT(zero >= 0 && sendfile(fd, zero, NULL, 64) < 0);
	WANT(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096));
	WANT(fallocate(fd, FALLOC_FL_ZERO_RANGE, 0, 4096));
	close(zero);
}

/* By a mapping that must not become writable, and by the system's own hand at it. */
static void write_by_mapping(int fd)
{
	static const char junk[64] = "junk";
	int self = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	char *map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	struct iovec from = { (void *)junk, sizeof junk }, to = { map, sizeof junk };

	WANT(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
	WANT(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
	WANT(map != MAP_FAILED);
	WANT(mprotect(map, 4096, PROT_READ | PROT_WRITE));
	WANT(madvise(map, 4096, MADV_REMOVE));
	WANT(self >= 0 && pwrite(self, junk, sizeof junk, (off_t)(uintptr_t)map) < 0);
	WANT(process_vm_writev(getpid(), &from, 1, &to, 1, 0) < 0);
	munmap(map, 4096);
	close(self);
}

/* Another open file of the same memory. */
static void reopen(int fd)
{
	static const int ways[] = { O_RDWR, O_WRONLY, O_WRONLY | O_TRUNC, O_RDWR | O_APPEND };
	char path[40];

	for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
		int other;

		for (int self = 0; self < 2; self++) {
			snprintf(path, sizeof path, self ? "/proc/self/fd/%d" : "/dev/fd/%d", fd);
			other = open(path, ways[i] | O_CLOEXEC);
			/* where it may be opened (by its own user, or root), it still may not be written */
			if (other >= 0) {
				WANT(!arena_has_users());
				write_by_calls(other);
				close(other);
			}
		}
	}
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (arena_has_users()) {
		WANT(truncate(path, 0));
		WANT(chmod(path, 0666));
		WANT(fchmod(fd, 0666));
		WANT(fchown(fd, geteuid(), getegid()));
	}
}

static void attack_board(void)
{
	struct speaker s;

	join(&s);
	resize(s.board_fd, (off_t)s.board.size);
	write_by_calls(s.board_fd);
	write_by_mapping(s.board_fd);
	reopen(s.board_fd);
	WANT(!memcmp(s.board.base, s.board.header, sizeof *s.board.header));
	speaker_end(&s);
}

/* The page that readers of a timeline get. */
static void attack_timeline(void)
{
	struct wire_message message = speaker_message(WIRE_ACQUIRE, SHOWN), answer;
	struct speaker s;
	int page = -1;

	join(&s);
	WANT(!speaker_ask(&s, &message, &answer, &page) && page >= 0);
	resize(page, 4096);
	write_by_calls(page);
	write_by_mapping(page);
	reopen(page);
	close(page);
	speaker_end(&s);
}

/* Its own may be written by its writer; resized, by nobody. */
static void resize_own_timeline(void)
{
	struct wire_message message, answer;
	struct wire_grant grant;
	struct speaker s;
	int page = -1;

	join(&s);
	WANT(!speaker_create(&s, "attacker/timeline", 4096, 0600, GPUB_TIMELINE));
	WANT(!speaker_acquire(&s, "attacker/timeline", BOTH, &grant));
	wire_init(&message, WIRE_WRITER, 0);
	message.grant_id.mapping = grant.mapping;
	message.grant_id.serial = grant.serial;
	WANT(!speaker_ask(&s, &message, &answer, &page) && page >= 0);
	WANT(pwrite(page, &grant, sizeof grant, 0) == sizeof grant);
	resize(page, 4096);
	WANT(!fallocate(page, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096));
	WANT(pwrite(page, "\xff\xff\xff\xff\xff\xff\xff\xff", 8, 0) == 8);
	close(page);
	speaker_end(&s);
}

/* ---- what the attacker sends ---- */

/* Greets with descriptors, among them the socket itself: a circle. Returns 0 or a negative errno. */
static int greet_with(struct speaker *s, int fds[250], const int pair[2])
{
	struct wire_message hello;
	int error = speaker_dial(s);

	for (size_t i = 0; i < 250; i++)
		fds[i] = i % 3 ? s->sock : pair[i % 2];
	if (!error)
		error = speaker_hello(s, &hello);
	if (!error && speaker_send_fds(s, &hello, fds, 250))
		/* the broker takes none at all */
		error = speaker_say(s, &hello);
	return error ? error : speaker_welcome(s);
}

/* In every kind of message, more than anybody wants. */
static void send_descriptors(void)
{
	struct wire_message stat = speaker_message(WIRE_STAT, "no");
	int fds[250], pair[2], tries = 0;
	struct speaker s;

	WANT(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
	/* a broker that dies closes the connections that it has not welcomed */
	while (greet_with(&s, fds, pair) && tries++ < 50) {
		speaker_end(&s);
		usleep(20000);
	}
	WANT(s.board.header);
	for (unsigned count = 1; count <= 250; count += 83) {
		WANT(!speaker_send_fds(&s, &stat, fds, count) || errno == EPERM);
		WANT(!drain(&s));
	}
	want_served(&s);
	stat.version++;
	if (!speaker_send_fds(&s, &stat, fds, 250))
		want_cut(&s);
	speaker_end(&s);
}

/*
 * Whoever closes it last waits, and descriptors that a receiver has no room for the kernel closes in its name: that
 * must not be the broker's loop.
 */
static void send_what_lingers(void)
{
	struct wire_message stat = speaker_message(WIRE_STAT, "no");
	struct speaker s;
	int other[4], fds[4];

	join(&s);
	for (int i = 0; i < 4; i++) {
		fds[i] = lingering_socket(&other[i], 20);
		WANT(fds[i] >= 0);
		if (!speaker_send_fds(&s, &stat, &fds[i], 1))
			close(fds[i]);
	}
	attack_done();
	hold();
	/* where the broker took none, the wait would be this process's */
	for (int i = 0; i < 4; i++)
		close(other[i]);
	speaker_end(&s);
}

#define FLOOD         60
#define FLOOD_LINGERS 6 /* closes that block, on a kernel that lets descriptors in */

/*
 * More than a broker may have open, over connections of all kinds: without a greeting, welcomed, and gone before they
 * are accepted.
 */
static void flood_with_descriptors(void)
{
	static struct speaker s[FLOOD];
	struct wire_message stat = speaker_message(WIRE_STAT, "no");
	int other[FLOOD_LINGERS], fds[250];

	for (int i = 0; i < 250; i++)
		fds[i] = STDIN_FILENO;
	for (int i = 0; i < FLOOD; i++) {
		WANT(!(i % 2 ? speaker_greet(&s[i]) : speaker_dial(&s[i])));
		if (i < FLOOD_LINGERS)
			fds[0] = lingering_socket(&other[i], 60);
		if (!speaker_send_fds(&s[i], &stat, fds, 250) && i < FLOOD_LINGERS)
			close(fds[0]); /* where the broker took none, the wait would be this process's */
		fds[0] = STDIN_FILENO;
		if (i % 3 == 0)
			close(s[i].sock);
	}
	attack_done();
	hold();
	for (int i = 0; i < FLOOD_LINGERS; i++)
		close(other[i]);
}

/*
 * Keeps the descriptor and the mapping of memory that it says it has closed, and gives the descriptor to a process that
 * outlives it. What others get from then on is never in it.
 */
static void keep_memory(void)
{
	struct wire_grant grant;
	struct speaker s;
	uint8_t *bytes;
	int kept;

	if (!tested_export()->by_descriptor) { /* there is none */
		hold();
		return;
	}
	join(&s);
	WANT(!speaker_create(&s, "attacker/kept", SECRET_SIZE, 0600, GPUB_DEDICATED));
	WANT(!speaker_acquire(&s, "attacker/kept", BOTH, &grant) && s.memory_fd >= 0);
	bytes = speaker_map(&s, &grant);
	kept = dup(s.memory_fd);
	WANT(bytes && kept >= 0 && !bytes[0]);
	WANT(ftruncate(kept, 0) && ftruncate(kept, 4 * SECRET_SIZE));
	bytes[0] = 0x42;
	WANT(!speaker_closed(&s, grant.mapping) && !speaker_named(&s, WIRE_UNLINK, "attacker/kept"));
	hold();
	WANT(!memmem(bytes, grant.span, stage->canary, CANARY_SIZE) && !memchr(bytes, SHOWN_BYTE, 64));
	want_served(&s);
	speaker_end(&s);
}

#define UNREAD_BUFFERS  40
#define UNREAD_CHUNKS   4 /* of each: a descriptor for each */
#define UNREAD_SESSIONS 100

static void make_grown(struct speaker *s, const char *name)
{
	struct wire_message message = speaker_message(WIRE_CREATE, name), answer;

	message.create.size = 1;
	message.create.reserve = UNREAD_CHUNKS * 4096;
	WANT(!speaker_ask(s, &message, &answer, NULL));
	for (unsigned i = 2; i <= UNREAD_CHUNKS; i++) {
		message = speaker_message(WIRE_RESIZE, name);
		message.resize.size = i * 4096;
		WANT(!speaker_ask(s, &message, &answer, NULL));
	}
}

/* The kernel counts descriptors that a socket's receiver has not read yet, all of the broker's together. */
static void leave_unread(void)
{
	static struct speaker s[UNREAD_SESSIONS];
	char name[40];

	for (int i = 0; i < UNREAD_SESSIONS; i++)
		join(&s[i]);
	for (int k = 0; k < UNREAD_BUFFERS; k++) {
		snprintf(name, sizeof name, "attacker/unread/%d", k);
		make_grown(&s[0], name);
	}
	for (int i = 0; i < UNREAD_SESSIONS; i++)
		for (int k = 0; k < UNREAD_BUFFERS; k++) {
			struct wire_message message;

			snprintf(name, sizeof name, "attacker/unread/%d", k);
			message = speaker_message(WIRE_ACQUIRE, name);
			message.request = (uint64_t)k + 1000;
			WANT(!speaker_say(&s[i], &message));
		}
	hold();
	for (int i = 0; i < UNREAD_SESSIONS; i++)
		speaker_end(&s[i]);
}

/* The memory is not the attacker's any more, and the others have new memory meanwhile. */
static bool others_make_memory(void)
{
	return SOON(!charged(ATTACKER, "bytes")) && newcomer_works(BYSTANDER) && newcomer_works(VICTIM);
}

static bool broker_goes_on(void)
{
	return newcomer_works(BYSTANDER);
}

/* When the broker has sent all that it sends. */
static bool others_get_theirs(void)
{
	int64_t grants = -1;

	while (grants != charged(ATTACKER, "grants")) {
		grants = charged(ATTACKER, "grants");
		usleep(200000);
	}
	return newcomer_works(BYSTANDER) && newcomer_works(VICTIM);
}

const struct attack descriptors[] = {
	{ "writes the board", "neither by calls, nor by a mapping, nor through /proc; nor is it resized",
	  .run = attack_board },
	{ "writes another's timeline", "a session that may read it gets a page that can be read",
	  .run = attack_timeline, .flags = NEEDS_USERS },
	{ "resizes its timeline", "its writer may write it, and nobody resize it", .run = resize_own_timeline },
	{ "sends descriptors", "the broker keeps none of them", .run = send_descriptors },
	{ "keeps the descriptor of memory",
	  "invariant 6: what it says it has closed is nobody else's, and is not charged", .run = keep_memory,
	  .during = others_make_memory, .flags = HURTS_ITSELF },
	{ "leaves descriptors unread", "invariant 5: others get theirs", .run = leave_unread,
	  .during = others_get_theirs },
	{ "sends sockets that linger", "invariant 5: closing them keeps the broker from nobody",
	  .run = send_what_lingers, .during = broker_goes_on },
	{ "floods the broker with descriptors", "invariant 5: others come and are served",
	  .run = flood_with_descriptors, .during = others_get_theirs },
	{ 0 },
};

/* SPDX-License-Identifier: Apache-2.0 */
/* floor.c - see floor.h */
#include "floor.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sodium.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define MESSAGE 256
#define HANDLE  64
#define TERMS   80
#define GATHER  32 /* messages that one system call sends or receives */

struct request {
	uint32_t number;
	uint32_t last;
	uint8_t  rest[MESSAGE - 8];
};

struct sealed {
	uint8_t nonce[crypto_aead_xchacha20poly1305_ietf_NPUBBYTES];
	uint8_t box[HANDLE + crypto_aead_xchacha20poly1305_ietf_ABYTES];
};

struct floor {
	pid_t         pid;
	unsigned      clients;
	int           client_end[FLOOR_CLIENTS], server_end[FLOOR_CLIENTS];
	uint8_t       key[crypto_aead_xchacha20poly1305_ietf_KEYBYTES];
	struct sealed sealed[FLOOR_CLIENTS][FLOOR_BATCH];
};

static const uint8_t terms[TERMS];

/* ---- the server ---- */

static void seal(struct sealed *sealed, const uint8_t *key)
{
	static const uint8_t handle[HANDLE];

	randombytes_buf(sealed->nonce, sizeof sealed->nonce);
	crypto_aead_xchacha20poly1305_ietf_encrypt(sealed->box, NULL, handle, HANDLE, terms, TERMS, NULL, sealed->nonce,
						   key);
}

/* False: that client is gone, and so the run is over. */
static int serve(struct floor *floor, unsigned client)
{
	struct request request[GATHER];
	struct iovec io[GATHER];
	struct mmsghdr message[GATHER] = { 0 };
	int got;

	for (int i = 0; i < GATHER; i++) {
		io[i] = (struct iovec){ .iov_base = &request[i], .iov_len = MESSAGE };
		message[i].msg_hdr = (struct msghdr){ .msg_iov = &io[i], .msg_iovlen = 1 };
	}
	got = recvmmsg(floor->server_end[client], message, GATHER, MSG_DONTWAIT, NULL);
	if (got < 0)
		return errno == EAGAIN;
	for (int i = 0; i < got; i++) {
		if (!message[i].msg_len)
			return 0;
		seal(&floor->sealed[client][request[i].number % FLOOR_BATCH], floor->key);
		if (request[i].last && send(floor->server_end[client], &request[i], MESSAGE, MSG_NOSIGNAL) != MESSAGE)
			return 0;
	}
	return 1;
}

static _Noreturn void server_main(struct floor *floor, int cpu)
{
	int epoll = epoll_create1(0);
	struct epoll_event event;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	bench_pin(cpu);
	for (unsigned i = 0; i < floor->clients; i++) {
		close(floor->client_end[i]);
		event = (struct epoll_event){ .events = EPOLLIN, .data.u32 = i };
		epoll_ctl(epoll, EPOLL_CTL_ADD, floor->server_end[i], &event);
	}
	while (epoll_wait(epoll, &event, 1, -1) >= 0 || errno == EINTR)
		if (!serve(floor, event.data.u32))
			break;
	_exit(0);
}

struct floor *floor_start(unsigned clients, int cpu)
{
	struct floor *floor = mmap(NULL, sizeof *floor, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int pair[2];

	if (floor == MAP_FAILED || sodium_init() < 0 || clients > FLOOR_CLIENTS)
		bench_fail("floor: cannot start");
	randombytes_buf(floor->key, sizeof floor->key);
	floor->clients = clients;
	for (unsigned i = 0; i < clients; i++) {
		if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
			bench_fail("floor: no socket");
		floor->client_end[i] = pair[0];
		floor->server_end[i] = pair[1];
	}
	floor->pid = fork();
	if (floor->pid < 0)
		bench_fail("floor: no process");
	if (!floor->pid)
		server_main(floor, cpu);
	for (unsigned i = 0; i < clients; i++)
		close(floor->server_end[i]);
	return floor;
}

/* ---- a client ---- */

static void send_all(int sock, unsigned requests)
{
	struct request request[GATHER];
	struct iovec io[GATHER];
	struct mmsghdr message[GATHER];

	for (unsigned done = 0; done < requests;) {
		unsigned count = requests - done < GATHER ? requests - done : GATHER;
		int sent;

		for (unsigned i = 0; i < count; i++) {
			request[i] = (struct request){ .number = done + i, .last = done + i + 1 == requests };
			io[i] = (struct iovec){ .iov_base = &request[i], .iov_len = MESSAGE };
			message[i] = (struct mmsghdr){ .msg_hdr = { .msg_iov = &io[i], .msg_iovlen = 1 } };
		}
		sent = sendmmsg(sock, message, count, MSG_NOSIGNAL);
		if (sent <= 0)
			bench_fail("floor: the server is gone");
		done += (unsigned)sent;
	}
}

static void open_all(struct floor *floor, unsigned client, unsigned requests)
{
	uint8_t handle[HANDLE];

	for (unsigned i = 0; i < requests; i++) {
		struct sealed sealed = floor->sealed[client][i];

		if (crypto_aead_xchacha20poly1305_ietf_decrypt(handle, NULL, NULL, sealed.box, sizeof sealed.box, terms,
							       TERMS, sealed.nonce, floor->key))
			bench_fail("floor: a sealed handle does not open");
	}
}

void floor_round(struct floor *floor, unsigned client, unsigned requests)
{
	struct request answer;

	send_all(floor->client_end[client], requests);
	if (recv(floor->client_end[client], &answer, MESSAGE, 0) != MESSAGE)
		bench_fail("floor: the server is gone");
	open_all(floor, client, requests);
}

void floor_stop(struct floor *floor)
{
	for (unsigned i = 0; i < floor->clients; i++)
		close(floor->client_end[i]);
	waitpid(floor->pid, NULL, 0);
	munmap(floor, sizeof *floor);
}

/* ---- shared memory as the host device has it ---- */

static char path[64];

static void object_remove(void)
{
	unlink(path);
}

/* One that stays for the whole run, as a broker's memory does. */
static void object_make(size_t size)
{
	static size_t made;
	int fd;

	if (made == size)
		return;
	if (!made)
		atexit(object_remove);
	snprintf(path, sizeof path, "/dev/shm/gpub-bench-%d", getpid());
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, 0) || posix_fallocate(fd, 0, (off_t)size))
		bench_fail("%s: %zu bytes of shared memory cannot be had", path, size);
	close(fd);
	made = size;
}

static double timed_open(size_t size)
{
	uint64_t began = bench_now_ns();
	int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	double took;
	void *base;

	if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) || fstat(fd, &st))
		bench_fail("%s cannot be opened", path);
	base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED || madvise(base, size, MADV_DONTFORK))
		bench_fail("%s cannot be mapped", path);
	took = (double)(bench_now_ns() - began);
	munmap(base, size);
	close(fd);
	return took;
}

double floor_open_ns(size_t size)
{
	object_make(size);
	return timed_open(size);
}

double floor_make_ns(size_t size)
{
	char name[64];
	uint64_t began = bench_now_ns(), random[2];
	double took;
	int fd;

	randombytes_buf(random, sizeof random);
	snprintf(name, sizeof name, "/dev/shm/gpub-bench-%016llx%016llx", (unsigned long long)random[0],
		 (unsigned long long)random[1]);
	fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || posix_fallocate(fd, 0, (off_t)size))
		bench_fail("%s: %zu bytes of shared memory cannot be had", name, size);
	took = (double)(bench_now_ns() - began);
	unlink(name);
	close(fd);
	return took;
}

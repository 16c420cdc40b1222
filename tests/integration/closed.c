/* SPDX-License-Identifier: Apache-2.0 */
/*
 * closed.c - a program that closes all descriptors, as daemons do, and then opens files of its own: no call of the
 * library touches them, each call that needs the broker ends with an error that says why, and a disconnect returns.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "client/client.h"
#include "harness.h"

static struct broker_process broker;
static char folder[] = "/tmp/closed-XXXXXX";

/* ---- what the program opens at the numbers that it closed ---- */

/* WATCHES: each second one is an epoll that has the first one, as the library's watch has the library's socket. */
enum kind { NOTHING, FILES, SOCKETS, WATCHES, KINDS };

static const char *const kind_names[] = { "nothing", "files", "sockets", "sockets and epolls of them" };

#define OWN   16
#define PEERS 100 /* their numbers: the library never had these */

static struct {
	enum kind   kind;
	unsigned    count;
	int         fd[OWN], peer[OWN];
	struct stat st[OWN];
} own;

static int file_open(unsigned i)
{
	char path[64];
	int fd;

	snprintf(path, sizeof path, "%s/%u.%d", folder, i, (int)getpid());
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	return fd < 0 || flock(fd, LOCK_EX) ? -1 : fd;
}

/* A message waits in it. */
static int socket_open(unsigned i)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -1;
	own.peer[i] = fcntl(pair[1], F_DUPFD_CLOEXEC, PEERS);
	close(pair[1]);
	return own.peer[i] < 0 || send(own.peer[i], "hello", 5, 0) != 5 ? -1 : pair[0];
}

static int epoll_open(unsigned i)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLONESHOT, .data.u32 = i };
	int fd = epoll_create1(EPOLL_CLOEXEC);

	return fd < 0 || epoll_ctl(fd, EPOLL_CTL_ADD, own.fd[0], &event) ? -1 : fd;
}

static int open_one(unsigned i)
{
	if (own.kind == FILES)
		return file_open(i);
	return own.kind == WATCHES && i % 2 ? epoll_open(i) : socket_open(i);
}

static int own_open(enum kind kind)
{
	own.kind = kind;
	own.count = kind == NOTHING ? 0 : OWN;
	for (unsigned i = 0; i < own.count; i++) {
		own.fd[i] = open_one(i);
		if (own.fd[i] < 0 || fstat(own.fd[i], &own.st[i]))
			return -1;
	}
	return 0;
}

/* 0, or the number of the first one that is not there any more. */
static int own_missing(void)
{
	struct stat st;

	for (unsigned i = 0; i < own.count; i++)
		if (fstat(own.fd[i], &st) || st.st_ino != own.st[i].st_ino || st.st_dev != own.st[i].st_dev)
			return own.fd[i];
	return 0;
}

/* It is locked by this program still, and nothing was written. */
static bool file_is_untouched(unsigned i)
{
	char path[64];
	struct stat st;
	int again;
	bool locked;

	snprintf(path, sizeof path, "%s/%u.%d", folder, i, (int)getpid());
	again = open(path, O_RDWR | O_CLOEXEC);
	locked = again >= 0 && flock(again, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;
	close(again);
	return locked && !fstat(own.fd[i], &st) && !st.st_size && !lseek(own.fd[i], 0, SEEK_CUR) && !unlink(path);
}

/* Its message is there, and its peer got none and sees no hang-up. */
static bool socket_is_untouched(unsigned i)
{
	char bytes[512];

	return recv(own.fd[i], bytes, sizeof bytes, MSG_DONTWAIT) == 5 &&
	       recv(own.peer[i], bytes, sizeof bytes, MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

/* It reports its event, once, and has its socket alone. */
static bool epoll_is_untouched(unsigned i)
{
	struct epoll_event event[2];

	return epoll_wait(own.fd[i], event, 2, 0) == 1 && event[0].events == EPOLLIN && event[0].data.u32 == i &&
	       !epoll_wait(own.fd[i], event, 2, 0);
}

/* An epoll is asked before its socket is read. */
static bool own_are_untouched(void)
{
	bool good = !own_missing();

	for (unsigned i = own.count; good && i-- > 0;) {
		if (own.kind == FILES)
			good = file_is_untouched(i);
		else
			good = own.kind == WATCHES && i % 2 ? epoll_is_untouched(i) : socket_is_untouched(i);
	}
	return good;
}

/* ---- steps ---- */

/* Descriptors 0 to 2 and the harness's stay. */
static int do_close(const struct order *order)
{
	return close_range((unsigned)order_sock + 1, ~0u, 0) ? -1 : own_open((enum kind)order->value);
}

static int do_close_watch(const struct order *order)
{
	(void)order;
	return close(client->link.watch) ? -1 : own_open(SOCKETS);
}

static int do_close_socket(const struct order *order)
{
	(void)order;
	return close(client->link.sock.fd) ? -1 : own_open(SOCKETS);
}

static int do_close_trip(const struct order *order)
{
	return close(client->link.trip[order->value].fd) ? -1 : own_open(SOCKETS);
}

static int do_untouched(const struct order *order)
{
	(void)order;
	return own_are_untouched() ? 0 : 1;
}

static int do_fork(const struct order *order)
{
	int status;
	pid_t pid = fork();

	(void)order;
	if (!pid)
		_exit(own_missing());
	return waitpid(pid, &status, 0) == pid ? WEXITSTATUS(status) : -1;
}

static int do_acquire_many(const struct order *order)
{
	const char *const names[] = { "u", "v" };

	(void)order;
	return gpub_acquire_many(client, names, 2, GPUB_READ, 1000, &lease[4]);
}

/* The first client is kept, and is ended after the second one is there. */
static int do_connect_anew(const struct order *order)
{
	gpub_info info = { .struct_size = sizeof info };
	gpub_client *first = client;
	int error = do_connect(order);

	if (error)
		return error;
	gpub_disconnect(first);
	error = gpub_stat(client, "u", &info);
	return error ? error : gpub_acquire(client, "u", GPUB_READ, 0, &lease[5]);
}

/* ---- callers that wait while the program closes ---- */

static pthread_t waiting[3];
static int results[3];
static char texts[3][256];

static void *acquire_main(void *argument)
{
	size_t i = (size_t)argument;
	gpub_lease none;

	results[i] = gpub_acquire(client, i == 2 ? "never/2" : "never", GPUB_READ, -1, &none);
	snprintf(texts[i], sizeof texts[i], "%s", gpub_strerror_last());
	return NULL;
}

/* Its state, as in /proc/PID/stat. */
static char task_letter(const char *task)
{
	char path[64], text[128] = "";
	const char *end;
	int fd;

	snprintf(path, sizeof path, "/proc/self/task/%.20s/stat", task);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, text, sizeof text - 1) < 0)
		return 0;
	close(fd);
	end = strrchr(text, ')');
	return end && end[1] ? end[2] : 0;
}

/* Two threads wait for one name, of which one asks, and a third one for another. */
static int do_start_waiting(const struct order *order)
{
	(void)order;
	for (size_t i = 0; i < 3; i++)
		if (pthread_create(&waiting[i], NULL, acquire_main, (void *)i))
			return -1;
	return 0;
}

/* 0: all threads but this one sleep in the kernel, and so none is between a check of a number and its use. */
static int do_asleep(const struct order *order)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *task;
	int awake = 0;

	(void)order;
	while (tasks && (task = readdir(tasks)))
		awake += task->d_name[0] != '.' && atoi(task->d_name) != getpid() && task_letter(task->d_name) != 'S';
	if (!tasks || closedir(tasks))
		return -1;
	return awake;
}

static int do_join_waiting(const struct order *order)
{
	(void)order;
	for (size_t i = 0; i < 3; i++)
		if (pthread_join(waiting[i], NULL) || results[i] != -ECONNRESET ||
		    !strstr(texts[i], "closed descriptors"))
			return (int)i + 1;
	return 0;
}

/* ---- tests ---- */

static const struct {
	const char *name;
	step       *run;
	bool        needs_broker;
} calls[] = {
	{ "gpub_stat", do_stat, true },
	{ "gpub_acquire of what is not mapped", do_acquire, true },
	{ "gpub_acquire_many", do_acquire_many, true },
	{ "gpub_create", do_create, true },
	{ "gpub_unlink", do_unlink, true },
	{ "gpub_wait_newer", do_newer, true },
	{ "gpub_return", do_return, false },
	{ "gpub_return in stream order, then gpub_trim", do_return_on, false },
	{ "fork", do_fork, false },
	{ "gpub_disconnect alone", NULL, false },
};

/* It has two buffers mapped, one of them by a descriptor. */
static void program_start(struct puppet *program)
{
	puppet_start(program, &broker);
	ask(program, do_stream);
	ask(program, do_acquire, .name = "u");
	ask(program, do_acquire, .name = "w", .slot = 1);
}

static bool lost(const struct puppet *program)
{
	return program->last.result == -ECONNRESET &&
	       strstr(program->last.text, "closed descriptors of the gpubroker library");
}

static void program_end(struct puppet *program, const char *what, const char *kind, bool good)
{
	bool untouched;

	ask(program, do_disconnect);
	untouched = !ask(program, do_untouched);
	POINT(good && untouched, "%s after all is closed, with %s in its place: %s", what, kind,
	      !untouched ? "a descriptor of the program's was used" : program->last.text);
	puppet_kill(program);
}

/* A call that needs no broker succeeds, unless a thread of the library has already noticed what happened. */
static bool ends_well(struct puppet *program, struct order order)
{
	puppet_tell(program, order);
	return !receive(program) || lost(program);
}

static void test_call(unsigned call, enum kind kind)
{
	struct order order = { .run = calls[call].run, .name = "v", .timeout = 1000 };
	struct puppet program;
	bool good = true;

	program_start(&program);
	if (ask(&program, do_close, .value = kind))
		bail_out("the program cannot open its own descriptors");
	if (order.run)
		good = ends_well(&program, order);
	if (order.run == do_return_on)
		good = good && ends_well(&program, (struct order){ .run = do_sync }) &&
		       ends_well(&program, (struct order){ .run = do_trim });
	if (calls[call].needs_broker)
		good = lost(&program) && ask(&program, do_stat, .name = "u") && lost(&program);
	program_end(&program, calls[call].name, kind_names[kind], good);
}

/* A bug closes one number: a descriptor that is closed twice, for example. */
static void test_one(step *closes, unsigned which, const char *what)
{
	struct puppet program;
	bool good;

	program_start(&program);
	ask(&program, closes, .value = which);
	good = SOON(ask(&program, do_stat, .name = "u") && lost(&program));
	program_end(&program, what, kind_names[SOCKETS], good);
}

static void test_waiting(enum kind kind)
{
	struct puppet program;

	program_start(&program);
	ask(&program, do_start_waiting);
	if (!SOON(status_number(&broker, "waiting") == 2) || !SOON(!ask(&program, do_asleep)))
		bail_out("the threads do not wait");
	ask(&program, do_close, .value = kind);
	program_end(&program, "calls that wait in three threads,", kind_names[kind], !ask(&program, do_join_waiting));
}

static void test_anew(void)
{
	struct puppet program;

	program_start(&program);
	ask(&program, do_close, .value = NOTHING);
	POINT(!ask(&program, do_connect_anew), "a second client is not hurt by the disconnect of the first one: %s",
	      program.last.text);
	puppet_end(&program);
}

int main(void)
{
	struct puppet owner;

	harness_begin("closed", 200);
	if (!mkdtemp(folder))
		bail_out("no temporary folder");
	broker_start(&broker, "host");
	puppet_start(&owner, &broker);
	ask(&owner, do_create, .name = "u");
	ask(&owner, do_create, .name = "v");
	ask(&owner, do_create, .name = "w", .flags = GPUB_SAME_ADDRESS);
	for (unsigned call = 0; call < sizeof calls / sizeof *calls; call++)
		for (enum kind kind = 0; kind < KINDS; kind++)
			test_call(call, kind);
	test_one(do_close_watch, 0, "the watch's number is closed: gpub_stat");
	test_one(do_close_socket, 0, "the socket's number is closed: gpub_stat");
	test_one(do_close_trip, 1, "the number of the trip's end is closed: gpub_stat");
	for (enum kind kind = 0; kind < KINDS; kind++)
		test_waiting(kind);
	test_anew();
	puppet_end(&owner);
	broker_end(&broker);
	rmdir(folder);
	return harness_end();
}

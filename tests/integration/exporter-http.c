/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exporter-http.c - clients of broker-exporter that mean harm: slow, silent, huge, pipelined, many, gone before the
 * answer. The exporter serves others meanwhile, ends them in the end, and takes no more memory for it. It looks at a
 * broker of the test's own alone: what other brokers of this machine have is not measured.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "common/now.h"
#include "harness.h"

#define GET     "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
#define HEALTHY "GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n"
#define CROWD   600 /* connections: more than the exporter takes at a time */
#define KEPT    200 /* connections that are made again whenever they end */
#define SCRAPES 20
#define FEW_DESCRIPTORS 160
#define ROUNDS  300
#define BUFFERS 50

static pid_t exporter;
static in_port_t port;

/* Its log's first line names the port. Without a number of descriptors it may have as many as the test. */
static void exporter_start(const char *program, const char *instance, rlim_t most_descriptors)
{
	struct rlimit limit = { most_descriptors, most_descriptors };
	char line[200] = "", *colon;
	int log[2];

	if (pipe(log))
		bail_out("no pipe: %m");
	exporter = fork();
	if (!exporter) {
		if (most_descriptors && setrlimit(RLIMIT_NOFILE, &limit))
			_exit(126);
		dup2(log[1], STDERR_FILENO);
		execl(program, program, "--listen", "127.0.0.1:0", "--instance", instance, (char *)NULL);
		_exit(127);
	}
	close(log[1]);
	for (size_t length = 0; length < sizeof line - 1 && !strchr(line, '\n') && read(log[0], line + length, 1) == 1;)
		length++;
	colon = strrchr(line, ':');
	if (!colon)
		bail_out("the exporter does not serve: %s", line);
	port = htons((in_port_t)atoi(colon + 1));
	/* its log stays open: it may say more */
}

static void exporter_end(void)
{
	int status;

	kill(exporter, SIGTERM);
	POINT(waitpid(exporter, &status, 0) == exporter && !status, "SIGTERM ends it with status 0");
}

static int visit(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (const struct sockaddr *)&to, sizeof to))
		bail_out("the exporter takes no connection: %m");
	return fd;
}

static void say(int fd, const char *text)
{
	if (send(fd, text, strlen(text), MSG_NOSIGNAL) < 0 && errno != EPIPE && errno != ECONNRESET)
		bail_out("nothing can be sent: %m");
}

/* All that comes until the end; how many bytes. The text has the first of them. */
static size_t read_all(int fd, char *text, size_t room)
{
	char rest[4096];
	size_t count = 0;
	ssize_t got;

	while ((got = count < room - 1 ? read(fd, text + count, room - 1 - count) : read(fd, rest, sizeof rest)) > 0)
		count += (size_t)got;
	text[count < room ? count : room - 1] = 0;
	close(fd);
	return count;
}

static bool answers(const char *request, const char *status)
{
	char text[200];
	int fd = visit();

	say(fd, request);
	read_all(fd, text, sizeof text);
	return !strncmp(text, "HTTP/1.1 ", 9) && !strncmp(text + 9, status, 3);
}

static bool is_healthy(void)
{
	return answers(HEALTHY, "200");
}

/* The exporter ended the connection. Without an answer it may do so by a reset. */
static bool is_ended(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char byte;

	return poll(&p, 1, 0) == 1 && recv(fd, &byte, 1, MSG_DONTWAIT) <= 0;
}

static long resident_kib(void)
{
	char path[40], line[100];
	long kib = -1;
	FILE *status;

	snprintf(path, sizeof path, "/proc/%d/status", exporter);
	status = fopen(path, "re");
	while (status && fgets(line, sizeof line, status))
		if (sscanf(line, "VmRSS: %ld", &kib) == 1)
			break;
	if (status)
		fclose(status);
	return kib;
}

static int descriptors_of_exporter(void)
{
	char path[40];
	int count = 0;
	DIR *dir;

	snprintf(path, sizeof path, "/proc/%d/fd", exporter);
	dir = opendir(path);
	while (dir && readdir(dir))
		count++;
	if (dir)
		closedir(dir);
	return count;
}

/* ---- what they do ---- */

static void test_nonsense(void)
{
	static const char *const requests[] = {
		"\r\n\r\n\r\n",
		"GET\r\n\r\n",
		"GET /metrics\r\n\r\n",
		"\x16\x03\x01\x02\x01\x01\r\n\r\n",
		"GET /metrics HTTP/9.9\r\n\r\n",
		"POST /metrics HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
		"GET /../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\n\r\n"
	};
	char text[200];

	for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
		int fd = visit();

		say(fd, requests[i]);
		shutdown(fd, SHUT_WR);
		read_all(fd, text, sizeof text);
	}
	POINT(is_healthy(), "requests that are none leave it healthy");
	POINT(answers("POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", "405"),
	      "only GET and HEAD are answered");
	POINT(answers("GET /metricss HTTP/1.1\r\nHost: x\r\n\r\n", "404"), "a path that is not there is refused");
}

static void test_huge(void)
{
	static char line[1 << 20];
	char text[200];
	int fd = visit();

	memset(line, 'a', sizeof line - 1);
	memcpy(line, "GET /", 5);
	say(fd, line);
	shutdown(fd, SHUT_WR);
	read_all(fd, text, sizeof text);
	POINT(strncmp(text, "HTTP/1.1 200", 12), "a path of 1 MiB is refused, or the connection ended");
	fd = visit();
	say(fd, "GET /metrics HTTP/1.1\r\n");
	for (int i = 0; i < 5000; i++)
		say(fd, "X-Much: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n");
	shutdown(fd, SHUT_WR);
	read_all(fd, text, sizeof text);
	POINT(strncmp(text, "HTTP/1.1 200", 12), "so are headers without end");
	POINT(is_healthy(), "and it is healthy");
}

/* One request a connection, whoever sends more. */
static void test_pipelined(void)
{
	static char text[1 << 20];
	unsigned count = 0;
	int fd = visit();

	for (int i = 0; i < 50; i++)
		say(fd, HEALTHY);
	shutdown(fd, SHUT_WR);
	read_all(fd, text, sizeof text);
	for (const char *at = text; (at = strstr(at, "HTTP/1.1 ")); at++)
		count++;
	POINT(count == 1, "of 50 requests in a row the first is answered: %u", count);
}

/* They ask, and do not wait for the answer. */
static void test_gone(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		struct linger reset = { 1, 0 };
		int fd = visit();

		say(fd, GET);
		if (i % 2)
			setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
		close(fd);
	}
	POINT(is_healthy(), "clients that are gone before the answer leave it healthy");
}

/* A byte in each tenth of a second, for a minute at most. */
static bool drips_until_ended(int fd)
{
	for (int i = 0; i < 600 * test_slower(); i++) {
		if (is_ended(fd))
			return true;
		say(fd, "a");
		usleep(100000);
	}
	return false;
}

/* libmicrohttpd's own limit begins anew with each byte. */
static void test_slow(void)
{
	int slow = visit();

	say(slow, "GET /");
	POINT(drips_until_ended(slow), "a client that sends a byte now and then is ended");
	close(slow);
}

/* How long a scrape takes, or -1: it is not answered. Prometheus gives it 10 s unless told otherwise. */
static long scrape_ms(void)
{
	uint64_t began = now_ms(CLOCK_MONOTONIC);

	return answers(GET, "200") ? (long)(now_ms(CLOCK_MONOTONIC) - began) : -1;
}

/* True: each of the scrapes took less than a second. */
static bool scrapes_are_quick(void)
{
	long most = 0;

	for (int i = 0; i < SCRAPES; i++) {
		long ms = scrape_ms();

		if (ms < 0 || ms >= 1000 * test_slower()) {
			printf("# scrape %d: %ld ms\n", i, ms);
			return false;
		}
		most = ms > most ? ms : most;
	}
	printf("# the slowest of %d scrapes: %ld ms\n", SCRAPES, most);
	return true;
}

/* A connection that begins a request and never ends it. */
static int visit_idly(void)
{
	int fd = visit();

	say(fd, "G");
	return fd;
}

/* More than the exporter keeps: the oldest make room. */
static void test_silent_crowd(void)
{
	static int crowd[CROWD];
	int ended = 0;

	for (int i = 0; i < CROWD; i++)
		crowd[i] = visit_idly();
	POINT(scrapes_are_quick(), "scrapes that come behind %d silent connections take less than a second", CROWD);
	POINT(descriptors_of_exporter() < CROWD / 2, "it has kept only some of them");
	for (int i = 0; i < CROWD; i++) {
		ended += is_ended(crowd[i]);
		close(crowd[i]);
	}
	POINT(ended > CROWD / 2, "most of them are ended: %d", ended);
}

/* In a process of its own: keeps that many silent connections up until it is killed. Tells once that all are there. */
_Noreturn static void keep_up(int count, int ready)
{
	int *fds = calloc((size_t)count, sizeof *fds);

	for (int i = 0; fds && i < count; i++)
		fds[i] = visit_idly();
	if (!fds || write(ready, "r", 1) != 1)
		_exit(1);
	for (int i = 0;; i = (i + 1) % count) {
		if (!is_ended(fds[i]))
			continue;
		close(fds[i]);
		fds[i] = visit_idly();
	}
}

static void test_kept_crowd(int count)
{
	int ready[2];
	pid_t pid;
	char byte;

	if (pipe(ready))
		bail_out("no pipe: %m");
	pid = fork();
	if (!pid)
		keep_up(count, ready[1]);
	close(ready[1]);
	POINT(read(ready[0], &byte, 1) == 1 && scrapes_are_quick(),
	      "scrapes take less than a second beside %d silent connections that come again when they end", count);
	close(ready[0]);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void test_memory_stays(void)
{
	long before, after;

	for (int i = 0; i < ROUNDS; i++)
		answers(GET, "200");
	before = resident_kib();
	for (int i = 0; i < 5 * ROUNDS; i++)
		answers(GET, "200");
	after = resident_kib();
#ifdef __SANITIZE_ADDRESS__
	printf("# %ld KiB, then %ld\n", before, after);
	point_skip("answers take no more memory: AddressSanitizer keeps what is freed");
#else
	POINT(before > 0 && after <= before + 1024, "%d answers take no more memory: %ld KiB, then %ld", 5 * ROUNDS,
	      before, after);
	POINT(after < 64 << 10, "and little of it");
#endif
}

static int create_all(const struct order *order)
{
	gpub_spec spec = GPUB_SPEC_INIT;
	char name[16];
	int error = 0;

	(void)order;
	spec.size = 4096;
	for (int i = 0; i < BUFFERS && !error; i++) {
		snprintf(name, sizeof name, "b/%d", i);
		error = gpub_create(client, name, &spec);
	}
	return error;
}

static void broker_with_buffers(struct broker_process *broker, struct puppet *user)
{
	broker_start(broker, "host");
	puppet_start(user, broker);
	if (ask(user, create_all))
		bail_out("no buffers: %s", user->last.text);
}

int main(void)
{
	struct broker_process broker;
	struct puppet user;
	const char *build = getenv("top_builddir");
	char program[500];
	int descriptors;

	snprintf(program, sizeof program, "%s/broker/broker-exporter", build ? build : ".");
	if (access(program, X_OK)) {
		puts("1..0 # SKIP broker-exporter is not built: there is no libmicrohttpd (Debian: libmicrohttpd-dev)");
		return 0;
	}
	harness_begin("exporter-http", 240);
	broker_with_buffers(&broker, &user);
	exporter_start(program, broker.instance, 0);
	POINT(is_healthy(), "it serves");
	descriptors = descriptors_of_exporter();
	test_nonsense();
	test_huge();
	test_pipelined();
	test_gone();
	test_slow();
	test_silent_crowd();
	test_kept_crowd(KEPT);
	test_kept_crowd(CROWD);
	POINT(SOON(descriptors_of_exporter() <= descriptors), "no connection is left");
	test_memory_stays();
	exporter_end();
	exporter_start(program, broker.instance, FEW_DESCRIPTORS);
	printf("# with %d descriptors\n", FEW_DESCRIPTORS);
	test_silent_crowd();
	exporter_end();
	puppet_end(&user);
	broker_end(&broker);
	return harness_end();
}

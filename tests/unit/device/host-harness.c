/* SPDX-License-Identifier: Apache-2.0 */
/* host-harness.c - see host-harness.h */
#include "host-harness.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/error.h"

const struct device *const device = &device_host;
char prefix[32], twins[64];

/* ---- scenarios in processes of their own ---- */

void fail_with(int line, const char *what)
{
	fprintf(stderr, "line %d: %s: %s (errno %d)\n", line, what, error_text(), errno);
	_exit(99);
}

static void child_run(scenario *run, int report)
{
	static const struct rlimit none;

	setrlimit(RLIMIT_CORE, &none);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(report, STDERR_FILENO);
	alarm(60);
	run();
	fflush(NULL);
	exit(0); /* with the owner's exit handler */
}

/* Runs it; returns the wait status and what it printed on stderr. */
int child_status(scenario *run, char *text, size_t size)
{
	int status, report[2];
	ssize_t length = 0, got;
	pid_t pid;

	assert_int_equal(pipe2(report, O_CLOEXEC), 0);
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		child_run(run, report[1]);
	close(report[1]);
	while ((got = read(report[0], text + length, size - 1 - (size_t)length)) > 0)
		length += got;
	text[length] = 0;
	close(report[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

void expect_clean(scenario *run)
{
	char text[4096];
	int status = child_status(run, text, sizeof text);

	if (status)
		print_message("# status %#x: %s\n", (unsigned)status, text);
	assert_int_equal(status, 0);
}

void expect_violation(scenario *run, const char *part)
{
	char text[4096];
	int status = child_status(run, text, sizeof text);
	const char *found = strstr(text, "gpubroker host device: VIOLATION: ");

	if (!found || !strstr(found, part))
		print_message("# status %#x, wanted '%s', got: %s\n", (unsigned)status, part, text);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	assert_non_null(found);
	assert_non_null(strstr(found, part));
}

/* ---- two processes ---- */

void tell(int fd, const void *data, size_t size)
{
	CHECK(write(fd, data, size) == (ssize_t)size);
}

void receive(int fd, void *data, size_t size)
{
	CHECK(read(fd, data, size) == (ssize_t)size);
}

void tell_step(int fd)
{
	tell(fd, "x", 1);
}

void receive_token(int fd)
{
	char token;

	receive(fd, &token, 1);
}

/* Call it before this process starts the device. */
struct peer peer_start(peer_main *run)
{
	int down[2], up[2];
	struct peer peer;

	CHECK(!pipe(down) && !pipe(up));
	peer.pid = fork();
	CHECK(peer.pid >= 0);
	if (!peer.pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(down[1]);
		close(up[0]);
		run(down[0], up[1]);
		exit(0);
	}
	close(down[0]);
	close(up[1]);
	peer.in = up[0];
	peer.out = down[1];
	return peer;
}

void peer_end(const struct peer *peer)
{
	int status;

	close(peer->out);
	CHECK(waitpid(peer->pid, &status, 0) == peer->pid && !status);
}

void start(bool owner, unsigned count)
{
	struct device_setup setup = { .owner = owner, .host_count = count };

	CHECK(!host_set_prefix(prefix));
	CHECK(!device->start(&setup));
}

uint8_t *owner_memory(uint64_t size)
{
	void *ptr;

	start(true, 2);
	CHECK(!device->allocate(0, size, EXPORT_IPC, &ptr));
	CHECK(!device->zero(0, ptr, size) && !host_map_owned(ptr));
	return ptr;
}

void export_to(const struct peer *peer, void *ptr)
{
	struct device_handle handle;

	CHECK(!device->export_handle(0, ptr, &handle, &(int){ 0 }));
	tell(peer->out, &handle, sizeof handle);
}

uint8_t *import_from(int in, int ordinal)
{
	struct device_handle handle;
	void *ptr;

	receive(in, &handle, sizeof handle);
	CHECK(!device->open(ordinal, &handle, BLOCK, &ptr));
	return ptr;
}

/* ---- kernels ---- */

int scenarios_begin(const char *source)
{
	const char *cc = getenv("CC"), *top = getenv("top_srcdir");
	char command[4096];

	snprintf(prefix, sizeof prefix, "/gpubtest-%d.mem", (int)getpid());
	snprintf(twins, sizeof twins, "/tmp/gpubtest-%d.so", (int)getpid());
	snprintf(command, sizeof command, "printf '%s' | %s -x c -shared -fPIC -I%s/libbroker -o %s -", source,
		 cc && *cc ? cc : "cc", top ? top : ".", twins);
	return system(command);
}

int scenarios_end(void)
{
	char command[80];

	snprintf(command, sizeof command, "rm -rf /dev/shm%s*", prefix); /* of the processes that were to abort */
	return system(command) | unlink(twins);
}

/* ---- pages, kernels, time ---- */

uint64_t *host_page(bool writable)
{
	uint64_t *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK(page != MAP_FAILED && !madvise(page, PAGE, MADV_DONTFORK));
	CHECK(!device->page_register(page, PAGE, writable));
	return page;
}

void nap_ms(long ms)
{
	nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000 }, NULL);
}

double now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

uint64_t word_load(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

void *twin(void *module, const char *symbol)
{
	void *kernel;

	CHECK(!device->module_kernel(module, symbol, &kernel));
	return kernel;
}

int twin_launch(void *kernel, void *stream, int ordinal, void *first, int second)
{
	gpub_launch_config config = GPUB_LAUNCH_INIT;
	void *args[] = { &first, &second };

	config.device = ordinal;
	config.stream = stream;
	config.grid[0] = 3;
	return device->module_launch(kernel, &config, args);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* harness.c - see harness.h */
#include "harness.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "broker/show/read.h"
#include "kernels/kernels.h"

static const char *program = "test";
static char directory[] = "/tmp/gpubroker-test-XXXXXX";
static int points;
static bool failed;
static pid_t driver;

/* ---- TAP ---- */

static void on_time_up(int signal)
{
	static const char text[] = "Bail out! the test is past its time limit\n";

	(void)signal;
	_exit(write(STDOUT_FILENO, text, sizeof text - 1) > 0 ? 1 : 2);
}

/* Whatever this process left behind ends with it: its children's parent-death signal is SIGKILL. */
static void remove_directory(void)
{
	char command[80];

	if (getpid() != driver)
		return;
	snprintf(command, sizeof command, "rm -rf '%s'", directory);
	if (system(command))
		fprintf(stderr, "%s is left\n", directory);
}

const char *harness_program(void)
{
	return program;
}

const char *harness_directory(void)
{
	return directory;
}

int test_slower(void)
{
	const char *times = getenv("TEST_SLOWER");
	int slower = times ? atoi(times) : 1;

	return slower > 1 ? slower : 1;
}

void harness_begin(const char *name, unsigned seconds)
{
	program = name;
	driver = getpid();
	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGALRM, on_time_up);
	alarm((unsigned)test_slower() * (on_cuda() ? 2 * seconds : seconds));
	setenv("GPUB_HOST_STRICT", "1", 1);
	if (!mkdtemp(directory))
		bail_out("no directory: %s", strerror(errno));
	atexit(remove_directory);
}

int harness_end(void)
{
	printf("1..%d\n", points);
	return failed;
}

void point_at(int line, bool good, const char *format, ...)
{
	va_list args;

	printf("%sok %d - ", good ? "" : "not ", ++points);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf(good ? "\n" : "\n# at line %d\n", line);
	failed |= !good;
}

void point_skip(const char *format, ...)
{
	va_list args;

	printf("ok %d - ", ++points);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf(" # SKIP host model only\n");
}

bool on_cuda(void)
{
	const char *device = getenv("TEST_DEVICE");

	return device && !strncmp(device, "cuda", 4);
}

void bail_out(const char *format, ...)
{
	va_list args;

	printf("Bail out! ");
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	exit(1);
}

/* ---- puppets, from outside ---- */

static bool transfer_ended(ssize_t got, size_t size)
{
	return got != (ssize_t)size;
}

void puppet_tell(struct puppet *puppet, struct order order)
{
	if (transfer_ended(send(puppet->sock, &order, sizeof order, MSG_NOSIGNAL), sizeof order))
		bail_out("client %d is gone", puppet->pid);
}

bool puppet_answered(struct puppet *puppet)
{
	struct pollfd p = { .fd = puppet->sock, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

int puppet_receive(struct puppet *puppet)
{
	struct pollfd p = { .fd = puppet->sock, .events = POLLIN };

	if (poll(&p, 1, ANSWER_MS) <= 0)
		bail_out("client %d does not answer: it hangs", puppet->pid);
	if (transfer_ended(recv(puppet->sock, &puppet->last, sizeof puppet->last, 0), sizeof puppet->last))
		bail_out("client %d died in a step", puppet->pid);
	return puppet->last.result;
}

static void puppet_answer(int result)
{
	struct answer answer = { .result = result, .value = step_value };

	if (result < 0)
		snprintf(answer.text, sizeof answer.text, "%s", gpub_strerror_last());
	if (transfer_ended(send(order_sock, &answer, sizeof answer, MSG_NOSIGNAL), sizeof answer))
		_exit(1);
}

static _Noreturn void puppet_main(int sock)
{
	struct order order;

	order_sock = 3;
	if (dup2(sock, order_sock) < 0)
		_exit(1);
	close_range(4, ~0u, 0);
	fcntl(order_sock, F_SETFD, FD_CLOEXEC);
	while (!transfer_ended(recv(order_sock, &order, sizeof order, 0), sizeof order)) {
		step_value = 0;
		puppet_answer(order.run(&order));
	}
	_exit(0);
}

void puppet_start_unconnected(struct puppet *puppet, const struct broker_process *broker)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		bail_out("no socket: %s", strerror(errno));
	fflush(stdout);
	puppet->pid = fork();
	if (puppet->pid < 0)
		bail_out("no process: %s", strerror(errno));
	if (!puppet->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		signal(SIGALRM, SIG_DFL);
		if (broker)
			setenv("GPUBROKER", broker->address, 1);
		puppet_main(pair[1]);
	}
	close(pair[1]);
	puppet->sock = pair[0];
}

void puppet_start(struct puppet *puppet, const struct broker_process *broker)
{
	puppet_start_unconnected(puppet, broker);
	if (ask(puppet, do_connect))
		bail_out("a client cannot connect: %s", puppet->last.text);
}

static void puppet_reap(struct puppet *puppet)
{
	close(puppet->sock);
	if (!SOON(child_reaped(puppet->pid, NULL)))
		bail_out("client %d does not end", puppet->pid);
	puppet->pid = 0;
}

void puppet_end(struct puppet *puppet)
{
	ask(puppet, do_disconnect);
	puppet_reap(puppet);
}

void puppet_kill(struct puppet *puppet)
{
	kill(puppet->pid, SIGKILL);
	puppet_reap(puppet);
}

/* ---- puppets, from inside ---- */

gpub_client *client;
gpub_lease lease[SLOTS];
void *work;
uint64_t step_value;
int order_sock;

int do_connect(const struct order *order)
{
	return gpub_connect(&client, order->name[0] ? order->name : NULL);
}

int do_disconnect(const struct order *order)
{
	(void)order;
	gpub_disconnect(client);
	return 0;
}

/* Alone in its memory, so that what becomes of that is told from what becomes of others. Sharing is slabs.c's. */
int do_create(const struct order *order)
{
	gpub_spec spec = GPUB_SPEC_INIT;

	spec.size = order->size ? order->size : 4096;
	spec.flags = order->flags | GPUB_DEDICATED;
	spec.timeout_ms = order->timeout;
	spec.reserve = order->value;
	return gpub_create(client, order->name, &spec);
}

int do_resize(const struct order *order)
{
	return gpub_resize(client, order->name, order->size, order->timeout);
}

int do_unlink(const struct order *order)
{
	return gpub_unlink(client, order->name);
}

int do_stat(const struct order *order)
{
	gpub_info info = { .struct_size = sizeof info };
	int error = gpub_stat(client, order->name, &info);

	step_value = info.generation;
	return error;
}

int do_seal(const struct order *order)
{
	return gpub_seal(client, order->name);
}

int do_rename(const struct order *order)
{
	const char *to = strchr(order->name, ' ');
	char name[sizeof order->name];

	snprintf(name, sizeof name, "%.*s", (int)(to - order->name), order->name);
	return gpub_rename(client, name, to + 1, order->flags);
}

int do_newer(const struct order *order)
{
	gpub_info info = { .struct_size = sizeof info };
	int error = gpub_wait_newer(client, order->name, order->value, order->timeout, &info);

	step_value = info.generation;
	return error;
}

int do_acquire(const struct order *order)
{
	unsigned rights = order->rights ? order->rights : GPUB_READ | GPUB_WRITE;

	return gpub_acquire(client, order->name, rights, order->timeout, &lease[order->slot]);
}

int do_renew(const struct order *order)
{
	return gpub_renew(&lease[order->slot]);
}

int do_return(const struct order *order)
{
	return gpub_return(&lease[order->slot]);
}

int do_return_on(const struct order *order)
{
	return gpub_return_on(&lease[order->slot], work);
}

int do_trim(const struct order *order)
{
	(void)order;
	return gpub_trim(client);
}

int do_flags(const struct order *order)
{
	return gpub_set_flags(client, order->flags);
}

static gpub_module *kernels;

static int late_write_kernel(gpub_kernel *kernel)
{
	int error = kernels ? 0 : gpub_module_open(&kernels, client, "kernels");

	return error ? error : gpub_module_kernel(kernels, "late_write", kernel);
}

static int launch_late_write(gpub_kernel kernel, uint64_t *word, uint64_t value, uint64_t milliseconds)
{
	gpub_launch_config config = single_grid(work);
	void *args[] = { &word, &value, &milliseconds };

	return gpub_launch(kernel, &config, args);
}

/* On CUDA peek() and poke() have a stream, and a first copy, which here is behind nothing. */
static int peek_ready(void)
{
	uint64_t seen;
	void *word;
	size_t size;
	int error = gpub_module_managed(kernels, "kernels_managed_counter", &word, &size);

	return error ? error : peek(word, &seen);
}

int do_stream(const struct order *order)
{
	gpub_kernel kernel;
	int error = gpub_stream_create(client, GPUB_CURRENT, &work);

	(void)order;
	if (!error)
		error = late_write_kernel(&kernel);
	return error || !on_cuda() ? error : peek_ready();
}

int do_sync(const struct order *order)
{
	(void)order;
	return gpub_stream_sync(work);
}

int do_signal(const struct order *order)
{
	return gpub_signal_on(&lease[order->slot], order->value, work);
}

int do_wait(const struct order *order)
{
	return gpub_wait_on(&lease[order->slot], order->value, work);
}

int do_timeline(const struct order *order)
{
	return gpub_timeline(&lease[order->slot], &step_value);
}

int do_await(const struct order *order)
{
	return gpub_timeline_wait(&lease[order->slot], order->value, order->timeout, &step_value);
}

/* On CUDA alone: the stream of peek() and poke(). */
static void *aside;

void streams_forget(void)
{
	work = aside = NULL;
}

static int aside_start(void)
{
	return aside ? 0 : gpub_stream_create(client, GPUB_CURRENT, &aside);
}

static int copy_aside(void *to, const void *from)
{
	int error = aside_start();

	if (!error)
		error = gpub_copy_on(client, to, from, sizeof(uint64_t), aside);
	return error ? error : gpub_stream_sync(aside);
}

int peek(const void *from, uint64_t *value)
{
	if (on_cuda())
		return copy_aside(value, from);
	*value = *(const volatile uint64_t *)from;
	return 0;
}

int poke(void *to, uint64_t value)
{
	if (on_cuda())
		return copy_aside(to, &value);
	*(volatile uint64_t *)to = value;
	return 0;
}

int do_read(const struct order *order)
{
	return peek(lease[order->slot].ptr, &step_value);
}

int do_write(const struct order *order)
{
	return poke(lease[order->slot].ptr, order->value);
}

int late_write(uint64_t *word, uint64_t value, uint64_t milliseconds)
{
	gpub_kernel kernel;
	int error = late_write_kernel(&kernel);

	return error ? error : launch_late_write(kernel, word, value, milliseconds);
}

int do_late_write(const struct order *order)
{
	return late_write(lease[order->slot].ptr, order->value, (uint64_t)order->timeout);
}

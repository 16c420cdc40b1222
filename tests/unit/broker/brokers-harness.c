/* SPDX-License-Identifier: Apache-2.0 */
/* brokers-harness.c - see brokers-harness.h */
#include "brokers-harness.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "broker/owner/packet.h"
#include "common/error.h"
#include "common/tables.h"

#define PATIENCE_MS 10000
#define NUMBERS     65536
#define PIECES      16384

struct owner_link broker;
struct owner_facts facts;
int owners_socket;

/* ---- the devices ---- */

struct piece {
	uint64_t number;     /* of the order that made it, or of the ADOPT that took it over */
	int      descriptor; /* the device's; -1: it has none */
	bool     is_there;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct {
	bool     closed;
	unsigned waiting;
} gate[DEVICES + 1];
static bool names_are_lost; /* the next names_restore() says so */
static struct piece *piece;
static unsigned pieces, pieces_there;
static unsigned *runs; /* by number of the order */

void gate_close(unsigned lane)
{
	pthread_mutex_lock(&lock);
	gate[lane].closed = true;
	pthread_mutex_unlock(&lock);
}

void gate_open(unsigned lane)
{
	pthread_mutex_lock(&lock);
	gate[lane].closed = false;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

void gate_reached(unsigned lane)
{
	pthread_mutex_lock(&lock);
	while (!gate[lane].waiting)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

void names_lose(void)
{
	pthread_mutex_lock(&lock);
	names_are_lost = true;
	pthread_mutex_unlock(&lock);
}

/* Waits at the gate, then notes that the order is carried out; 0: a part of an order. */
static void pass(unsigned lane, uint64_t number)
{
	pthread_mutex_lock(&lock);
	gate[lane].waiting++;
	pthread_cond_broadcast(&changed);
	while (gate[lane].closed)
		pthread_cond_wait(&changed, &lock);
	gate[lane].waiting--;
	if (number && number < NUMBERS)
		runs[number]++;
	pthread_mutex_unlock(&lock);
}

static void piece_new(uint64_t number, int descriptor, void **ptr)
{
	pthread_mutex_lock(&lock);
	if (pieces == PIECES)
		abort();
	*ptr = &piece[pieces];
	piece[pieces++] = (struct piece){ number, descriptor, true };
	pieces_there++;
	pthread_mutex_unlock(&lock);
}

static int stub_allocate(int ordinal, uint64_t size, unsigned exported, void **ptr)
{
	pass((unsigned)ordinal, size);
	piece_new(size, exported == EXPORT_VMM ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1, ptr);
	return 0;
}

static int stub_adopt(int ordinal, const struct device_memory *memory, void **ptr)
{
	pass((unsigned)ordinal, memory->size);
	piece_new(memory->size, memory->descriptor < 0 ? -1 : fcntl(memory->descriptor, F_DUPFD_CLOEXEC, 3), ptr);
	return 0;
}

static int stub_zero(int ordinal, void *ptr, uint64_t size)
{
	if (((const struct piece *)ptr)->number != size) /* else the ALLOCATE's */
		pass((unsigned)ordinal, size);
	return 0;
}

static int stub_export(int ordinal, void *ptr, struct device_handle *handle, int *descriptor)
{
	const struct piece *made = ptr;

	(void)ordinal;
	memcpy(handle->bytes, &made->number, sizeof made->number);
	*descriptor = made->descriptor;
	return 0;
}

static int stub_release(int ordinal, void *ptr)
{
	struct piece *made = ptr;

	pass((unsigned)ordinal, 0);
	if (!made->is_there)
		abort();
	if (made->descriptor >= 0)
		close(made->descriptor);
	pthread_mutex_lock(&lock);
	made->is_there = false;
	pieces_there--;
	pthread_mutex_unlock(&lock);
	return 0;
}

static int stub_room(int ordinal, uint64_t *bytes)
{
	pass((unsigned)ordinal, 0);
	*bytes = 7;
	return 0;
}

static int stub_gone(pid_t pid, bool mps)
{
	(void)mps;
	pass(QUESTIONS, (uint64_t)pid);
	return error_set(-EBUSY, "%d is not gone", pid);
}

static int stub_names_restore(void)
{
	bool lost;

	pass(QUESTIONS, 0);
	pthread_mutex_lock(&lock);
	lost = names_are_lost;
	names_are_lost = false;
	pthread_mutex_unlock(&lock);
	return lost;
}

static const struct device stub = { .kind = DEVICE_HOST,
				    .allocate = stub_allocate,
				    .adopt = stub_adopt,
				    .zero = stub_zero,
				    .export_handle = stub_export,
				    .release = stub_release,
				    .room = stub_room,
				    .names_restore = stub_names_restore,
				    .gone = stub_gone };

/* ---- the brokers ---- */

static uint64_t brokers; /* number of the last one */

void broker_dies(void)
{
	owner_link_drop(&broker);
}

void broker_comes(void)
{
	assert_int_equal(owner_link_join(&broker, fcntl(owners_socket, F_DUPFD_CLOEXEC, 3), ++brokers, &facts), 0);
	assert_int_equal(facts.count, DEVICES);
	assert_int_equal(broker.lanes, DEVICES + 1);
}

int brokers_setup(void **state)
{
	(void)state;
	tables_init();
	piece = calloc(PIECES, sizeof *piece);
	runs = calloc(NUMBERS, sizeof *runs);
	pieces = pieces_there = 0;
	brokers = 0;
	names_are_lost = false;
	memset(gate, 0, sizeof gate);
	if (!piece || !runs || owner_thread_begin_with(&broker, &stub, DEVICES))
		return -1;
	owners_socket = fcntl(broker.sock, F_DUPFD_CLOEXEC, 3);
	return owners_socket < 0;
}

void owner_ends(void)
{
	close(owners_socket);
	owners_socket = -1;
	owner_thread_gone(&broker);
}

static void pieces_close(void)
{
	for (unsigned i = 0; i < pieces; i++)
		if (piece[i].is_there && piece[i].descriptor >= 0)
			close(piece[i].descriptor);
	free(piece);
	free(runs);
}

int brokers_teardown(void **state)
{
	(void)state;
	for (unsigned i = 0; i <= QUESTIONS; i++)
		gate_open(i); /* where the test failed with a gate closed */
	if (broker.sock >= 0)
		owner_thread.end(&broker);
	else if (owners_socket >= 0)
		owner_ends();
	if (owners_socket >= 0)
		close(owners_socket);
	owner_thread.close(&broker);
	pieces_close();
	return 0;
}

struct order order_of(enum order_kind kind, uint64_t number, uint64_t memory)
{
	return (struct order){ .kind = kind,
			       .number = number,
			       .memory = kind == ORDER_ALLOCATE ? number : memory,
			       .size = number,
			       .pid = (pid_t)number };
}

unsigned order_lane(const struct order *order)
{
	return order->kind == ORDER_GONE || order->kind == ORDER_NAMES ? QUESTIONS : order->device;
}

void order_send(const struct order *order, int descriptor)
{
	assert_int_equal(packet_send(broker.lane[order_lane(order)], order, sizeof *order, descriptor, MSG_DONTWAIT),
			 0);
}

static void wait_readable(int sock)
{
	assert_int_equal(poll(&(struct pollfd){ .fd = sock, .events = POLLIN }, 1, PATIENCE_MS), 1);
}

void outcome_waits(unsigned lane)
{
	wait_readable(broker.lane[lane]);
}

void outcome_none(unsigned lane)
{
	assert_int_equal(poll(&(struct pollfd){ .fd = broker.lane[lane], .events = POLLIN }, 1, 20), 0);
}

struct outcome outcome_receive(unsigned lane)
{
	struct outcome outcome;
	int descriptor;

	wait_readable(broker.lane[lane]);
	assert_int_equal(packet_receive(broker.lane[lane], &outcome, sizeof outcome, &descriptor, MSG_DONTWAIT), 0);
	outcome.descriptor = descriptor;
	return outcome;
}

void list_receive(unsigned lane, struct list *list)
{
	struct listed listed;
	int descriptor;

	memset(list, 0, sizeof *list);
	for (;;) {
		wait_readable(broker.lane[lane]);
		assert_int_equal(packet_receive(broker.lane[lane], &listed, sizeof listed, &descriptor, MSG_DONTWAIT),
				 0);
		listed.outcome.descriptor = descriptor;
		if (descriptor >= 0)
			assert_int_equal(close(descriptor), 0);
		if (listed.kind == LISTED_END)
			return;
		if (listed.kind == LISTED_MEMORY)
			list->memory[list->memories++] = listed;
		else
			list->outcome[list->outcomes++] = listed;
		assert_true(list->memories < LISTED_MAX && list->outcomes <= LANE_ORDERS);
	}
}

unsigned runs_of(uint64_t number)
{
	unsigned count;

	pthread_mutex_lock(&lock);
	count = runs[number];
	pthread_mutex_unlock(&lock);
	return count;
}

unsigned memories_made(void)
{
	unsigned count;

	pthread_mutex_lock(&lock);
	count = pieces_there;
	pthread_mutex_unlock(&lock);
	return count;
}

unsigned descriptors(void)
{
	DIR *fds = opendir("/proc/self/fd");
	unsigned count = 0;

	assert_non_null(fds);
	while (readdir(fds))
		count++;
	closedir(fds);
	return count;
}

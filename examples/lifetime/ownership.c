/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ownership.c - who may free?
 *
 * A small heat solver whose parent, the broker, declares the domain; the children each step their rows of it, through
 * leases. Half-way every child tries what is forbidden: to return twice, to return what it does not hold, a pointer off
 * by one, a lease of a buffer that is gone, a lease inherited by fork, and on CUDA the driver's own free. A child of
 * worker 0 is killed while it holds the domain. Then the solver goes on. Its result must be right, and the broker's
 * count must be right at every point. Run it as
 *
 *     broker-run -n 4 -b domain/0=64K -b domain/1=64K -- ownership
 *
 * The broker owns the domain and frees it, once, when no process can touch it. Its closing account says
 * "balanced". Each worker owns a timeline, "step/RANK", that counts its steps; the order of the steps is that of
 * examples/heat/solver.c.
 */
#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/kernels.h"
#include "say.h"

#define SIDE        128u /* cells a side: 64 KiB of floats */
#define HALF        64u  /* steps before the misuse, and after: no worker can be ahead by more */
#define WORKERS_MAX 64u
#define R           0.2
#define TOLERANCE   1e-5
#define LONG_MS     2000u

/* The value of a worker's timeline. */
enum { AT_START = 1, AT_END = AT_START + 2 * HALF, AT_RETURNED, AT_CLOSED };

static const char *const domain_name[2] = { "domain/0", "domain/1" };

struct run {
	struct worker worker;
	uint32_t      first, rows; /* this worker's part of the domain */
	gpub_lease    domain[2];   /* the whole of it, before and after a step */
	gpub_lease    step[WORKERS_MAX];
	gpub_kernel   heat_step;
	pid_t         victim; /* worker 0's; waits at this pipe for its turn to live */
	int           victim_go;
};

/* ---- the solver ---- */

static void share_rows(struct run *run)
{
	uint32_t each = SIDE / run->worker.size, more = SIDE % run->worker.size, rank = run->worker.rank;

	run->rows = each + (rank < more);
	run->first = rank * each + (rank < more ? rank : more);
}

static double wave(uint32_t i)
{
	return sin(M_PI * (i + 1) / (SIDE + 1));
}

static void put_initial(struct run *run)
{
	static float field[SIDE * SIDE];
	uint64_t     from = (uint64_t)run->first * SIDE, size = (uint64_t)run->rows * SIDE * sizeof(float);

	for (uint32_t i = 0; i < SIDE * SIDE; i++)
		field[i] = (float)(wave(i / SIDE) * wave(i % SIDE));
	must(gpub_copy_on(run->worker.client, (float *)run->domain[0].ptr + from, field + from, size,
			  run->worker.stream),
	     "write the first field");
	must(gpub_signal_on(&run->step[run->worker.rank], AT_START, run->worker.stream), "tell the others");
	must(gpub_stream_sync(run->worker.stream), "write the first field");
}

static void launch_step(struct run *run, unsigned target)
{
	gpub_launch_config config = heat_grid(run->rows, SIDE, run->worker.stream);
	uint32_t           columns = SIDE, last = run->first + run->rows;
	float             *next = (float *)run->domain[target].ptr + (size_t)run->first * SIDE;
	const float       *now = (float *)run->domain[!target].ptr + (size_t)run->first * SIDE;
	const float       *north = run->first ? now - SIDE : NULL;
	const float       *south = last < SIDE ? now + (size_t)run->rows * SIDE : NULL;
	float              r = (float)R;
	void              *args[] = { &next, &now, &north, &south, &run->rows, &columns, &r };

	must(gpub_launch(run->heat_step, &config, args), "launch heat_step");
}

static void solve(struct run *run, unsigned from, unsigned to)
{
	unsigned rank = run->worker.rank;

	for (unsigned k = from; k < to; k++) {
		if (rank > 0)
			must(gpub_wait_on(&run->step[rank - 1], AT_START + k, run->worker.stream),
			     "wait for the rows above");
		if (rank + 1 < run->worker.size)
			must(gpub_wait_on(&run->step[rank + 1], AT_START + k, run->worker.stream),
			     "wait for the rows below");
		launch_step(run, (k + 1) % 2);
		must(gpub_signal_on(&run->step[rank], AT_START + k + 1, run->worker.stream), "tell the others");
	}
	must(gpub_stream_sync(run->worker.stream), "solve");
}

/* The sine is an eigenvector of the step: its factor is known. */
static double largest_error(struct run *run)
{
	static float field[SIDE * SIDE];
	double half = sin(M_PI / (2.0 * (SIDE + 1))), factor = pow(1 - 8 * R * half * half, 2.0 * HALF), worst = 0;

	must(gpub_copy_on(run->worker.client, field, run->domain[0].ptr, sizeof(field), run->worker.stream),
	     "fetch it");
	must(gpub_stream_sync(run->worker.stream), "fetch it");
	for (uint32_t i = 0; i < SIDE * SIDE; i++) {
		double off = fabs(field[i] - factor * wave(i / SIDE) * wave(i % SIDE));

		worst = off <= worst ? worst : off;
	}
	return worst;
}

/* ---- meeting ---- */

static void everybody_at(struct run *run, uint64_t value)
{
	for (unsigned rank = 0; rank < run->worker.size; rank++)
		await_value(&run->step[rank], value, "a worker's timeline");
}

static void acquire(struct run *run, const char *name, unsigned rights, gpub_lease *lease)
{
	must(gpub_acquire(run->worker.client, name, rights, PATIENCE_MS, lease), name);
}

static void meet(struct run *run)
{
	char name[NAME_ROOM];

	for (int i = 0; i < 2; i++) {
		if (gpub_acquire(run->worker.client, domain_name[i], GPUB_READ | GPUB_WRITE, 0, &run->domain[i]) ||
		    run->domain[i].size < SIDE * SIDE * sizeof(float)) {
			say("start it as: broker-run -n 4 -b domain/0=64K -b domain/1=64K -- ownership");
			_exit(1);
		}
	}
	must(gpub_module_kernel(run->worker.module, "heat_step", &run->heat_step), "find the kernel heat_step");
	snprintf(name, sizeof(name), "step/%u", run->worker.rank);
	run->step[run->worker.rank] = make_buffer(&run->worker, name, 8, GPUB_TIMELINE);
	for (unsigned rank = 0; rank < run->worker.size; rank++) {
		snprintf(name, sizeof(name), "step/%u", rank);
		if (rank != run->worker.rank)
			acquire(run, name, GPUB_READ, &run->step[rank]);
	}
}

/* ---- misuse ---- */

static void return_twice(struct run *run)
{
	gpub_lease lease;

	acquire(run, domain_name[0], GPUB_READ, &lease);
	expect(gpub_return(&lease), 0, "return one more lease of the domain");
	expect(gpub_return(&lease), -ESTALE, "return it again");
}

/* No call takes an address to free. The pointer in a lease is for kernels: a wrong one gives nothing else back. */
static void off_by_one(struct run *run)
{
	gpub_lease lease, forged;

	acquire(run, domain_name[1], GPUB_READ, &lease);
	forged = lease;
	forged.token++;
	check(gpub_return(&forged) != 0, "return a lease whose token is off by one: refused");
	lease.ptr = (char *)lease.ptr + 1;
	expect(gpub_return(&lease), 0, "return a lease whose pointer is off by one: its own hold ends, no other");
}

static void stale_lease(struct run *run)
{
	gpub_lease old, new;
	char       name[NAME_ROOM];

	snprintf(name, sizeof(name), "stale/%u", run->worker.rank);
	old = make_buffer(&run->worker, name, 8, 0);
	must(gpub_return(&old), "return it");
	must(gpub_unlink(run->worker.client, name), "unlink it");
	new = make_buffer(&run->worker, name, 8, 0);
	expect(gpub_renew(&old), -ESTALE, "renew a lease whose buffer is gone, with a new one of its name there");
	expect(gpub_return(&old), -ESTALE, "return it");
	must(gpub_return(&new), "return the new one");
}

/* A lease of one process cannot be returned in another, not even in a child of it. */
static void return_in_child(struct run *run)
{
	int   status = -1;
	pid_t child = fork();

	if (child == 0)
		_exit(gpub_return(&run->domain[0]) == -ECHILD &&
				      gpub_unlink(run->worker.client, "domain/0") == -ECHILD ?
			      0 :
			      1);
	must(child < 0, "fork");
	waitpid(child, &status, 0);
	check(status == 0, "a forked child returns and unlinks what its parent holds: refused, ECHILD");
}

/*
 * On CUDA a program can pass the pointer to the driver's free. The driver refuses memory that it did not allocate in
 * this process.
 */
static void free_by_driver(struct run *run)
{
	void *driver = run->domain[0].device == GPUB_HOST ? NULL : dlopen("libcuda.so.1", RTLD_NOW);
	int (*free_memory)(unsigned long long) = NULL;

	if (driver)
		*(void **)&free_memory = dlsym(driver, "cuMemFree_v2");
	if (!free_memory)
		return;
	must(gpub_set_device(run->worker.client, run->domain[0].device), "make the context current");
	check(free_memory((uintptr_t)run->domain[0].ptr) != 0, "hand the domain to cuMemFree: refused");
	check(free_memory((uintptr_t)run->domain[0].ptr + 1) != 0, "the same with the pointer off by one: refused");
}

/* ---- the victim ---- */

/* Kills itself while it holds the domain and a kernel runs. */
static _Noreturn void victim_main(int go)
{
	struct run         run = { .worker = { .rank = WORKERS_MAX } };
	gpub_launch_config config;
	uint64_t           value = 1, milliseconds = LONG_MS;
	gpub_kernel        late_write;
	gpub_lease         own;
	char               byte;

	if (read(go, &byte, 1) != 1)
		_exit(1);
	setenv("GPUBROKER_RANK", "99", 1);
	worker_begin(&run.worker, "");
	acquire(&run, domain_name[0], GPUB_READ | GPUB_WRITE, &run.domain[0]);
	own = make_buffer(&run.worker, "victim", 8, 0);
	config = single_grid(run.worker.stream);
	must(gpub_module_kernel(run.worker.module, "late_write", &late_write), "find the kernel late_write");
	must(gpub_launch(late_write, &config, (void *[]){ &own.ptr, &value, &milliseconds }), "launch late_write");
	say("a child of worker 0 holds the domain, and a kernel of it runs; now it is killed");
	raise(SIGKILL);
	_exit(1);
}

/* Forked before anything of CUDA was started, as every process that is to use it must be. */
static void victim_fork(struct run *run)
{
	int ends[2];

	if (pipe(ends))
		_exit(1);
	fflush(stdout);
	run->victim = fork();
	if (run->victim == 0) {
		close(ends[1]);
		victim_main(ends[0]);
	}
	close(ends[0]);
	run->victim_go = ends[1];
}

static void victim_kill(struct run *run)
{
	gpub_info info = { .struct_size = sizeof(info) };
	int       status = 0;

	check(await_grants(run->worker.client, domain_name[0], run->worker.size),
	      "the owner counts a user for each worker");
	must(write(run->victim_go, "", 1) != 1, "let the victim live");
	waitpid(run->victim, &status, 0);
	check(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "a process was killed while it held the domain");
	check(await_grants(run->worker.client, domain_name[0], run->worker.size),
	      "the owner counts a user for each worker again: the dead one's hold is over");
	expect(gpub_stat(run->worker.client, "victim", &info), -ENOENT, "look for what only the dead one used");
}

/* ---- the end ---- */

static void return_domain(struct run *run)
{
	expect(gpub_return(&run->domain[0]), 0, "return the domain, as every worker does");
	must(gpub_return(&run->domain[1]), "return the domain");
	must(gpub_trim(run->worker.client), "close what is returned");
	must(gpub_signal_on(&run->step[run->worker.rank], AT_RETURNED, run->worker.stream), "tell the others");
	everybody_at(run, AT_RETURNED);
}

static void unlink_domain(struct run *run)
{
	if (run->worker.rank == 0) {
		check(await_grants(run->worker.client, domain_name[0], 0), "all returned it: the owner counts nobody");
		expect(gpub_unlink(run->worker.client, domain_name[0]), 0, "take the domain's name away");
		must(gpub_unlink(run->worker.client, domain_name[1]), "take the other's name away");
	}
	must(gpub_signal_on(&run->step[run->worker.rank], AT_CLOSED, run->worker.stream), "tell the others");
	everybody_at(run, AT_CLOSED);
	expect(gpub_unlink(run->worker.client, domain_name[0]), -ENOENT, "take the domain's name away once more");
}

static void misuse(struct run *run)
{
	return_twice(run);
	off_by_one(run);
	stale_lease(run);
	return_in_child(run);
	free_by_driver(run);
}

int main(void)
{
	static struct run run;
	const char       *rank = getenv("GPUBROKER_RANK");

	if (!rank || rank[0] == '0')
		victim_fork(&run);
	worker_begin(&run.worker, "Who may free?");
	if (run.worker.size > WORKERS_MAX) {
		say("%u workers are too many: at most %u", run.worker.size, WORKERS_MAX);
		return 1;
	}
	share_rows(&run);
	meet(&run);
	put_initial(&run);
	everybody_at(&run, AT_START);
	solve(&run, 0, HALF);
	misuse(&run);
	if (run.worker.rank == 0)
		victim_kill(&run);
	solve(&run, HALF, 2 * HALF);
	everybody_at(&run, AT_END);
	if (run.worker.rank == 0)
		check(largest_error(&run) < TOLERANCE, "after all that the field is right");
	return_domain(&run);
	unlink_domain(&run);
	return worker_end(&run.worker);
}

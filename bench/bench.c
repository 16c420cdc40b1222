/* SPDX-License-Identifier: Apache-2.0 */
/* bench.c - see bench.h */
#include "bench.h"

#include <fcntl.h>
#include <glob.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct bench_samples {
	struct {
		_Atomic uint32_t count;
		double           value[BENCH_SAMPLES];
	} side[2];
};

static char device[128] = "no device";

/* ---- samples ---- */

void bench_begin(struct bench *bench, const char *name, const char *unit)
{
	bench->name = name;
	bench->unit = unit;
	bench->samples = mmap(NULL, sizeof *bench->samples, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (bench->samples == MAP_FAILED)
		bench_fail("no memory for samples");
}

void bench_sample(struct bench *bench, enum bench_side side, double value)
{
	uint32_t at = atomic_fetch_add(&bench->samples->side[side].count, 1);

	if (at < BENCH_SAMPLES)
		bench->samples->side[side].value[at] = value;
	else
		atomic_store(&bench->samples->side[side].count, BENCH_SAMPLES);
}

void bench_round(struct bench *bench, int round, double peer, double ours)
{
	if (round < 0)
		return;
	bench_sample(bench, BENCH_PEER, peer);
	bench_sample(bench, BENCH_OURS, ours);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static uint32_t sort(struct bench *bench, enum bench_side side)
{
	uint32_t count = atomic_load(&bench->samples->side[side].count);

	count = count < BENCH_SAMPLES ? count : BENCH_SAMPLES;
	qsort(bench->samples->side[side].value, count, sizeof(double), compare);
	return count;
}

static double percentile(const struct bench *bench, enum bench_side side, uint32_t count, unsigned percent)
{
	return bench->samples->side[side].value[(uint64_t)(count - 1) * percent / 100];
}

/* ---- the machine ---- */

static void cpu_model(char *model, size_t size)
{
	FILE *file = fopen("/proc/cpuinfo", "r");
	char line[256];

	snprintf(model, size, "unknown processor");
	while (file && fgets(line, sizeof line, file))
		if (!strncmp(line, "model name", 10) && strchr(line, ':')) {
			snprintf(model, size, "%s", strchr(line, ':') + 2);
			model[strcspn(model, "\n\"\\")] = 0;
			break;
		}
	if (file)
		fclose(file);
}


static void print_machine(void)
{
	struct utsname system;
	char model[128];

	cpu_model(model, sizeof model);
	uname(&system);
	printf("\"machine\":{\"cpu\":\"%s\",\"cores\":%ld,\"kernel\":\"%s\",\"device\":\"%s\"}", model,
	       sysconf(_SC_NPROCESSORS_ONLN), system.release, device);
}

/* The driver's own list; the process that measures CUDA need not have started it. */
static void name_gpu(void)
{
	glob_t found;
	char line[128], *model;
	FILE *file = glob("/proc/driver/nvidia/gpus/*/information", 0, NULL, &found) ? NULL :
										       fopen(found.gl_pathv[0], "r");

	while (file && fgets(line, sizeof line, file))
		if (!strncmp(line, "Model:", 6)) {
			model = line + 6 + strspn(line + 6, " \t");
			model[strcspn(model, "\n\"\\")] = 0;
			snprintf(device, sizeof device, "%zu x %s", (size_t)found.gl_pathc, model);
		}
	if (file)
		fclose(file);
	globfree(&found);
}

void bench_device(const char *kind)
{
	snprintf(device, sizeof device, "%s", kind);
	if (!strncmp(kind, "cuda", 4))
		name_gpu();
}

void bench_end(struct bench *bench)
{
	uint32_t ours = sort(bench, BENCH_OURS), peer = sort(bench, BENCH_PEER);
	double p50;

	if (!ours)
		bench_fail("%s: no samples", bench->name);
	p50 = percentile(bench, BENCH_OURS, ours, 50);
	printf("{\"name\":\"%s\",\"n\":%u,\"p50\":%.4g,\"p90\":%.4g,\"p99\":%.4g,\"unit\":\"%s\",", bench->name, ours,
	       p50, percentile(bench, BENCH_OURS, ours, 90), percentile(bench, BENCH_OURS, ours, 99), bench->unit);
	if (peer)
		printf("\"peer\":%.4g,\"ratio\":%.3g,", percentile(bench, BENCH_PEER, peer, 50),
		       p50 / percentile(bench, BENCH_PEER, peer, 50));
	else
		printf("\"peer\":null,\"ratio\":null,");
	print_machine();
	printf("}\n");
	fflush(stdout);
	munmap(bench->samples, sizeof *bench->samples);
}

uint64_t bench_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

double bench_worked_ns(pid_t pid)
{
	char path[64];
	double ns = 0;
	FILE *file;

	snprintf(path, sizeof path, "/proc/%d/schedstat", pid);
	file = fopen(path, "r");
	if (!file || fscanf(file, "%lf", &ns) != 1)
		bench_fail("process %d is gone", pid);
	fclose(file);
	return ns;
}

/* Of the set that the process began with: a thread inherits what its creator was narrowed to. */
void bench_pin(int cpu)
{
	static cpu_set_t all;
	cpu_set_t one;
	int left;

	if (!CPU_COUNT(&all) && sched_getaffinity(0, sizeof all, &all))
		return;
	left = cpu % CPU_COUNT(&all);
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &all) && !left--) {
			CPU_ZERO(&one);
			CPU_SET(i, &one);
			sched_setaffinity(0, sizeof one, &one);
			return;
		}
}

/* ---- the broker ---- */

static void broker_path(char *path, size_t size)
{
	const char *build = getenv("top_builddir");

	snprintf(path, size, "%s/broker/broker-run", build ? build : ".");
}

static _Noreturn void broker_exec(const char *kind, const char *const *options, int in, int out)
{
	char path[4096];
	const char *argument[32] = { path, "--quiet", "--device", kind };
	static const char *const waits[] = { "--", "sh", "-c", "echo \"$GPUBROKER\"; read -r line || :", NULL };
	int count = 4;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	broker_path(path, sizeof path);
	for (; options && *options && count < 24; options++)
		argument[count++] = *options;
	for (const char *const *worker = waits; *worker; worker++)
		argument[count++] = *worker;
	if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0)
		_exit(126);
	close_range(3, ~0u, 0);
	execv(path, (char *const *)argument);
	_exit(127);
}

static void read_address(int fd, char *line, size_t size)
{
	size_t at = 0;

	while (at < size - 1 && read(fd, line + at, 1) == 1 && line[at] != '\n')
		at++;
	line[at] = 0;
}

pid_t bench_child(pid_t parent, const char *name)
{
	char command[192];
	FILE *out;
	int pid;

	snprintf(command, sizeof command,
		 "for child in $(cat /proc/%d/task/%d/children); do grep -qx %s /proc/$child/comm && echo $child; done",
		 (int)parent, (int)parent, name);
	out = popen(command, "r");
	if (!out || fscanf(out, "%d", &pid) != 1)
		pid = 0;
	if (out)
		pclose(out);
	return pid;
}

void bench_broker_start_with(struct bench_broker *broker, const char *kind, const char *const *options)
{
	int in[2], out[2];

	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
		bench_fail("no pipe for a broker");
	broker->pid = fork();
	if (!broker->pid)
		broker_exec(kind, options, in[0], out[1]);
	close(in[0]);
	close(out[1]);
	broker->in = in[1];
	read_address(out[0], broker->address, sizeof broker->address);
	close(out[0]);
	if (strncmp(broker->address, "unix:", 5))
		bench_fail("broker-run does not start: run in the build folder, or set top_builddir");
	setenv("GPUBROKER", broker->address, 1);
	broker->serving = bench_child(broker->pid, "gpubroker-serve");
	if (!broker->serving)
		broker->serving = broker->pid;
	bench_device(kind);
}

void bench_broker_start(struct bench_broker *broker, const char *kind)
{
	bench_broker_start_with(broker, kind, NULL);
}

bool bench_broker_has(const char *option)
{
	char command[4200], line[256];
	bool found = false;
	FILE *help;

	broker_path(command, sizeof command - 10);
	strcat(command, " --help");
	help = popen(command, "r");
	while (help && fgets(line, sizeof line, help))
		found |= strstr(line, option) != NULL;
	if (help)
		pclose(help);
	return found;
}

void bench_broker_stop(struct bench_broker *broker)
{
	int status;

	close(broker->in);
	if (waitpid(broker->pid, &status, 0) != broker->pid || status)
		bench_fail("broker-run ended with wait status %#x", (unsigned)status);
}

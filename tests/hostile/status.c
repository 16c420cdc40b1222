/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status.c - attacks on what people see of brokers: the broker's own status file, its name, and files of the attacker's
 * that pretend to be a broker's.
 *
 * Status files lie in /dev/shm, where everybody may make files of any name. Those that are planted here are the
 * attacker's, and go with the attack.
 */
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attacks.h"
#include "broker/base/process-start.h"
#include "broker/status/leftovers.h"
#include "broker/show/read.h"

/* ---- the broker's own ---- */

static void status_path(char path[96])
{
	snprintf(path, 96, "/dev/shm/gpubroker.%s", arena_broker.instance);
}

static void attack_status_of_others(void)
{
	char path[96];

	status_path(path);
	WANT(open(path, O_RDONLY | O_CLOEXEC) < 0 && open(path, O_RDWR | O_CLOEXEC) < 0);
	WANT(truncate(path, 0) && unlink(path) && chmod(path, 0666));
	WANT(rename(path, "/dev/shm/elsewhere") && shm_unlink(path + 8));
	WANT(link(path, "/dev/shm/elsewhere"));
}

const struct attack status_file_of_others = {
	"attacks the status file", "another user neither reads, writes, moves nor removes it",
	.run = attack_status_of_others, .flags = NEEDS_USERS
};

static bool status_is_readable(void)
{
	struct shown shown;

	if (shown_read(&shown, arena_broker.instance))
		return false;
	shown_free(&shown);
	return true;
}

/* Even its own user, who may: the broker never reads it back. The victim's next step has it written anew. */
static void attack_own_status(void)
{
	char path[96], junk[4096];
	int fd;

	status_path(path);
	memset(junk, 0xff, sizeof junk);
	for (int i = 0; i < 5; i++) {
		WANT(!truncate(path, i % 2 ? 0 : 5000));
		WANT(SOON(status_is_readable()));
	}
	fd = open(path, O_RDWR | O_CLOEXEC);
	WANT(fd >= 0 && pwrite(fd, junk, sizeof junk, 0) == sizeof junk);
	WANT(SOON(status_is_readable()));
	WANT(!ftruncate(fd, 0));
	close(fd);
	WANT(!unlink(path));
}

const struct attack status_file_of_its_own = {
	"removes the status file", "invariant 3: it is truncated, overwritten and removed, and the broker goes on",
	.run = attack_own_status, .flags = AS_BROKER_USER
};

/* ---- files that pretend ---- */

#define FAKES 4
/* What reading them may take, as a multiple of the most that is read of another user's. */
#define READER_FACTOR 25

static void forged_path(char path[64], int i)
{
	snprintf(path, 64, "/dev/shm/gpubroker.forged-%d-%d", (int)getuid(), i);
}

/* Buffers that all wait for the same processes: each row lists these anew. */
static void fill_bloated(union status_record *records, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		union status_record *record = &records[i];

		if (i == 0)
			record->type = TRACKED_SESSION;
		else if (i < 65)
			record->type = TRACKED_MAPPING;
		else
			record->buffer = (struct status_buffer){
				.type = TRACKED_BUFFER, .state = STATUS_DRAINING, .generation = i, .name = "x"
			};
		status_seal(&record->seal, status_size(record->type), 1);
	}
}

/* Locked by a living process that it names, so that all but its records is as a broker's. */
static void plant(int i, size_t count)
{
	struct status_header header = { .magic = STATUS_MAGIC,
					.format = STATUS_FORMAT,
					.counters_count = sizeof(struct counters) / sizeof(uint64_t),
					.records = count,
					.pid = (uint64_t)getpid(),
					.start_time = process_start((uint64_t)getpid(), NULL) };
	size_t size = STATUS_OFFSET(count);
	char path[64], *bytes;
	int fd;

	forged_path(path, i);
	unlink(path);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	WANT(fd >= 0 && !ftruncate(fd, (off_t)size) && !leftovers_lock(fd));
	bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	WANT(bytes != MAP_FAILED);
	fill_bloated((union status_record *)(bytes + STATUS_HEADER_SIZE), count);
	status_seal(&header.seal, STATUS_HEADER_SEALED, 1);
	memcpy(bytes, &header, sizeof header);
	munmap(bytes, size);
}

static void plant_bloated(void)
{
	char path[64];

	for (int i = 0; i < FAKES; i++)
		plant(i, (i ? 1u : 8u) * SHOW_OTHERS_MAX / STATUS_RECORD_SIZE);
	hold();
	for (int i = 0; i < FAKES; i++) {
		forged_path(path, i);
		unlink(path);
	}
}

/* The build's program, started by the program itself: root. Its exit status; *most: the KiB it had, at most. */
static int run_program(const char *name, char **argv, uid_t uid, long *most)
{
	const char *build = getenv("top_builddir");
	char path[4096];
	struct rusage usage;
	int program, status = 0;
	pid_t pid;

	snprintf(path, sizeof path, "%s/broker/%s", build ? build : ".", name);
	program = open(path, O_RDONLY | O_CLOEXEC);
	pid = fork();
	if (!pid) {
		int null = open("/dev/null", O_RDWR);

		alarm(60);
		if (dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 || dup2(null, STDERR_FILENO) < 0 ||
		    (uid && (setgroups(0, NULL) || setresgid(uid, uid, uid) || setresuid(uid, uid, uid))) || chdir("/"))
			_exit(125);
		fexecve(program, argv, environ);
		_exit(126);
	}
	close(program);
	if (pid < 0 || wait4(pid, &status, 0, &usage) != pid)
		return -1;
	if (most)
		*most = usage.ru_maxrss;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool list_is_cheap(void)
{
	char *table[] = { (char *)"broker-status", (char *)"--list", NULL };
	char *json[] = { (char *)"broker-status", (char *)"--list", (char *)"--json", NULL };
	const long bound = (long)(SHOW_OTHERS_MAX / 1024) * READER_FACTOR;
	long most = 0, most_json = 0;
	int code = run_program("broker-status", table, 0, &most);
	int code_json = run_program("broker-status", json, 0, &most_json);

	printf("# broker-status took %ld and %ld KiB of %ld\n", most, most_json, bound);
	return !code && !code_json && most < bound && most_json < bound;
}

/* ---- a broker's name ---- */

static void squat_name(void)
{
	char path[64];

	plant(0, 64);
	hold();
	forged_path(path, 0);
	unlink(path);
}

/* Who starts a broker of the name has one. */
static bool broker_starts_anyway(void)
{
	char name[INSTANCE_SIZE];
	char *argv[] = { (char *)"broker-run", (char *)"--device", (char *)"host", (char *)"--name", name, (char *)"--",
			 (char *)"true", NULL };

	snprintf(name, sizeof name, "forged-%d-0", (int)arena_uid(ATTACKER));
	return !run_program("broker-run", argv, 0, NULL) &&
	       !run_program("broker-run", argv, arena_uid(BROKER_USER), NULL);
}

const struct attack status_files[] = {
	{ "status files of its own that would take gigabytes to read",
	  "root's broker-status lists all brokers, and takes no more memory than for some thousand buffers",
	  .run = plant_bloated, .during = list_is_cheap, .flags = NEEDS_USERS },
	{ "waits under a broker's name for its restart", "brokers of root and of others start all the same",
	  .run = squat_name, .during = broker_starts_anyway, .flags = NEEDS_USERS },
	{ 0 }
};

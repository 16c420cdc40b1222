/* SPDX-License-Identifier: Apache-2.0 */
/* arena-broker.c - see arena-broker.h */
#include "arena-broker.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arena.h"

unsigned arena_files = ARENA_FILES;
const char *arena_config;

static char directory[40], inner[48];

/* Below /run as root: a broker that is another user than its clients is trusted only where root alone leads to it. */
static void directory_make(uid_t uid)
{
	strcpy(directory, uid == (uid_t)-1 ? "/tmp/gpub-hostile-XXXXXX" : "/run/gpubroker-hostile-XXXXXX");
	if (!mkdtemp(directory) || chmod(directory, 0755))
		bail_out("no directory %s: %s", directory, strerror(errno));
	snprintf(inner, sizeof inner, "%s/b", directory);
	if (mkdir(inner, 0755) || (uid != (uid_t)-1 && chown(inner, uid, uid)))
		bail_out("no directory %s: %s", inner, strerror(errno));
}

void arena_broker_remove(void)
{
	char command[80];

	snprintf(command, sizeof command, "rm -rf '%s'", directory);
	if (directory[0] && system(command))
		fprintf(stderr, "%s is left\n", directory);
}

/* What the arena lets one user have (arena.h). */
static void config_write(const struct broker_process *broker, char path[64])
{
	FILE *file;
	int written;

	snprintf(path, 64, "%s/brokerd.conf", directory);
	file = fopen(path, "w");
	if (!file || fprintf(file, "socket = \"%s\"\ninstance = \"%s\"\ndevice = \"host\"\npool = " ARENA_POOL "\n",
			     broker->address + 5, broker->instance) < 0)
		bail_out("%s: %s", path, strerror(errno));
	if (arena_config)
		written = fprintf(file, "%s\n", arena_config);
	else
		written = fprintf(file, "quota \"default\" {\n\tbytes = %u\n\tbuffers = %d\n\tsessions = %d\n"
					"\tgrants = %d\n\ttickets = %d\n}\n",
				  ARENA_QUOTA, ARENA_BUFFERS, ARENA_SESSIONS, ARENA_GRANTS, ARENA_TICKETS);
	if (written < 0 || fclose(file))
		bail_out("%s: %s", path, strerror(errno));
	chmod(path, 0644);
}

/* By descriptor: that user may not be able to come to the build tree. */
static _Noreturn void broker_exec(uid_t uid, int program, int log, char *config)
{
	const struct rlimit files = { arena_files, arena_files };
	char *argv[] = { (char *)"brokerd", (char *)"--config", config, NULL };

	if (uid != (uid_t)-1 && (setgroups(0, NULL) || setresgid(uid, uid, uid) || setresuid(uid, uid, uid)))
		_exit(125);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGALRM, SIG_DFL);
	setrlimit(RLIMIT_NOFILE, &files);
	/* malicious clients are expected: what they do to their own memory is reported, and survived */
	setenv("GPUB_HOST_STRICT", "0", 1);
	setenv("GPUB_HOST_MEMORY", ARENA_MEMORY, 1);
	if (dup2(log, STDERR_FILENO) < 0 || dup2(log, STDOUT_FILENO) < 0)
		_exit(126);
	close_range(3, (unsigned)program - 1, 0);
	close_range((unsigned)program + 1, ~0u, 0);
	fexecve(program, argv, environ);
	_exit(127);
}

static void show_log(const char *path)
{
	FILE *log = fopen(path, "r");
	char line[512];

	while (log && fgets(line, sizeof line, log))
		printf("# %s", line);
	if (log)
		fclose(log);
}

void arena_broker_start(struct broker_process *broker, uid_t uid)
{
	const char *build = getenv("top_builddir");
	char path[4096], config[64];
	int program, log;

	directory_make(uid);
	memset(broker, 0, sizeof *broker);
	snprintf(broker->instance, sizeof broker->instance, "hostile-%d", getpid());
	snprintf(broker->address, sizeof broker->address, "unix:%s/socket", inner);
	snprintf(broker->log, sizeof broker->log, "%s/log", directory);
	config_write(broker, config);
	snprintf(path, sizeof path, "%s/broker/brokerd", build ? build : ".");
	program = open(path, O_RDONLY | O_CLOEXEC);
	log = open(broker->log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
	if (program < 0 || log < 0)
		bail_out("%s or %s: %s", path, broker->log, strerror(errno));
	broker->pid = fork();
	if (!broker->pid)
		broker_exec(uid, program, log, config);
	close(program);
	close(log);
	if (!SOON(broker_answers(broker))) {
		show_log(broker->log);
		bail_out("the broker does not start");
	}
}

/* ---- what it has ---- */

static bool is_device_memory(const char *path)
{
	return (!strncmp(path, "/dev/shm/gpubroker.", 19) && strstr(path, ".mem/")) ||
	       !strncmp(path, "/memfd:gpubroker.mem/", 21);
}

/* All but those of memory, freed memory among it, which the host device keeps for a while. */
static int process_descriptors(pid_t pid)
{
	char path[64], target[256];
	const struct dirent *entry;
	int count = 0;
	DIR *fds;

	snprintf(path, sizeof path, "/proc/%d/fd", pid);
	fds = opendir(path);
	while (fds && (entry = readdir(fds))) {
		ssize_t length = readlinkat(dirfd(fds), entry->d_name, target, sizeof target - 1);

		target[length > 0 ? length : 0] = 0;
		count += length > 0 && !is_device_memory(target);
	}
	if (fds)
		closedir(fds);
	return count;
}

static long process_rss(pid_t pid)
{
	char path[64];
	long pages = 0;
	FILE *file;

	snprintf(path, sizeof path, "/proc/%d/statm", pid);
	file = fopen(path, "r");
	if (file && fscanf(file, "%*d %ld", &pages) != 1)
		pages = 0;
	if (file)
		fclose(file);
	return pages * sysconf(_SC_PAGESIZE);
}

int arena_broker_descriptors(const struct broker_process *broker)
{
	return process_descriptors(broker->pid) + process_descriptors(server_of(broker->pid));
}

long arena_broker_rss(const struct broker_process *broker)
{
	return process_rss(broker->pid) + process_rss(server_of(broker->pid));
}

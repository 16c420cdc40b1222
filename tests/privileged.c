/* SPDX-License-Identifier: Apache-2.0 */
/* privileged.c - see privileged.h */
#include "privileged.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpubroker.h"

#define WORD   "--privileged"
#define NOBODY 4001

/* ---- the copy ---- */

static int do_order(char **argv, bool *secure)
{
	const char *address = *argv[1] ? argv[1] : NULL;
	gpub_client *client;
	gpub_module *module;
	int error;

	*secure = getauxval(AT_SECURE);
	error = gpub_connect(&client, address);
	if (!error && *argv[2])
		error = gpub_module_open(&module, client, argv[2]);
	return error;
}

/* "secure error message": it dies without a word to the broker, which is nothing to this test. */
bool privileged_main(int argc, char **argv, int *status)
{
	bool secure;
	int error;

	if (argc != 4 || strcmp(argv[1], WORD))
		return false;
	error = do_order(argv + 1, &secure);
	printf("%d %d %s\n", secure, error, error ? gpub_strerror_last() : "done");
	*status = 0;
	return true;
}

/* ---- starting it ---- */

_Noreturn static void copy_exec(const char *path, const struct privileged_order *order, int out)
{
	const char *address = order->address ? order->address : "";
	const char *module = order->deed == PRIVILEGED_MODULE ? order->module : "";

	if (order->user && (setgroups(0, NULL) || setresgid(order->user, order->user, order->user) ||
			    setresuid(order->user, order->user, order->user)))
		_exit(125);
	unsetenv("GPUBROKER");
	unsetenv("XDG_RUNTIME_DIR");
	unsetenv("NVIDIA_DRA_LOCAL_IPC_DIR");
	if (order->variable)
		setenv(order->variable, order->value, 1);
	if (dup2(out, STDOUT_FILENO) < 0)
		_exit(126);
	execl(path, path, WORD, address, module, NULL);
	_exit(127);
}

static int copy_run(const char *path, const struct privileged_order *order, bool *secure, char text[512])
{
	int out[2], status, error = -EPROTO, is_secure = 0;
	FILE *said;
	pid_t pid;

	snprintf(text, 512, "it said nothing");
	if (pipe2(out, O_CLOEXEC))
		return -errno;
	fflush(NULL);
	pid = fork();
	if (!pid)
		copy_exec(path, order, out[1]);
	close(out[1]);
	said = fdopen(out[0], "r");
	if (said && fscanf(said, "%d %d %511[^\n]", &is_secure, &error, text) < 3)
		error = -EPROTO;
	if (said)
		fclose(said);
	waitpid(pid, &status, 0);
	*secure = is_secure;
	return error;
}

int privileged_run(const char *path, const struct privileged_order *order, char text[512])
{
	bool secure;

	return copy_run(path, order, &secure, text);
}

/* ---- installing it ---- */

static bool copy_self(const char *path, mode_t mode)
{
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC),
	    to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	ssize_t sent;

	do
		sent = from >= 0 && to >= 0 ? sendfile(to, from, NULL, 1 << 20) : -1;
	while (sent > 0);
	if (!sent && (fchown(to, 0, 0) || fchmod(to, mode)))
		sent = -1;
	close(from);
	close(to);
	return !sent;
}

static bool copy_make(char path[PRIVILEGED_PATH_SIZE], mode_t mode)
{
	strcpy(path, "/var/tmp/gpub-privileged-XXXXXX");
	if (geteuid() || !mkdtemp(path) || chmod(path, 0755)) {
		*path = 0;
		return false;
	}
	strcat(path, "/program");
	return copy_self(path, mode);
}

bool privileged_copy(char path[PRIVILEGED_PATH_SIZE])
{
	return copy_make(path, 0755);
}

bool privileged_install(char path[PRIVILEGED_PATH_SIZE], mode_t mode)
{
	static const struct privileged_order nowhere = { .address = "nowhere", .user = NOBODY };
	char text[512];
	bool secure = false;

	return copy_make(path, mode) && copy_run(path, &nowhere, &secure, text) == -EINVAL && secure;
}

void privileged_remove(const char *path)
{
	char directory[PRIVILEGED_PATH_SIZE];

	if (!*path)
		return;
	unlink(path);
	snprintf(directory, sizeof directory, "%s", path);
	*strrchr(directory, '/') = 0;
	rmdir(directory);
}

/* ---- the other user's server ---- */

_Noreturn static void lure_serve(const char *path, uid_t user, int caught)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(sun.sun_path, sizeof sun.sun_path, "%s", path);
	if (sock < 0 ||
	    (user != geteuid() && (setgroups(0, NULL) || setresgid(user, user, user) || setresuid(user, user, user))))
		_exit(1);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGALRM, SIG_DFL);
	alarm(300);
	if (bind(sock, (struct sockaddr *)&sun, sizeof sun) || chmod(path, 0666) || listen(sock, 8) ||
	    write(caught, "r", 1) != 1)
		_exit(1);
	for (;;) {
		int peer = accept4(sock, NULL, NULL, SOCK_CLOEXEC);

		/* noted before the peer can be done */
		if (write(caught, "c", 1) != 1)
			_exit(1);
		close(peer);
	}
}

pid_t lure_start(const char *directory, uid_t user, int *caught)
{
	char path[108], inner[96], ready;
	int pipes[2];
	pid_t pid;

	snprintf(inner, sizeof inner, "%s/gpubroker", directory);
	snprintf(path, sizeof path, "%s/socket", inner);
	if (mkdir(inner, 0755) || (!geteuid() && (chown(directory, user, user) || chown(inner, user, user))) ||
	    pipe2(pipes, O_CLOEXEC))
		return -1;
	pid = fork();
	if (!pid)
		lure_serve(path, user, pipes[1]);
	close(pipes[1]);
	if (read(pipes[0], &ready, 1) != 1)
		return -1;
	fcntl(pipes[0], F_SETFL, O_NONBLOCK);
	*caught = pipes[0];
	return pid;
}

bool lure_module(const char *directory)
{
	const char *build = getenv("top_builddir");
	char real[4096], path[96];

	snprintf(real, sizeof real, "%s/kernels/kernels.so", build ? build : ".");
	snprintf(path, sizeof path, "%s/" LURE_MODULE ".so", directory);
	return !symlink(real, path);
}

unsigned lure_caught(int caught)
{
	unsigned count = 0;
	char one;

	while (read(caught, &one, 1) == 1)
		count++;
	return count;
}

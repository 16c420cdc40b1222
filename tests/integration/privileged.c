/* SPDX-License-Identifier: Apache-2.0 */
/*
 * privileged.c - the library in a program with more rights than who starts it: the environment leads it to no server,
 * loads no module into it, and is named in the message as ignored; and the server of who started it is not its own
 * user's.
 *
 * A user starts a set-user-ID and a set-group-ID copy of this program, with variables that lead to a server and a
 * module of that user's. Only root can make such copies.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "harness.h"
#include "tests/privileged.h"

#define USER 4001

static struct broker_process broker;
static char as_root[PRIVILEGED_PATH_SIZE], as_group[PRIVILEGED_PATH_SIZE], plain[PRIVILEGED_PATH_SIZE];
static char directory[] = "/var/tmp/gpub-lure-XXXXXX";
static char lure[64]; /* its address */
static int caught;
static char text[512];

static int run(const char *program, struct privileged_order order)
{
	order.user = USER;
	return privileged_run(program, &order, text);
}

static bool said(const char *variable)
{
	char wanted[64];

	snprintf(wanted, sizeof wanted, "%s is ignored", variable);
	if (strstr(text, wanted))
		return true;
	printf("# %s\n", text);
	return false;
}

#define RUN(program, ...) run((program), (struct privileged_order){ __VA_ARGS__ })

/* Else nothing below would say anything. */
static void test_without_rights(void)
{
	int error = RUN(plain, .variable = "GPUBROKER", .value = lure);

	POINT(error == -ECONNRESET && lure_caught(caught) == 1,
	      "without rights of its own it goes where GPUBROKER says");
	error = RUN(plain, .variable = "XDG_RUNTIME_DIR", .value = directory);
	POINT(error == -ECONNRESET && lure_caught(caught) == 1, "and to the user's own server");
	error = RUN(plain, .variable = "NVIDIA_DRA_LOCAL_IPC_DIR", .value = directory);
	POINT(error == -ECONNRESET && lure_caught(caught) == 1, "and to its server for the claim of a pod");
}

static void test_address(const char *program, const char *kind)
{
	int error = RUN(program, .variable = "GPUBROKER", .value = lure);

	POINT(!lure_caught(caught), "a %s program does not go where GPUBROKER says", kind);
	if (access("/run/gpubroker/socket", F_OK))
		POINT(error == -ENOENT && said("GPUBROKER"), "and says that it ignores it");
	RUN(program, .variable = "XDG_RUNTIME_DIR", .value = directory);
	POINT(!lure_caught(caught), "nor to a socket below XDG_RUNTIME_DIR");
	RUN(program, .variable = "NVIDIA_DRA_LOCAL_IPC_DIR", .value = directory);
	POINT(!lure_caught(caught), "nor to one below NVIDIA_DRA_LOCAL_IPC_DIR");
	error = RUN(program, .address = lure);
	POINT(error == -EPERM, "and does not trust its caller's server where it is led to it otherwise");
	/*
	 * a connection comes before the question who serves there; it is noted when it is accepted, maybe behind the
	 * program's end
	 */
	if (!SOON(lure_caught(caught)))
		bail_out("the server that leads astray was not reached");
}

static void test_broker(void)
{
	const struct privileged_order order = { .deed = PRIVILEGED_MODULE,
						.address = broker.address,
						.module = LURE_MODULE,
						.variable = "GPUBROKER_MODULE_PATH",
						.value = directory };
	const char *build = getenv("top_builddir");
	char modules[4096];
	int error;

	error = RUN(as_root, .address = broker.address, .variable = "GPUB_HOST_VISIBLE", .value = "none");
	POINT(!error, "it uses the broker that it names, whatever GPUB_HOST_VISIBLE says");
	error = privileged_run(plain, &order, text); /* as root, whose broker it is */
	POINT(!error, "without rights of its own a program loads a module from GPUBROKER_MODULE_PATH");
	error = run(as_root, order);
	POINT(error == -ENOENT && said("GPUBROKER_MODULE_PATH"), "one with them loads none from there, and says so");
	/* in a directory that its starter may not enter: its own rights count */
	snprintf(modules, sizeof modules, "install -d -m 0700 %s/own && cp -L %s/kernels/kernels.so %s/own/", directory,
		 build ? build : ".", directory);
	if (system(modules))
		bail_out("no copy of the module");
	snprintf(modules, sizeof modules, "%s/own/kernels", directory);
	error = RUN(as_root, .deed = PRIVILEGED_MODULE, .address = broker.address, .module = modules);
	if (error)
		printf("# %s\n", text);
	POINT(!error, "it loads the one whose path it gives");
}

static void clean_up(void)
{
	char command[96];

	snprintf(command, sizeof command, "rm -rf %s", directory);
	if (system(command))
		printf("# %s stays\n", directory);
	privileged_remove(as_root);
	privileged_remove(as_group);
	privileged_remove(plain);
}

static bool copies_made(void)
{
	/* where a copy is refused AT_SECURE nobody asks for the plain one */
	return privileged_install(as_root, 04755) && privileged_install(as_group, 02755) && privileged_copy(plain);
}

int main(int argc, char **argv)
{
	int status;
	pid_t pid;

	if (privileged_main(argc, argv, &status))
		return status;
	harness_begin("privileged", 120);
	if (geteuid() || on_cuda()) {
		printf("1..0 # SKIP root alone can make programs with rights of their own, and the host device needs "
		       "no driver\n");
		return 0;
	}
	if (!copies_made()) {
		clean_up();
		printf("1..0 # SKIP set-user-ID programs do not work below /var/tmp here\n");
		return 0;
	}
	pid = mkdtemp(directory) && lure_module(directory) ? lure_start(directory, USER, &caught) : -1;
	if (pid < 0)
		bail_out("no server below %s", directory);
	snprintf(lure, sizeof lure, "unix:%s/gpubroker/socket", directory);
	broker_start(&broker, "host:1");
	test_without_rights();
	test_address(as_root, "set-user-ID");
	test_address(as_group, "set-group-ID");
	test_broker();
	broker_end(&broker);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	clean_up();
	return harness_end();
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bad-input.c - null and absurd arguments to every public function, and raw clients that say what is wrong: each a
 * negative errno and an error message, outputs untouched, nothing leaked, and the broker goes on.
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "common/wire.h"
#include "refusals.h"

static struct broker_process broker;
static struct puppet a;

static const char long_name[] =
	"012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345"; /* 96 */

/* ---- names ---- */

static int names(const struct order *order)
{
	static const char *const bad[] = { "", "/x", "a b", "a\nb", "caf\xc3\xa9", "x%n", "a:b", "a*" };
	gpub_info info = { .struct_size = sizeof info, .size = 77 };
	gpub_spec spec = GPUB_SPEC_INIT;
	gpub_lease l = { .token = 77 };

	(void)order;
	spec.size = 4096;
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		REFUSE(gpub_create(client, bad[i], &spec), -EINVAL);
		REFUSE(gpub_unlink(client, bad[i]), -EINVAL);
		REFUSE(gpub_stat(client, bad[i], &info), -EINVAL);
		REFUSE(gpub_acquire(client, bad[i], GPUB_READ, 0, &l), -EINVAL);
	}
	REFUSE(gpub_create(client, long_name, &spec), -ENAMETOOLONG);
	REFUSE(gpub_unlink(client, long_name), -ENAMETOOLONG);
	REFUSE(gpub_stat(client, long_name, &info), -ENAMETOOLONG);
	REFUSE(gpub_acquire(client, long_name, GPUB_READ, 0, &l), -ENAMETOOLONG);
	REFUSE(gpub_create(client, NULL, &spec), -EINVAL);
	REFUSE(gpub_unlink(client, NULL), -EINVAL);
	REFUSE(gpub_stat(client, NULL, &info), -EINVAL);
	REFUSE(gpub_acquire(client, NULL, GPUB_READ, 0, &l), -EINVAL);
	REFUSE(gpub_unlink(client, "nobody"), -ENOENT);
	REFUSE(gpub_stat(client, "nobody", &info), -ENOENT);
	REFUSE(gpub_acquire(client, "nobody", GPUB_READ, 0, &l), -ENOENT);
	REFUSE(gpub_acquire(client, "nobody", GPUB_READ, 20, &l), -ETIMEDOUT);
	ALSO(l.token == 77 && !l.client && info.size == 77);
	return verdict();
}

/* The longest name that there may be goes everywhere. */
static int longest_name(const struct order *order)
{
	gpub_info info = { .struct_size = sizeof info };
	gpub_spec spec = GPUB_SPEC_INIT;
	const char *name = long_name + 1;
	gpub_lease l;

	(void)order;
	spec.size = 1;
	ALSO(strlen(name) == GPUB_NAME_MAX);
	ALSO(!gpub_create(client, name, &spec));
	ALSO(!gpub_acquire(client, name, GPUB_READ, 0, &l) && l.size == 1 && !gpub_return(&l));
	ALSO(!gpub_stat(client, name, &info) && !strcmp(info.name, name) && info.size == 1);
	ALSO(!gpub_unlink(client, name));
	return verdict();
}

/* ---- specs ---- */

static int create_with(uint64_t size, unsigned flags, int device, unsigned mode, int timeout_ms)
{
	gpub_spec spec = GPUB_SPEC_INIT;

	spec.size = size;
	spec.flags = flags;
	spec.device = device;
	spec.mode = mode;
	spec.timeout_ms = timeout_ms;
	return gpub_create(client, "bad", &spec);
}

static int specs(const struct order *order)
{
	gpub_spec spec = GPUB_SPEC_INIT;

	(void)order;
	REFUSE(gpub_create(client, "bad", NULL), -EINVAL);
	spec.size = 4096;
	spec.struct_size--;
	REFUSE(gpub_create(client, "bad", &spec), -EINVAL);
	spec.struct_size = UINT_MAX;
	REFUSE(gpub_create(client, "bad", &spec), -EINVAL);
	spec.struct_size = sizeof spec;
	spec.reserved = 1;
	REFUSE(gpub_create(client, "bad", &spec), -EINVAL);
	REFUSE(create_with(0, 0, 0, 0600, 0), -EINVAL);
	REFUSE(create_with(4096, 1u << 31, 0, 0600, 0), -EINVAL);
	REFUSE(create_with(4096, 0, 0, 01000, 0), -EINVAL);
	REFUSE(create_with(4096, 0, 0, 0600, -2), -EINVAL);
	REFUSE(create_with(4096, 0, 1, 0600, 0), -ENODEV);
	REFUSE(create_with(4096, 0, -1, 0600, 0), -ENODEV);
	REFUSE(create_with(4096, 0, INT_MAX, 0600, 0), -ENODEV);
	REFUSE(create_with(4096, 0, INT_MIN, 0600, 0), -ENODEV);
	REFUSE(create_with(2 << 20, 0, 0, 0600, 0), -ENOMEM);
	REFUSE(create_with(2 << 20, 0, 0, 0600, -1), -ENOMEM); /* never fits: no wait for ever */
	REFUSE(create_with(UINT64_MAX, 0, 0, 0600, 0), -ENOMEM);
	REFUSE(create_with(UINT64_MAX - 4096, 0, 0, 0600, -1), -ENOMEM);
	REFUSE(create_with(1ull << 63, 0, 0, 0600, 0), -ENOMEM);
	REFUSE(gpub_unlink(client, "bad"), -ENOENT);
	ALSO(!create_with(1 << 20, 0, 0, 0600, 0) && !gpub_unlink(client, "bad"));
	return verdict();
}

/* ---- the other functions ---- */

static int connection(const struct order *order)
{
	gpub_client *none = (gpub_client *)-1;
	int count = 77;

	(void)order;
	REFUSE(gpub_connect(NULL, NULL), -EINVAL);
	REFUSE(gpub_connect(&none, "tcp:1"), -EINVAL);
	REFUSE(gpub_connect(&none, ""), -EINVAL);
	REFUSE(gpub_connect(&none, "unix:"), -EINVAL);
	REFUSE(gpub_connect(&none, "unix:/nowhere/at/all"), -ENOENT);
	REFUSE(gpub_connect(&none, "unix:/dev/null"), -ECONNREFUSED);
	ALSO(none == (gpub_client *)-1);
	REFUSE(gpub_set_flags(NULL, 0), -EINVAL);
	REFUSE(gpub_set_flags(client, 2), -EINVAL);
	REFUSE(gpub_trim(NULL), -EINVAL);
	REFUSE(gpub_device_count(NULL, &count), -EINVAL);
	REFUSE(gpub_device_count(client, NULL), -EINVAL);
	REFUSE(gpub_set_device(NULL, 0), -EINVAL);
	REFUSE(gpub_set_device(client, 1), -ENODEV);
	REFUSE(gpub_set_device(client, -1), -ENODEV);
	REFUSE(gpub_set_device(client, INT_MIN), -ENODEV);
	ALSO(count == 77);
	gpub_disconnect(NULL);
	return verdict();
}

static int address_too_long(const struct order *order)
{
	static char address[1000] = "unix:/";
	gpub_client *none = NULL;

	(void)order;
	memset(address + 6, 'x', sizeof address - 7);
	REFUSE(gpub_connect(&none, address), -EINVAL);
	address[5 + 108] = 0;
	REFUSE(gpub_connect(&none, address), -EINVAL);
	ALSO(!none);
	return verdict();
}

static int buffers(const struct order *order)
{
	gpub_info info = { .struct_size = 1 };
	gpub_lease l = { .token = 77 };
	gpub_spec spec = GPUB_SPEC_INIT;

	(void)order;
	spec.size = 4096;
	REFUSE(gpub_create(NULL, "x", &spec), -EINVAL);
	REFUSE(gpub_unlink(NULL, "x"), -EINVAL);
	REFUSE(gpub_stat(client, "x", NULL), -EINVAL);
	REFUSE(gpub_stat(client, "x", &info), -EINVAL);
	info.struct_size = sizeof info;
	REFUSE(gpub_stat(NULL, "x", &info), -EINVAL);
	REFUSE(gpub_acquire(NULL, "x", GPUB_READ, 0, &l), -EINVAL);
	REFUSE(gpub_acquire(client, "x", 0, 0, &l), -EINVAL);
	REFUSE(gpub_acquire(client, "x", 4, 0, &l), -EINVAL);
	REFUSE(gpub_acquire(client, "x", GPUB_READ | 1u << 31, 0, &l), -EINVAL);
	REFUSE(gpub_acquire(client, "x", GPUB_READ, -2, &l), -EINVAL);
	REFUSE(gpub_acquire(client, "x", GPUB_READ, INT_MIN, &l), -EINVAL);
	REFUSE(gpub_acquire(client, "x", GPUB_READ, 0, NULL), -EINVAL);
	ALSO(l.token == 77);
	REFUSE(gpub_create(client, "x", &spec), -EEXIST);
	return verdict();
}

static int leases(const struct order *order)
{
	gpub_lease zero = { 0 }, *held = &lease[0];
	uint64_t value = 77;

	(void)order;
	REFUSE(gpub_renew(NULL), -EINVAL);
	REFUSE(gpub_renew(&zero), -EINVAL);
	REFUSE(gpub_return(NULL), -EINVAL);
	REFUSE(gpub_return(&zero), -EINVAL);
	REFUSE(gpub_return_on(NULL, work), -EINVAL);
	REFUSE(gpub_return_on(&zero, work), -EINVAL);
	REFUSE(gpub_return_on(held, &zero), -EINVAL); /* no stream */
	REFUSE(gpub_signal_on(NULL, 1, work), -EINVAL);
	REFUSE(gpub_signal_on(&zero, 1, work), -EINVAL);
	REFUSE(gpub_signal_on(held, 0, work), -EINVAL);
	REFUSE(gpub_signal_on(held, UINT64_MAX, work), -EINVAL);
	REFUSE(gpub_signal_on(held, 1, &zero), -EINVAL);
	REFUSE(gpub_wait_on(NULL, 1, work), -EINVAL);
	REFUSE(gpub_wait_on(&zero, 1, work), -EINVAL);
	REFUSE(gpub_wait_on(held, UINT64_MAX, work), -EINVAL);
	REFUSE(gpub_wait_on(held, 1, &zero), -EINVAL);
	REFUSE(gpub_timeline(NULL, &value), -EINVAL);
	REFUSE(gpub_timeline(&zero, &value), -EINVAL);
	REFUSE(gpub_timeline(held, NULL), -EINVAL);
	ALSO(value == 77);
	ALSO(!gpub_timeline(held, &value) && value == 0);
	return verdict();
}

static int streams(const struct order *order)
{
	void *other = (void *)-1;
	uint64_t word = 77, gone = 0;

	(void)order;
	REFUSE(gpub_stream_create(NULL, 0, &other), -EINVAL);
	REFUSE(gpub_stream_create(client, 0, NULL), -EINVAL);
	REFUSE(gpub_stream_create(client, 1, &other), -ENODEV);
	REFUSE(gpub_stream_create(client, -7, &other), -ENODEV);
	ALSO(other == (void *)-1);
	REFUSE(gpub_stream_sync(&word), -EINVAL);
	REFUSE(gpub_copy_on(NULL, &word, &gone, 8, work), -EINVAL);
	REFUSE(gpub_copy_on(client, NULL, &gone, 8, work), -EINVAL);
	REFUSE(gpub_copy_on(client, &word, NULL, 8, work), -EINVAL);
	REFUSE(gpub_copy_on(client, &word, &gone, 8, &gone), -EINVAL);
	REFUSE(gpub_copy_on(client, lease[0].ptr, &gone, lease[0].size + 4096, work), -EINVAL);
	ALSO(word == 77 && !gpub_stream_sync(work));
	gpub_stream_destroy(NULL);
	gpub_stream_destroy(&word);
	return verdict();
}

/* Handles that no look-up gave out, with a token that is good: refused, and followed nowhere. */
static void forged_kernels(gpub_kernel kernel, const gpub_launch_config *config)
{
	uint64_t zero = 0;
	void *good = kernel.handle, *args[] = { &good, &zero, &zero };
	void *const forged[] = {
		NULL, &zero, (void *)-1, (void *)1, (char *)good + 1, (char *)good - 1, (char *)good + 4096
	};

	for (size_t i = 0; i < sizeof forged / sizeof forged[0]; i++) {
		kernel.handle = forged[i];
		REFUSE(gpub_launch(kernel, config, args), -EINVAL);
		/* and not the device, which is not asked */
		ALSO(strstr(gpub_strerror_last(), "no kernel of its module"));
	}
	kernel.handle = good;
	kernel.token += 1; /* a place where no module was opened */
	REFUSE(gpub_launch(kernel, config, args), -EINVAL);
	ALSO(strstr(gpub_strerror_last(), "no kernel"));
}

static int modules(const struct order *order)
{
	gpub_launch_config config = GPUB_LAUNCH_INIT;
	gpub_module *module = (gpub_module *)-1, *opened;
	gpub_kernel kernel = { 0, NULL }, closed;
	void *ptr = (void *)-1, *args[3] = { NULL };
	size_t size = 77;

	(void)order;
	REFUSE(gpub_module_open(NULL, client, "kernels"), -EINVAL);
	REFUSE(gpub_module_open(&module, NULL, "kernels"), -EINVAL);
	REFUSE(gpub_module_open(&module, client, NULL), -EINVAL);
	REFUSE(gpub_module_open(&module, client, ""), -EINVAL);
	REFUSE(gpub_module_open(&module, client, "no-such-module"), -ENOENT);
	REFUSE(gpub_module_open(&module, client, "/no/such/module"), -ENOENT);
	ALSO(module == (gpub_module *)-1);
	ALSO(!gpub_module_open(&opened, client, "kernels"));
	REFUSE(gpub_module_kernel(NULL, "fill", &kernel), -EINVAL);
	REFUSE(gpub_module_kernel(opened, NULL, &kernel), -EINVAL);
	REFUSE(gpub_module_kernel(opened, "fill", NULL), -EINVAL);
	REFUSE(gpub_module_kernel(opened, "no_such_kernel", &kernel), -ENOENT);
	REFUSE(gpub_module_managed(NULL, "x", &ptr, &size), -EINVAL);
	REFUSE(gpub_module_managed(opened, "no_such_variable", &ptr, &size), -ENOENT);
	ALSO(!kernel.handle && ptr == (void *)-1 && size == 77);
	REFUSE(gpub_launch(kernel, &config, args), -EINVAL); /* zeroes */
	ALSO(strstr(gpub_strerror_last(), "take it from gpub_module_kernel()"));
	REFUSE(gpub_module_kernel((gpub_module *)-1, "fill", &kernel), -EINVAL);
	REFUSE(gpub_launch(kernel, NULL, args), -EINVAL);
	ALSO(!gpub_module_kernel(opened, "fill", &closed));
	REFUSE(gpub_launch(closed, &config, NULL), -EINVAL);
	REFUSE(gpub_launch(closed, &config, args), -EINVAL);
	args[0] = &ptr;
	REFUSE(gpub_launch(closed, &config, args), -EINVAL);
	forged_kernels(closed, &config);
	ALSO(!gpub_module_kernel(opened, "managed_increment", &closed));
	config.struct_size = 0;
	REFUSE(gpub_launch(closed, &config, args), -EINVAL);
	config = (gpub_launch_config)GPUB_LAUNCH_INIT;
	config.device = 5;
	REFUSE(gpub_launch(closed, &config, args), -ENODEV);
	ALSO(!gpub_module_close(opened) && !gpub_module_close(NULL));
	REFUSE(gpub_module_close(opened), -EINVAL);
	REFUSE(gpub_module_kernel(opened, "fill", &kernel), -ESTALE);
	REFUSE(gpub_module_managed(opened, "x", &ptr, &size), -ESTALE);
	/* what is opened next is another module, which the old name does not close */
	ALSO(!gpub_module_open(&module, client, "kernels"));
	REFUSE(gpub_module_close(opened), -EINVAL);
	ALSO(!gpub_module_kernel(module, "fill", &kernel));
	/* nor does the old kernel's handle go through the new module's token */
	ALSO(kernel.handle != closed.handle);
	config = (gpub_launch_config)GPUB_LAUNCH_INIT;
	REFUSE(gpub_launch((gpub_kernel){ kernel.token, closed.handle }, &config, args), -EINVAL);
	ALSO(!gpub_module_close(module));
	REFUSE(gpub_module_close((gpub_module *)-1), -EINVAL);
	config.device = 0;
	REFUSE(gpub_launch(closed, &config, args), -ESTALE);
	return verdict();
}

#define CLOSERS 2

static _Atomic int awaited; /* threads that are not there yet */
static gpub_module *shared_module;

static void *close_shared(void *result)
{
	/* no barrier: it would let them go one by one */
	atomic_fetch_sub(&awaited, 1);
	while (atomic_load(&awaited) > 0)
		;
	*(int *)result = gpub_module_close(shared_module);
	return NULL;
}

/* Of several threads that close one module, one does. */
static int close_from_threads(const struct order *order)
{
	pthread_t thread[CLOSERS];
	int result[CLOSERS], closes;

	(void)order;
	for (int round = 0; round < 200; round++) {
		ALSO(!gpub_module_open(&shared_module, client, "kernels"));
		atomic_store(&awaited, CLOSERS);
		for (int i = 0; i < CLOSERS; i++)
			ALSO(!pthread_create(&thread[i], NULL, close_shared, &result[i]));
		closes = 0;
		for (int i = 0; i < CLOSERS; i++) {
			pthread_join(thread[i], NULL);
			closes += !result[i];
			ALSO(!result[i] || result[i] == -EINVAL);
		}
		ALSO(closes == 1);
	}
	return verdict();
}

/* A file of that name which is no shared object. */
static int not_a_module(const struct order *order)
{
	char path[] = "/tmp/gpubroker-bad-XXXXXX", file[40];
	gpub_module *module = NULL;
	FILE *out;

	(void)order;
	if (!mkdtemp(path))
		return -errno;
	snprintf(file, sizeof file, "%s/m.so", path);
	out = fopen(file, "w");
	ALSO(out && fputs("this is no module\n", out) >= 0 && !fclose(out));
	file[strlen(file) - 3] = 0;
	REFUSE(gpub_module_open(&module, client, file), -ENOEXEC);
	ALSO(!module);
	strcat(file, ".so");
	unlink(file);
	rmdir(path);
	return verdict();
}

static const struct {
	step       *run;
	const char *what;
} groups[] = { { names, "names" },
	       { longest_name, "the longest name works everywhere" },
	       { connection, "connections and devices" },
	       { address_too_long, "an address that is too long" },
	       { buffers, "buffers" },
	       { leases, "leases and timelines" },
	       { streams, "streams" },
	       { modules, "modules and kernels" },
	       { close_from_threads, "a module that several threads close" },
	       { not_a_module, "a file that is no module" } };

static void test_arguments(void)
{
	small_broker_start(&broker, NULL);
	puppet_start(&a, &broker);
	POINT(!ask(&a, specs), "bad input: what to create");
	ask(&a, do_stream);
	ask(&a, do_create, .name = "x", .flags = GPUB_TIMELINE, .timeout = -1);
	ask(&a, do_acquire, .name = "x");
	for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
		puppet_tell(&a, (struct order){ .run = groups[i].run });
		POINT(!receive(&a), "bad input: %s", groups[i].what);
	}
	POINT(!ask(&a, do_write, .value = 1) && !ask(&a, do_return) && !ask(&a, do_unlink, .name = "x"),
	      "the client works as before");
	puppet_end(&a);
	broker_end(&broker);
}

/* ---- raw clients ---- */

static int raw_connect(void)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	struct timeval patience = { .tv_sec = 10 };
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	strcpy(sun.sun_path, broker.address + 5);
	setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	if (connect(sock, (struct sockaddr *)&sun, sizeof sun))
		bail_out("the broker takes no connection");
	return sock;
}

/* Sends this after the challenge; true: the broker ends the conversation, with or without a word. */
static bool cut_off(struct wire_message *message, size_t size, bool answer)
{
	struct wire_message got;
	int sock = raw_connect();
	ssize_t length = recv(sock, &got, sizeof got, 0);

	if (length != sizeof got || got.type != WIRE_CHALLENGE)
		bail_out("the broker sends no challenge");
	if (answer)
		memcpy(message->hello.nonce, got.hello.nonce, sizeof got.hello.nonce);
	if (send(sock, message, size, MSG_NOSIGNAL) != (ssize_t)size)
		bail_out("nothing can be sent");
	do
		length = recv(sock, &got, sizeof got, 0);
	while (length > 0 && got.type == WIRE_REFUSED);
	close(sock);
	return length == 0 || (length < 0 && errno == ECONNRESET);
}

static size_t sessions(void)
{
	json_t *text = status_json(&broker);
	size_t count = json_array_size(json_object_get(text, "sessions"));

	json_decref(text);
	return count;
}

static void test_raw_clients(void)
{
	struct wire_message message;

	broker_start(&broker, "host");
	puppet_start(&a, &broker);
	wire_init(&message, WIRE_HELLO, 0);
	message.version++;
	POINT(cut_off(&message, sizeof message, true), "invariant 5: a client of another version is sent away");
	POINT(broker_said(&broker, "version"), "and the broker says why");
	memset(&message, 0xee, sizeof message);
	POINT(cut_off(&message, sizeof message, false), "invariant 5: garbage is sent away");
	POINT(cut_off(&message, 3, false), "invariant 5: a message that is too short is sent away");
	wire_init(&message, WIRE_HELLO, 0);
	POINT(cut_off(&message, sizeof message, false),
	      "invariant 5: a greeting that answers no challenge is sent away");
	wire_init(&message, WIRE_CREATE, 0);
	strcpy(message.create.name, "early");
	message.create.size = 4096;
	POINT(cut_off(&message, sizeof message, false), "invariant 5: a request before the greeting is sent away");
	wire_init(&message, WIRE_GRANT, 0);
	POINT(cut_off(&message, sizeof message, true), "invariant 5: a message that only brokers send is sent away");
	POINT(ask(&a, do_stat, .name = "early") == -ENOENT && !ask(&a, do_create, .name = "x"),
	      "invariant 5: the broker goes on");
	POINT(SOON(sessions() == 1), "and no session is left of them");
	puppet_end(&a);
	broker_end(&broker);
}

int main(void)
{
	harness_begin("bad-input", 60);
	test_arguments();
	test_raw_clients();
	return harness_end();
}

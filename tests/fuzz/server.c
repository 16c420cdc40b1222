/* SPDX-License-Identifier: Apache-2.0 */
/* server.c - see server.h */
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/owner/start.h"
#include "broker/registry/board-owner.h"
#include "common/error.h"
#include "common/socket.h"
#include "common/timeline-page.h"
#include "device/host-object.h"
#include "device/select.h"

#define BUFFERS      8
#define HANDLES      8
#define SPAN         16384u /* bytes of the memory object */
#define MESSAGES_MAX 200    /* that are answered */
#define PATIENCE_MS  3      /* for the client's next message */
#define SESSION      7
#define TWICE        0x60   /* bits of a byte that says how to answer: each message of the answer is sent twice */

static char directory[40], object_name[HOST_NAME_SIZE];
static int listener;
static struct board_owner board;
static struct board_header good_header;
static struct device_handle memory, vmm_memory;
static int vmm_descriptor; /* a memfd, as the host device exports one; another process made it, to the client */
static const uint8_t key[WIRE_KEY_SIZE] = { 'k', 'e', 'y' };
static pthread_t thread;

/* One connection. */
static struct {
	struct input        script;
	int                 sock;
	struct wire_message asked; /* what the client said last */
	struct wire_grant   granted;
	uint64_t            next_mapping, next_serial;
	int                 page; /* the last timeline's */
	bool                twice; /* each message is sent twice, as by a broker and its successor */
	atomic_bool         over; /* the client has ended */
} now;

/* ---- what it sends ---- */

static void send_message(const struct wire_message *message, int fd)
{
	for (int times = now.twice ? 2 : 1; times > 0; times--)
		socket_send(now.sock, message, fd, MSG_DONTWAIT);
}

static void send_bytes(const struct wire_message *message, size_t length)
{
	uint8_t bytes[2 * WIRE_SIZE] = { 0 };

	memcpy(bytes, message, sizeof *message);
	if (send(now.sock, bytes, length <= sizeof bytes ? length : sizeof bytes, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return;
}

/* Changes up to three bytes where the input wants it. */
static void spoil(void *bytes, size_t size)
{
	unsigned changes = input_byte(&now.script);

	for (unsigned i = 0; changes >= 0xc0 && i <= changes % 3; i++)
		input_flip(&now.script, bytes, size);
}

/* A timeline's page: as a broker makes it, and otherwise. The word is never one that a wait would hang at. */
static int page_make(unsigned how)
{
	struct timeline_page page = { .word = how & 0xc0 ? TIMELINE_DIED - (how >> 6) + 1 : how };
	int fd = fuzz_file(&page, sizeof page);

	if (how % 8 == 2) {
		close(fd);
		return open("/dev/null", O_RDWR | O_CLOEXEC);
	}
	if (ftruncate(fd, how % 8 == 1 ? 0 : TIMELINE_PAGE_SIZE))
		fuzz_fail("no page");
	if (how % 8 != 3)
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	return fd;
}

static void page_renew(unsigned how)
{
	if (now.page >= 0)
		close(now.page);
	now.page = page_make(how);
}

static void grant_fill(struct wire_grant *grant)
{
	*grant = (struct wire_grant){ .mapping = ++now.next_mapping,
				      .serial = ++now.next_serial,
				      .size = 4096,
				      .span = SPAN,
				      .reserve = 4 * SPAN,
				      .buffer = (uint32_t)now.next_serial % BUFFERS,
				      .place = (uint32_t)now.next_mapping % HANDLES,
				      .rights = GPUB_READ | GPUB_WRITE };
}

static struct seal_terms terms_of(const struct wire_grant *grant)
{
	struct seal_terms terms = {
		.session = SESSION, .mapping = grant->mapping, .version = WIRE_VERSION, .exported = grant->exported
	};

	memcpy(terms.instance, board.header->instance_id, sizeof terms.instance);
	memcpy(terms.device_uuid, board.header->device[grant->owner_device % DEVICE_MAX].uuid,
	       sizeof terms.device_uuid);
	return terms;
}

static void grant_seal(const struct wire_grant *grant, const struct device_handle *handle)
{
	struct seal_terms terms = terms_of(grant);

	terms.serial = grant->serial;
	terms.size = grant->size;
	terms.offset = grant->offset;
	terms.rights = grant->rights;
	handle_seal(&board.board.handles[grant->place % HANDLES], &terms, handle, key);
	atomic_store(&board.board.words[grant->buffer % BUFFERS], BOARD_WORD(grant->serial, BOARD_LIVE));
}

/* A chunk: with the descriptor of the memory, or of something else, or none; for this mapping, or for another. */
static void send_memory(const struct wire_grant *grant, uint64_t offset, unsigned how)
{
	struct wire_message message;

	wire_init(&message, WIRE_MEMORY, 0);
	message.memory.mapping = how % 8 == 1 ? grant->mapping + 1 : grant->mapping;
	message.memory.offset = offset;
	message.memory.span = how % 8 == 5 ? SPAN / 2 : SPAN;
	if (how % 8 == 6)
		spoil(&message.memory, sizeof message.memory);
	send_message(&message, how % 8 == 2 ? -1 : how % 8 == 3 ? listener : vmm_descriptor);
	if (how % 8 == 4)
		send_message(&message, vmm_descriptor);
}

/* The buffer of the last grant grew, as the client is told: it has the mapping, and gets what is new. */
static void send_growth(unsigned how)
{
	struct wire_message message;

	wire_init(&message, WIRE_GRANT, now.asked.request);
	now.granted.serial = ++now.next_serial;
	now.granted.size = now.granted.span += SPAN;
	message.grant = now.granted;
	message.grant.place = WIRE_NO_HANDLE;
	send_memory(&message.grant, message.grant.span - SPAN, how);
	atomic_store(&board.board.words[message.grant.buffer % BUFFERS], BOARD_WORD(message.grant.serial, BOARD_LIVE));
	if (how & 16)
		spoil(&message.grant, sizeof message.grant);
	send_message(&message, -1);
}

/* sealed: its handle is sealed for the terms as they are sent, so that only what the client checks itself is left. */
static void send_grant(unsigned how, bool with_page)
{
	struct device_handle handle = how & 32 ? vmm_memory : memory;
	struct wire_message message;

	if ((how & 96) == 64 && now.granted.exported == EXPORT_VMM && now.granted.span < 16 * SPAN)
		return send_growth(input_byte(&now.script));
	wire_init(&message, WIRE_GRANT, now.asked.request);
	grant_fill(&message.grant);
	message.grant.exported = how & 32 ? EXPORT_VMM : EXPORT_IPC;
	if (how & 32 && how & 128)
		message.grant.span = 2 * SPAN;
	if (how & 32)
		send_memory(&message.grant, 0, how >> 6 ? input_byte(&now.script) : 0);
	if (how & 32 && how & 128)
		send_memory(&message.grant, SPAN, input_byte(&now.script));
	if (how & 1)
		spoil(&message.grant, sizeof message.grant);
	if (how & 2)
		message.grant.size = SPAN;
	grant_seal(&message.grant, &handle);
	if (how & 4)
		spoil(&message.grant, sizeof message.grant);
	if (how & 8)
		spoil(&board.board.handles[message.grant.place % HANDLES], sizeof(struct sealed_handle));
	if (how & 16) {
		handle.bytes[DEVICE_HANDLE_SIZE - 1] ^= 1;
		grant_seal(&message.grant, &handle);
	}
	if (with_page)
		page_renew(input_byte(&now.script));
	now.granted = message.grant;
	send_message(&message, with_page ? now.page : -1);
}

static void send_refused(int error)
{
	struct wire_message message;

	wire_refuse(&message, now.asked.request, error, "the fuzzer does not want it: nothing helps");
	if (input_byte(&now.script) & 1)
		input_take(&now.script, message.refused.text, 8);
	send_message(&message, -1);
}

static void send_info(void)
{
	struct wire_message message;

	wire_init(&message, WIRE_INFO, now.asked.request);
	message.info = (struct wire_info){ .size = 4096, .generation = 1, .state = GPUB_LIVE };
	spoil(&message.info, sizeof message.info);
	send_message(&message, -1);
}

static void send_token(void)
{
	struct wire_message message;

	wire_init(&message, WIRE_TICKET, now.asked.request);
	spoil(&message.ticket, sizeof message.ticket);
	send_message(&message, -1);
}

static void send_done(int fd)
{
	struct wire_message message;

	wire_init(&message, WIRE_DONE, now.asked.request);
	send_message(&message, fd);
}

static void send_part(uint32_t offset, uint32_t length)
{
	struct wire_message message;

	wire_init(&message, WIRE_PART, now.asked.request);
	message.part.offset = offset;
	message.part.length = length;
	spoil(&message.part, sizeof message.part);
	send_message(&message, -1);
}

/* Of which the client bounds nothing but the length of each: the bytes are its own file's. */
static void send_view(void)
{
	struct wire_message message;

	for (uint32_t at = 0; at < 2048; at += WIRE_PART_SIZE)
		send_part(at, WIRE_PART_SIZE);
	wire_init(&message, WIRE_VIEW, now.asked.request);
	message.view.size = 2048;
	spoil(&message.view, sizeof message.view);
	send_message(&message, -1);
}

/* More than any message has. */
static void send_descriptors(unsigned count)
{
	union {
		struct cmsghdr header;
		char           bytes[CMSG_SPACE(8 * sizeof(int))];
	} control = { 0 };
	int fds[8] = { listener, listener, listener, listener, listener, listener, listener, listener };
	struct wire_message message;
	struct iovec io = { .iov_base = &message, .iov_len = sizeof message };
	struct msghdr msg = { .msg_iov = &io, .msg_iovlen = 1, .msg_control = &control };

	wire_init(&message, WIRE_DONE, now.asked.request);
	msg.msg_controllen = CMSG_SPACE(count * sizeof(int));
	control.header = (struct cmsghdr){ .cmsg_len = CMSG_LEN(count * sizeof(int)),
					   .cmsg_level = SOL_SOCKET,
					   .cmsg_type = SCM_RIGHTS };
	memcpy(CMSG_DATA(&control.header), fds, count * sizeof(int));
	if (sendmsg(now.sock, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return;
}

static void send_raw(void)
{
	struct wire_message message;

	wire_init(&message, (enum wire_type)(input_byte(&now.script) % (WIRE_TYPES + 1)),
		  now.asked.request + input_below(&now.script, 3));
	input_take(&now.script, message.bytes, input_byte(&now.script) % sizeof message.bytes);
	spoil(&message, sizeof message);
	send_bytes(&message, input_byte(&now.script) < 0xf0 ? WIRE_SIZE : input_byte(&now.script));
}

static void send_notice(void)
{
	struct wire_message message;
	uint8_t which = input_byte(&now.script);

	wire_init(&message, WIRE_NOTICE, 0);
	message.grant_id.mapping = which < 0xc0 ? now.granted.mapping - which % 4 : input_u64(&now.script);
	send_message(&message, which & 1 ? listener : -1);
}

static void change_word(void)
{
	uint64_t serial = now.granted.serial - input_below(&now.script, 2);

	atomic_store(&board.board.words[now.granted.buffer % BUFFERS],
		     BOARD_WORD(serial, input_below(&now.script, 4)));
}

/* Behind the client's back: it was checked when it was mapped. */
static void change_header(void)
{
	if (input_byte(&now.script) & 1)
		board.shared->devices = board.shared->buffers = board.shared->handles = UINT32_MAX;
	spoil(board.shared, sizeof *board.shared);
}

static void send_left(void)
{
	struct wire_message message;

	wire_init(&message, WIRE_LEFT, now.asked.request);
	send_message(&message, -1);
}

/* ---- what it does ---- */

/* The answer that the row of the request names. */
static void answer_well(void)
{
	struct wire_message message;

	if (now.asked.type == WIRE_WRITER) {
		page_renew(0);
		return send_done(now.page);
	}
	switch (wire_row(now.asked.type)->answer) {
	case WIRE_NONE:
		return;
	case WIRE_TICKET:
		return send_token();
	case WIRE_INFO:
		return send_info();
	case WIRE_GRANT:
		return send_grant(0, false);
	case WIRE_VIEW:
		return send_view();
	default:
		wire_init(&message, wire_row(now.asked.type)->answer, now.asked.request);
		return send_message(&message, -1);
	}
}

static void answer(uint8_t how)
{
	static const int errors[] = { -ENOENT, -EAGAIN, -ENOMEM, -ETIMEDOUT, -ECONNRESET, -ESTALE, -1000000,
				      INT32_MIN };

	now.twice = (how & TWICE) == TWICE;
	switch (how % 16) {
	case 1:
		return send_refused(errors[input_below(&now.script, 8)]);
	case 2:
		return send_grant(1, false);
	case 3:
		return send_grant(input_byte(&now.script), input_byte(&now.script) & 1);
	case 4:
		return send_grant(0, true);
	case 5:
		return send_notice();
	case 6:
		return send_raw();
	case 7:
		page_renew(input_byte(&now.script));
		return send_done(now.page);
	case 8:
		return change_word();
	case 9:
		return send_info();
	case 10:
		return send_left();
	case 11:
		answer_well();
		return change_word();
	case 12:
		return; /* nothing */
	case 13:
		shutdown(now.sock, SHUT_RDWR);
		return;
	case 14:
		return change_header();
	case 15:
		return send_descriptors(1 + input_below(&now.script, 8));
	default:
		return answer_well();
	}
}

/* False: the client is gone, or waits for what will not come. */
static bool receive_all(void)
{
	struct pollfd p = { .fd = now.sock, .events = POLLIN };
	struct socket_extra extra;

	return poll(&p, 1, PATIENCE_MS) == 1 && !socket_receive(now.sock, &now.asked, &extra, false, MSG_DONTWAIT);
}

/* A board that is not quite one. */
static int board_spoiled(void)
{
	struct board_header header = *board.header;
	int fd;

	spoil(&header, sizeof header);
	fd = fuzz_file(&header, sizeof header);
	if (ftruncate(fd, (off_t)board.board.size) ||
	    fcntl(fd, F_ADD_SEALS, input_byte(&now.script) & 1 ? 0 : BOARD_SEALS))
		fuzz_fail("no board");
	return fd;
}

static void greet(void)
{
	uint8_t how = input_byte(&now.script);
	struct wire_message message;
	int fd = how >= 0xf0 ? board_spoiled() : board.fd;

	wire_init(&message, WIRE_CHALLENGE, 0);
	wire_hello_fill(&message.hello);
	if (how >= 0xf8)
		spoil(&message, sizeof message);
	send_message(&message, -1);
	receive_all();
	if (how == 0xe0)
		return send_refused(-EACCES);
	wire_init(&message, WIRE_WELCOME, 0);
	message.welcome.session = SESSION;
	memcpy(message.welcome.key, key, sizeof key);
	if (how >= 0xfc)
		spoil(&message, sizeof message);
	send_message(&message, how == 0xe1 ? -1 : how == 0xe2 ? listener : fd);
	if (fd != board.fd)
		close(fd);
}

/*
 * A client whose greeting broke connects again, and would wait for the next challenge: on a busy machine this server
 * may have ended before the client's greeting came.
 */
static void refuse_others(void)
{
	struct pollfd waiting = { .fd = listener, .events = POLLIN };

	while (!atomic_load(&now.over))
		if (poll(&waiting, 1, 1) == 1)
			close(accept4(listener, NULL, NULL, SOCK_CLOEXEC));
}

/* Each message of the client has an answer, or several where a byte says so; silence has one while there are any. */
static void *serve(void *unused)
{
	(void)unused;
	now.sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	greet();
	for (int i = 0; i < MESSAGES_MAX; i++) {
		bool received = receive_all();
		uint8_t how = 0x80;

		if (!received && !now.script.left)
			break;
		while (how & 0x80) {
			how = input_byte(&now.script);
			answer(how);
		}
	}
	close(now.sock);
	refuse_others();
	return NULL;
}

void server_begin(struct input script)
{
	memset(&now, 0, sizeof now);
	now.script = script;
	now.page = -1;
	*board.shared = good_header;
	for (int i = 0; i < BUFFERS; i++)
		atomic_store(&board.board.words[i], 0);
	if (pthread_create(&thread, NULL, serve, NULL))
		fuzz_fail("no thread for the server");
}

void server_end(void)
{
	atomic_store(&now.over, true);
	pthread_join(thread, NULL);
	if (now.page >= 0)
		close(now.page);
}

/* ---- once a process ---- */

static void clean_up(void)
{
	char path[SERVER_ADDRESS_SIZE];

	snprintf(path, sizeof path, "%s/socket", directory);
	unlink(path);
	rmdir(directory);
	unlink(object_name);
	*strrchr(object_name, '/') = 0;
	rmdir(object_name);
}

/* As a broker in another process would have made it: this one may not be owner and importer at once. */
static void memory_make(void)
{
	struct host_region vmm = { .file = OWNED_FD_NONE, .descriptor = -1, .size = SPAN,
				   .export = export_of(EXPORT_VMM) };
	char folder[HOST_NAME_SIZE];
	int fd;

	snprintf((char *)memory.bytes, HOST_PREFIX_MAX, "/gpubroker.fuzz%d.mem", (int)getpid());
	randombytes_buf(memory.bytes + HOST_PREFIX_MAX + 1, HOST_RANDOM_SIZE);
	if (!host_object_name(&memory, object_name))
		fuzz_fail("a memory object cannot have that name");
	strcpy(folder, object_name);
	*strrchr(folder, '/') = 0;
	fd = mkdir(folder, 0700) ? -1 : open(object_name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, SPAN))
		fuzz_fail("no memory object");
	close(fd);
	if (host_object_create(&vmm))
		fuzz_fail("no memfd: %s", error_text());
	vmm_memory = vmm.handle;
	vmm_descriptor = vmm.descriptor;
}

void server_set_up(char address[SERVER_ADDRESS_SIZE])
{
	const struct device *device;
	struct owner_facts facts;

	if (sodium_init() < 0 || device_select("host:2", false, &device) || owner_facts_of(device, &facts) ||
	    board_create(&board, "fuzz", &facts, BUFFERS, HANDLES))
		fuzz_fail("no board: %s", error_text());
	good_header = *board.header;
	snprintf(directory, sizeof directory, "/tmp/gpub-fuzz.%d", (int)getpid());
	if (mkdir(directory, 0700) || atexit(clean_up))
		fuzz_fail("no directory %s", directory);
	snprintf(address, SERVER_ADDRESS_SIZE, "unix:%s/socket", directory);
	listener = socket_listen(address + 5, 0600);
	if (listener < 0)
		fuzz_fail("%s", error_text());
	memory_make();
}

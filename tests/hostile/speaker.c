/* SPDX-License-Identifier: Apache-2.0 */
/* speaker.c - see speaker.h */
#include "speaker.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/socket.h"
#include "device/host-object.h"
#include "gpubroker.h"

#define TRIES            50 /* of a greeting */
#define PATIENCE_SECONDS 10

static struct sockaddr_un address = { .sun_family = AF_UNIX };
static const void *canary;
static size_t canary_size;
static bool canary_seen;

void speaker_setup(const char *path, const void *bytes, size_t size)
{
	strcpy(address.sun_path, path);
	canary = bytes;
	canary_size = size;
}

bool speaker_saw_canary(void)
{
	return canary_seen;
}

/* ---- the connection ---- */

int speaker_dial(struct speaker *speaker)
{
	struct timeval patience = { .tv_sec = PATIENCE_SECONDS };

	memset(speaker, 0, sizeof *speaker);
	speaker->board_fd = speaker->memory_fd = -1;
	speaker->sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (speaker->sock < 0)
		return -errno;
	setsockopt(speaker->sock, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	setsockopt(speaker->sock, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
	if (!connect(speaker->sock, (struct sockaddr *)&address, sizeof address))
		return 0;
	close(speaker->sock);
	speaker->sock = -1;
	return -errno;
}

int speaker_hello(struct speaker *speaker, struct wire_message *hello)
{
	struct wire_message challenge;
	int error = speaker_receive(speaker, &challenge, NULL);

	if (error)
		return error;
	if (challenge.type == WIRE_REFUSED)
		return challenge.refused.error;
	wire_init(hello, WIRE_HELLO, 0);
	memcpy(hello->hello.nonce, challenge.hello.nonce, sizeof hello->hello.nonce);
	wire_hello_fill(&hello->hello);
	return challenge.type == WIRE_CHALLENGE ? 0 : -EPROTO;
}

int speaker_welcome(struct speaker *speaker)
{
	struct wire_message message;
	int error = speaker_receive(speaker, &message, &speaker->board_fd);

	if (error)
		return error;
	if (message.type != WIRE_WELCOME)
		return message.type == WIRE_REFUSED ? message.refused.error : -EPROTO;
	speaker->session = message.welcome.session;
	memcpy(speaker->key, message.welcome.key, sizeof speaker->key);
	return board_map(&speaker->board, speaker->board_fd);
}

static int greet_once(struct speaker *speaker)
{
	struct wire_message hello;
	int error = speaker_dial(speaker);

	if (error)
		return error;
	error = speaker_hello(speaker, &hello);
	if (!error)
		error = speaker_say(speaker, &hello);
	if (!error)
		error = speaker_welcome(speaker);
	if (error)
		speaker_end(speaker);
	return error;
}

int speaker_greet(struct speaker *speaker)
{
	int error = greet_once(speaker);

	/* a broker that dies closes the connections that it has not welcomed */
	for (int try = 0; (error == -ECONNRESET || error == -EPIPE) && try < TRIES; try++) {
		usleep(20000);
		error = greet_once(speaker);
	}
	return error;
}

void speaker_end(struct speaker *speaker)
{
	if (speaker->board.header)
		board_unmap(&speaker->board);
	if (speaker->board_fd >= 0)
		close(speaker->board_fd);
	if (speaker->sock >= 0)
		close(speaker->sock);
	if (speaker->memory_fd >= 0)
		close(speaker->memory_fd);
	*speaker = (struct speaker){ .sock = -1, .board_fd = -1, .memory_fd = -1 };
}

/* ---- messages ---- */

struct wire_message speaker_message(enum wire_type type, const char *name)
{
	struct wire_message message;

	wire_init(&message, type, 0);
	strcpy(message.name.name, name);
	if (type == WIRE_CREATE) {
		message.create.size = 4096;
		message.create.mode = 0600;
	} else if (type == WIRE_ACQUIRE) {
		message.acquire.rights = GPUB_READ;
	} else if (type == WIRE_ISSUE) {
		message.issue.rights = GPUB_READ;
		message.issue.uid = TICKET_ANY_USER;
	}
	return message;
}

int speaker_send(const struct speaker *speaker, const void *bytes, size_t size, int flags)
{
	ssize_t sent;

	do
		sent = send(speaker->sock, bytes, size, flags | MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	return sent == (ssize_t)size ? 0 : -errno;
}

int speaker_say(const struct speaker *speaker, const struct wire_message *message)
{
	return speaker_send(speaker, message, sizeof *message, 0);
}

#define FDS_MAX 253 /* what the kernel takes with one message */

int speaker_send_fds(const struct speaker *speaker, const struct wire_message *message, const int *fds, unsigned count)
{
	union {
		struct cmsghdr header;
		char           bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
	} control = { 0 };
	struct iovec io = { .iov_base = (void *)message, .iov_len = sizeof *message };
	struct msghdr msg = { .msg_iov = &io, .msg_iovlen = 1, .msg_control = &control };
	size_t size = count * sizeof *fds;

	msg.msg_controllen = CMSG_SPACE(size);
	control.header = (struct cmsghdr){ .cmsg_len = CMSG_LEN(size),
					   .cmsg_level = SOL_SOCKET,
					   .cmsg_type = SCM_RIGHTS };
	memcpy(CMSG_DATA(&control.header), fds, size);
	return sendmsg(speaker->sock, &msg, MSG_NOSIGNAL) == (ssize_t)sizeof *message ? 0 : -errno;
}

static void look_for_canary(const struct wire_message *message)
{
	if (canary_size && memmem(message, sizeof *message, canary, canary_size))
		canary_seen = true;
}

int speaker_receive(const struct speaker *speaker, struct wire_message *message, int *fd)
{
	struct socket_extra extra;
	int error = socket_receive(speaker->sock, message, &extra, fd != NULL, 0);

	if (error == -EAGAIN)
		return -ETIMEDOUT;
	if (error)
		return error;
	look_for_canary(message);
	if (fd)
		*fd = extra.fd;
	return 0;
}

int speaker_receive_end(const struct speaker *speaker)
{
	struct wire_message message;
	int error;

	do
		error = speaker_receive(speaker, &message, NULL);
	while (!error);
	return error == -ECONNRESET ? 0 : error;
}

/* Of MEMORY it is kept; of another message it is the caller's, if it wants one. */
static void take_descriptor(struct speaker *speaker, const struct wire_message *message, int came, int *fd)
{
	int *place = message->type == WIRE_MEMORY ? &speaker->memory_fd : fd;

	if (place == &speaker->memory_fd && *place >= 0)
		close(*place);
	if (place)
		*place = came;
	else if (came >= 0)
		close(came);
}

int speaker_ask(struct speaker *speaker, const struct wire_message *message, struct wire_message *answer, int *fd)
{
	struct wire_message asked = *message;
	int error, came;

	asked.request = ++speaker->request;
	error = speaker_say(speaker, &asked);
	if (error)
		return error;
	do {
		error = speaker_receive(speaker, answer, &came);
		if (!error)
			take_descriptor(speaker, answer, came, fd);
	} while (!error && answer->request != asked.request);
	if (!error && answer->type == WIRE_REFUSED)
		error = answer->refused.error;
	return error;
}

/* ---- whole requests ---- */

int speaker_create(struct speaker *speaker, const char *name, uint64_t size, unsigned mode, unsigned flags)
{
	struct wire_message message = speaker_message(WIRE_CREATE, name), answer;

	message.create.size = size;
	message.create.mode = mode;
	message.create.flags = flags;
	return speaker_ask(speaker, &message, &answer, NULL);
}

int speaker_named(struct speaker *speaker, enum wire_type type, const char *name)
{
	struct wire_message message = speaker_message(type, name), answer;

	return speaker_ask(speaker, &message, &answer, NULL);
}

static int ask_for_grant(struct speaker *speaker, const struct wire_message *message, struct wire_grant *grant)
{
	struct wire_message answer;
	int error = speaker_ask(speaker, message, &answer, NULL);

	if (!error && answer.type != WIRE_GRANT)
		error = -EPROTO;
	if (!error)
		*grant = answer.grant;
	return error;
}

int speaker_acquire(struct speaker *speaker, const char *name, unsigned rights, struct wire_grant *grant)
{
	struct wire_message message = speaker_message(WIRE_ACQUIRE, name);

	message.acquire.rights = rights;
	return ask_for_grant(speaker, &message, grant);
}

int speaker_redeem(struct speaker *speaker, const struct ticket *ticket, struct wire_grant *grant)
{
	struct wire_message message;

	wire_init(&message, WIRE_REDEEM, 0);
	message.redeem.ticket = *ticket;
	return ask_for_grant(speaker, &message, grant);
}

int speaker_closed(const struct speaker *speaker, uint64_t mapping)
{
	struct wire_message message;

	wire_init(&message, WIRE_CLOSED, 0);
	message.grant_id.mapping = mapping;
	return speaker_say(speaker, &message);
}

int speaker_quiesced(const struct speaker *speaker, uint64_t mapping, uint64_t serial)
{
	struct wire_message message;

	wire_init(&message, WIRE_QUIESCED, 0);
	message.grant_id.mapping = mapping;
	message.grant_id.serial = serial;
	return speaker_say(speaker, &message);
}

int speaker_issue(struct speaker *speaker, const char *name, const struct wire_issue *terms, struct ticket *ticket)
{
	struct wire_message message = speaker_message(WIRE_ISSUE, name), answer;
	int error;

	message.issue.rights = terms->rights;
	message.issue.uid = terms->uid;
	message.issue.once = terms->once;
	message.issue.lifetime_ms = terms->lifetime_ms;
	error = speaker_ask(speaker, &message, &answer, NULL);
	if (!error)
		*ticket = answer.ticket;
	return error;
}

int speaker_unseal(const struct speaker *speaker, const struct wire_grant *grant, struct device_handle *handle)
{
	const struct board_header *header = speaker->board.header;
	struct seal_terms terms = { .session = speaker->session,
				      .mapping = grant->mapping,
				      .serial = grant->serial,
				      .size = grant->size,
				      .offset = grant->offset,
				      .rights = grant->rights,
				      .version = WIRE_VERSION,
				      .exported = grant->exported };

	memcpy(terms.instance, header->instance_id, sizeof terms.instance);
	memcpy(terms.device_uuid, header->device[grant->owner_device].uuid, sizeof terms.device_uuid);
	return handle_unseal(handle, &terms, &speaker->board.handles[grant->place], speaker->key);
}

void *speaker_map(const struct speaker *speaker, const struct wire_grant *grant)
{
	struct device_handle handle;
	char name[HOST_NAME_SIZE];
	void *base;
	int fd;

	bool by_descriptor = export_of(grant->exported)->by_descriptor;

	if (speaker_unseal(speaker, grant, &handle) || (!by_descriptor && !host_object_name(&handle, name)))
		return NULL;
	fd = by_descriptor ? dup(speaker->memory_fd) : open(name, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	base = mmap(NULL, grant->span, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return base == MAP_FAILED ? NULL : base;
}

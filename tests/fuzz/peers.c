/* SPDX-License-Identifier: Apache-2.0 */
/* peers.c - see peers.h */
#include "peers.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

struct ticket peers_ticket;

/* ---- receiving ---- */

/*
 * As long as the mapping is open its sealed handle stands in the board: it opens for this peer, and for exactly these
 * terms.
 */
static void grant_check(const struct peer *peer, struct broker *broker, const struct wire_grant *grant)
{
	const struct session *session = peer_session(peer, broker);
	const struct board_header *header = peer->board.header;
	struct device_handle handle;
	struct seal_terms terms = { .session = peer->welcomed.session,
				      .mapping = grant->mapping,
				      .serial = grant->serial,
				      .size = grant->size,
				      .offset = grant->offset,
				      .rights = grant->rights,
				      .version = WIRE_VERSION,
				      .exported = grant->exported };

	/* the session has the mapping, and its sealed handle came before */
	bool shared = grant->place == WIRE_NO_HANDLE;

	FUZZ_HOLDS((shared || grant->place < header->handles) && grant->buffer < header->buffers &&
			   grant->owner_device < header->devices && grant->offset + grant->size <= grant->span,
		   "a grant leaves the board or its memory");
	if (shared || !session || !mappings_find(&session->mappings, grant->mapping))
		return;
	memcpy(terms.instance, header->instance_id, sizeof terms.instance);
	memcpy(terms.device_uuid, header->device[grant->owner_device].uuid, sizeof terms.device_uuid);
	FUZZ_HOLDS(!handle_unseal(&handle, &terms, &peer->board.handles[grant->place], peer->welcomed.key),
		   "the sealed handle of an open mapping does not open");
}

static void on_welcome(struct peer *peer, const struct wire_message *message, int fd)
{
	FUZZ_HOLDS(!peer->welcome, "a session is welcomed twice");
	FUZZ_HOLDS(fd >= 0 && !board_map(&peer->board, fd), "no good board comes with the WELCOME");
	peer->welcome = true;
	peer->welcomed = message->welcome;
}

static void on_message(struct peer *peer, struct broker *broker, const struct wire_message *message, int fd)
{
	const struct wire_row *row = wire_row(message->type);

	FUZZ_HOLDS(row->sender == WIRE_BROKER, "the broker sends %s", row->name);
	FUZZ_HOLDS(peer->welcome || row->traits & WIRE_GREETS, "%s comes before the WELCOME", row->name);
	if (message->type == WIRE_CHALLENGE)
		peer->challenge = message->hello;
	if (message->type == WIRE_WELCOME)
		on_welcome(peer, message, fd);
	if (message->type == WIRE_GRANT) {
		grant_check(peer, broker, &message->grant);
		peer->grants[peer->granted++ % PEER_GRANTS] = message->grant;
	}
	if (message->type == WIRE_TICKET)
		peers_ticket = message->ticket;
	if (fd >= 0)
		close(fd);
}

/* Which holds as many messages as a packet may, and a descriptor where there is one. */
static unsigned on_packet(struct peer *peer, struct broker *broker, const struct socket_packet *packet)
{
	FUZZ_HOLDS(packet->count == 1 || packet->extra.fd < 0, "the broker packs a message that has a descriptor");
	for (unsigned i = 0; i < packet->count; i++) {
		FUZZ_HOLDS(!socket_packet_check(packet, i), "the broker sends a malformed message");
		on_message(peer, broker, &packet->message[i], packet->extra.fd);
	}
	return packet->count;
}

unsigned peer_read(struct peer *peer, struct broker *broker, unsigned count)
{
	static struct socket_packet packet;
	unsigned received = 0;

	while (peer->sock >= 0 && received < count && !socket_receive_packet(peer->sock, &packet, true, MSG_DONTWAIT))
		received += on_packet(peer, broker, &packet);
	return received;
}

/* ---- composing ---- */

/* One of the choices, or, where the byte says so, whatever stands in the input. */
static uint64_t choose(struct input *input, const uint64_t *choices, unsigned count)
{
	uint8_t byte = input_byte(input);

	return byte == 0xff ? input_u64(input) : choices[byte % count];
}

#define CHOOSE(input, ...)                                                              \
	choose(input, (const uint64_t[]){ __VA_ARGS__ },                                \
	       sizeof((const uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t))

/* Nothing ends it but the input: wire_check() is to see that. */
static void compose_name(struct input *input, char name[NAME_SIZE])
{
	static const char *const names[] = { "a", "b", "c", "d/e", "honest", "", "/x", "a b" };
	uint8_t byte = input_byte(input);

	if (byte == 0xff)
		input_take(input, name, NAME_SIZE);
	else if (byte == 0xfe)
		memset(name, 'n', NAME_SIZE - 1);
	else
		strcpy(name, names[byte % (sizeof names / sizeof *names)]);
}

static void compose_grant(const struct peer *peer, struct input *input, struct wire_grant_id *id)
{
	uint8_t byte = input_byte(input);
	const struct wire_grant *known = &peer->grants[byte % PEER_GRANTS];

	/* ids of mappings and serials are small numbers: guessing is no secret's end */
	id->mapping = byte < 0xc0 ? known->mapping : byte == 0xff ? input_u64(input) : byte & 0x1f;
	id->serial = byte < 0xb0 ? known->serial : input_byte(input);
}

/* Fills a message by its row: names, and bytes of the input behind them; with a case here, sensible values. */
static void compose_body(const struct peer *peer, struct input *input, struct wire_message *message)
{
	const struct wire_row *row = wire_row(message->type);

	/* a number that is none: the first bytes of what later versions may send */
	if (row->sender == WIRE_NOBODY)
		input_take(input, message->bytes, input_below(input, sizeof message->bytes));
	for (unsigned i = 0; i < row->names; i++)
		compose_name(input, (char *)message->bytes + i * NAME_SIZE);
	switch (message->type) {
	case WIRE_CREATE:
		message->create.size = CHOOSE(input, 1, 4096, 4097, 65536, 131072, 262144, 262145, 0, UINT64_MAX);
		message->create.device = (uint32_t)CHOOSE(input, 0, 0, 0, 1, 2);
		message->create.mode = (uint32_t)CHOOSE(input, 0600, 0666, 0644, 0, 01777);
		message->create.flags = (uint32_t)CHOOSE(input, 0, 1, 2, 3, 4);
		message->create.timeout_ms = (int32_t)CHOOSE(input, 0, UINT64_MAX, 1, 60000);
		message->create.reserve = CHOOSE(input, 0, 0, 0, 262144, 1048576, 4096, UINT64_MAX);
		break;
	case WIRE_ACQUIRE:
		message->acquire.rights = (uint32_t)CHOOSE(input, 1, 2, 3, 0, 4);
		message->acquire.device = (uint32_t)CHOOSE(input, 0, 0, 1, 2);
		message->acquire.timeout_ms = (int32_t)CHOOSE(input, 0, UINT64_MAX, 1, 60000);
		break;
	case WIRE_CLOSED:
	case WIRE_QUIESCED:
	case WIRE_WRITER:
		compose_grant(peer, input, &message->grant_id);
		break;
	case WIRE_CHANGE:
		message->change.what = input_below(input, 9);
		message->change.mode = (uint32_t)CHOOSE(input, 0600, 0666, 0, 01000);
		message->change.owner = (uint32_t)CHOOSE(input, 5000, 5001, 4000, 0);
		message->change.group = (uint32_t)CHOOSE(input, 5000, 5001, 4000, 0);
		break;
	case WIRE_RIGHTS:
		compose_grant(peer, input, &message->grant_id); /* both begin with mapping and serial */
		message->rights.rights = (uint32_t)CHOOSE(input, 1, 2, 3, 0, 4);
		break;
	case WIRE_RENAME:
		message->rename.flags = (uint32_t)CHOOSE(input, 0, 1, 2);
		break;
	case WIRE_RESIZE:
		message->resize.size = CHOOSE(input, 1, 4097, 65536, 262144, 524288, 1048576, 1048577, 0, UINT64_MAX);
		message->resize.timeout_ms = (int32_t)CHOOSE(input, 0, UINT64_MAX, 1, 60000);
		break;
	case WIRE_NEWER:
		message->newer.generation = CHOOSE(input, 0, 1, 2, 3, 4, UINT64_MAX);
		message->newer.timeout_ms = (int32_t)CHOOSE(input, 0, UINT64_MAX, 1, 60000);
		break;
	case WIRE_DRAIN:
		message->drain.timeout_ms = (int32_t)CHOOSE(input, 0, UINT64_MAX, 1, 60000);
		break;
	case WIRE_EVICT:
		message->evict.session = CHOOSE(input, 1, 2, 3, 4, 5, 6, 7, 8);
		break;
	case WIRE_ISSUE:
		message->issue.lifetime_ms = CHOOSE(input, 0, 1, 60000, UINT64_MAX);
		message->issue.rights = (uint32_t)CHOOSE(input, 1, 2, 3, 0, 4);
		message->issue.uid = (uint32_t)CHOOSE(input, TICKET_ANY_USER, 5000, 5001, 4000);
		message->issue.once = (uint32_t)CHOOSE(input, 0, 1, 2);
		break;
	case WIRE_REDEEM:
		message->redeem.ticket = peers_ticket;
		message->redeem.device = (uint32_t)CHOOSE(input, 0, 0, 1, 2);
		break;
	case WIRE_HELLO:
		message->hello = peer->challenge;
		message->hello.flags = input_byte(input);
		message->hello.oldest = message->hello.flags >> 6; /* 2 and 3 are no revision of the broker */
		break;
	default:
		if (row->size > row->names * NAME_SIZE)
			input_take(input, message->bytes + row->names * NAME_SIZE, row->size - row->names * NAME_SIZE);
	}
}

void peer_compose(struct peer *peer, struct input *input, struct wire_message *message)
{
	/* Messages that reach far come more often. The corpus has them by their place here, others by number. */
	static const uint8_t often[] = { WIRE_CREATE, WIRE_ACQUIRE, WIRE_CREATE, WIRE_ACQUIRE, WIRE_UNLINK, WIRE_STAT,
					 WIRE_CLOSED, WIRE_WRITER, WIRE_LEAVE, WIRE_HELLO,   WIRE_CHANGE, WIRE_DRAIN,
					 WIRE_ISSUE,  WIRE_REDEEM, WIRE_EVICT,  WIRE_REFRESH, WIRE_WAITS,
					 WIRE_RIGHTS, WIRE_SEAL,  WIRE_RENAME, WIRE_NEWER, WIRE_RESIZE, WIRE_CANCEL };
	uint8_t type = input_byte(input), changes;

	wire_init(message, type < 0xc0 ? often[type % sizeof often] : type % (WIRE_TYPES + 2), input_byte(input));
	compose_body(peer, input, message);
	changes = input_byte(input);
	for (unsigned i = 0; changes >= 0xf0 && i < (changes & 0xf); i++)
		input_flip(input, message, sizeof *message);
	peer->last = *message;
}

/* ---- saying ---- */

static void send_raw(struct peer *peer, const void *bytes, size_t length, void *control, size_t control_length)
{
	struct iovec io = { .iov_base = (void *)bytes, .iov_len = length };
	struct msghdr msg = { .msg_iov = &io,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = control_length };

	if (peer->sock >= 0 && sendmsg(peer->sock, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return; /* it may be cut off, or not be read: its own business */
}

void peer_say(struct peer *peer, const struct wire_message *message, size_t length)
{
	uint8_t bytes[2 * WIRE_SIZE] = { 0 };

	memcpy(bytes, message, sizeof *message);
	send_raw(peer, bytes, length <= sizeof bytes ? length : sizeof bytes, NULL, 0);
}

void peer_say_packet(struct peer *peer, const struct wire_message *message, unsigned count)
{
	struct wire_message packet[SOCKET_PACKET_MAX + 2];

	count = count % (SOCKET_PACKET_MAX + 2) + 1;
	for (unsigned i = 0; i < count; i++) {
		packet[i] = *message;
		packet[i].request += i;
	}
	send_raw(peer, packet, count * sizeof *packet, NULL, 0);
}

void peer_say_descriptors(struct peer *peer, const struct wire_message *message, unsigned count)
{
	union {
		struct cmsghdr header;
		char           bytes[CMSG_SPACE(16 * sizeof(int))];
	} control = { 0 };
	int fds[16];

	for (unsigned i = 0; i < 16; i++)
		fds[i] = peer->sock;
	count = count % 16 + 1;
	control.header = (struct cmsghdr){ .cmsg_len = CMSG_LEN(count * sizeof(int)),
					   .cmsg_level = SOL_SOCKET,
					   .cmsg_type = SCM_RIGHTS };
	memcpy(CMSG_DATA(&control.header), fds, count * sizeof(int));
	send_raw(peer, message, sizeof *message, &control, CMSG_SPACE(count * sizeof(int)));
}

/* Root alone may; others' messages do not leave. */
void peer_say_as_another(struct peer *peer, const struct wire_message *message)
{
	union {
		struct cmsghdr header;
		char           bytes[CMSG_SPACE(sizeof(struct ucred))];
	} control = { 0 };
	struct ucred sender = { .pid = 1, .uid = getuid(), .gid = getgid() };

	control.header = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof sender),
					   .cmsg_level = SOL_SOCKET,
					   .cmsg_type = SCM_CREDENTIALS };
	memcpy(CMSG_DATA(&control.header), &sender, sizeof sender);
	send_raw(peer, message, sizeof *message, &control, sizeof control.bytes);
}

/* ---- coming and going ---- */

void peer_dial(struct peer *peer, const char *path)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };

	*peer = (struct peer){ 0 };
	strcpy(sun.sun_path, path);
	peer->sock = socket_connect(&sun);
	FUZZ_HOLDS(peer->sock >= 0, "the broker's socket takes nobody");
}

void peer_hang_up(struct peer *peer)
{
	if (peer->sock >= 0)
		close(peer->sock);
	board_unmap(&peer->board);
	*peer = (struct peer){ .sock = -1 };
}

struct session *peer_session(const struct peer *peer, struct broker *broker)
{
	return peer->welcome ? session_find(broker, peer->welcomed.session) : NULL;
}

void peer_become(const struct peer *peer, struct broker *broker, uid_t uid)
{
	struct session *session = peer_session(peer, broker);

	if (!session || session->mappings.by_id)
		return;
	fair_leave(&session->place);
	session->who.uid = session->outbox.owner.uid = uid;
	session->who.gid = (gid_t)uid;
	if (fair_join(broker->queue, &session->place, session->who.uid))
		fuzz_fail("out of memory");
}

/* SPDX-License-Identifier: Apache-2.0 */
/* wire.c - see wire.h */
#include "wire.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "error.h"

void wire_init(struct wire_message *message, enum wire_type type, uint64_t request)
{
	memset(message, 0, sizeof *message);
	message->magic = WIRE_MAGIC;
	message->version = WIRE_VERSION;
	message->type = (uint16_t)type;
	message->request = request;
}

void wire_refuse(struct wire_message *message, uint64_t request, int error, const char *text)
{
	wire_init(message, WIRE_REFUSED, request);
	message->refused.error = error;
	snprintf(message->refused.text, sizeof message->refused.text, "%s", text);
}

/* Whether `text` has a NUL in its first `size` bytes. */
static bool ends(const char *text, size_t size)
{
	return memchr(text, 0, size) != NULL;
}

/* Whether each of the `count` names at the beginning of the body, which have no gaps between them, has a NUL. */
static bool names_end(const struct wire_message *message, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (!ends((const char *)message->bytes + (size_t)i * NAME_SIZE, NAME_SIZE))
			return false;
	return true;
}

static bool counts_fit(const struct wire_message *message)
{
	switch (message->type) {
	case WIRE_REFUSED:
		return message->refused.error < 0 && ends(message->refused.text, WIRE_TEXT_SIZE);
	case WIRE_WAITS:
		return message->waits.count <= WIRE_WAITS_MAX && message->waits.more <= 1;
	case WIRE_PART:
		return message->part.length <= WIRE_PART_SIZE;
	default:
		return true;
	}
}

int wire_check(const struct wire_message *message, size_t length)
{
	const struct wire_row *row;

	if (length != WIRE_SIZE)
		return error_set(-EPROTO, "a message of %zu bytes arrived where all have %d", length, WIRE_SIZE);
	if (message->magic != WIRE_MAGIC)
		return error_set(-EPROTO, "the peer does not speak gpubroker's protocol");
	if (message->version != WIRE_VERSION)
		return error_set(-EPROTO, "the peer speaks protocol version %u and this side version %u, which "
					  "have nothing in common: upgrade the lower one (a container's library is "
					  "in its image)",
				 message->version, WIRE_VERSION);
	row = wire_row(message->type);
	if (row->sender == WIRE_NOBODY)
		return error_set(-EPROTO, "a message of type %u arrived, which revision %u of the protocol does not "
					  "have",
				 message->type, WIRE_REVISION);
	if (!names_end(message, row->names) || !counts_fit(message))
		return error_set(-EPROTO, "a malformed message arrived (type %u)", message->type);
	return 0;
}

const struct wire_row *wire_row(unsigned type)
{
	static const struct wire_row rows[WIRE_TYPES] = {
		[WIRE_NONE] = { .name = "?", .sender = WIRE_NOBODY },
#define BODY(member) sizeof(((struct wire_message *)NULL)->member)
#define WIRE_ROW(name, number, sender, answer, size, names, traits, since) \
	[number] = { #name, WIRE_##sender, WIRE_##answer, size, names, traits, since },
		WIRE_MESSAGES(WIRE_ROW)
#undef WIRE_ROW
#undef BODY
	};

	return &rows[type < WIRE_TYPES ? type : WIRE_NONE];
}

void wire_hello_fill(struct wire_hello *hello)
{
	hello->oldest = WIRE_REVISION_OLDEST;
	hello->newest = WIRE_REVISION;
}

int wire_agree(const struct wire_hello *hello, const char *peer, const char *self)
{
	bool peer_is_older = hello->newest < WIRE_REVISION_OLDEST;

	if (hello->oldest <= hello->newest && !peer_is_older && hello->oldest <= WIRE_REVISION)
		return (int)(hello->newest < WIRE_REVISION ? hello->newest : WIRE_REVISION);
	return error_set(-EPROTO, "the %s speaks revisions %u to %u of the protocol and the %s %u to %u: "
				  "upgrade the %s",
			 peer, hello->oldest, hello->newest, self, WIRE_REVISION_OLDEST, WIRE_REVISION,
			 peer_is_older ? peer : self);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz-ticket.c - sealed handles and tickets that are arbitrary bytes, and good ones with a few bits changed.
 *
 * A handle that nobody sealed must not open; a sealed one opens for exactly its terms and its key. A text that is read
 * as a ticket is the one text of that ticket, and is genuine only as it was stamped. A refusal leaves the output alone.
 */
#include "fuzz.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "common/sealed.h"
#include "common/ticket.h"

struct sealed {
	struct seal_terms    terms;
	uint8_t              key[WIRE_KEY_SIZE];
	struct device_handle handle;
	struct sealed_handle        ticket;
};

/* True: opened. */
static bool try(const struct sealed *sealed, struct device_handle *handle)
{
	struct device_handle before = *handle;
	int error = handle_unseal(handle, &sealed->terms, &sealed->ticket, sealed->key);

	if (!error)
		return true;
	FUZZ_HOLDS(error == -EKEYREJECTED, "a sealed handle is refused with %d", error);
	FUZZ_HOLDS(!memcmp(handle, &before, sizeof before), "a sealed handle that is refused leaves something behind");
	fuzz_check_message();
	return false;
}

/* Its reserved bytes are the only ones that may be anything. */
static void change(struct sealed *sealed, struct input *input)
{
	static const struct {
		size_t offset, size;
	} parts[] = {
		{ offsetof(struct sealed, ticket), offsetof(struct sealed_handle, reserved) },
		{ offsetof(struct sealed, terms), sizeof sealed->terms },
		{ offsetof(struct sealed, key), sizeof sealed->key },
	};
	unsigned part = input_below(input, 3), times = 1 + input_below(input, 4);

	while (times--)
		input_flip(input, (uint8_t *)sealed + parts[part].offset, parts[part].size);
}

static void sealed_and_changed(struct input *input)
{
	struct sealed sealed = { 0 }, other;
	struct device_handle handle = { 0 };

	input_take(input, &sealed.terms, sizeof sealed.terms);
	input_take(input, sealed.key, sizeof sealed.key);
	input_take(input, &sealed.handle, sizeof sealed.handle);
	handle_seal(&sealed.ticket, &sealed.terms, &sealed.handle, sealed.key);
	FUZZ_HOLDS(try(&sealed, &handle), "a sealed handle does not open for whom it was sealed");
	FUZZ_HOLDS(!memcmp(&handle, &sealed.handle, sizeof handle), "it gives another handle than went in");
	other = sealed;
	change(&other, input);
	if (memcmp(&other, &sealed, sizeof sealed))
		FUZZ_HOLDS(!try(&other, &handle), "a sealed handle opens though it, its terms or its key were changed");
}

static void raw(struct input *input)
{
	struct device_handle handle = { 0 };
	struct sealed sealed = { 0 };

	input_take(input, &sealed.ticket, sizeof sealed.ticket);
	input_take(input, sealed.key, sizeof sealed.key);
	input_take(input, &sealed.terms, sizeof sealed.terms);
	FUZZ_HOLDS(!try(&sealed, &handle), "a sealed handle opens that nobody sealed");
}

/* ---- text ---- */

static const uint8_t stamping_key[TICKET_KEY_SIZE] = { 's', 't', 'a', 'm', 'p' };

/* True: it is read. It need not be genuine. */
static bool text_try(const char *text, struct ticket *ticket)
{
	struct ticket before = *ticket;
	char again[TICKET_TEXT_MAX];
	int error = ticket_decode(text, ticket);

	if (error) {
		FUZZ_HOLDS(error == -EKEYREJECTED, "a text is refused with %d", error);
		FUZZ_HOLDS(!memcmp(ticket, &before, sizeof before), "a text that is refused leaves something behind");
		fuzz_check_message();
		return false;
	}
	ticket_encode(ticket, again);
	FUZZ_HOLDS(!strcmp(text, again), "two texts are one ticket: %s and %s", text, again);
	return true;
}

static void text_stamped(struct input *input)
{
	char text[TICKET_TEXT_MAX], changed[TICKET_TEXT_MAX];
	struct ticket ticket, other = { 0 };

	input_take(input, &ticket, offsetof(struct ticket, stamp));
	ticket_stamp(&ticket, stamping_key);
	ticket_encode(&ticket, text);
	FUZZ_HOLDS(text_try(text, &other) && !memcmp(&ticket, &other, sizeof ticket) &&
			   ticket_is_genuine(&other, stamping_key),
		   "a ticket does not come back from its text");
	memcpy(changed, text, sizeof text);
	input_flip(input, changed, strlen(changed));
	if (strcmp(changed, text) && text_try(changed, &other))
		FUZZ_HOLDS(!ticket_is_genuine(&other, stamping_key), "a text that was changed is a genuine ticket: %s",
			   changed);
}

static void text_raw(struct input *input)
{
	char text[TICKET_TEXT_MAX + 32];
	struct ticket ticket = { 0 };
	size_t size = input->left < sizeof text - 1 ? input->left : sizeof text - 1;

	input_take(input, text, size);
	text[size] = 0;
	if (text_try(text, &ticket))
		FUZZ_HOLDS(!ticket_is_genuine(&ticket, stamping_key), "a text that nobody stamped is a genuine ticket");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const kinds[])(struct input *input) = { sealed_and_changed, raw, text_stamped, text_raw };
	struct input input = { data, size };

	if (sodium_init() < 0)
		fuzz_fail("libsodium does not start");
	kinds[input_below(&input, 4)](&input);
	return 0;
}

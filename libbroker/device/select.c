/* SPDX-License-Identifier: Apache-2.0 */
/* select.c - see select.h */
#include "select.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"

#if !HAVE_CUDA
const struct device *const device_cuda = NULL;
#endif

const struct device *device_find(uint32_t kind)
{
	const struct device *const tables[DEVICE_KINDS] = { [DEVICE_HOST] = &device_host, [DEVICE_CUDA] = device_cuda };

	return kind < DEVICE_KINDS ? tables[kind] : NULL;
}

enum choice { CHOOSE_AUTO, CHOOSE_CUDA, CHOOSE_HOST };

/*
 * Parses a number from 1 to DEVICE_MAX. Accepts only one to three digits, because strtoul(3) alone would also accept
 * signs and spaces.
 */
static int parse_count(const char *text, unsigned *count)
{
	size_t length = strspn(text, "0123456789");

	if (!length || length > 3 || text[length])
		return -EINVAL;
	*count = (unsigned)strtoul(text, NULL, 10);
	return *count >= 1 && *count <= DEVICE_MAX ? 0 : -EINVAL;
}

static int parse(const char *text, enum choice *choice, unsigned *count)
{
	*count = 1;
	if (text && !strcmp(text, "auto"))
		*choice = CHOOSE_AUTO;
	else if (text && !strcmp(text, "cuda"))
		*choice = CHOOSE_CUDA;
	else if (text && (!strcmp(text, "host") || (!strncmp(text, "host:", 5) && !parse_count(text + 5, count))))
		*choice = CHOOSE_HOST;
	else
		return error_set(-EINVAL, "'%.40s' is no device: write auto, cuda, host, or host:N with N from 1 to %d",
				 text ? text : "", DEVICE_MAX);
	return 0;
}

int device_check(const char *text)
{
	enum choice choice;
	unsigned count;
	int rc = parse(text, &choice, &count);

	if (rc)
		return rc;
	if (choice == CHOOSE_CUDA && !device_cuda)
		return error_set(-ENODEV, "this gpubroker was built without CUDA: use the device host, "
					  "or build it with --with-cuda");
	return 0;
}

static int start_cuda(const struct device_setup *setup)
{
	int count, rc = device_cuda->start(setup);

	if (rc)
		return rc;
	count = device_cuda->count();
	if (count < 0)
		return count;
	return count ? 0 : error_set(-ENODEV, "CUDA works here but shows no device");
}

int device_select(const char *text, bool owner, const struct device **device)
{
	struct device_setup setup = { .owner = owner };
	const struct device *chosen = &device_host;
	enum choice choice;
	int rc = device_check(text);

	if (rc)
		return rc;
	parse(text, &choice, &setup.host_count);
	if (choice != CHOOSE_HOST && device_cuda) {
		rc = start_cuda(&setup);
		/* "auto" chooses host only if there is no GPU; if a GPU fails, the user must learn of it */
		if (rc && (choice == CHOOSE_CUDA || rc != -ENODEV))
			return rc;
		if (!rc)
			chosen = device_cuda;
	}
	if (chosen == &device_host) {
		rc = device_host.start(&setup);
		if (rc)
			return rc;
	}
	*device = chosen;
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz-spec.c - broker-run's spec file. The input is the file.
 *
 * What is taken must be a buffer that broker-run can make; what is refused, an error message that begins with
 * FILE:LINE.
 */
#include "fuzz.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/run/declared.h"
#include "broker/run/spec.h"
#include "common/error.h"
#include "device/device.h"

static void buffer_check(const struct declared_buffer *buffer)
{
	FUZZ_HOLDS(!name_check(buffer->name), "a buffer of the name '%s' is taken", buffer->name);
	FUZZ_HOLDS(buffer->amount.size && buffer->amount.size <= 1ull << 62, "a buffer of %llu bytes is taken",
		   (unsigned long long)buffer->amount.size);
	FUZZ_HOLDS(buffer->amount.device < DEVICE_MAX && buffer->mode <= 0777, "device %u or mode %o is taken",
		   buffer->amount.device, buffer->mode);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct declared_buffers buffers = { 0 };
	char path[FUZZ_PATH_SIZE];
	int fd = fuzz_file(data, size), error;

	error = run_spec_read(&buffers, fuzz_path(fd, path));
	close(fd);
	if (error)
		fuzz_check_file_message(path, data, size);
	for (unsigned i = 0; i < buffers.count; i++)
		buffer_check(&buffers.list[i]);
	declared_free(&buffers);
	return 0;
}

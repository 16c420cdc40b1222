/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz-config.c - brokerd's configuration. The input is the file.
 *
 * What is taken must be a configuration that the broker can run with, and survive a reload beside the defaults; what is
 * refused, an error message that begins with FILE:LINE.
 */
#include "fuzz.h"

#include <string.h>
#include <unistd.h>

#include "broker/daemon/configuration.h"
#include "common/board.h"
#include "device/device.h"
#include "device/select.h"

static void config_check(const struct brokerd_config *config)
{
	const struct broker_config *broker = &config->broker;

	FUZZ_HOLDS(!instance_check(broker->instance), "an instance '%s' is taken", broker->instance);
	FUZZ_HOLDS(!device_check(broker->device), "a device '%s' is taken", broker->device);
	FUZZ_HOLDS(broker->buffers && broker->buffers <= BOARD_BUFFERS_MAX && broker->handles &&
			   broker->handles <= BOARD_HANDLES_MAX,
		   "a board of %u buffers and %u mappings is accepted", broker->buffers, broker->handles);
	FUZZ_HOLDS(config->mode <= 0777 && config->socket[0] == '/', "a socket '%s' of mode %o is taken",
		   config->socket, config->mode);
	FUZZ_HOLDS(broker->quotas.users == config->quotas, "quotas are not those that the object owns");
	for (unsigned i = 0; i < broker->quotas.count; i++)
		for (unsigned j = 0; j < i; j++)
			FUZZ_HOLDS(config->quotas[i].uid != config->quotas[j].uid, "uid %u has two quotas",
				   config->quotas[i].uid);
}

static void reload_check(struct brokerd_config *config)
{
	struct brokerd_config *before;
	char text[BROKERD_KEYS_TEXT];

	if (brokerd_config_read(&before, NULL))
		return;
	brokerd_config_keep(config, before, text);
	FUZZ_HOLDS(strlen(text) < sizeof text, "the names of changed keys do not end");
	FUZZ_HOLDS(!strcmp(config->socket, before->socket), "a reload moves the socket");
	config_check(config);
	brokerd_config_free(before);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct brokerd_config *config;
	char path[FUZZ_PATH_SIZE];
	int fd = fuzz_file(data, size), error;

	error = brokerd_config_read(&config, fuzz_path(fd, path));
	close(fd);
	if (error) {
		fuzz_check_file_message(path, data, size);
		return 0;
	}
	config_check(config);
	reload_check(config);
	brokerd_config_free(config);
	return 0;
}

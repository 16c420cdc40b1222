/* SPDX-License-Identifier: Apache-2.0 */
/* spec.c - see spec.h */
#include "spec.h"

#include <errno.h>
#include <stdio.h>

#include "broker/base/config-text.h"
#include "broker/base/values.h"
#include "broker/registry/registry.h"
#include "common/error.h"
#include "common/size.h"
#include "declared.h"
#include "device/device.h"
#include "gpubroker.h"

static _Thread_local const char *reading;              /* path of the file that is being read */
/* the list to which the buffers of the file `reading` are added */
static _Thread_local struct declared_buffers *filling;

#define MANUAL "see broker-run(1), Spec files"

static const struct config_message messages[] = {
	{ "no such option '%s'", "'%s' is unknown: write buffer \"NAME\" { ... }, in it size or layout, reserve, "
				 "device, mode, timeline, dedicated, same_address" },
	{ "found duplicate title '%s'", "the buffer '%s' is declared twice: keep one" },
	{ "missing title for section '%s'", "this %s has no name: write buffer \"NAME\" { ... }" },
	{ "missing opening brace for section '%s'", "this %s has no '{' behind its name: add it" },
	{ "premature end of file", "the file ends in the middle of a buffer: add what is missing; " MANUAL },
	{ "unexpected token '%s'", "'%s' cannot stand here: " MANUAL },
	{ NULL, NULL },
};

static int take_buffer(cfg_t *section, struct declared_buffer *buffer)
{
	const char *name = cfg_title(section), *size = cfg_getstr(section, "size"),
		   *layout = cfg_getstr(section, "layout"), *reserve = cfg_getstr(section, "reserve");
	long device = cfg_getint(section, "device");
	int error = name_check(name);

	if (error)
		return error;
	snprintf(buffer->name, sizeof buffer->name, "%s", name);
	if (!size == !layout)
		return error_set(-EINVAL,
				 "the buffer '%s' needs a size or a layout: add size = \"64M\" or layout = "
				 "\"f32[1024,1024]\"",
				 name);
	if (device < 0 || device >= DEVICE_MAX)
		return error_set(-EINVAL, "device = %ld: give a number from 0 to %d", device, DEVICE_MAX - 1);
	buffer->flags = (cfg_getbool(section, "timeline") ? GPUB_TIMELINE : 0) |
			(cfg_getbool(section, "dedicated") ? GPUB_DEDICATED : 0) |
			(cfg_getbool(section, "same_address") ? GPUB_SAME_ADDRESS : 0);
	error = size ? size_parse(size, &buffer->amount.size) : take_layout(&buffer->amount, layout);
	if (!error && reserve)
		error = size_parse(reserve, &buffer->amount.reserve);
	buffer->amount.device = (unsigned)device;
	return error ? error : take_mode(&buffer->mode, cfg_getstr(section, "mode"));
}

/* Callback of libconfuse at the closing brace of a section `buffer`. */
static int on_buffer(cfg_t *cfg, cfg_opt_t *opt)
{
	cfg_t *section = cfg_opt_getnsec(opt, cfg_opt_size(opt) - 1);
	struct declared_buffer buffer = { 0 };
	int error = take_buffer(section, &buffer);

	buffer.file = reading;
	buffer.line = (unsigned)section->line;
	if (!error)
		error = declared_add(filling, &buffer);
	return error ? config_text_refuse(cfg) : 0;
}

int run_spec_read(struct declared_buffers *buffers, const char *path)
{
	cfg_opt_t buffer_options[] = { CFG_STR("size", NULL, CFGF_NODEFAULT), CFG_STR("layout", NULL, CFGF_NODEFAULT),
				       CFG_STR("reserve", NULL, CFGF_NODEFAULT), CFG_INT("device", 0, CFGF_NONE),
				       CFG_STR("mode", "0600", CFGF_NONE),
				       CFG_BOOL("timeline", cfg_false, CFGF_NONE),
				       CFG_BOOL("dedicated", cfg_false, CFGF_NONE),
				       CFG_BOOL("same_address", cfg_false, CFGF_NONE),
				       CFG_END() };
	cfg_opt_t file_options[] = { CFG_SEC("buffer", buffer_options,
					     CFGF_MULTI | CFGF_TITLE | CFGF_NO_TITLE_DUPES),
				     CFG_END() };
	struct config_file file = { path, "spec file", MANUAL, messages, NULL };
	cfg_t *cfg = cfg_init(file_options, CFGF_NONE);
	int error;

	if (!cfg)
		return error_set(-ENOMEM, "out of memory");
	reading = path;
	filling = buffers;
	cfg_set_validate_func(cfg, "buffer", on_buffer);
	error = config_text_load(&file, cfg);
	cfg_free(cfg);
	return error;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run-spec.c - buffers declared in a file, read with libconfuse:
 *
 *     buffer "field/u" { size = "64M"  device = 0  mode = "0600"  timeline = false }
 *
 * Owns nothing. The first error ends the reading; its sentence begins with FILE:LINE.
 */
#include "run-options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <confuse.h>

#include "common/error.h"
#include "common/size.h"
#include "device/device.h"
#include "gpubroker.h"

/* libconfuse goes on after an error; the first one is the cause. */
static _Thread_local bool complained;
static _Thread_local const char *reading; /* the file */

static void on_error(cfg_t *cfg, const char *format, va_list args)
{
	char text[200];

	if (complained)
		return;
	complained = true;
	vsnprintf(text, sizeof text, format, args);
	error_set(-EINVAL, "%s:%d: %s", reading, cfg ? cfg->line : 1, text);
}

/* ---- the text ---- */

#define SPEC_MAX (1u << 20) /* bytes of a file */

/* What stands at *text up to the end of a quoted string or of a comment; 1 where it is neither. */
static size_t token_length(const char *text, bool *comment)
{
	const char *end = text + 1;

	*comment = *text == '#' || !strncmp(text, "//", 2) || !strncmp(text, "/*", 2);
	if (*comment && text[1] == '*') {
		end = strstr(text + 2, "*/");
		return end ? (size_t)(end + 2 - text) : strlen(text);
	}
	if (*comment)
		return strcspn(text, "\n");
	if (*text != '"' && *text != '\'')
		return 1;
	while (*end && *end != *text)
		end += *end == '\\' && end[1] ? 2 : 1;
	return (size_t)(end - text) + (*end != 0);
}

/*
 * libconfuse 3.3 counts the lines of comments three times, so they become spaces; and it takes the end of the file for
 * a closing brace, so those are counted here.
 */
static int text_prepare(char *text, const char *path)
{
	unsigned line = 1, opened = 0, depth = 0;
	bool comment;
	size_t length;

	for (; *text; text += length) {
		length = token_length(text, &comment);
		for (size_t i = 0; i < length; i++) {
			line += text[i] == '\n';
			if (comment && text[i] != '\n')
				text[i] = ' ';
		}
		if (*text == '{' && !depth++)
			opened = line;
		if (*text == '}' && depth)
			depth--;
	}
	return depth ? error_set(-EINVAL, "%s:%u: the '{' of this line is never closed: add '}'", path, opened) : 0;
}

static int text_read(const char *path, char **text)
{
	FILE *file = fopen(path, "re");
	size_t length;
	int error = 0;

	if (!file)
		return error_set(-EINVAL, "%s cannot be read: %m", path);
	*text = malloc(SPEC_MAX + 1);
	if (!*text) {
		fclose(file);
		return error_set(-ENOMEM, "out of memory");
	}
	length = fread(*text, 1, SPEC_MAX + 1, file);
	if (ferror(file))
		error = error_set(-EINVAL, "%s cannot be read: %m", path);
	else if (length > SPEC_MAX || memchr(*text, 0, length))
		error = error_set(-EINVAL, "%s:1: this is no spec file: it is larger than %u bytes, or not text", path,
				  SPEC_MAX);
	fclose(file);
	if (!error) {
		(*text)[length] = 0;
		error = text_prepare(*text, path);
	}
	if (error)
		free(*text);
	return error;
}

/* ---- what it says ---- */

static int take_mode(const char *text, unsigned *mode)
{
	char *end;
	unsigned long value = strtoul(text, &end, 8);

	if (*text < '0' || *text > '7' || *end || value > 0777)
		return error_set(-EINVAL, "'%.20s' is no mode: write it in octal, such as 0640", text);
	*mode = (unsigned)value;
	return 0;
}

static int take_buffer(cfg_t *section, struct declared_buffer *buffer)
{
	const char *name = cfg_title(section), *size = cfg_getstr(section, "size");
	long device = cfg_getint(section, "device");
	int error = name_check(name);

	if (error)
		return error;
	snprintf(buffer->name, sizeof buffer->name, "%s", name);
	if (!size)
		return error_set(-EINVAL, "the buffer '%s' has no size: add size = \"64M\"", name);
	if (device < 0 || device >= DEVICE_MAX)
		return error_set(-EINVAL, "device = %ld: give a number from 0 to %d", device, DEVICE_MAX - 1);
	buffer->device = (unsigned)device;
	buffer->flags = cfg_getbool(section, "timeline") ? GPUB_TIMELINE : 0;
	error = size_parse(size, &buffer->size);
	return error ? error : take_mode(cfg_getstr(section, "mode"), &buffer->mode);
}

/* Called at the section's closing brace, so that the line is the section's own. */
static int on_buffer(cfg_t *cfg, cfg_opt_t *opt)
{
	cfg_t *section = cfg_opt_getnsec(opt, cfg_opt_size(opt) - 1);
	struct declared_buffer buffer = { 0 };

	if (!take_buffer(section, &buffer))
		return 0;
	cfg_error(cfg, "%s", error_text());
	return -1;
}

static int add_all(struct run_options *options, cfg_t *cfg, const char *path)
{
	for (unsigned i = 0; i < cfg_size(cfg, "buffer"); i++) {
		struct declared_buffer buffer = { 0 };
		int error = take_buffer(cfg_getnsec(cfg, "buffer", i), &buffer);

		if (!error)
			error = run_options_add(options, &buffer);
		if (error) {
			char text[ERROR_TEXT_MAX];

			snprintf(text, sizeof text, "%s", error_text());
			return error_set(error, "%s: %.240s", path, text);
		}
	}
	return 0;
}

static int parse(struct run_options *options, cfg_t *cfg, const char *path, const char *text)
{
	complained = false;
	reading = path;
	cfg_set_error_function(cfg, on_error);
	cfg_set_validate_func(cfg, "buffer", on_buffer);
	return cfg_parse_buf(cfg, text) == CFG_SUCCESS ? add_all(options, cfg, path) : -EINVAL;
}

int run_spec_read(struct run_options *options, const char *path)
{
	cfg_opt_t buffer_options[] = { CFG_STR("size", NULL, CFGF_NODEFAULT), CFG_INT("device", 0, CFGF_NONE),
				       CFG_STR("mode", "0600", CFGF_NONE),
				       CFG_BOOL("timeline", cfg_false, CFGF_NONE), CFG_END() };
	cfg_opt_t file_options[] = { CFG_SEC("buffer", buffer_options,
					     CFGF_MULTI | CFGF_TITLE | CFGF_NO_TITLE_DUPES),
				     CFG_END() };
	cfg_t *cfg;
	char *text;
	int error = text_read(path, &text);

	if (error)
		return error;
	cfg = cfg_init(file_options, CFGF_NONE);
	error = cfg ? parse(options, cfg, path, text) : error_set(-ENOMEM, "out of memory");
	cfg_free(cfg);
	free(text);
	return error;
}

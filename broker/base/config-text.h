/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config-text.h - reads configuration files in libconfuse's syntax; the first mistake in a file gives one error
 * message, which begins with FILE:LINE.
 *
 * Refuses text that libconfuse would accept by mistake, and replaces libconfuse's messages by ours. Serves spec files
 * (run/spec.c) and brokerd's configuration (daemon/configuration.c). Owns nothing, and knows no option of either
 * file.
 */
#ifndef GPUB_CONFIG_TEXT_H
#define GPUB_CONFIG_TEXT_H

#include <confuse.h>

/* A message of libconfuse, and our message that replaces it: printf formats for the same arguments. */
struct config_message {
	const char *theirs, *ours;
};

struct config_file {
	const char                  *path;
	const char                  *kind;     /* what error messages call the file: "spec file" */
	const char                  *manual;   /* end of an error message: "see PAGE(N)" */
	const struct config_message *messages; /* replacements for files of this kind; ends with an empty entry */
	char                       **text;     /* where the file's text is stored, for free(3); NULL: nowhere */
};

/*
 * Parses the file into cfg, whose validate functions get the values. Returns 0, or the first error, with the error
 * message set: -ENOENT if the file does not exist, -EINVAL if it cannot be read or has a mistake, or -ENOMEM. Stores
 * the text, with spaces in place of comments, if it returns 0.
 */
int config_text_load(const struct config_file *file, cfg_t *cfg);

/*
 * Called in a validate function to refuse a value: makes the thread's error message the error of the file, with the
 * path and the line in front. Returns -1, which the validate function returns.
 */
int config_text_refuse(cfg_t *cfg);

#endif

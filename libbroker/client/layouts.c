/* SPDX-License-Identifier: Apache-2.0 */
/* layouts.c - gpub_layout_parse, gpub_layout_text: converts a buffer's layout from and to text. Owns nothing. */
#include <errno.h>

#include "common/error.h"
#include "common/layout.h"
#include "gpubroker.h"

int gpub_layout_parse(const char *text, gpub_layout *layout)
{
	if (!layout)
		return error_set(-EINVAL, "there is no place for the layout: pass the address of one");
	return layout_parse(text, layout);
}

int gpub_layout_text(const gpub_layout *layout, char *text)
{
	int error;

	if (!layout || !text)
		return error_set(-EINVAL,
				 "there is no layout, or no place for its text: pass GPUB_LAYOUT_TEXT_MAX bytes");
	error = layout_check(layout);
	if (!error)
		layout_text(layout, text);
	return error;
}

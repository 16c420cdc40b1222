/* SPDX-License-Identifier: Apache-2.0 */
/* info.h - gpub_info as gpubroker.Info: a tuple with names. Owns nothing. */
#ifndef GPUB_PYTHON_INFO_H
#define GPUB_PYTHON_INFO_H

#include "module.h"

PyObject *info_from(const struct module_types *types, const gpub_info *info);

#endif

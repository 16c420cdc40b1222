/* SPDX-License-Identifier: Apache-2.0 */
/*
 * module.h - gpub_module_* and gpub_launch: files of kernels, loaded on the devices in use when they are opened.
 *
 * A module's name is its place in a fixed table and the generation of that place. A kernel's name is its module and its number
 * in the module's table. gpub_module * and gpub_kernel are those names, not addresses: a closed or forged one is refused and
 * never dereferenced. A close waits for other threads' calls in progress, then for launches in flight on the devices, then
 * unloads.
 *
 * Loading waits for what runs on a device, so it happens where the program can expect it: when it opens a module, chooses a
 * device, or creates a stream there. Owns the table and the loaded files. Never opens or closes memory of the broker.
 */
#ifndef GPUB_MODULE_H
#define GPUB_MODULE_H

struct gpub_client;

/* Loads the open modules that are not loaded on that device: it may wait for what runs there. Reports no error. */
void modules_ready(const struct gpub_client *client, int ordinal);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * module.h - gpub_module_* and gpub_launch: files of kernels, loaded on the devices in use when they are opened.
 *
 * A module is named by a place in a fixed table and the generation of what lies there, and a kernel by its module and its
 * number in that module's table. What a caller has, gpub_module * and gpub_kernel, are those names and no addresses. So
 * one that was closed, or forged, is refused, however often it is used again, and never followed. A close waits for calls
 * that other threads are in the middle of, then for the launches in flight on the devices, then unloads.
 *
 * Loading waits for what runs on a device, so it is done where the program can expect it: when a module is opened, and
 * when the program chooses a device or makes a stream there. Owns the table and the loaded files. Never opens or closes
 * memory of the broker.
 */
#ifndef GPUB_MODULE_H
#define GPUB_MODULE_H

struct gpub_client;

/*
 * Loads what modules are open on that device, where they are not: it may wait for what runs there. Nothing of it fails.
 */
void modules_ready(const struct gpub_client *client, int ordinal);

#endif

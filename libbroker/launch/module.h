/* SPDX-License-Identifier: Apache-2.0 */
/*
 * module.h - gpub_module_* and gpub_launch: modules, which are files of kernels. Opening a module loads it on all
 * devices in use.
 *
 * A gpub_module * and a gpub_kernel are tokens, not addresses: the token of a closed module and a forged token are
 * refused and never dereferenced. A module's token is its place in a fixed table and the generation of that place. A
 * kernel's token is its module's token and its number in the module's list of kernels. Closing a module waits for other
 * threads' calls in progress, then for the module's launches on the devices, then unloads the module.
 *
 * Loading a module waits for the work on the device. So modules are loaded when the program can expect a wait: when
 * it opens a module, chooses a device, or creates a stream. Owns the table and the loaded files. Never opens or
 * closes memory of the broker.
 */
#ifndef GPUB_MODULE_H
#define GPUB_MODULE_H

struct gpub_client;

/*
 * Loads all open modules on the device with this ordinal, unless they are loaded. May wait for the work there. Reports
 * no errors, because a launch does later.
 */
void modules_ready(const struct gpub_client *client, int ordinal);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * formats.h - the files whose format `python3 -m gpubroker load` and `save` know: .npy and .safetensors.
 *
 * broker-ctl moves bytes as they are, so it refuses these files and names the command that a user needs instead. Owns
 * nothing.
 */
#ifndef GPUB_CTL_FORMATS_H
#define GPUB_CTL_FORMATS_H

#define FORMATS_MAGIC_SIZE 6 /* number of bytes at the beginning of a file that formats_check() looks at */

/*
 * Returns 0, or -EINVAL with the error message if the path ends in .npy or .safetensors, or if `begin` holds the first
 * bytes of a .npy file. command: "load" or "save". begin: FORMATS_MAGIC_SIZE bytes; NULL: only the path is checked.
 */
int formats_check(const char *command, const char *path, const char *begin);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reopen.h - opens the file of a descriptor a second time, as a new open file description.
 *
 * A process that receives a descriptor shares the sender's open file description: its flags (O_APPEND makes pwrite(2)
 * append), its offset, its locks. So the broker reopens a file and sends the new descriptor. Owns nothing; never
 * changes the descriptor that it is given.
 */
#ifndef GPUB_REOPEN_H
#define GPUB_REOPEN_H

/*
 * Opens the file of the descriptor fd once more. access: O_RDONLY or O_RDWR. Returns the new descriptor, which the
 * caller closes, or a negative errno.
 */
int reopen(int fd, int access);

#endif

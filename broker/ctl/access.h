/* SPDX-License-Identifier: Apache-2.0 */
/*
 * access.h - tells a user who has no access to a file how to get it, by the file's owner, group and mode. Owns nothing.
 */
#ifndef GPUB_CTL_ACCESS_H
#define GPUB_CTL_ACCESS_H

#include <sys/stat.h>

#define ACCESS_TEXT_MAX 400

/*
 * Writes into text how this user gets access to the file at path: by chmod(1) if the file is this user's own, else by
 * joining the file's group, by a new login if the user is in the group already, or, if no group may use it, by running
 * as the owner, or asking the owner to open the file to a group. bits: the access that is needed, an OR of 4 (read), 2
 * (write) and 1 (execute). st: stat() of the file. Returns text.
 */
const char *access_remedy(const char *path, const struct stat *st, unsigned bits, char text[ACCESS_TEXT_MAX]);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* master-key.c - see master-key.h */
#include "master-key.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/error.h"

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

_Static_assert(MASTER_KEY_SIZE == crypto_kdf_KEYBYTES, "the secret is a key to derive keys from");

/* Changing a context changes all keys: a broker and the next one must have the same ones. */
static const char contexts[MASTER_USES][crypto_kdf_CONTEXTBYTES + 1] = {
	[MASTER_SESSION] = "gpubsess",
	[MASTER_TICKETS] = "gpubtick",
};

static int secret_read(uint8_t *secret, int fd)
{
	struct stat st;

	if (!fstat(fd, &st) && st.st_size == MASTER_KEY_SIZE && pread(fd, secret, MASTER_KEY_SIZE, 0) == st.st_size)
		return 0;
	return error_set(-EBADMSG, "the descriptor that was kept for the master key has none");
}

int master_key_init(struct master_key *master, int fd)
{
	int error = 0;

	master->secret = sodium_malloc(MASTER_KEY_SIZE);
	if (!master->secret)
		return error_set(-ENOMEM, "the broker is out of memory");
	if (fd < 0)
		crypto_kdf_keygen(master->secret);
	else
		error = secret_read(master->secret, fd);
	if (error)
		master_key_deinit(master);
	return error;
}

int master_key_share(const struct master_key *master)
{
	int fd = memfd_create("gpubroker-key", MFD_CLOEXEC | MFD_ALLOW_SEALING), error;

	if (fd < 0)
		return error_set(-errno, "no memory for the master key: %m");
	if (write(fd, master->secret, MASTER_KEY_SIZE) == MASTER_KEY_SIZE && !fcntl(fd, F_ADD_SEALS, SEALS))
		return fd;
	error = error_set(errno ? -errno : -ENOMEM, "the master key cannot be shared: %m");
	close(fd);
	return error;
}

void master_key_derive(const struct master_key *master, enum master_use use, uint64_t number, uint8_t *key, size_t size)
{
	crypto_kdf_derive_from_key(key, size, number, contexts[use], master->secret);
}

void master_key_deinit(struct master_key *master)
{
	sodium_free(master->secret);
	master->secret = NULL;
}

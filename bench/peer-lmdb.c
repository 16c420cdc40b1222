/* SPDX-License-Identifier: Apache-2.0 */
/* peer-lmdb.c - LMDB on tmpfs: a read transaction, renewed, and a get; no write, no sync. Counts nothing. */
#include <lmdb.h>
#include <string.h>

#include "bench.h"
#include "clients.h"
#include "peer.h"

#define must(call)                                                       \
	do {                                                             \
		int error_ = (call);                                     \
		if (error_)                                              \
			bench_fail("%s: %s", #call, mdb_strerror(error_)); \
	} while (0)

static MDB_env *environment;
static MDB_txn *transaction;
static MDB_dbi database;

static void environment_open(const char *folder)
{
	must(mdb_env_create(&environment));
	must(mdb_env_open(environment, folder, MDB_NOSYNC, 0600));
}

static void make(const char *folder)
{
	char name[CLIENTS_NAME];

	environment_open(folder);
	must(mdb_txn_begin(environment, NULL, 0, &transaction));
	must(mdb_dbi_open(transaction, NULL, 0, &database));
	for (unsigned i = 0; i < PEER_NAMES; i++) {
		MDB_val key = { 0, name }, value = { sizeof i, &i };

		clients_name(name, i);
		key.mv_size = strlen(name);
		must(mdb_put(transaction, database, &key, &value, 0));
	}
	must(mdb_txn_commit(transaction));
	mdb_env_close(environment);
}

static void open_database(const char *folder)
{
	environment_open(folder);
	must(mdb_txn_begin(environment, NULL, MDB_RDONLY, &transaction));
	must(mdb_dbi_open(transaction, NULL, 0, &database));
	mdb_txn_reset(transaction);
}

static void round_trip(const char *name)
{
	MDB_val key = { strlen(name), (void *)name }, value;

	must(mdb_txn_renew(transaction));
	must(mdb_get(transaction, database, &key, &value));
	mdb_txn_reset(transaction);
}

static void close_database(void)
{
}

int main(void)
{
	static const struct peer peer = { "lmdb", make, open_database, round_trip, close_database, 1000 };

	return peer_main(&peer);
}

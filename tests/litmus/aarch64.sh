#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# aarch64.sh - the races of litmus.c as AArch64 code: compiled by the cross-compiler and run under qemu-user, and the
# barriers that qemu on an x86 processor cannot miss looked for in the instructions (README.md says why).
#   aarch64.sh [ROUNDS]     of each race
set -u

here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
cc=aarch64-linux-gnu-gcc qemu=qemu-aarch64-static
for tool in $cc aarch64-linux-gnu-objdump $qemu; do
	if ! command -v "$tool" >/dev/null; then
		echo "1..0 # SKIP there is no $tool (Debian: gcc-aarch64-linux-gnu qemu-user-static)"
		exit 0
	fi
done
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

# The little that the raced files want of libsodium: any hash does, and no key is kept here.
cat >sodium.h <<'END'
#pragma once
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#define crypto_shorthash_BYTES    8
#define crypto_shorthash_KEYBYTES 16
static inline int sodium_init(void) { return 0; }
static inline void randombytes_buf(void *memory, size_t size) { memset(memory, 5, size); }
static inline void *sodium_malloc(size_t size) { return malloc(size); }
static inline void sodium_free(void *memory) { free(memory); }
static inline void sodium_memzero(void *memory, size_t size) { memset(memory, 0, size); }
static inline void crypto_shorthash_keygen(uint8_t *key) { memset(key, 7, crypto_shorthash_KEYBYTES); }
static inline int crypto_shorthash(uint8_t *hash, const uint8_t *text, uint64_t size, const uint8_t *key)
{
	uint64_t sum = key[0] ^ 0xcbf29ce484222325ull;
	while (size--)
		sum = (sum ^ *text++) * 0x100000001b3ull;
	sum ^= sum >> 29;
	memcpy(hash, &sum, sizeof sum);
	return 0;
}
END

# compile NAME FLAGS...: the program, and the objects of the files that order memory
compile() {
	local name=$1 file
	shift
	# shellcheck disable=SC2086
	for file in client/{chunks,client,clock,close,grown,hold,interrupt,lease,link,mapping,records,slot,table} \
		common/{board,error,export,exports,layout,name,owned-fd,size,tables,thread,wiped,wire} \
		device/page; do
		$cc $flags "$@" -c -o "$name-${file##*/}.o" "$source/libbroker/$file.c" || return 1
	done
	# shellcheck disable=SC2086
	for file in litmus race table-race outside; do
		$cc $flags "$@" -c -o "$name-$file.o" "$here/$file.c" || return 1
	done
	# close.c is compiled into litmus.c; its own object is there to be looked at
	mkdir -p "$name-aside" && mv "$name-close.o" "$name-aside/close.o" &&
		$cc -static -pthread -o "$name" "$name"-*.o
}
flags="-std=gnu11 -D_GNU_SOURCE -O2 -ffunction-sections -pthread -I$work -I$source -I$source/libbroker -I$here"

if ! compile inline -mno-outline-atomics >out 2>&1 || ! compile lse -march=armv8.1-a >>out 2>&1; then
	echo "Bail out! the files do not compile for AArch64"
	sed 's/^/# /' out
	exit 1
fi

# instructions OBJECT FUNCTION: one line; a barrier as dmb:ish, a call as bl:NAME
instructions() {
	aarch64-linux-gnu-objdump -dr --no-show-raw-insn --no-addresses -j ".text.$2" "$1" |
		awk '/R_AARCH64_CALL26/ { printf ":%s", $NF; next }
		     /R_AARCH64|file format|Disassembly/ || !NF || $1 ~ /:$/ { next }
		     { printf " %s", $1 == "dmb" ? $1 ":" $2 : $1 }
		     END { print " " }'
}

count=0 ended=0

# has OBJECT FUNCTION PATTERN TEXT: a point
has() {
	local found
	found=$(instructions "$1" "$2")
	count=$((count + 1))
	if grep -qE "$3" <<<"$found"; then
		echo "ok $count - $4"
	else
		echo "not ok $count - $4"
		echo "# $1 $2:$found"
	fi
}

# The races' own points come first, under their numbers.
limit=250
[ $# -eq 0 ] || limit=0
LITMUS_EMULATED=1 timeout -k 5 $limit $qemu ./lse "${1:-0}" >races 2>&1 || ended=$?
races=$(sed -n 's/^1\.\.\([0-9]*\)$/\1/p' races)
grep -v '^1\.\.[0-9]*$' races
if [ -z "$races" ] || [ "$(grep -cE '^(not )?ok ' races)" != "$races" ]; then
	echo "Bail out! the races ended with $ended before they were all run"
	exit 1
fi
count=$races

# A release is ahead of each acquire that follows it, and what lies between takes none of that away: stlr or stlxr, then
# ldar. ldapr would not do.
acquire="( [^ ]+)* ldar"
has inline-hold.o record_hold_any " stlxr$acquire$acquire " \
	"record_hold_in: the exchange, the look at M behind it, W"
has lse-hold.o record_hold_any " casal$acquire$acquire " "the same with casal"
has inline-lease.o gpub_renew " stlxr$acquire$acquire$acquire " "gpub_renew: the same, and slot->base behind M"
has lse-lease.o gpub_renew " casal$acquire$acquire$acquire " "the same with casal"
has inline-aside/close.o mapping_close " stlr( [^ ]+)* dmb:ish( [^ ]+)* bl:record_unused " \
	"close_begin: CLOSING, a barrier, the look at the slots behind it"
has inline-hold.o record_unused " ldap?r$acquire( [^ ]+)* ldap?r " \
	"record_unused: holds are read in that order, blocks and words with acquire"
has inline-lease.o gpub_return " stlxr " "gpub_return: an exchange with release"
has inline-lease.o gpub_return_on " stlxr( [^ ]+)* blr( [^ ]+)* stlr " \
	"gpub_return_on: an exchange with release, the device, a store with release"
has inline-lease.o gpub_acquire " stlxr$acquire " "gpub_acquire: the exchange, the look at M behind it"
has inline-lease.o gpub_acquire " dmb:ishld( [^ ]+)* ldr " \
	"gpub_acquire: a barrier for loads before the table's version is compared"
has inline-table.o table_add " (stxr|stlxr)( [^ ]+)* dmb:ish( [^ ]+)*( [^ ]+)* stlxr " \
	"table_add: odd version, a barrier, the change, even version with release"
echo "1..$count"

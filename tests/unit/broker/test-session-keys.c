/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-session-keys.c - the broker keeps a session's key no longer than the session. The client's side of it is
 * integration/keys's.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "session-harness.h"

/* sodium_free() wipes, and gives the pages back. */
static bool gone(const uint8_t *key)
{
	unsigned char resident;

	return mincore((void *)((uintptr_t)key & ~(uintptr_t)4095), 1, &resident) && errno == ENOMEM;
}

static void test_a_key_goes_with_its_session(void **state)
{
	struct peer left = join(), stays = join();
	const uint8_t *key = session_of(&left)->key, *other = session_of(&stays)->key;

	(void)state;
	assert_memory_equal(key, left.welcome.key, WIRE_KEY_SIZE);
	assert_memory_not_equal(key, other, WIRE_KEY_SIZE);
	part(&left);
	EXPECT_SOON(gone(key));
	assert_false(gone(other));
	part(&stays);
	EXPECT_SOON(gone(other));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_a_key_goes_with_its_session, harness_setup, harness_teardown),
	};

	return cmocka_run_group_tests_name("keys", tests, harness_group_setup, harness_group_teardown);
}

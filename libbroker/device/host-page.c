/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host-page.c - see host-page.h
 *
 * Checks that a page to be registered is as CUDA's registration requires: shared, writable if the device writes to
 * it, and kept from forks. Owns the regions of registered pages.
 */
#include "host-page.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/error.h"
#include "common/size.h"
#include "host-fault.h"
#include "host-gate.h"
#include "host-region.h"
#include "host-state.h"

/* Rules for the memory mappings that contain a registered page. */
enum page_rule { PAGE_SHARED, PAGE_WRITABLE, PAGE_NOT_FORKED, PAGE_RULES };

static const struct {
	/*
	 * flag: what VmFlags of /proc/PID/smaps has if the memory mapping keeps the rule. what: name of the rule, for
	 * the report of a memory mapping that breaks the rule
	 */
	const char *flag, *what;
} page_rules[PAGE_RULES] = {
	/* "ms" (may share), because "sh" is missing if the descriptor is read-only */
	[PAGE_SHARED] = { " ms", "MAP_SHARED" },
	[PAGE_WRITABLE] = { " wr", "writable" },
	[PAGE_NOT_FORKED] = { " dc", "MADV_DONTFORK: a fork would move it while the device writes it" },
};

/*
 * Returns the first rule that a mapping in the `size` bytes at `page` breaks. PAGE_RULES: none is broken, or /proc is
 * missing.
 */
static enum page_rule page_rule_broken(const uint8_t *page, size_t size, bool writable)
{
	FILE *smaps = fopen("/proc/self/smaps", "re");
	unsigned long begin = 0, end = 0, from, to;
	enum page_rule broken = PAGE_RULES;
	char line[512];

	while (smaps && fgets(line, sizeof line, smaps)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2) {
			begin = from;
			end = to;
		}
		if (strncmp(line, "VmFlags:", 8) || end <= (uintptr_t)page || begin >= (uintptr_t)page + size)
			continue;
		for (enum page_rule rule = 0; rule < broken; rule++)
			if (!strstr(line, page_rules[rule].flag) && (rule != PAGE_WRITABLE || writable))
				broken = rule;
	}
	if (smaps)
		fclose(smaps);
	return broken;
}

/* Whether madvise(2) accepts MADV_DONTFORK without effect, as qemu-user does. */
static bool fork_advice_ignored(void)
{
	uint8_t *page = mmap(NULL, HOST_GRANULE, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	bool ignored;

	if (page == MAP_FAILED)
		return false;
	ignored = !madvise(page, HOST_GRANULE, MADV_DONTFORK) &&
		  page_rule_broken(page, HOST_GRANULE, false) == PAGE_NOT_FORKED;
	munmap(page, HOST_GRANULE);
	return ignored;
}

static void page_check(const uint8_t *page, size_t size, bool writable)
{
	enum page_rule broken = page_rule_broken(page, size, writable);

	if (broken == PAGE_RULES || (broken == PAGE_NOT_FORKED && fork_advice_ignored()))
		return;
	host_violation("registration of the page at %p, which is not %s", (const void *)page, page_rules[broken].what);
}

static int page_add(uint8_t *page, uint64_t size, bool writable)
{
	struct host_region *region;
	int rc;

	if (host_region_overlapping(page, size))
		return error_set(-EEXIST, "the page at %p is registered already", (void *)page);
	region = host_region_new(HOST_PAGE, 0, size);
	if (!region)
		return -ENOMEM;
	region->base = page;
	region->writable = writable;
	rc = host_region_add(region);
	if (rc)
		free(region);
	return rc;
}

int host_page_register(void *page, size_t size, bool writable)
{
	uint64_t whole = size_round_up(size, HOST_GRANULE);
	int rc = host_enter(HOST_REGISTER);

	if (rc)
		return rc;
	if (!whole || (uintptr_t)page % HOST_GRANULE)
		return error_set(-EINVAL, "%zu bytes at %p are no pages", size, page);
	page_check(page, whole, writable);
	atomic_store(&host_state.in_use[host_current_device()], true);
	pthread_mutex_lock(&host_state.lock);
	rc = page_add(page, whole, writable);
	pthread_mutex_unlock(&host_state.lock);
	return rc;
}

static int page_remove(const void *page)
{
	struct host_region *region;
	int rc = 0;

	pthread_mutex_lock(&host_state.lock);
	region = host_region_find(page);
	if (!region || region->kind != HOST_PAGE || region->base != page) {
		rc = error_set(-EINVAL, "the page at %p is not registered", page);
	} else {
		host_region_remove(region);
		free(region);
	}
	pthread_mutex_unlock(&host_state.lock);
	return rc;
}

/* Waits as host_close() does, but for the work on all host devices. */
int host_page_unregister(void *page)
{
	int rc = host_enter(HOST_UNREGISTER);

	if (rc)
		return rc;
	host_gate_close();
	for (unsigned device = 0; device < host_state.devices; device++)
		host_gate_drain(device);
	rc = host_sticky_error();
	if (!rc)
		rc = page_remove(page);
	host_gate_open();
	return rc;
}

unsigned host_pages(void)
{
	const struct host_region *region;
	unsigned pages = 0;

	pthread_mutex_lock(&host_state.lock);
	for (size_t i = 0; (region = host_region_at(i)); i++)
		pages += region->kind == HOST_PAGE;
	pthread_mutex_unlock(&host_state.lock);
	return pages;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* locality.c - see locality.h */
#include "locality.h"

#include <errno.h>

#include "common/error.h"

#if !HAVE_HWLOC

struct locality *locality_open(void)
{
	error_set(-ENOTSUP, "--bind device needs hwloc, and this broker-run was built without it: install libhwloc-dev "
			    "and build again");
	return NULL;
}

void locality_close(struct locality *locality)
{
	(void)locality;
}

int locality_bind(struct locality *locality, const struct device_info *info, pid_t pid, char why[LOCALITY_TEXT_MAX])
{
	(void)locality;
	(void)info;
	(void)pid;
	(void)why;
	return -ENOTSUP;
}

#else

#include <stdio.h>
#include <stdlib.h>

#include <hwloc.h>

struct locality {
	hwloc_topology_t topology;
	hwloc_bitmap_t   usable; /* processors that this process may use */
	hwloc_bitmap_t   chosen; /* processors to which a process is being bound */
};

static int topology_load(struct locality *locality)
{
	if (hwloc_topology_init(&locality->topology))
		return -1;
	hwloc_topology_set_io_types_filter(locality->topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
	/* hwloc's plugins would start CUDA here to name the PCI devices, and no owner could be forked any more */
	hwloc_topology_set_type_filter(locality->topology, HWLOC_OBJ_OS_DEVICE, HWLOC_TYPE_FILTER_KEEP_NONE);
	return hwloc_topology_load(locality->topology) ||
	       hwloc_get_cpubind(locality->topology, locality->usable, HWLOC_CPUBIND_PROCESS);
}

struct locality *locality_open(void)
{
	struct locality *locality = calloc(1, sizeof *locality);

	if (locality) {
		locality->usable = hwloc_bitmap_alloc();
		locality->chosen = hwloc_bitmap_alloc();
	}
	if (locality && locality->usable && locality->chosen && !topology_load(locality))
		return locality;
	error_set(-EIO, "hwloc cannot tell what this machine is like: see lstopo(1), or leave --bind out: %m");
	locality_close(locality);
	return NULL;
}

void locality_close(struct locality *locality)
{
	if (!locality)
		return;
	if (locality->topology)
		hwloc_topology_destroy(locality->topology);
	hwloc_bitmap_free(locality->usable);
	hwloc_bitmap_free(locality->chosen);
	free(locality);
}

/* Returns the set of the processors near the device, which the topology owns; NULL: none are known to be near. */
static hwloc_const_cpuset_t near(const struct locality *locality, const struct device_info *info)
{
	hwloc_obj_t device = NULL, part = NULL;

	if (info->pci.bus >= 0)
		device = hwloc_get_pcidev_by_busid(locality->topology, (unsigned)info->pci.domain,
						   (unsigned)info->pci.bus, (unsigned)info->pci.slot, 0);
	if (device)
		part = hwloc_get_non_io_ancestor_obj(locality->topology, device);
	return part ? part->cpuset : NULL;
}

int locality_bind(struct locality *locality, const struct device_info *info, pid_t pid, char why[LOCALITY_TEXT_MAX])
{
	hwloc_const_cpuset_t set = near(locality, info);
	char list[64];

	if (!set) {
		snprintf(why, LOCALITY_TEXT_MAX,
			 "hwloc does not know which processors are near it (lstopo shows what it knows)");
		return 1;
	}
	hwloc_bitmap_and(locality->chosen, set, locality->usable);
	if (hwloc_bitmap_iszero(locality->chosen)) {
		hwloc_bitmap_list_snprintf(list, sizeof list, set);
		snprintf(why, LOCALITY_TEXT_MAX, "broker-run may not use the processors near it (%s): see taskset(1)",
			 list);
		return 1;
	}
	if (hwloc_set_proc_cpubind(locality->topology, pid, locality->chosen, 0))
		return error_set(-errno, "pid %d cannot be bound to processors: %m", pid);
	return 0;
}

#endif

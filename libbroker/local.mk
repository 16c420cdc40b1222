# SPDX-License-Identifier: Apache-2.0

# What broker and client share: wire formats, names, the devices.
noinst_LTLIBRARIES += libbroker/libcommon.la
libbroker_libcommon_la_SOURCES = \
	libbroker/common/board.c libbroker/common/board.h \
	libbroker/common/crash-point.h \
	libbroker/common/environment.c libbroker/common/environment.h \
	libbroker/common/error.c libbroker/common/error.h \
	libbroker/common/export.c libbroker/common/export.h \
	libbroker/common/exports.c libbroker/common/exports.h \
	libbroker/common/handle.h \
	libbroker/common/layout.c libbroker/common/layout.h \
	libbroker/common/mps.c libbroker/common/mps.h \
	libbroker/common/name.c libbroker/common/name.h \
	libbroker/common/now.h \
	libbroker/common/owned-fd.c libbroker/common/owned-fd.h \
	libbroker/common/path-refusal.c libbroker/common/path-refusal.h \
	libbroker/common/readable.c libbroker/common/readable.h \
	libbroker/common/size.c libbroker/common/size.h \
	libbroker/common/status-file.c libbroker/common/status-file.h \
	libbroker/common/tables.c libbroker/common/tables.h \
	libbroker/common/socket.c libbroker/common/socket.h \
	libbroker/common/thread.c libbroker/common/thread.h \
	libbroker/common/sealed.c libbroker/common/sealed.h \
	libbroker/common/timeline-page.h \
	libbroker/common/ticket.c libbroker/common/ticket.h \
	libbroker/common/wiped.c libbroker/common/wiped.h \
	libbroker/common/wire.c libbroker/common/wire.h \
	libbroker/device/cuda-fork.c libbroker/device/cuda-fork.h \
	libbroker/device/descriptors.c libbroker/device/descriptors.h \
	libbroker/device/device.h \
	libbroker/device/host-connection.c libbroker/device/host-connection.h \
	libbroker/device/host-device.c \
	libbroker/device/host-fault.c libbroker/device/host-fault.h \
	libbroker/device/host-gate.c libbroker/device/host-gate.h \
	libbroker/device/host-launch.c libbroker/device/host-launch.h \
	libbroker/device/host-memory.c libbroker/device/host-memory.h \
	libbroker/device/host-module.c libbroker/device/host-module.h \
	libbroker/device/host-object.c libbroker/device/host-object.h \
	libbroker/device/host-page.c libbroker/device/host-page.h \
	libbroker/device/host-quarantine.c libbroker/device/host-quarantine.h \
	libbroker/device/host-import.c libbroker/device/host-import.h \
	libbroker/device/host-trap.c libbroker/device/host-trap.h \
	libbroker/device/addresses.c libbroker/device/addresses.h \
	libbroker/device/host-region.c libbroker/device/host-region.h \
	libbroker/device/host-state.c libbroker/device/host-state.h \
	libbroker/device/host-stream.c libbroker/device/host-stream.h \
	libbroker/device/host-task.c libbroker/device/host-task.h \
	libbroker/device/host-watch.c libbroker/device/host-watch.h \
	libbroker/device/host.h \
	libbroker/device/page.c libbroker/device/page.h \
	libbroker/device/select.c libbroker/device/select.h

if CRASH_POINTS
libbroker_libcommon_la_SOURCES += libbroker/common/crash-point.c
endif

if HAVE_CUDA
libbroker_libcommon_la_SOURCES += \
	libbroker/device/cuda-device.c \
	libbroker/device/cuda-driver.c \
	libbroker/device/cuda-fence.c libbroker/device/cuda-fence.h \
	libbroker/device/cuda-launch.c libbroker/device/cuda-library.c \
	libbroker/device/cuda-memory.c \
	libbroker/device/cuda-vmm.c \
	libbroker/device/cuda-module.c libbroker/device/cuda-module.h \
	libbroker/device/cuda-processes.c \
	libbroker/device/cuda-stream.c \
	libbroker/device/cuda-sync.c \
	libbroker/device/cuda.h libbroker/device/cuda-abi.h
endif

# The client, before it becomes the library: unit tests reach its inner functions here.
noinst_LTLIBRARIES += libbroker/libclient.la
libbroker_libclient_la_SOURCES = \
	libbroker/client/acquire.c \
	libbroker/client/address.c libbroker/client/address.h \
	libbroker/client/acquire.h \
	libbroker/client/acquire-many.c \
	libbroker/client/delegate.c \
	libbroker/client/manage.c \
	libbroker/client/publish.c \
	libbroker/client/manage.h \
	libbroker/client/buffer.c \
	libbroker/client/info.c \
	libbroker/client/cache.c \
	libbroker/client/cache.h \
	libbroker/client/call.c \
	libbroker/client/chunks.c libbroker/client/chunks.h \
	libbroker/client/call.h \
	libbroker/client/client.c \
	libbroker/client/client.h \
	libbroker/client/clock.c \
	libbroker/client/clock.h \
	libbroker/client/close.c \
	libbroker/client/close.h \
	libbroker/client/connect.c \
	libbroker/client/connect.h \
	libbroker/client/devices.c \
	libbroker/client/devices.h \
	libbroker/client/fork.c \
	libbroker/client/fork.h \
	libbroker/client/grown.c libbroker/client/grown.h \
	libbroker/client/hold.c \
	libbroker/client/hold.h \
	libbroker/client/interrupt.c \
	libbroker/client/interrupt.h \
	libbroker/client/layouts.c \
	libbroker/client/link.c libbroker/client/link.h \
	libbroker/client/lease-info.c \
	libbroker/client/lease.c \
	libbroker/client/lease.h \
	libbroker/client/view.h \
	libbroker/client/mapping.c \
	libbroker/client/mapping.h \
	libbroker/client/messages.c \
	libbroker/client/messages.h \
	libbroker/client/receiver.c \
	libbroker/client/receiver.h \
	libbroker/client/record.h \
	libbroker/client/records.c \
	libbroker/client/records.h \
	libbroker/client/send.c \
	libbroker/client/send.h \
	libbroker/client/service.c \
	libbroker/client/service.h \
	libbroker/client/slot.c \
	libbroker/client/slot.h \
	libbroker/client/table.c \
	libbroker/client/table.h \
	libbroker/client/timeline-end.c \
	libbroker/client/timeline-end.h \
	libbroker/client/timeline-map.h \
	libbroker/client/timeline-maps.c \
	libbroker/client/timeline-maps.h \
	libbroker/client/timeline-wait.c \
	libbroker/client/timeline-wait.h \
	libbroker/client/ticks.h \
	libbroker/client/waits.c \
	libbroker/client/waits.h \
	libbroker/client/timeline-many.c \
	libbroker/client/timeline.c \
	libbroker/client/timeline.h \
	libbroker/client/trace.c \
	libbroker/client/trace.h \
	libbroker/client/trust.c \
	libbroker/client/trust.h \
	libbroker/launch/module.c \
	libbroker/launch/module.h \
	libbroker/launch/host-memory.c \
	libbroker/launch/stream.c

common_libs = libbroker/libcommon.la $(SODIUM_LIBS) -lpthread -ldl -lrt

lib_LTLIBRARIES += libbroker/libgpubroker.la
libbroker_libgpubroker_la_SOURCES =
libbroker_libgpubroker_la_LIBADD = libbroker/libclient.la $(common_libs)
# The map exports the public functions and hides everything else, an archived libsodium with it.
# nodelete: the service thread and what CUDA calls back outlive a dlclose.
libbroker_libgpubroker_la_LDFLAGS = $(AM_LDFLAGS) -version-info 1:0:1 -no-undefined \
	-Wl,--version-script=$(srcdir)/libbroker/gpubroker.map -Wl,-z,nodelete
if !SANITIZERS
# Not with clang's sanitizers, whose run time is in the program alone.
libbroker_libgpubroker_la_LDFLAGS += -Wl,-z,defs
endif
EXTRA_libbroker_libgpubroker_la_DEPENDENCIES = libbroker/gpubroker.map
EXTRA_DIST += libbroker/gpubroker.map

include_HEADERS = libbroker/gpubroker.h libbroker/gpubroker.hpp libbroker/gpubroker-cuda.h libbroker/gpubroker-host.h
pkgconfig_DATA = libbroker/gpubroker.pc

# SPDX-License-Identifier: Apache-2.0

# The broker without its main function, so that unit tests reach it.
noinst_LTLIBRARIES += broker/libbrokercore.la
broker_libbrokercore_la_SOURCES = \
	broker/users/access.c broker/users/access.h \
	broker/users/accounting.c broker/users/accounting.h \
	broker/daemon/activation.c broker/daemon/activation.h \
	broker/registry/board-owner.c broker/registry/board-owner.h \
	broker/core/broker.c broker/core/broker.h \
	broker/core/control.c broker/core/control.h \
	broker/core/devices.c broker/core/devices.h \
	broker/core/ended-memory.c broker/core/ended-memory.h \
	broker/core/owner-lists.c broker/core/owner-lists.h \
	broker/core/inherited.c broker/core/inherited.h \
	broker/core/keep.c broker/core/keep.h \
	broker/core/load.c broker/core/load.h \
	broker/core/names.c broker/core/names.h \
	broker/core/note.c broker/core/note.h \
	broker/core/owner-of-keeper.c broker/core/owner-of-keeper.h \
	broker/core/signals.c broker/core/signals.h \
	broker/core/takeover.c broker/core/takeover.h \
	broker/daemon/configuration.c broker/daemon/configuration.h \
	broker/base/context.h \
	broker/base/config-text.c broker/base/config-text.h \
	broker/session/connections.c broker/session/connections.h \
	broker/base/counters.h \
	broker/request/acquire.c broker/request/acquire.h \
	broker/request/create-queue.c broker/request/create-queue.h \
	broker/request/creation.c broker/request/creation.h \
	broker/base/deadlines.c broker/base/deadlines.h \
	broker/request/delegation.c broker/request/delegation.h \
	broker/request/provision.c broker/request/provision.h \
	broker/request/resize.c broker/request/resize.h \
	broker/request/dispatch.c broker/request/dispatch.h \
	broker/request/ending.c broker/request/ending.h \
	broker/request/grant-send.c broker/request/grant-send.h \
	broker/request/lookup.c broker/request/lookup.h \
	broker/request/writer.c broker/request/writer.h \
	broker/request/inquiry.c broker/request/inquiry.h \
	broker/session/discard.c broker/session/discard.h \
	broker/base/event-failure.c broker/base/event-failure.h \
	broker/base/event-kinds.c broker/base/event-kinds.h \
	broker/base/events.c broker/base/events.h \
	broker/base/master-key.c broker/base/master-key.h \
	broker/base/journal.c broker/base/journal.h \
	broker/registry/mappings.c broker/registry/mappings.h \
	broker/users/identity.c broker/users/identity.h \
	broker/status/leftovers.c broker/status/leftovers.h \
	broker/base/histograms.c broker/base/histograms.h \
	broker/base/log.c broker/base/log.h \
	broker/ledger/ledger.c broker/ledger/ledger.h \
	broker/request/manage.c broker/request/manage.h \
	broker/registry/marks.c broker/registry/marks.h \
	broker/daemon/notify.c broker/daemon/notify.h \
	broker/daemon/upgrade.c broker/daemon/upgrade.h \
	broker/base/option-table.c broker/base/option-table.h \
	broker/base/process-start.c broker/base/process-start.h \
	broker/session/outbox.c broker/session/outbox.h \
	broker/session/pending.c broker/session/pending.h \
	broker/session/restore.c broker/session/restore.h \
	broker/registry/notices.c broker/registry/notices.h \
	broker/registry/objects.h \
	broker/registry/records.h \
	broker/registry/places.c broker/registry/places.h \
	broker/memory/allocation.c broker/memory/allocation.h \
	broker/memory/restore.c broker/memory/restore.h \
	broker/owner/outcomes.c broker/owner/outcomes.h \
	broker/owner/order.h broker/owner/owner.c broker/owner/owner.h \
	broker/owner/forked.c broker/owner/forked.h \
	broker/owner/packet.c broker/owner/packet.h \
	broker/owner/process.c broker/owner/process.h \
	broker/owner/serve.c broker/owner/serve.h \
	broker/owner/start.c broker/owner/start.h \
	broker/keeper/alive.c broker/keeper/alive.h \
	broker/keeper/child.c broker/keeper/child.h \
	broker/keeper/handover.c broker/keeper/handover.h \
	broker/keeper/keeper.c broker/keeper/keeper.h \
	broker/keeper/kept.c broker/keeper/kept.h \
	broker/keeper/line.c broker/keeper/line.h \
	broker/keeper/owners.c broker/keeper/owners.h \
	broker/keeper/policy.c broker/keeper/policy.h \
	broker/keeper/watchdog.c broker/keeper/watchdog.h \
	broker/memory/job.h \
	broker/memory/job-queue.c broker/memory/job-queue.h \
	broker/memory/memory.c broker/memory/memory.h \
	broker/memory/pool.c broker/memory/pool.h \
	broker/registry/registry.c broker/registry/registry.h \
	broker/base/tracked.c broker/base/tracked.h \
	broker/base/reopen.c broker/base/reopen.h \
	broker/request/reclaim.c broker/request/reclaim.h \
	broker/request/refusal.c broker/request/refusal.h \
	broker/session/greeting.c broker/session/greeting.h \
	broker/session/serve.c broker/session/serve.h \
	broker/session/session-end.c broker/session/session-end.h \
	broker/session/session.c broker/session/session.h \
	broker/session/walk.c broker/session/walk.h \
	broker/memory/usage.c broker/memory/usage.h \
	broker/show/columns.c broker/show/columns.h \
	broker/show/grid.c broker/show/grid.h \
	broker/show/json.c broker/show/json.h \
	broker/show/look.c broker/show/look.h \
	broker/show/openmetrics.c broker/show/openmetrics.h \
	broker/show/owner-lines.c broker/show/owner-lines.h \
	broker/show/process.c broker/show/process.h \
	broker/show/rates.c broker/show/rates.h \
	broker/show/read.c broker/show/read.h \
	broker/show/records.c broker/show/records.h \
	broker/show/second-look.c broker/show/second-look.h \
	broker/show/table.c broker/show/table.h \
	broker/show/telling.c broker/show/telling.h \
	broker/show/trail.c broker/show/trail.h \
	broker/show/views.c broker/show/views.h \
	broker/show/why.c broker/show/why.h \
	broker/show/why-graph.c broker/show/why-graph.h \
	broker/show/why-question.h \
	broker/show/why-reason.c broker/show/why-reason.h \
	broker/memory/slab.c broker/memory/slab.h \
	broker/memory/addresses.c broker/memory/addresses.h \
	broker/status/format.c broker/status/format.h \
	broker/status/status.c broker/status/status.h \
	broker/status/ring.c broker/status/ring.h \
	broker/status/mapped-file.c broker/status/mapped-file.h \
	broker/status/snapshot.c broker/status/snapshot.h \
	broker/status/status-write.c \
	broker/base/round-robin.c broker/base/round-robin.h \
	broker/base/streams.c broker/base/streams.h \
	broker/registry/timeline.c broker/registry/timeline.h \
	broker/session/fair-queue.c broker/session/fair-queue.h \
	broker/base/uuid-text.c broker/base/uuid-text.h \
	broker/base/values.c broker/base/values.h \
	broker/request/name-waits.c broker/request/name-waits.h \
	broker/request/drains.c broker/request/drains.h \
	broker/request/waiting.c broker/request/waiting.h \
	broker/request/waking.c broker/request/waking.h \
	broker/memory/jobs.c broker/memory/jobs.h

broker_libs = broker/libbrokercore.la $(EVENT_LIBS) $(CONFUSE_LIBS) $(JANSSON_LIBS) $(common_libs)

bin_PROGRAMS += broker/broker-run
broker_broker_run_SOURCES = \
	broker/run/broker-run.c \
	broker/run/children.c broker/run/children.h \
	broker/run/drain.c broker/run/drain.h \
	broker/run/options.c broker/run/options.h \
	broker/run/job.c broker/run/job.h \
	broker/run/joined.c broker/run/joined.h \
	broker/run/joiner.c broker/run/joiner.h \
	broker/run/locality.c broker/run/locality.h \
	broker/run/placement.c broker/run/placement.h \
	broker/run/declared.c broker/run/declared.h \
	broker/run/mps-daemon.c broker/run/mps-daemon.h \
	broker/run/mps-keeper.c broker/run/mps-keeper.h \
	broker/run/mps-plan.c broker/run/mps-plan.h \
	broker/run/private-socket.c broker/run/private-socket.h \
	broker/run/serving.c broker/run/serving.h \
	broker/run/witness.c broker/run/witness.h \
	broker/run/workers-mps.c broker/run/workers-mps.h \
	broker/run/spec.c broker/run/spec.h
broker_broker_run_LDADD = $(broker_libs) $(HWLOC_LIBS)

sbin_PROGRAMS += broker/brokerd
broker_brokerd_SOURCES = \
	broker/daemon/brokerd.c broker/daemon/service.c broker/daemon/service.h \
	broker/daemon/options.c broker/daemon/options.h \
	broker/daemon/reader.c broker/daemon/reader.h \
	broker/daemon/socket.c broker/daemon/socket.h
broker_brokerd_LDADD = $(broker_libs)

# For programs that are clients, too.
show_ask = broker/show/ask.c broker/show/ask.h

bin_PROGRAMS += broker/broker-status
broker_broker_status_SOURCES = \
	broker/show/broker-status.c \
	broker/show/explain.c broker/show/explain.h \
	broker/show/refresh.c broker/show/refresh.h \
	broker/show/watch.c broker/show/watch.h \
	$(show_ask)
broker_broker_status_LDADD = libbroker/libclient.la $(broker_libs) $(CURSES_LIBS)

if EXPORTER
sbin_PROGRAMS += broker/broker-exporter
broker_broker_exporter_SOURCES = \
	broker/exporter/broker-exporter.c \
	broker/exporter/options.c broker/exporter/options.h \
	broker/exporter/server.c broker/exporter/server.h
broker_broker_exporter_LDADD = $(broker_libs) $(MICROHTTPD_LIBS)
endif

bin_PROGRAMS += broker/broker-ctl
broker_broker_ctl_SOURCES = \
	broker/ctl/access.c broker/ctl/access.h \
	broker/ctl/broker-ctl.c \
	broker/ctl/check-broker.c \
	broker/ctl/check-devices.c \
	broker/ctl/check-process.c \
	broker/ctl/checks.h \
	broker/ctl/commands.c broker/ctl/commands.h \
	broker/ctl/create.c broker/ctl/create.h \
	broker/ctl/doctor.c broker/ctl/doctor.h \
	broker/ctl/events.c broker/ctl/events.h \
	broker/ctl/formats.c broker/ctl/formats.h \
	broker/ctl/interrupt.c broker/ctl/interrupt.h \
	broker/ctl/load.c broker/ctl/load.h \
	broker/ctl/options.c broker/ctl/options.h \
	broker/ctl/output.c broker/ctl/output.h \
	broker/ctl/report.c broker/ctl/report.h \
	broker/ctl/save.c broker/ctl/save.h \
	broker/ctl/transfer.c broker/ctl/transfer.h \
	broker/ctl/values.c broker/ctl/values.h \
	broker/ctl/view.c broker/ctl/view.h \
	broker/ctl/whole.c broker/ctl/whole.h \
	$(show_ask)
broker_broker_ctl_LDADD = libbroker/libclient.la $(broker_libs)

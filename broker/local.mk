# SPDX-License-Identifier: Apache-2.0

# The broker without its main function, so that unit tests reach it.
noinst_LTLIBRARIES += broker/libbrokercore.la
broker_libbrokercore_la_SOURCES = \
	broker/access.c broker/access.h \
	broker/accounting.c broker/accounting.h \
	broker/activation.c broker/activation.h \
	broker/board-owner.c broker/board-owner.h \
	broker/broker.c broker/broker.h \
	broker/brokerd-config.c broker/brokerd-config.h \
	broker/config-text.c broker/config-text.h \
	broker/connections.c broker/connections.h \
	broker/counters.h \
	broker/create-queue.c broker/create-queue.h \
	broker/creation.c broker/creation.h \
	broker/deadlines.c broker/deadlines.h \
	broker/delegation.c broker/delegation.h \
	broker/discard.c broker/discard.h \
	broker/event-failure.c broker/event-failure.h \
	broker/grants.c broker/grants.h \
	broker/identity.c broker/identity.h \
	broker/leftovers.c broker/leftovers.h \
	broker/log.c broker/log.h \
	broker/manage.c broker/manage.h \
	broker/marks.c broker/marks.h \
	broker/notify.c broker/notify.h \
	broker/option-table.c broker/option-table.h \
	broker/outbox.c broker/outbox.h \
	broker/places.c broker/places.h \
	broker/pool.c broker/pool.h \
	broker/proof.c broker/proof.h \
	broker/registry.c broker/registry.h \
	broker/reopen.c broker/reopen.h \
	broker/request.c broker/request.h \
	broker/session.c broker/session.h \
	broker/usage.c broker/usage.h \
	broker/show-json.c broker/show-json.h \
	broker/show-read.c broker/show-read.h \
	broker/show-table.c broker/show-table.h \
	broker/slab.c broker/slab.h \
	broker/status.c broker/status.h \
	broker/status-text.c broker/status-text.h \
	broker/streams.c broker/streams.h \
	broker/timeline.c broker/timeline.h \
	broker/turns.c broker/turns.h \
	broker/values.c broker/values.h \
	broker/waiting.c broker/waiting.h \
	broker/workers.c broker/workers.h

broker_libs = broker/libbrokercore.la $(EVENT_LIBS) $(CONFUSE_LIBS) $(JANSSON_LIBS) $(common_libs)

bin_PROGRAMS += broker/broker-run
broker_broker_run_SOURCES = \
	broker/broker-run.c \
	broker/run-children.c broker/run-children.h \
	broker/run-options.c broker/run-options.h \
	broker/run-spec.c
broker_broker_run_LDADD = $(broker_libs)

sbin_PROGRAMS += broker/brokerd
broker_brokerd_SOURCES = \
	broker/brokerd.c \
	broker/brokerd-options.c broker/brokerd-options.h \
	broker/brokerd-reader.c broker/brokerd-reader.h \
	broker/brokerd-socket.c broker/brokerd-socket.h
broker_brokerd_LDADD = $(broker_libs)

bin_PROGRAMS += broker/broker-status
broker_broker_status_SOURCES = broker/broker-status.c
broker_broker_status_LDADD = $(broker_libs)

bin_PROGRAMS += broker/broker-ctl
broker_broker_ctl_SOURCES = \
	broker/broker-ctl.c \
	broker/ctl-commands.c broker/ctl-commands.h \
	broker/ctl-doctor.c broker/ctl-doctor.h \
	broker/ctl-options.c broker/ctl-options.h \
	broker/ctl-values.c broker/ctl-values.h
broker_broker_ctl_LDADD = libbroker/libclient.la $(broker_libs)

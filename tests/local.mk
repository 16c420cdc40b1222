# SPDX-License-Identifier: Apache-2.0
#
# To add a test, add one line to one of these lists:
#   unit_tests     programs on cmocka, in the folder of what they test: broker, client (and launch), device or common.
#                  tests/unit/ROOM/NAME needs no line but its own when it is made of tests/unit/ROOM/NAME.c:
#                  it is linked with the insides of broker and client.
#   test_scripts   bash scripts that print TAP: tests/integration/NAME.sh
#   test_programs  programs that print TAP without cmocka
#   test_tools     programs that the scripts run
# A program that may use the public interface alone adds  tests_integration_NAME_LDADD = $(public_libs)
#
# Each runs under tests/supervisor.c: no process that it starts outlives it.
# All print TAP: one plan (so one cmocka group a program), one point a check. Scripts source tests/tap.sh; one that
# needs a GPU calls need_cuda there. A test that runs longer than TEST_SECONDS is killed, and counts as an error; a script,
# which may wait until another has done with the GPUs, has SCRIPT_SECONDS.
TEST_SECONDS = 300
SCRIPT_SECONDS = 900

unit_tests = \
	tests/unit/broker/test-access \
	tests/unit/broker/test-accounting \
	tests/unit/broker/test-addresses \
	tests/unit/broker/test-accounting-shares \
	tests/unit/broker/test-children \
	tests/unit/broker/test-configuration \
	tests/unit/broker/test-connections \
	tests/unit/broker/test-create-queue \
	tests/unit/broker/test-creation tests/unit/broker/test-creation-creator \
	tests/unit/broker/test-deadlines \
	tests/unit/broker/test-delegation \
	tests/unit/broker/test-devices \
	tests/unit/broker/test-discard \
	tests/unit/broker/test-dispatch \
	tests/unit/broker/test-fair-queue \
	tests/unit/broker/test-mappings \
	tests/unit/broker/test-greeting \
	tests/unit/broker/test-grid \
	tests/unit/broker/test-events \
	tests/unit/broker/test-histograms \
	tests/unit/broker/test-identity \
	tests/unit/broker/test-inquiry \
	tests/unit/broker/test-keep tests/unit/broker/test-inherited tests/unit/broker/test-marks \
	tests/unit/broker/test-master-key \
	tests/unit/broker/test-load \
	tests/unit/broker/test-load-random \
	tests/unit/broker/test-load-resume \
	tests/unit/broker/test-ledger tests/unit/broker/test-leftovers \
	tests/unit/broker/test-kept \
	tests/unit/broker/test-handover \
	tests/unit/broker/test-keeper tests/unit/broker/test-keeper-ends tests/unit/broker/test-keeper-upgrade \
	tests/unit/broker/test-alive \
	tests/unit/broker/test-watchdog \
	tests/unit/broker/test-line \
	tests/unit/broker/test-policy \
	tests/unit/broker/test-lookup \
	tests/unit/broker/test-journal \
	tests/unit/broker/test-log \
	tests/unit/broker/test-ring \
	tests/unit/broker/test-manage \
	tests/unit/broker/test-memory \
	tests/unit/broker/test-manage-drain \
	tests/unit/broker/test-manage-publish \
	tests/unit/broker/test-openmetrics \
	tests/unit/broker/test-outbox \
	tests/unit/broker/test-places \
	tests/unit/broker/test-outcomes \
	tests/unit/broker/test-owner tests/unit/broker/test-owner-brokers tests/unit/broker/test-owner-random \
	tests/unit/broker/test-pool \
	tests/unit/broker/test-private-socket \
	tests/unit/broker/test-process \
	tests/unit/broker/test-output \
	tests/unit/broker/test-rates \
	tests/unit/broker/test-records \
	tests/unit/broker/test-session-proof \
	tests/unit/broker/test-socket \
	tests/unit/broker/test-reclaim \
	tests/unit/broker/test-refresh \
	tests/unit/broker/test-resize \
	tests/unit/broker/test-registry \
	tests/unit/broker/test-registry-idle \
	tests/unit/broker/test-registry-rename \
	tests/unit/broker/test-registry-random \
	tests/unit/broker/test-registry-shared \
	tests/unit/broker/test-registry-shared-random \
	tests/unit/broker/test-acquire-fanout \
	tests/unit/broker/test-dispatch-users \
	tests/unit/broker/test-second-look \
	tests/unit/broker/test-serve tests/unit/broker/test-serve-task \
	tests/unit/broker/test-session \
	tests/unit/broker/test-session-cut \
	tests/unit/broker/test-session-death \
	tests/unit/broker/test-session-end tests/unit/broker/test-session-end-proof \
	tests/unit/broker/test-session-inherited \
	tests/unit/broker/test-session-keys \
	tests/unit/broker/test-session-memory \
	tests/unit/broker/test-session-packets \
	tests/unit/broker/test-slab \
	tests/unit/broker/test-status \
	tests/unit/broker/test-status-damaged \
	tests/unit/broker/test-snapshot \
	tests/unit/broker/test-status-read \
	tests/unit/broker/test-status-write \
	tests/unit/broker/test-status-table \
	tests/unit/broker/test-timeline \
	tests/unit/broker/test-usage \
	tests/unit/broker/test-drains \
	tests/unit/broker/test-name-waits \
	tests/unit/broker/test-waiting \
	tests/unit/broker/test-why \
	tests/unit/broker/test-why-circles \
	tests/unit/broker/test-jobs tests/unit/broker/test-jobs-full tests/unit/broker/test-jobs-join tests/unit/broker/test-jobs-lost \
	tests/unit/broker/test-owner-process \
	tests/unit/client/test-cache \
	tests/unit/client/test-close \
	tests/unit/client/test-close-concurrent \
	tests/unit/client/test-fork \
	tests/unit/client/test-lease \
	tests/unit/client/test-call \
	tests/unit/client/test-receiver \
	tests/unit/client/test-send \
	tests/unit/client/test-mapping-views \
	tests/unit/client/test-messages \
	tests/unit/client/test-records \
	tests/unit/client/test-records-reset \
	tests/unit/client/test-slot \
	tests/unit/client/test-slot-arena \
	tests/unit/client/test-table \
	tests/unit/client/test-timeline-end \
	tests/unit/client/test-timeline-maps \
	tests/unit/client/test-timeline-wait \
	tests/unit/client/test-trust \
	tests/unit/common/test-board \
	tests/unit/common/test-error \
	tests/unit/common/test-name \
	tests/unit/common/test-owned-fd \
	tests/unit/common/test-size \
	tests/unit/common/test-layout \
	tests/unit/common/test-sealed \
	tests/unit/common/test-status-file \
	tests/unit/common/test-thread \
	tests/unit/common/test-ticket \
	tests/unit/common/test-wire \
	tests/unit/device/test-cuda-fork \
	tests/unit/device/test-host-device \
	tests/unit/device/test-host-stream-capture \
	tests/unit/device/test-host-connection \
	tests/unit/device/test-host-fault \
	tests/unit/device/test-host-memory \
	tests/unit/device/test-host-memory-vmm \
	tests/unit/device/test-host-module \
	tests/unit/device/test-host-module-loading \
	tests/unit/device/test-host-quarantine \
	tests/unit/device/test-host-region \
	tests/unit/device/test-host-stream \
	tests/unit/device/test-host-trap \
	tests/unit/device/test-host-watch \
	tests/unit/device/test-page \
	tests/unit/device/test-select
test_programs = \
	tests/integration/bad-input \
	tests/integration/layouts \
	tests/integration/publish \
	tests/integration/bounds \
	tests/integration/cache \
	tests/integration/cancel \
	tests/integration/interrupts \
	tests/integration/capture \
	tests/integration/closed tests/integration/closes \
	tests/integration/damaged \
	tests/integration/death \
	tests/integration/disconnect \
	tests/integration/doubled \
	tests/integration/drain \
	tests/integration/exporter-http \
	tests/integration/false-brokers \
	tests/integration/fork \
	tests/integration/gone \
	tests/integration/keys \
	tests/integration/killed \
	tests/integration/leases \
	tests/integration/library \
	tests/integration/list \
	tests/integration/loading \
	tests/integration/manage \
	tests/integration/many \
	tests/integration/orders \
	tests/integration/pauses \
	tests/integration/privileged \
	tests/integration/reset \
	tests/integration/reset-races \
	tests/integration/retire \
	tests/integration/shortages \
	tests/integration/slabs \
	tests/integration/threads \
	tests/integration/resize \
	tests/integration/tickets \
	tests/integration/times \
	tests/integration/timeline-ends \
	tests/integration/timeline-pages \
	tests/integration/timelines tests/integration/timelines-many tests/integration/why tests/integration/deadlocks \
	tests/integration/trace \
	tests/integration/truncate \
	tests/integration/users \
	tests/integration/vmm tests/integration/visible
test_scripts = \
	tests/install/bootstrap.sh \
	tests/install/caller.sh \
	tests/install/points.sh \
	tests/install/completions.sh \
	tests/install/cuda-abi.sh \
	tests/install/debian.sh \
	tests/install/examples.sh \
	tests/install/exports.sh tests/install/fortran.sh \
	tests/install/headers.sh \
	tests/install/layers.sh \
	tests/install/manpages.sh \
	tests/install/names.sh \
	tests/install/readme.sh \
	tests/install/release.sh \
	tests/install/rooms.sh \
	tests/install/toolkits.sh \
	tests/install/wheel.sh \
	tests/integration/brokerd.sh tests/integration/cpp.sh \
	tests/integration/driver.sh tests/integration/mps.sh tests/integration/placement.sh tests/integration/join.sh tests/integration/slurm.sh \
	tests/integration/fake-cuda.sh \
	tests/integration/fortran.sh tests/integration/heat.sh tests/integration/heat-fortran.sh \
	tests/integration/heat-py.sh \
	tests/integration/instance.sh \
	tests/integration/kernels.sh \
	tests/integration/parked.sh \
	tests/integration/permuted.sh \
	tests/integration/python.sh \
	tests/integration/run.sh tests/integration/run-ends.sh tests/integration/signals.sh tests/integration/names.sh \
	tests/integration/sandbox.sh \
	tests/integration/secrets.sh \
	tests/integration/lifetime.sh \
	tests/integration/need-cuda.sh \
	tests/integration/startup.sh \
	tests/integration/status.sh tests/integration/status-json.sh tests/integration/status-many.sh \
	tests/integration/status-now.sh tests/integration/status-watch.sh tests/integration/why-brokers.sh \
	tests/integration/exported.sh tests/integration/other-exports.sh tests/integration/containers.sh tests/compat/compat.sh \
	tests/integration/supervisor.sh \
	tests/integration/ctl.sh tests/integration/doctor.sh tests/integration/load.sh \
	tests/integration/exporter.sh \
	tests/install/dashboard.sh \
	tests/integration/ctl.sh \
	tests/integration/events.sh tests/integration/owner.sh tests/integration/owner-status.sh tests/integration/owner-kills.sh \
	tests/integration/broker-kills.sh tests/integration/survives.sh tests/integration/upgrade.sh tests/integration/run-survives.sh \
	tests/integration/view.sh \
	tests/speed/instructions.sh \
	tests/speed/messages.sh \
	tests/gpu/containers.sh \
	tests/gpu/driver.sh \
	tests/gpu/facts.sh \
	tests/gpu/heat.sh tests/gpu/heat-py.sh \
	tests/gpu/integration.sh \
	tests/gpu/kernels.sh \
	tests/gpu/launching.sh \
	tests/gpu/lifetime.sh \
	tests/gpu/load.sh \
	tests/gpu/loading-facts.sh \
	tests/gpu/job-mps.sh tests/gpu/machines.sh tests/gpu/mps.sh \
	tests/gpu/orders.sh \
	tests/gpu/pages.sh \
	tests/gpu/owner-kills.sh tests/gpu/broker-kills.sh tests/gpu/survives.sh \
	tests/gpu/parked.sh \
	tests/gpu/permuted.sh \
	tests/gpu/python.sh \
	tests/gpu/reset.sh
EXTRA_DIST += tests/integration/cpp/cpp.cc tests/integration/cpp/mdspan
EXTRA_DIST += tests/integration/fake-mps-control.sh tests/integration/two-sockets.xml
EXTRA_DIST += tests/tap.sh tests/own-brokerd.sh tests/README.md tests/TESTED.md tests/bare.sh tests/bare-debian.sh tests/bare-python.sh tests/packages.sh \
	tests/install/layers.txt tests/install/names.txt
EXTRA_DIST += tests/aarch64/run.sh tests/aarch64/qemu.txt
# Suites of their own, each with a target (tests/README.md says how long each takes). Same rules, same lists:
#   make check-model    the protocol and the deaths of owner and broker, model-checked, and the real slot code under races, also as AArch64 code
#   make check-crash    a client that dies, stops or ends anywhere; an owner that dies; every call failing in turn
#   make check-hostile  clients that lie, forge, flood and pry
#   make check-scale    jobs on several machines: network namespaces of this one
model_programs = tests/litmus/litmus
model_scripts = tests/model/run.sh tests/litmus/aarch64.sh
crash_programs = tests/crash/crash tests/crash/endings tests/crash/failing
crash_scripts =
hostile_programs = tests/hostile/hostile tests/hostile/shares tests/hostile/fairness
hostile_scripts =
scale_scripts = tests/scale/heat.sh
EXTRA_DIST += tests/scale/machines.sh
suite_programs = $(model_programs) $(crash_programs) $(hostile_programs)
suite_scripts = $(model_scripts) $(crash_scripts) $(hostile_scripts) $(scale_scripts)
test_tools = tests/integration/kernels tests/integration/parked tests/integration/permuted tests/integration/status-client \
	tests/integration/view-client tests/integration/owner-kills tests/integration/owner-holds tests/integration/broker-kills \
	tests/integration/activate tests/integration/notify-listen tests/integration/denied tests/integration/false-upgrade tests/speed/rounds \
	tests/speed/messages tests/supervisor
tests_supervisor_LDADD =
tests_integration_kernels_LDADD = $(public_libs)
tests_integration_parked_LDADD = $(public_libs)
tests_integration_permuted_LDADD = $(public_libs)
tests_integration_status_client_LDADD = $(public_libs)
tests_integration_owner_kills_LDADD = $(public_libs)
tests_integration_owner_holds_LDADD = $(public_libs)
tests_integration_broker_kills_SOURCES = tests/integration/broker-kills.c tests/integration/broker-kills.h \
	tests/integration/broker-kills-arena.c tests/integration/broker-kills-hand.c tests/integration/broker-kills-history.c \
	tests/integration/broker-kills-note.c tests/integration/broker-kills-offers.c tests/integration/broker-kills-own.c \
	tests/integration/broker-kills-victim.c
tests_integration_broker_kills_LDADD = $(public_libs)

# What other-exports.sh runs: broker-run and tests with another table of the kinds of export.
other_exports_table = tests/integration/other-exports.c
test_tools += tests/integration/other-exports-broker-run tests/integration/other-exports-death \
	tests/integration/other-exports-drain tests/integration/other-exports-leases tests/integration/other-exports-reset \
	tests/integration/other-exports-retire tests/integration/other-exports-slabs
tests_integration_other_exports_broker_run_SOURCES = $(broker_broker_run_SOURCES) $(other_exports_table)
tests_integration_other_exports_broker_run_LDADD = $(broker_broker_run_LDADD)
tests_integration_other_exports_death_SOURCES = $(tests_integration_death_SOURCES) $(other_exports_table)
tests_integration_other_exports_drain_SOURCES = $(tests_integration_drain_SOURCES) $(other_exports_table)
tests_integration_other_exports_leases_SOURCES = $(tests_integration_leases_SOURCES) $(other_exports_table)
tests_integration_other_exports_reset_SOURCES = $(tests_integration_reset_SOURCES) $(other_exports_table)
tests_integration_other_exports_retire_SOURCES = $(tests_integration_retire_SOURCES) $(other_exports_table)
tests_integration_other_exports_slabs_SOURCES = $(tests_integration_slabs_SOURCES) $(other_exports_table)

# What fortran.sh runs.
if FORTRAN
test_tools += tests/integration/fortran
tests_integration_fortran_SOURCES = tests/integration/fortran.f90
tests_integration_fortran_FCFLAGS = $(AM_FCFLAGS) $(fortran_module)
tests_integration_fortran_LDADD = $(fortran_libs)
tests/integration/fortran-fortran.$(OBJEXT): $(fortran_library)
else
EXTRA_DIST += tests/integration/fortran.f90
endif

# Sockets whose close waits, for unit tests and for attacks.
lingering = tests/lingering.c tests/lingering.h

# A system that denies some calls.
denials = tests/deny.c tests/deny.h
tests_integration_denied_SOURCES = tests/integration/denied.c $(denials)
tests_integration_denied_LDADD =

# A set-user-ID program, for tests and for attacks.
privileged = tests/privileged.c tests/privileged.h

# Unit tests with a whole broker, and clients that are raw sockets.
# The owner of the devices as a thread of the test.
owner_thread = tests/unit/broker/owner-thread.c tests/unit/broker/owner-thread.h
session_harness = tests/unit/broker/session-harness.c tests/unit/broker/session-harness.h $(owner_thread)
# Unit tests in which calls for memory fail: the linker has the broker's objects call the functions of failing.c.
failing = tests/unit/broker/failing.c tests/unit/broker/failing.h
failing_ldflags = $(AM_LDFLAGS) -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=reallocarray \
	-Wl,--wrap=sodium_malloc,--wrap=event_new,--wrap=event_add
tests_unit_broker_test_creation_SOURCES = tests/unit/broker/test-creation.c $(failing) $(session_harness)
tests_unit_broker_test_creation_LDFLAGS = $(failing_ldflags)
tests_unit_broker_test_creation_creator_SOURCES = tests/unit/broker/test-creation-creator.c $(session_harness)
tests_unit_broker_test_greeting_SOURCES = tests/unit/broker/test-greeting.c $(failing) $(session_harness)
tests_unit_broker_test_greeting_LDFLAGS = $(failing_ldflags)
tests_unit_broker_test_serve_SOURCES = tests/unit/broker/test-serve.c $(failing) $(session_harness)
tests_unit_broker_test_serve_LDFLAGS = $(failing_ldflags)
tests_unit_broker_test_serve_task_SOURCES = tests/unit/broker/test-serve-task.c $(session_harness)
tests_unit_broker_test_owner_SOURCES = tests/unit/broker/test-owner.c $(failing)
tests_unit_broker_test_owner_LDFLAGS = $(failing_ldflags)
brokers_harness = tests/unit/broker/brokers-harness.c tests/unit/broker/brokers-harness.h $(owner_thread)
tests_unit_broker_test_owner_brokers_SOURCES = tests/unit/broker/test-owner-brokers.c $(lingering) $(brokers_harness)
tests_unit_broker_test_owner_random_SOURCES = tests/unit/broker/test-owner-random.c $(brokers_harness)
tests_unit_broker_test_jobs_SOURCES = tests/unit/broker/test-jobs.c $(failing) $(owner_thread)
tests_unit_broker_test_jobs_LDFLAGS = $(failing_ldflags)
tests_unit_broker_test_session_end_SOURCES = tests/unit/broker/test-session-end.c $(session_harness)
tests_unit_broker_test_session_end_proof_SOURCES = tests/unit/broker/test-session-end-proof.c $(failing) $(session_harness)
tests_unit_broker_test_session_end_proof_LDFLAGS = $(failing_ldflags)
tests_speed_messages_SOURCES = tests/speed/messages.c tests/speed/crowd.c tests/speed/crowd.h $(session_harness)
tests_unit_broker_test_snapshot_SOURCES = tests/unit/broker/test-snapshot.c $(session_harness)
tests_unit_broker_test_accounting_shares_SOURCES = tests/unit/broker/test-accounting-shares.c $(session_harness)
tests_unit_broker_test_children_SOURCES = tests/unit/broker/test-children.c broker/run/children.c
tests_unit_broker_test_private_socket_SOURCES = tests/unit/broker/test-private-socket.c broker/run/private-socket.c
tests_unit_broker_test_socket_SOURCES = tests/unit/broker/test-socket.c broker/daemon/socket.c
tests_unit_broker_test_output_SOURCES = tests/unit/broker/test-output.c broker/ctl/output.c
tests_unit_broker_test_connections_SOURCES = tests/unit/broker/test-connections.c $(session_harness)
tests_unit_broker_test_delegation_SOURCES = tests/unit/broker/test-delegation.c $(session_harness)
tests_unit_broker_test_devices_SOURCES = tests/unit/broker/test-devices.c $(session_harness)
tests_unit_broker_test_dispatch_SOURCES = tests/unit/broker/test-dispatch.c $(session_harness)
successor = tests/unit/broker/successor.c tests/unit/broker/successor.h \
	tests/unit/broker/broker-text.c tests/unit/broker/broker-text.h $(session_harness)
successor_ldflags = $(AM_LDFLAGS) -Wl,--wrap=identity_of_peer
tests_unit_broker_test_master_key_SOURCES = tests/unit/broker/test-master-key.c
tests_unit_broker_test_marks_SOURCES = tests/unit/broker/test-marks.c $(session_harness)
tests_unit_broker_test_keep_SOURCES = tests/unit/broker/test-keep.c $(successor)
tests_unit_broker_test_keep_LDFLAGS = $(successor_ldflags)
tests_unit_broker_test_inherited_SOURCES = tests/unit/broker/test-inherited.c $(successor)
tests_unit_broker_test_inherited_LDFLAGS = $(successor_ldflags)
tests_unit_broker_test_load_SOURCES = tests/unit/broker/test-load.c $(failing) $(successor)
tests_unit_broker_test_load_LDFLAGS = $(failing_ldflags) \
	-Wl,--wrap=identity_of_peer,--wrap=ledger_put,--wrap=ledger_free
tests_unit_broker_test_load_resume_SOURCES = tests/unit/broker/test-load-resume.c $(successor)
tests_unit_broker_test_load_resume_LDFLAGS = $(successor_ldflags)
tests_unit_broker_test_load_random_SOURCES = tests/unit/broker/test-load-random.c $(successor)
tests_unit_broker_test_load_random_LDFLAGS = $(successor_ldflags)
tests_unit_broker_test_lookup_SOURCES = tests/unit/broker/test-lookup.c $(session_harness)
waiting_harness = tests/unit/broker/waiting-harness.c tests/unit/broker/waiting-harness.h
tests_unit_broker_test_drains_SOURCES = tests/unit/broker/test-drains.c $(waiting_harness)
tests_unit_broker_test_name_waits_SOURCES = tests/unit/broker/test-name-waits.c $(waiting_harness)
tests_unit_broker_test_waiting_SOURCES = tests/unit/broker/test-waiting.c $(failing) $(waiting_harness)
tests_unit_broker_test_waiting_LDFLAGS = $(failing_ldflags)
tests_unit_broker_test_leftovers_SOURCES = tests/unit/broker/test-leftovers.c $(owner_thread)
tests_unit_broker_test_discard_SOURCES = tests/unit/broker/test-discard.c $(failing) $(lingering) $(session_harness)
tests_unit_broker_test_discard_LDFLAGS = $(failing_ldflags)
tests_unit_broker_test_inquiry_SOURCES = tests/unit/broker/test-inquiry.c $(session_harness)
tests_unit_broker_test_fair_queue_SOURCES = tests/unit/broker/test-fair-queue.c $(failing) $(session_harness)
tests_unit_broker_test_fair_queue_LDFLAGS = $(failing_ldflags)
tests_unit_broker_test_create_queue_SOURCES = tests/unit/broker/test-create-queue.c $(failing) $(owner_thread)
tests_unit_broker_test_create_queue_LDFLAGS = $(failing_ldflags)
tests_unit_broker_test_manage_SOURCES = tests/unit/broker/test-manage.c $(session_harness)
tests_unit_broker_test_manage_publish_SOURCES = tests/unit/broker/test-manage-publish.c $(session_harness)
tests_unit_broker_test_manage_drain_SOURCES = tests/unit/broker/test-manage-drain.c $(session_harness)
tests_unit_broker_test_outbox_SOURCES = tests/unit/broker/test-outbox.c $(session_harness)
tests_unit_broker_test_pool_SOURCES = tests/unit/broker/test-pool.c $(session_harness)
tests_unit_broker_test_session_proof_SOURCES = tests/unit/broker/test-session-proof.c $(session_harness)
tests_unit_broker_test_reclaim_SOURCES = tests/unit/broker/test-reclaim.c $(session_harness)
tests_unit_broker_test_acquire_fanout_SOURCES = tests/unit/broker/test-acquire-fanout.c $(session_harness)
tests_unit_broker_test_dispatch_users_SOURCES = tests/unit/broker/test-dispatch-users.c $(session_harness)
tests_unit_broker_test_session_SOURCES = tests/unit/broker/test-session.c $(session_harness)
tests_unit_broker_test_session_cut_SOURCES = tests/unit/broker/test-session-cut.c $(session_harness)
tests_unit_broker_test_session_death_SOURCES = tests/unit/broker/test-session-death.c $(session_harness)
tests_unit_broker_test_session_inherited_SOURCES = tests/unit/broker/test-session-inherited.c $(session_harness)
tests_unit_broker_test_session_keys_SOURCES = tests/unit/broker/test-session-keys.c $(session_harness)
tests_unit_broker_test_resize_SOURCES = tests/unit/broker/test-resize.c $(session_harness)
tests_unit_broker_test_session_memory_SOURCES = tests/unit/broker/test-session-memory.c $(session_harness)
tests_unit_broker_test_session_packets_SOURCES = tests/unit/broker/test-session-packets.c $(session_harness)
lanes_harness = tests/unit/broker/lanes-harness.c tests/unit/broker/lanes-harness.h
tests_unit_broker_test_jobs_join_SOURCES = tests/unit/broker/test-jobs-join.c $(lanes_harness)
tests_unit_broker_test_jobs_lost_SOURCES = tests/unit/broker/test-jobs-lost.c $(lanes_harness)
# Unit tests of the keeper, whose brokers are functions of the test.
keeper_harness = tests/unit/broker/keeper-harness.c tests/unit/broker/keeper-harness.h
tests_unit_broker_test_keeper_SOURCES = tests/unit/broker/test-keeper.c $(keeper_harness)
tests_unit_broker_test_keeper_ends_SOURCES = tests/unit/broker/test-keeper-ends.c $(keeper_harness)
tests_unit_broker_test_keeper_upgrade_SOURCES = tests/unit/broker/test-keeper-upgrade.c $(keeper_harness)
tests_unit_broker_test_alive_SOURCES = tests/unit/broker/test-alive.c $(keeper_harness)
tests_unit_broker_test_watchdog_SOURCES = tests/unit/broker/test-watchdog.c $(keeper_harness)
tests_unit_broker_test_line_SOURCES = tests/unit/broker/test-line.c $(failing) $(keeper_harness)
tests_unit_broker_test_line_LDFLAGS = $(failing_ldflags)
tests_unit_broker_test_kept_SOURCES = tests/unit/broker/test-kept.c $(failing)
tests_unit_broker_test_kept_LDFLAGS = $(failing_ldflags)
status_file = tests/unit/broker/status-file.c tests/unit/broker/status-file.h
tests_unit_broker_test_status_damaged_SOURCES = tests/unit/broker/test-status-damaged.c $(status_file)
why_records = tests/unit/broker/why-records.c tests/unit/broker/why-records.h
tests_unit_broker_test_refresh_SOURCES = tests/unit/broker/test-refresh.c broker/show/refresh.c
tests_unit_broker_test_second_look_SOURCES = tests/unit/broker/test-second-look.c $(why_records)
tests_unit_broker_test_why_SOURCES = tests/unit/broker/test-why.c $(why_records)
tests_unit_broker_test_why_circles_SOURCES = tests/unit/broker/test-why-circles.c $(why_records)
tests_unit_broker_test_status_read_SOURCES = tests/unit/broker/test-status-read.c $(status_file)
tests_unit_broker_test_status_SOURCES = tests/unit/broker/test-status.c $(session_harness)
tests_unit_broker_test_status_write_SOURCES = tests/unit/broker/test-status-write.c $(session_harness)
tests_unit_broker_test_usage_SOURCES = tests/unit/broker/test-usage.c $(session_harness)

# Unit tests of a registry whose buffers share nothing.
registry_harness = tests/unit/broker/registry-harness.c tests/unit/broker/registry-harness.h
tests_unit_broker_test_registry_SOURCES = tests/unit/broker/test-registry.c $(registry_harness)
tests_unit_broker_test_registry_rename_SOURCES = tests/unit/broker/test-registry-rename.c $(registry_harness)
tests_unit_broker_test_registry_random_SOURCES = tests/unit/broker/test-registry-random.c $(registry_harness)

# Unit tests of a registry whose buffers share memory.
mappings_harness = tests/unit/broker/mappings-harness.c tests/unit/broker/mappings-harness.h
tests_unit_broker_test_mappings_SOURCES = tests/unit/broker/test-mappings.c $(mappings_harness)
tests_unit_broker_test_registry_idle_SOURCES = tests/unit/broker/test-registry-idle.c $(mappings_harness)
tests_unit_broker_test_registry_shared_SOURCES = tests/unit/broker/test-registry-shared.c $(mappings_harness)
tests_unit_broker_test_registry_shared_random_SOURCES = tests/unit/broker/test-registry-shared-random.c $(mappings_harness)

# It counts the calls of descriptors_each().
tests_unit_device_test_cuda_fork_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=descriptors_each

# wiped_map() fails in it when the test says so.
tests_unit_client_test_slot_arena_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=wiped_map

# Unit tests of a client with one record, without a broker.
records_harness = tests/unit/client/records-harness.c tests/unit/client/records-harness.h
tests_unit_client_test_cache_SOURCES = tests/unit/client/test-cache.c $(records_harness)
tests_unit_client_test_close_SOURCES = tests/unit/client/test-close.c $(records_harness)
tests_unit_client_test_lease_SOURCES = tests/unit/client/test-lease.c $(records_harness)
tests_unit_client_test_records_SOURCES = tests/unit/client/test-records.c $(records_harness)
tests_unit_client_test_slot_SOURCES = tests/unit/client/test-slot.c $(records_harness)
tests_unit_client_test_messages_SOURCES = tests/unit/client/test-messages.c $(records_harness)

# Unit tests of the host device, each scenario a process.
host_capture = tests/unit/device/host-capture.c tests/unit/device/host-capture.h
host_harness = tests/unit/device/host-harness.c tests/unit/device/host-harness.h $(host_capture)
tests_unit_device_test_host_device_SOURCES = tests/unit/device/test-host-device.c $(host_harness)
tests_unit_device_test_host_stream_capture_SOURCES = tests/unit/device/test-host-stream-capture.c $(host_harness)
tests_unit_device_test_host_connection_SOURCES = tests/unit/device/test-host-connection.c $(host_harness)
tests_unit_device_test_host_fault_SOURCES = tests/unit/device/test-host-fault.c $(host_harness)
tests_unit_device_test_host_memory_vmm_SOURCES = tests/unit/device/test-host-memory-vmm.c $(host_harness)
tests_unit_device_test_host_memory_SOURCES = tests/unit/device/test-host-memory.c $(host_harness)
tests_unit_device_test_host_memory_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=mkdir
tests_unit_device_test_host_module_SOURCES = tests/unit/device/test-host-module.c $(host_harness)
tests_unit_device_test_host_module_loading_SOURCES = tests/unit/device/test-host-module-loading.c $(host_harness)
tests_unit_device_test_host_quarantine_SOURCES = tests/unit/device/test-host-quarantine.c $(host_harness)
tests_unit_device_test_host_region_SOURCES = tests/unit/device/test-host-region.c $(host_harness)
tests_unit_device_test_host_stream_SOURCES = tests/unit/device/test-host-stream.c $(host_harness)
tests_unit_device_test_host_trap_SOURCES = tests/unit/device/test-host-trap.c $(host_harness)
tests_unit_device_test_host_watch_SOURCES = tests/unit/device/test-host-watch.c $(host_harness)
tests_unit_device_test_select_SOURCES = tests/unit/device/test-select.c $(host_harness)

# Programs that drive brokers and clients of their own.
harness = tests/integration/harness.c tests/integration/harness-broker.c tests/integration/harness.h tests/integration/objects.c
weather = tests/integration/weather.c tests/integration/weather.h
refusals = tests/integration/refusals.c tests/integration/refusals.h $(harness)
tests_integration_publish_SOURCES = tests/integration/publish.c $(refusals)
tests_integration_layouts_SOURCES = tests/integration/layouts.c $(refusals)
tests_integration_bad_input_SOURCES = tests/integration/bad-input.c $(refusals)
tests_integration_bounds_SOURCES = tests/integration/bounds.c $(harness)
tests_integration_cache_SOURCES = tests/integration/cache.c $(harness)
tests_integration_cancel_SOURCES = tests/integration/cancel.c $(harness)
tests_integration_interrupts_SOURCES = tests/integration/interrupts.c $(harness)
tests_integration_capture_SOURCES = tests/integration/capture.c $(harness) $(host_capture)
tests_integration_closed_SOURCES = tests/integration/closed.c $(harness)
tests_integration_closes_SOURCES = tests/integration/closes.c $(harness)
tests_integration_damaged_SOURCES = tests/integration/damaged.c $(harness)
tests_integration_death_SOURCES = tests/integration/death.c $(harness) $(weather)
tests_integration_disconnect_SOURCES = tests/integration/disconnect.c $(harness)
tests_integration_doubled_SOURCES = tests/integration/doubled.c tests/integration/doubler.c tests/integration/doubler.h $(harness)
tests_integration_drain_SOURCES = tests/integration/drain.c $(harness)
tests_integration_false_brokers_SOURCES = tests/integration/false-brokers.c $(refusals)
tests_integration_fork_SOURCES = tests/integration/fork.c $(denials) $(harness)
tests_integration_gone_SOURCES = tests/integration/gone.c $(harness)
tests_integration_keys_SOURCES = tests/integration/keys.c $(harness)
tests_integration_killed_SOURCES = tests/integration/killed.c $(harness)
tests_integration_leases_SOURCES = tests/integration/leases.c $(harness)
tests_integration_library_SOURCES = tests/integration/library.c $(harness)
tests_integration_loading_SOURCES = tests/integration/loading.c $(harness)
tests_integration_list_SOURCES = tests/integration/list.c $(harness)
tests_integration_manage_SOURCES = tests/integration/manage.c $(harness)
tests_integration_many_SOURCES = tests/integration/many.c $(harness)
tests_integration_orders_SOURCES = tests/integration/orders.c $(harness)
tests_integration_pauses_SOURCES = tests/integration/pauses.c $(harness)
tests_integration_privileged_SOURCES = tests/integration/privileged.c $(privileged) $(harness)
tests_integration_reset_SOURCES = tests/integration/reset.c $(harness)
tests_integration_reset_races_SOURCES = tests/integration/reset-races.c $(harness)
tests_integration_retire_SOURCES = tests/integration/retire.c $(harness)
tests_integration_shortages_SOURCES = tests/integration/shortages.c $(refusals)
tests_integration_slabs_SOURCES = tests/integration/slabs.c $(harness)
tests_integration_threads_SOURCES = tests/integration/threads.c $(harness)
tests_integration_tickets_SOURCES = tests/integration/tickets.c $(harness)
tests_integration_exporter_http_SOURCES = tests/integration/exporter-http.c $(harness)
tests_integration_times_SOURCES = tests/integration/times.c $(harness)
tests_integration_timeline_ends_SOURCES = tests/integration/timeline-ends.c $(harness)
tests_integration_timeline_pages_SOURCES = tests/integration/timeline-pages.c $(harness)
tests_integration_timelines_SOURCES = tests/integration/timelines.c $(harness)
tests_integration_timelines_many_SOURCES = tests/integration/timelines-many.c $(harness)
why_scene = tests/integration/why-scene.c tests/integration/why-scene.h $(harness)
tests_integration_why_SOURCES = tests/integration/why.c $(why_scene)
tests_integration_deadlocks_SOURCES = tests/integration/deadlocks.c $(why_scene)
tests_integration_resize_SOURCES = tests/integration/resize.c $(harness)
tests_integration_trace_SOURCES = tests/integration/trace.c $(harness)
tests_integration_truncate_SOURCES = tests/integration/truncate.c $(harness)
tests_integration_users_SOURCES = tests/integration/users.c $(harness)
tests_integration_visible_SOURCES = tests/integration/visible.c $(harness)
tests_integration_vmm_SOURCES = tests/integration/vmm.c $(harness)

tests_litmus_litmus_SOURCES = \
	tests/litmus/litmus.c tests/litmus/outside.c \
	tests/litmus/race.c tests/litmus/race.h tests/litmus/table-race.c tests/litmus/table-race.h

hostile = $(weather) tests/hostile/arena.c tests/hostile/arena.h tests/hostile/arena-broker.c tests/hostile/arena-broker.h \
	tests/hostile/arena-killer.c tests/hostile/arena-killer.h \
	tests/hostile/arena-users.c tests/hostile/arena-users.h \
	tests/hostile/attacks.c tests/hostile/attacks.h tests/hostile/flood.c tests/hostile/flood.h \
	tests/hostile/speaker.c tests/hostile/speaker.h tests/hostile/victim.c tests/hostile/victim.h $(harness)
tests_hostile_hostile_SOURCES = tests/hostile/hostile.c tests/hostile/cancel.c tests/hostile/descriptors.c tests/hostile/floods.c tests/hostile/snapshots.c \
	tests/hostile/growth.c tests/hostile/malformed.c tests/hostile/memory.c tests/hostile/pool.c tests/hostile/privileged.c \
	tests/hostile/processes.c tests/hostile/publish.c tests/hostile/ranges.c tests/hostile/status.c tests/hostile/tickets.c \
	tests/hostile/inquiries.c tests/hostile/timelines.c tests/hostile/walks.c $(lingering) $(privileged) $(hostile)
tests_hostile_shares_SOURCES = tests/hostile/shares.c $(hostile)
tests_hostile_fairness_SOURCES = tests/hostile/fairness.c $(hostile)

tests_crash_crash_SOURCES = tests/crash/crash.c tests/crash/balance.c tests/crash/balance.h \
	tests/crash/lanes.c tests/crash/lanes.h tests/crash/scenarios.c tests/crash/scenarios.h \
	tests/crash/victim.c tests/crash/victim.h $(harness)
tests_crash_endings_SOURCES = tests/crash/endings.c $(harness)
tests_crash_failing_SOURCES = tests/crash/failing.c tests/crash/balance.c tests/crash/balance.h \
	tests/crash/fail-calls.h tests/crash/fail-client.c tests/crash/fail-client.h \
	tests/crash/lanes.c tests/crash/lanes.h $(harness)
# Preloaded by failing. -rpath makes libtool build a shared object of what is not installed.
check_LTLIBRARIES = tests/crash/fail-calls.la
tests_crash_fail_calls_la_SOURCES = tests/crash/fail-calls.c tests/crash/fail-calls.h
tests_crash_fail_calls_la_CFLAGS = $(GPUB_CFLAGS) -fno-builtin
tests_crash_fail_calls_la_LDFLAGS = -module -avoid-version -shared -rpath /nowhere
tests_crash_fail_calls_la_LIBADD = -ldl

# The tool that trace has NVTX load.
tests_integration_nvtx_tool_la_SOURCES = tests/integration/nvtx-tool.c
tests_integration_nvtx_tool_la_LDFLAGS = -module -avoid-version -shared -rpath /nowhere
if HAVE_NVTX
check_LTLIBRARIES += tests/integration/nvtx-tool.la
endif

# A libcuda.so.1 for tests, in tests/fake-cuda/.libs: fake-cuda.h says how a test uses it. A program links with it by
# $(fake_cuda), which comes before what needs the driver.
fake_cuda = tests/fake-cuda/libcuda.la
if HAVE_CUDA
check_LTLIBRARIES += $(fake_cuda)
unit_tests += tests/unit/device/test-cuda-driver tests/unit/device/test-cuda-module tests/unit/device/test-cuda-vmm
endif
tests_unit_device_test_cuda_driver_LDADD = $(fake_cuda) $(LDADD)
tests_unit_device_test_cuda_driver_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc
tests_unit_device_test_cuda_module_LDADD = $(fake_cuda) $(LDADD)
tests_unit_device_test_cuda_vmm_LDADD = $(fake_cuda) $(LDADD)
tests_fake_cuda_libcuda_la_SOURCES = \
	tests/fake-cuda/contexts.c tests/fake-cuda/devices.c \
	tests/fake-cuda/fake-cuda.c tests/fake-cuda/fake-cuda.h \
	tests/fake-cuda/inner.h tests/fake-cuda/libraries.c tests/fake-cuda/memory.c tests/fake-cuda/vmm.c \
	tests/fake-cuda/streams.c
tests_fake_cuda_libcuda_la_CFLAGS = $(GPUB_CFLAGS)
# Version 1, so that its soname is libcuda.so.1; -rpath as above.
tests_fake_cuda_libcuda_la_LDFLAGS = -version-info 1:0:0 -rpath /nowhere
tests_fake_cuda_libcuda_la_LIBADD = -lpthread

# What facts.sh, launching.sh, loading-facts.sh and reset.sh in tests/gpu run; and what needs CUDA's headers alone.
if HAVE_CUDA_TOOLKIT
unit_tests += tests/unit/device/test-cuda-sync
test_tools += tests/gpu/test-driver-facts \
	tests/gpu/launching tests/gpu/reset tests/gpu/test-loading-facts tests/gpu/test-page-facts
check_DATA = tests/gpu/facts.fatbin
CLEANFILES += tests/gpu/facts.fatbin
endif
tests_gpu_test_driver_facts_SOURCES = tests/gpu/test-driver-facts.c tests/gpu/facts.c tests/gpu/facts.h \
	tests/gpu/facts-ipc.c tests/gpu/facts-namespaces.c tests/gpu/facts-order.c tests/gpu/facts-processes.c tests/gpu/facts-vmm.c
tests_gpu_test_driver_facts_LDADD = $(LDADD) $(CUDA_LIBS)
tests_gpu_test_page_facts_SOURCES = tests/gpu/test-page-facts.c
tests_gpu_test_page_facts_LDADD = $(LDADD) $(CUDA_LIBS)
tests_gpu_reset_SOURCES = tests/gpu/reset.c
tests_gpu_reset_LDADD = $(LDADD) $(CUDA_LIBS)
parked = tests/gpu/parked.c tests/gpu/parked.h
tests_gpu_launching_SOURCES = tests/gpu/launching.c $(parked)
tests_gpu_test_loading_facts_SOURCES = tests/gpu/test-loading-facts.c $(parked)
tests_gpu_launching_LDADD = $(LDADD) $(CUDA_LIBS)
tests_gpu_test_loading_facts_LDADD = $(LDADD) $(CUDA_LIBS)
EXTRA_DIST += tests/gpu/facts.cu
CLEANFILES += tests/gpu.lock
EXTRA_DIST += \
	.clang-tidy \
	tests/analysis/cppcheck.cfg tests/analysis/known.txt \
	tests/analysis/figures/figures.py tests/analysis/figures/calls.c tests/analysis/figures/walks.c \
	tests/analysis/static.sh tests/analysis/threads.sh tests/analysis/tsan.supp tests/analysis/valgrind.sh tests/analysis/words.sh tests/analysis/words.txt
EXTRA_DIST += tests/speed/instructions.txt
EXTRA_DIST += tests/compat/commits.txt
EXTRA_DIST += tests/model/lease.pml tests/model/owner.pml tests/model/survive.pml tests/model/README.md tests/litmus/README.md

LDADD = libbroker/libclient.la $(broker_libs) $(CMOCKA_LIBS)

dist_check_SCRIPTS = $(test_scripts) $(suite_scripts)

if HAVE_CMOCKA
check_all = $(unit_tests) $(test_programs) $(test_tools) $(suite_programs)
EXTRA_PROGRAMS += $(check_all)
# configure.ac: all of them, or what TESTS on make's command line names
check_PROGRAMS += @check_programs@
TESTS = $(unit_tests) $(test_programs) $(test_scripts)
# Never so: automake makes the rule that runs a program only where it finds the program in TESTS.
if NEVER
TESTS += $(suite_programs)
endif
else
# Not a part of the suite, so that nobody takes it for all of it.
check-local:
	@echo "make check needs cmocka: install it (Debian: libcmocka-dev) and run configure again" >&2; exit 1
endif

# An hour of 32 clients that do everything and are killed: make soak SOAK_SECONDS=600 SOAK_CLIENTS=16 takes less. SOAK_BROKER is
# broker-run or brokerd.
SOAK_SECONDS = 3600
SOAK_CLIENTS = 32
SOAK_BROKER = broker-run
soak: tests/integration/death tests/supervisor
	$(AM_TESTS_ENVIRONMENT) TEST_BROKER=$(SOAK_BROKER) tests/supervisor $$(($(SOAK_SECONDS) + $(SCRIPT_SECONDS))) \
	    tests/integration/death $(SOAK_SECONDS) $(SOAK_CLIENTS)

.PHONY: check-model check-crash check-hostile check-scale soak
check-model:
	$(MAKE) $(AM_MAKEFLAGS) check TESTS='$(model_programs) $(model_scripts)'
check-crash:
	$(MAKE) $(AM_MAKEFLAGS) check TESTS='$(crash_programs) $(crash_scripts)'
check-hostile:
	$(MAKE) $(AM_MAKEFLAGS) check TESTS='$(hostile_programs) $(hostile_scripts)'
check-scale:
	$(MAKE) $(AM_MAKEFLAGS) check TESTS='$(scale_scripts)'

# Mutants of the core, sampled: tests/mutate/mutate.sh says what can be set. And a few that are known, which keeps it working.
mutate:
	$(AM_TESTS_ENVIRONMENT) bash $(srcdir)/tests/mutate/mutate.sh
mutate-smoke:
	$(AM_TESTS_ENVIRONMENT) MUTATE_LIST=$(srcdir)/tests/mutate/smoke.txt bash $(srcdir)/tests/mutate/mutate.sh
.PHONY: mutate mutate-smoke
EXTRA_DIST += tests/mutate/mutate.sh tests/mutate/score.sh tests/mutate/c.rules tests/mutate/tests.txt tests/mutate/equivalent.txt tests/mutate/smoke.txt

TEST_EXTENSIONS = .sh
LOG_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) $(top_srcdir)/build-aux/tap-driver.sh
LOG_COMPILER = $(top_builddir)/tests/supervisor
AM_LOG_FLAGS = $(TEST_SECONDS)
SH_LOG_DRIVER = $(LOG_DRIVER)
SH_LOG_COMPILER = $(LOG_COMPILER)
AM_SH_LOG_FLAGS = $(SCRIPT_SECONDS) bash

# A test's verdict does not depend on its caller: the locale decides what awk and sort print, the umask which sockets and
# files are trusted, and a socket's path has 107 bytes, the temporary directory's name included.
test_caller = \
	LC_ALL=C; export LC_ALL; umask 022; \
	test "$$(expr "x$$TMPDIR" : '.*')" -le 41 || { TMPDIR=/tmp; export TMPDIR; };

# A test starts from the build tree alone, whatever broker the caller's environment names.
AM_TESTS_ENVIRONMENT = $(test_caller) \
	unset GPUBROKER GPUBROKER_RANK GPUBROKER_SIZE TEST_DEVICE; \
	top_srcdir='$(abs_top_srcdir)'; export top_srcdir; \
	top_builddir='$(abs_top_builddir)'; export top_builddir; \
	GPUBROKER_MODULE_PATH='$(abs_top_builddir)/kernels'; export GPUBROKER_MODULE_PATH; \
	GPUB_HOST_STRICT=1; export GPUB_HOST_STRICT; \
	CMOCKA_MESSAGE_OUTPUT=TAP; export CMOCKA_MESSAGE_OUTPUT; \
	CC='$(CC)'; CXX='$(CXX)'; FC='$(FC)'; NM='$(NM)'; export CC CXX FC NM; \
	CUDA_CPPFLAGS='$(CUDA_CPPFLAGS)'; CUDA_LIBS='$(CUDA_LIBS)'; export CUDA_CPPFLAGS CUDA_LIBS; \
	ASAN_OPTIONS=protect_shadow_gap=0:$$ASAN_OPTIONS; export ASAN_OPTIONS; \
	UBSAN_OPTIONS=print_stacktrace=1:$$UBSAN_OPTIONS; export UBSAN_OPTIONS;

EXTRA_DIST += tests/install/installed.sh tests/install/program.c tests/install/program.f90
installcheck-local:
	$(test_caller) CC='$(CC)' CXX='$(CXX)' FC='$(FC)' PKG_CONFIG='$(PKG_CONFIG)' DESTDIR='$(DESTDIR)' srcdir='$(srcdir)' \
	    pkgconfigdir='$(pkgconfigdir)' libdir='$(libdir)' bindir='$(bindir)' CUDA_CPPFLAGS='$(CUDA_CPPFLAGS)' \
	    CUDA_LIBS='$(CUDA_LIBS)' bash $(srcdir)/tests/install/installed.sh

# SPDX-License-Identifier: Apache-2.0
dist_man_MANS += man/broker-ctl.1 man/gpub_chmod.3 man/gpub_ticket_issue.3
dist_man_MANS += man/broker-status.1
if EXPORTER
dist_man_MANS += man/broker-exporter.8
else
EXTRA_DIST += man/broker-exporter.8
endif
if FORTRAN
dist_man_MANS += man/gpubroker_fortran.3
else
EXTRA_DIST += man/gpubroker_fortran.3
endif
dist_man_MANS += man/brokerd.8 man/brokerd.conf.5
dist_man_MANS += man/gpubroker.7 man/gpubroker-tutorial.7 man/gpubroker_host.7 man/gpubroker_lifetimes.7 man/gpubroker_python.7
dist_man_MANS += man/broker-run.1 man/gpubroker.3 man/gpub_acquire.3 man/gpub_connect.3 man/gpub_create.3 \
	man/gpub_layout_parse.3 man/gpub_lease.3 man/gpub_module_open.3 man/gpub_resize.3 man/gpub_seal.3 man/gpub_set_interrupt.3 man/gpub_signal_on.3 man/gpub_stream_create.3

# A page for each function that stands on another's, so that man finds it by its name. Its page is the one that names it
# in its NAME section.
man_aliases = \
	man/gpub_disconnect.3 man/gpub_set_flags.3 man/gpub_trim.3 man/gpub_set_cache.3 man/gpub_device_count.3 man/gpub_set_device.3 \
	man/gpub_unlink.3 man/gpub_stat.3 man/gpub_list.3 \
	man/gpub_chown.3 man/gpub_drain.3 man/gpub_redeem.3 \
	man/gpub_acquire_as.3 man/gpub_acquire_many.3 man/gpub_renew.3 man/gpub_return.3 man/gpub_return_on.3 \
	man/gpub_layout_text.3 man/gpub_lease_layout.3 \
	man/gpub_rename.3 man/gpub_wait_newer.3 man/gpub_lease_generation.3 \
	man/gpub_wait_on.3 man/gpub_signal_many_on.3 man/gpub_wait_many_on.3 man/gpub_timeline.3 man/gpub_timeline_wait.3 \
	man/gpub_stream_create_priority.3 man/gpub_stream_wait.3 man/gpub_stream_sync.3 man/gpub_stream_destroy.3 man/gpub_copy_on.3 \
	man/gpub_host_alloc.3 man/gpub_host_free.3 man/gpub_node.3 \
	man/gpub_module_kernel.3 man/gpub_module_managed.3 man/gpub_launch.3 man/gpub_module_close.3 \
	man/gpub_strerror_last.3
nodist_man_MANS = $(man_aliases)
CLEANFILES += $(man_aliases)

$(man_aliases): man/local.mk
	@$(MKDIR_P) $(@D)
	$(AM_V_GEN)name=`basename $@ .3` && \
	    page=`grep -lx "\.Nm $$name\( ,\)\{0,1\}" $(srcdir)/man/gpub*.3 | grep -v "/$$name\.3"` && \
	    echo ".so man3/`basename $$page`" >$@

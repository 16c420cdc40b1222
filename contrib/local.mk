# SPDX-License-Identifier: Apache-2.0

# For systemd, below the prefix: with /usr and /usr/local it looks there by itself. Nothing is enabled.
systemdunitdir = $(prefix)/lib/systemd/system
nodist_systemdunit_DATA = contrib/systemd/gpubroker.service
dist_systemdunit_DATA = contrib/systemd/gpubroker.socket
EXTRA_DIST += contrib/systemd/gpubroker.service.in
CLEANFILES += contrib/systemd/gpubroker.service

# sbindir is known only now: it may be said at make install.
contrib/systemd/gpubroker.service: contrib/systemd/gpubroker.service.in Makefile
	@$(MKDIR_P) $(@D)
	$(AM_V_GEN)sed 's|@sbindir[@]|$(sbindir)|' $(srcdir)/contrib/systemd/gpubroker.service.in >$@

sysusersdir = $(prefix)/lib/sysusers.d
dist_sysusers_DATA = contrib/sysusers.d/gpubroker.conf

# The sample, to be copied to sysconfdir/gpubroker by whoever wants one.
dist_doc_DATA = contrib/brokerd.conf

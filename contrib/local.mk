# SPDX-License-Identifier: Apache-2.0

# For systemd, below the prefix: with /usr and /usr/local it looks there by itself. Nothing is enabled.
systemdunitdir = $(prefix)/lib/systemd/system
nodist_systemdunit_DATA = contrib/systemd/gpubroker.service
dist_systemdunit_DATA = contrib/systemd/gpubroker.socket
if EXPORTER
nodist_systemdunit_DATA += contrib/systemd/gpubroker-exporter.service
endif
EXTRA_DIST += contrib/systemd/gpubroker.service.in contrib/systemd/gpubroker-exporter.service.in
CLEANFILES += $(nodist_systemdunit_DATA)

# sbindir is known only now: it may be said at make install.
$(nodist_systemdunit_DATA): %: %.in Makefile
	@$(MKDIR_P) $(@D)
	$(AM_V_GEN)sed 's|@sbindir[@]|$(sbindir)|g' $< >$@

sysusersdir = $(prefix)/lib/sysusers.d
dist_sysusers_DATA = contrib/sysusers.d/gpubroker.conf

# The sample, to be copied to sysconfdir/gpubroker by whoever wants one.
dist_doc_DATA = contrib/brokerd.conf

# For Grafana, to be imported there.
grafanadir = $(docdir)/grafana
dist_grafana_DATA = contrib/grafana/gpubroker.json
# Draws it for the README.
EXTRA_DIST += contrib/grafana/draw.py

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
if EXPORTER
dist_sysusers_DATA += contrib/sysusers.d/gpubroker-exporter.conf
endif

# The sample, to be copied to sysconfdir/gpubroker by whoever wants one.
dist_doc_DATA = contrib/brokerd.conf

# For Slurm: a batch script, and what slurm.conf may name as Prolog and Epilog.
slurmdir = $(pkgdatadir)/slurm
dist_slurm_SCRIPTS = contrib/slurm/epilog.sh contrib/slurm/gpubroker.sbatch contrib/slurm/prolog.sh

# For Grafana, to be imported there.
grafanadir = $(docdir)/grafana
dist_grafana_DATA = contrib/grafana/gpubroker.json
# Draws it for the README.
EXTRA_DIST += contrib/grafana/draw.py
# What shells complete. Kept in the sources, as a build for another machine cannot run its programs to learn their options.
completed_programs = broker/broker-ctl broker/broker-exporter broker/broker-run broker/broker-status broker/brokerd
bashcompletiondir = $(datadir)/bash-completion/completions
zshcompletiondir = $(datadir)/zsh/site-functions
fishcompletiondir = $(datadir)/fish/vendor_completions.d
dist_bashcompletion_DATA = \
	contrib/completions/bash/broker-ctl contrib/completions/bash/broker-exporter contrib/completions/bash/broker-run \
	contrib/completions/bash/broker-status contrib/completions/bash/brokerd
dist_zshcompletion_DATA = \
	contrib/completions/zsh/_broker-ctl contrib/completions/zsh/_broker-exporter contrib/completions/zsh/_broker-run \
	contrib/completions/zsh/_broker-status contrib/completions/zsh/_brokerd
dist_fishcompletion_DATA = \
	contrib/completions/fish/broker-ctl.fish contrib/completions/fish/broker-exporter.fish contrib/completions/fish/broker-run.fish \
	contrib/completions/fish/broker-status.fish contrib/completions/fish/brokerd.fish
EXTRA_DIST += contrib/completions/generate.sh
.PHONY: completions
completions: $(completed_programs)
	bash $(srcdir)/contrib/completions/generate.sh $(srcdir)/contrib/completions $(completed_programs)

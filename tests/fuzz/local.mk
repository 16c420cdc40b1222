# SPDX-License-Identifier: Apache-2.0
#
# The fuzz targets (README.md says what each one feeds). To add one: a line in fuzz_targets, its sources, a folder of
# seeds in corpus/.
#   make fuzz                       every target, FUZZ_SECONDS each; not 0 when something was found
#   make fuzz FUZZ_TARGETS=board    one
#   make fuzz-replay                the committed inputs alone, a second or two a target
FUZZ_SECONDS = 60
FUZZ_TARGETS = $(fuzz_targets)

fuzz_targets = board broker client config events image options spec status ticket
fuzz_common = tests/fuzz/fuzz.c tests/fuzz/fuzz.h

tests_fuzz_fuzz_board_SOURCES = tests/fuzz/fuzz-board.c $(fuzz_common)
tests_fuzz_fuzz_broker_SOURCES = tests/fuzz/fuzz-broker.c tests/fuzz/bytes.c tests/fuzz/bytes.h tests/fuzz/owner.c tests/fuzz/owner.h \
	tests/fuzz/peers.c tests/fuzz/peers.h $(owner_thread) \
	$(fuzz_common)
tests_fuzz_fuzz_client_SOURCES = tests/fuzz/fuzz-client.c tests/fuzz/server.c tests/fuzz/server.h $(fuzz_common)
tests_fuzz_fuzz_config_SOURCES = tests/fuzz/fuzz-config.c $(fuzz_common)
tests_fuzz_fuzz_events_SOURCES = tests/fuzz/fuzz-events.c $(fuzz_common)
tests_fuzz_fuzz_image_SOURCES = tests/fuzz/fuzz-image.c examples/heat/image.c $(fuzz_common)
tests_fuzz_fuzz_image_LDADD = $(LDADD) $(PNG_LIBS) -lz
tests_fuzz_fuzz_options_SOURCES = tests/fuzz/fuzz-options.c examples/heat/options.c broker/run/options.c broker/run/declared.c broker/run/job.c broker/run/mps-plan.c broker/run/placement.c broker/run/locality.c broker/run/children.c $(fuzz_common)
tests_fuzz_fuzz_options_LDADD = $(LDADD) $(HWLOC_LIBS)
tests_fuzz_fuzz_spec_SOURCES = tests/fuzz/fuzz-spec.c broker/run/declared.c broker/run/spec.c $(fuzz_common)
tests_fuzz_fuzz_status_SOURCES = tests/fuzz/fuzz-status.c $(fuzz_common)
tests_fuzz_fuzz_ticket_SOURCES = tests/fuzz/fuzz-ticket.c $(fuzz_common)

fuzz_ldflags = $(AM_LDFLAGS) -fsanitize=fuzzer
tests_fuzz_fuzz_board_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_broker_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_client_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_config_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_events_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_image_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_options_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_spec_LDFLAGS = $(fuzz_ldflags)
# A text that is torn is read again after a nap, twenty times: too long for a fuzzer.
tests_fuzz_fuzz_status_LDFLAGS = $(fuzz_ldflags) -Wl,--wrap=nanosleep
tests_fuzz_fuzz_ticket_LDFLAGS = $(fuzz_ldflags)

fuzz_programs = \
	tests/fuzz/fuzz-board \
	tests/fuzz/fuzz-broker \
	tests/fuzz/fuzz-client \
	tests/fuzz/fuzz-config \
	tests/fuzz/fuzz-events \
	tests/fuzz/fuzz-image \
	tests/fuzz/fuzz-options \
	tests/fuzz/fuzz-spec \
	tests/fuzz/fuzz-status \
	tests/fuzz/fuzz-ticket
EXTRA_PROGRAMS += $(fuzz_programs)
CLEANFILES += $(fuzz_programs)
EXTRA_DIST += tests/fuzz/run.sh tests/fuzz/README.md tests/fuzz/corpus

.PHONY: fuzz fuzz-replay
if FUZZING
fuzz: $(fuzz_programs)
	@$(test_caller) top_srcdir='$(top_srcdir)' FUZZ_SECONDS='$(FUZZ_SECONDS)' bash $(top_srcdir)/tests/fuzz/run.sh $(FUZZ_TARGETS)
fuzz-replay: $(fuzz_programs)
	@$(test_caller) top_srcdir='$(top_srcdir)' FUZZ_SECONDS=0 bash $(top_srcdir)/tests/fuzz/run.sh $(FUZZ_TARGETS)
else
fuzz fuzz-replay:
	@echo "make $@ needs a build with ./configure CC=clang CXX=clang++ --enable-fuzzing" >&2; exit 1
endif

clean-local:
	rm -rf tests/fuzz/work

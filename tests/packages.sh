#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# packages.sh - this commit's Debian packages: made in a bare Debian or Ubuntu, installed in another, and run there and under its systemd.
#
# usage: tests/packages.sh SUITE [MIRROR]      SUITE: bookworm, trixie, ..., or of Ubuntu: jammy, noble
#
# ./bootstrap deb makes them, lintian judges them. In a Debian that has nothing else: they install by the README's commands, and
# the demo runs; then autopkgtest runs the package tests (debian/tests) that need no systemd. In a Debian that systemd-nspawn
# boots: they install, debian/tests/service passes, a broker that runs goes on as the upgraded program, remove and purge leave nothing.
#
# PACKAGES_FROM=FOLDER takes packages that were made before, from there, and makes none.
#
# Prints the commit and each step's closing line; exit 0 only when everything passed. Needs root, debootstrap, systemd-nspawn, a
# network and 3 GiB in BARE_DIR (/var/tmp), where it leaves the logs. Without systemd-nspawn, or where it may not boot anything, the
# steps under systemd are skipped by name. What it mounts is seen by it alone and ends with it.
# shellcheck disable=SC2317 # functions are reached through trap and step
set -euo pipefail

if [ $# -lt 1 ] || [ $# -gt 2 ]; then
	sed -n 's/^# usage: /usage: /p' "$0" >&2
	exit 2
fi
# shellcheck source=tests/bare.sh
. "$(dirname "$0")/bare.sh"
bare_alone "$@"
bare_begin "$@"

finish() {
	bare_remove bare build install systemd
	echo "logs: $work"
}
trap finish EXIT

# at NAME COMMAND...: as root in that system
at() {
	inside "$1" root env AUTOPKGTEST_TMP=/tmp "${@:2}"
}

# ---- make ----

built() {
	bare_copy bare build
	at build apt-get update
	at build apt-get install -y --no-install-recommends git ca-certificates lintian
	git clone -q "$top" "$work/root-build/root/gpubroker"
	# shellcheck disable=SC2016 # the shell within expands
	at build bash -c 'cd /root/gpubroker && ./bootstrap deb && [ -z "$(git status --porcelain)" ] && ls build/deb/*.dsc'
	cp "$work"/root-build/root/gpubroker/build/deb/*.deb "$work/"
	rm -f "$work"/*-dbgsym_*.deb
}
# Each tag of these levels is a failure.
judged() {
	at build bash -c 'lintian --allow-root --profile debian --fail-on error,warning /root/gpubroker/build/deb/*.changes && echo "lintian: nothing"'
}

# ---- a bare Debian ----

# The README's command
command=$(sed -n 's/^    \$ sudo \(apt-get install .*\)$/\1 -y --no-install-recommends/p' "$top/README.md")
# given ROOT: the packages where that command finds them, and their tests
given() {
	mkdir -p "$work/root-$1/root/build/deb"
	cp "$work"/*.deb "$work/root-$1/root/build/deb/"
	cp -r "$top/debian/tests" "$work/root-$1/root/"
}
installed() {
	bare_copy bare install
	given install
	at install apt-get update
	at install bash -c "cd /root && $command"
	at install broker-status --version
}
# The Python package, which is there where Python is new enough. No NumPy is installed with it.
python() {
	if ! compgen -G "$work/python3-gpubroker_*.deb" >/dev/null; then
		! inside install root python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' &&
			echo "skipped, this system's Python is older than 3.11"
		return
	fi
	at install bash -c 'apt-get install -y --no-install-recommends ./build/deb/python3-gpubroker_*.deb'
	at install /root/tests/python
	[ -e "$work/root-install/usr/share/man/man7/gpubroker_python.7.gz" ]
	at install bash -c '! dpkg -l python3-numpy 2>/dev/null | grep "^ii" && dpkg -s python3-gpubroker | grep "^Depends: .*libgpubroker0"'
}
# What README promises of them: the page of a function, the tutorial's first two lines, and the source that it speaks of
tutorial() {
	local lines
	lines=$(sed -n 's/^\$ //p' "$top/man/gpubroker-tutorial.7" | head -n 2)
	[ -e "$work/root-install/usr/share/man/man3/gpub_acquire.3.gz" ]
	[ -e "$work/root-install/usr/share/doc/libgpubroker-dev/examples/pipeline/pipeline.c" ]
	at install bash -ec "$lines"
}
# autopkgtest reads debian/tests/control, and installs what each test needs. The test service needs systemd.
tested() {
	local names=(--test-name=demo --test-name=compile)
	! compgen -G "$work/python3-gpubroker_*.deb" >/dev/null || names+=(--test-name=python)
	git clone -q "$top" "$work/root-install/root/source"
	at install apt-get install -y --no-install-recommends autopkgtest
	at install bash -c 'cd /root && autopkgtest --no-built-binaries --summary-file=summary "$@" build/deb/*.deb source/ -- null' - "${names[@]}"
	grep -E '^(demo|compile|python) *PASS' "$work/root-install/root/summary" | tr -s ' \n' ' '
}

# ---- under its systemd ----

# What the booted Debian does: no network is there, so apt takes what was downloaded.
write_session() {
	echo "$command \"\$@\"" >"$work/root-systemd/root/install"
	cat >"$work/root-systemd/root/session" <<'SESSION'
#!/bin/bash
# A line for each check, and at the end "session: passed"
set -u
cd /root
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
check() {
	local text=$1
	shift
	"$@" >/tmp/check.log 2>&1 || { cat /tmp/check.log; echo "not ok - $text"; echo "session: failed"; exit 1; }
	echo "ok - $text"
}
broker() { systemctl show -P MainPID gpubroker.service; }
nothing_left() {
	! systemctl -q is-active gpubroker.service && ! systemctl -q is-active gpubroker.socket && [ ! -e /run/gpubroker/socket ] &&
		! compgen -G '/dev/shm/gpubroker*'
}
purged() {
	[ ! -e /etc/gpubroker ] && ! find /etc/systemd /lib/systemd/system /var/lib/systemd -name 'gpubroker*' | grep . &&
		! dpkg -l | grep gpubroker
}
check "kill is not installed as a program" eval '! type -P kill || { rm -f /bin/kill /usr/bin/kill; ! type -P kill; }'
check "the packages install" bash install
/root/tests/service || { echo "session: failed"; exit 1; }
check "systemd finds no fault in the units" systemd-analyze verify --man=no gpubroker.service gpubroker.socket
systemd-analyze security gpubroker.service --no-pager | tail -n 1
pid=$(broker)
check "a buffer is made" broker-ctl create kept 1M
goes_on() {
	local tries
	for ((tries = 0; tries < 100; tries++)); do
		broker-status --json system | grep -q '"ended": "upgraded"' && ! readlink "/proc/$pid/exe" | grep -q deleted && return
		sleep 0.1
	done
	return 1
}
check "an upgrade" bash install --reinstall
check "leaves the broker running" test "$(broker)" = "$pid"
check "as the new program" goes_on
check "with all that there was" broker-ctl stat kept
check "it serves the new tools" broker-ctl create upgraded 1M
check "the package is removed" apt-get remove -y gpubroker
check "with its service, its socket and what it shared" nothing_left
check "its configuration stays" test -e /etc/gpubroker/brokerd.conf
check "it is installed again" bash install
check "and serves" broker-ctl create again 1M
check "all packages are purged" apt-get purge -y gpubroker gpubroker-tools libgpubroker0 libgpubroker-dev
check "nothing is left" eval 'nothing_left && purged'
exporter_serves() {
	systemctl -q is-active gpubroker-exporter.service && exec 3<>/dev/tcp/127.0.0.1/14782 &&
		printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3 && grep -q '^gpubroker_up{broker="system",state="absent"} 0' <&3
}
check "the exporter installs alone" apt-get install -y --no-install-recommends ./build/deb/gpubroker-exporter_*.deb
for _ in {1..50}; do exporter_serves 2>/dev/null && break; sleep 0.1; done
check "and serves" exporter_serves
check "it is purged" apt-get purge -y gpubroker-exporter
check "no unit failed" eval '! systemctl --failed --no-legend | grep gpubroker'
echo "session: passed"
SESSION
	chmod +x "$work/root-systemd/root/session"
	cat >"$work/root-systemd/etc/systemd/system/session.service" <<'UNIT'
[Unit]
After=dbus.service
[Service]
Type=oneshot
TimeoutStartSec=600
ExecStart=/bin/bash -c '/root/session >/root/session.log 2>&1'
ExecStopPost=/bin/systemctl --no-block poweroff
[Install]
WantedBy=multi-user.target
UNIT
	at systemd systemctl enable session.service
}
prepared_systemd() {
	bare_copy bare systemd
	given systemd
	at systemd apt-get update
	at systemd apt-get install -y --no-install-recommends systemd systemd-sysv dbus
	at systemd bash -c "cd /root && $command --download-only"
	at systemd bash -c "cd /root && apt-get install -y --no-install-recommends --download-only ./build/deb/gpubroker-exporter_*.deb"
	write_session
}
booted() {
	local log=$work/root-systemd/root/session.log
	# one at a time: with --keep-unit all that are booted have the same control group, and take each other's away
	flock "${TMPDIR:-/tmp}/gpubroker-packages.lock" timeout 900 systemd-nspawn --register=no --keep-unit -D "$work/root-systemd" -b --private-network || true
	cat "$log"
	[ "$(tail -n 1 "$log")" = "session: passed" ]
}

step debootstrap bare_make bare
[ $status = 0 ] || exit 1
echo "commit: $(git -C "$top" rev-parse --short HEAD), $(sed -n 's/^PRETTY_NAME=//p' "$work/root-bare/etc/os-release")"
if [ -n "${PACKAGES_FROM-}" ]; then
	cp "$PACKAGES_FROM"/*.deb "$work/"
else
	step packages built
	[ $status = 0 ] || exit 1
	step lintian judged
fi
step install installed
[ $status = 0 ] || exit 1
step demo at install /root/tests/demo
step python python
step tutorial tutorial
step autopkgtest tested
if command -v systemd-nspawn >/dev/null; then
	step systemd-root prepared_systemd
	[ $status = 0 ] || exit 1
	step systemd booted
else
	echo "systemd: skipped, there is no systemd-nspawn (Debian: systemd-container)"
fi
# What failed, of all
grep -hE '^(not ok|[EW]: [a-z-]*gpubroker)' "$work"/*.log | sort -u || true
exit $status

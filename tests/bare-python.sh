#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bare-python.sh - the Python wheel in a Debian or Ubuntu that has python3-venv and nothing else: pip installs it with NumPy, and its
# broker-run runs README's second program on the host device.
#
# usage: tests/bare-python.sh SUITE WHEEL [MIRROR]      SUITE: bookworm, trixie, ..., or of Ubuntu: noble. WHEEL: of make wheel
#
# Prints the closing line of each step; exit 0 only when the program is right. Needs root, debootstrap, a network with a package index and
# 1 GiB in BARE_DIR (/var/tmp), where it leaves the logs. PIP_INDEX_URL and PIP_CERT are pip's, there too.
# shellcheck disable=SC2154,SC2317 # bare.sh sets variables; functions are reached through trap and step
set -euo pipefail

if [ $# -lt 2 ] || [ $# -gt 3 ]; then
	sed -n 's/^# usage: /usage: /p' "$0" >&2
	exit 2
fi
# shellcheck source=tests/bare.sh
. "$(dirname "$0")/bare.sh"
bare_alone "$@"
bare_begin "$1" "${3-}"

wheel=$(realpath "$2")
finish() {
	bare_remove python
	echo "logs: $work"
}
trap finish EXIT

# with_pip COMMAND...: as root, whose virtual environment comes first
with_pip() {
	inside python root env PATH=/root/venv/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
}
installed() {
	bare_make python
	cp "$wheel" "$top/examples/acquire.py" "$work/root-python/root/"
	with_pip apt-get update
	with_pip apt-get install -y --no-install-recommends python3-venv ca-certificates
	with_pip python3 -m venv /root/venv
	with_pip pip --disable-pip-version-check install numpy "/root/${wheel##*/}"
}
program() {
	with_pip broker-run --device host -b 'u=f32[1024]' -- python /root/acquire.py 2>&1 | tee "$work/said"
	grep -qx 'u\[0\] = 1.0' "$work/said" && grep 'balanced$' "$work/said"
}
step install installed
[ $status = 0 ] || exit 1
sed -n 's/^PRETTY_NAME=//p' "$work/root-python/etc/os-release"
step program program
exit $status

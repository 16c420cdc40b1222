#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# dashboard.sh - the Grafana dashboard is JSON, and each metric that it asks for is one that brokers have.
# integration/exporter.sh has a real Prometheus read its queries.
# shellcheck disable=SC2016 # what a check evaluates expands then, not before
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
dashboard=$(cd "$top_srcdir" && pwd)/contrib/grafana/gpubroker.json
show=$(cd "${top_builddir:?}" && pwd)/broker/broker-status
run=${show%/*}/broker-run
cd "$work" || exit 1

# names FILE: of the metrics that it names
names() {
	grep -oE '\bgpubroker_[a-z_]+' "$1" | sort -u
}

check "a broker's metrics are there" "$run" --quiet --name "dashboard-$$" --device host -b u=1M -- \
	bash -c '"$1" --openmetrics "$2" >out' - "$show" "dashboard-$$"
# a quota is there where a user has one
sed -n 's/^ *"expr": "\(.*\)",$/\1/p' "$dashboard" >queries
printf 'gpubroker_user_quota_bytes{}\n' >>out
check "the dashboard has queries" test "$(wc -l <queries)" -ge 30
check "each metric of theirs is a broker's" eval '[ -z "$(comm -23 <(names queries) <(grep -v "^#" out >samples; names samples) | tee err)" ]'
if command -v python3 >/dev/null; then
	check "it is JSON" eval 'python3 -m json.tool <"$dashboard" >/dev/null 2>err'
else
	skip "it is JSON" "there is no python3 (Debian: python3)"
fi
plan

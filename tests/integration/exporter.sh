#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# exporter.sh - metrics of real brokers: what broker-status prints and broker-exporter serves is what promtool, Python's parser of
# OpenMetrics and a real Prometheus read; what each of them is skipped without is said by name. integration/exporter-http has
# clients that mean harm.
# shellcheck disable=SC2016 # what a check evaluates expands then, not before
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"
own_shm

exporter=${top_builddir:?}/broker/broker-exporter
show=$top_builddir/broker/broker-status
run=$top_builddir/broker/broker-run
client=$top_builddir/tests/integration/status-client
[ -x "$exporter" ] || { echo "1..0 # SKIP broker-exporter is not built: there is no libmicrohttpd (Debian: libmicrohttpd-dev)" && exit 0; }

work=$(mktemp -d) || exit 1
name=metrics-$$
broker='' pid='' process=''
cleanup() {
	[ -z "$process" ] || kill -CONT "$process"
	touch "$work/go" "$work/more"
	rm -rf /dev/shm/gpubroker."$name"*
	cd / && rm -rf "$work"
} 2>/dev/null
trap cleanup EXIT
cd "$work" || exit 1

# fetch PATH [ACCEPT]: leaves the head in heading and the body in out; true when it is 200
fetch() {
	exec 3<>"/dev/tcp/127.0.0.1/$port" || return
	printf 'GET %s HTTP/1.1\r\nHost: test\r\nAccept: %s\r\n\r\n' "$1" "${2-*/*}" >&3
	cat <&3 >answer
	exec 3>&-
	sed '/^\r$/q' answer >heading
	sed '1,/^\r$/d' answer >out
	grep -q '^HTTP/1.1 200 ' heading
}

has() {
	grep -qF -- "$1" out
}

# value SERIES: of the last answer
value() {
	awk -v series="$1" 'index($0, series " ") == 1 { print $NF }' out
}

is() {
	[ "$(value "$1")" = "$2" ]
}

# brings SERIES VALUE: a new answer has it
brings() {
	fetch /metrics && is "$1" "$2"
}

started() {
	grep -q 'serves http' err || ! kill -0 "$pid"
}

# serve ARGS...: an exporter at a free port
serve() {
	"$exporter" --listen 127.0.0.1:0 "$@" >/dev/null 2>err </dev/null &
	pid=$!
	soon started
	port=$(sed -n 's|.*http://127.0.0.1:\([0-9]*\)/metrics|\1|p' err)
	[ -n "$port" ]
}

# ends: the exporter does, by SIGTERM, with status 0
ends() {
	kill -TERM "$pid"
	wait "$pid"
}

refused() {
	"$exporter" "$@" >out 2>err
	[ $? = 2 ] && [ ! -s out ] && [ "$(wc -l <err)" = 1 ]
}

# ---- the command line ----

check "an address without a port: exit 2" refused --listen 127.0.0.1
check "a port that is none: exit 2" refused --listen 127.0.0.1:65536
check "a name for an address: exit 2" refused --listen localhost:0
check "a name that no instance may have: exit 2" refused --instance ../../etc/passwd
check "a word too many: exit 2" refused word

# ---- a broker ----

"$run" --quiet --name "$name" -n 1 --device host -b u=4M -b plain=3M -- "$client" acquire u unlink u \
	mark ready wait more acquire plain create late 1 mark finished wait go 2>run.err &
broker=$!
if ! soon test -e ready || ! serve --instance "$name" --instance "$name-none"; then
	echo "Bail out! no broker or no exporter: $(cat run.err err)"
	exit 1
fi
check "a port that is taken: exit 1, and how to choose another" eval \
	'"$exporter" --listen "127.0.0.1:$port" 2>err; [ $? = 1 ] && grep -q "choose another" err'
check "/ says where the metrics are" eval 'fetch / && has /metrics'
check "/-/healthy is healthy" eval 'fetch /-/healthy && has healthy'
check "what is not there is 404" eval '! fetch /nothing && grep -q "^HTTP/1.1 404 " heading'
check "Prometheus text is the default" eval 'fetch /metrics && grep -q "^Content-Type: text/plain; version=0.0.4;" heading'
check "its head names each counter as its samples" has '# TYPE gpubroker_buffers_created_total counter'
check "the broker is up" is "gpubroker_up{broker=\"$name\",state=\"running\"}" 1
check "one that is named and absent is not" is "gpubroker_up{broker=\"$name-none\",state=\"absent\"}" 0
user=$(id -un)
memory() {
	grep -q "^gpubroker_memory_bytes{broker=\"$name\",user=\"$user\",device_uuid=\"HOST-[0-9a-f-]*\",state=\"$1\"} $2\$" out
}
check "live and draining memory has its owner, device and state" eval 'memory live 3145728 && memory draining 4194304'
check "there is a session" is "gpubroker_sessions{broker=\"$name\",state=\"open\"}" 1
check "an acquire is timed" soon brings "gpubroker_acquire_seconds_count{broker=\"$name\"}" 1
check "it is in the last bucket, with all others" is "gpubroker_acquire_seconds_bucket{broker=\"$name\",le=\"+Inf\"}" 1
check "no name of a buffer is there" eval '! has plain'
cp out before
check "OpenMetrics where it is accepted" eval 'fetch /metrics "application/openmetrics-text;version=1.0.0,*/*;q=0.1" &&
	grep -q "^Content-Type: application/openmetrics-text; version=1.0.0;" heading && [ "$(tail -n 1 out)" = "# EOF" ]'
cp out openmetrics

# same FORMAT FILE: broker-status prints what the exporter serves; the broker does nothing meanwhile
same() {
	"$show" "--$1" "$name" | grep -v '"absent"' | cmp - <(grep -v '"absent"' "$2")
}
check "broker-status --openmetrics prints the same" same openmetrics openmetrics
check "broker-status --prometheus does" same prometheus before
check "metrics and --json exclude each other" eval '"$show" --openmetrics --json 2>err; [ $? = 2 ]'
check "metrics of an absent broker are metrics" eval \
	'"$show" --prometheus "$name-none" >out && has "state=\"absent\"} 0"'

if command -v promtool >/dev/null; then
	check "promtool finds nothing to complain of" eval 'promtool check metrics <before >out 2>err && [ ! -s err ]'
else
	skip "promtool finds nothing to complain of" "there is no promtool (Debian: prometheus)"
fi
# shellcheck disable=SC2034 # for a check
parse='import sys
from prometheus_client.openmetrics.parser import text_fd_to_metric_families
sys.exit(len(list(text_fd_to_metric_families(sys.stdin))) < 50)'
if /usr/bin/python3 -c 'import prometheus_client.openmetrics.parser' 2>/dev/null; then
	check "the strict parser of OpenMetrics reads it" eval '/usr/bin/python3 -c "$parse" <openmetrics 2>err'
else
	skip "the strict parser of OpenMetrics reads it" "there is no prometheus_client (Debian: python3-prometheus-client)"
fi

# ---- counters only grow, whatever the broker does ----

touch more
soon test -e finished
grew() {
	fetch /metrics && is "gpubroker_buffers_created_total{broker=\"$name\"}" 3 &&
		is "gpubroker_create_seconds_count{broker=\"$name\"}" 1
}
check "the next answer has what happened since" soon grew
monotonic() {
	awk '/^#/ || !/_total|_bucket|_count|_sum/ { next }
	     NR == FNR { last[$1] = $2; next }
	     $1 in last && $2 < last[$1] { print "# " $1 " fell from " last[$1] " to " $2; bad = 1 }
	     { seen++ }
	     END { exit bad || seen < 100 }' before out
}
check "no counter and no bucket fell" monotonic

# ---- a real Prometheus ----

# ask TEXT: what the running Prometheus answers
ask() {
	exec 4<>"/dev/tcp/127.0.0.1/$prometheus_port" || return
	printf 'GET /api/v1/query?query=%s HTTP/1.0\r\n\r\n' "$(printf %s "$1" | od -An -v -tx1 | tr -d '\n' | tr ' ' %)" >&4
	cat <&4
	exec 4>&-
}

# query TEXT: the value of its first result
query() {
	ask "$1" | sed -n 's/.*"value":\[[0-9.]*,"\([^"]*\)"\].*/\1/p'
}

understood() {
	ask "$1" | grep -q '"status":"success"'
}

answers() {
	[ "$(query "$1" 2>/dev/null)" = "$2" ]
}

# The query of the section about DCGM.
joined=$(sed -n '/^\.Ss Together/,/^\.Sh/p' "${top_srcdir:?}/man/broker-exporter.8" | sed -n '/^\.Bd/,/^\.Ed/p' | grep -v '^\.')

# The dashboard's queries, one a line, for all brokers and five minutes.
dashboard() {
	sed -n 's/^ *"expr": "\(.*\)",$/\1/p' "$top_srcdir/contrib/grafana/gpubroker.json" |
		sed 's/\\"/"/g; s/\$broker/.*/g; s/\$__rate_interval/5m/g'
}

dashboard_is_read() {
	local text bad=0
	while read -r text; do
		understood "$text" || { echo "# $text" && bad=1; }
	done < <(dashboard)
	[ "$(dashboard | wc -l)" -ge 30 ] && [ $bad = 0 ]
}

# Who takes the port meanwhile costs another try: Prometheus cannot choose one by itself.
launch_prometheus() {
	local tries
	for ((tries = 0; tries < 5; tries++)); do
		prometheus_port=$((20000 + RANDOM % 12000))
		prometheus --config.file=prometheus.yml --storage.tsdb.path=data --web.listen-address="127.0.0.1:$prometheus_port" \
			--log.level=info >prometheus.log 2>&1 </dev/null &
		prometheus=$!
		soon grep -q 'Server is ready\|err=' prometheus.log
		grep -q 'Server is ready' prometheus.log && return
		kill "$prometheus"
		wait "$prometheus"
	done
	return 1
}

prometheus_points() {
	printf '%s\n' 'global: { scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s }' 'rule_files: [ rules.yml ]' \
		'scrape_configs:' '  - job_name: gpubroker' "    static_configs: [ { targets: [ '127.0.0.1:$port' ] } ]" >prometheus.yml
	# what DCGM's exporter would say of the device, 16 MiB in use
	printf '%s\n' 'groups:' '  - name: dcgm' '    rules:' '      - record: DCGM_FI_DEV_FB_USED' '        expr: vector(16)' \
		"        labels: { UUID: '$(sed -n 's/^gpubroker_device_memory.*device_uuid="\([^"]*\)".*/\1/p' out)' }" >rules.yml
	check "Prometheus starts" launch_prometheus
	check "it scrapes the exporter" soon answers 'up{job="gpubroker"}' 1
	check "it has the broker, which runs, and the other one, which does not" eval \
		'answers "gpubroker_up{state=\"running\"}" 1 && answers "gpubroker_up{state=\"absent\"}" 0'
	check "it has each bucket" answers 'count(gpubroker_create_seconds_bucket)' 25
	check "it computes a quantile" eval \
		'[ -n "$(query "histogram_quantile(0.5, gpubroker_create_seconds_bucket)")" ]'
	check "the man page's query joins it with what DCGM says: the broker has 8 of 16 MiB" soon answers "$joined" 0.5
	check "each query of the dashboard has an answer" dashboard_is_read
	kill -TERM "$prometheus"
	check "it ends" wait "$prometheus"
}
if command -v prometheus >/dev/null; then
	prometheus_points
else
	skip "a real Prometheus scrapes the exporter" "there is no prometheus (Debian: prometheus)"
fi

# ---- stopped, dead, gone ----

process=$(broker_of "$broker")
kill -STOP "$process"
check "a stopped broker is not up, and its memory is still there" eval \
	'soon brings "gpubroker_up{broker=\"$name\",state=\"stopped\"}" 0 && memory live 4194304'
kill -CONT "$process"
# without a /dev/shm of its own, another test's broker may remove the copy before it is read
abandoned() {
	cp "/dev/shm/gpubroker.$name" "/dev/shm/gpubroker.$name-none"
	brings "gpubroker_up{broker=\"$name-none\",state=\"dead\"}" 0 && ! has "gpubroker_buffers{broker=\"$name-none\""
}
check "a file that nobody keeps is a dead broker, which holds nothing" soon abandoned
rm -f "/dev/shm/gpubroker.$name-none"
touch go
wait "$broker"
broker=''
check "a broker that ended is absent" brings "gpubroker_up{broker=\"$name\",state=\"absent\"}" 0
check "SIGTERM ends the exporter" ends
if serve; then
	check "without --instance an absent broker is not there" eval 'fetch /metrics && ! has "\"$name\"" && has gpubroker_build_info'
	check "and SIGTERM ends it" ends
fi
plan

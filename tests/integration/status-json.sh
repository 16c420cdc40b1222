#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# status-json.sh - the JSON of broker-status and the schema in its man page say the same, both ways: each key that is put out is
# there with its type, and each key that is there is put out by a broker that has something of everything.
# shellcheck disable=SC2016 # what a check evaluates expands then, not before
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"
# shellcheck source=tests/own-brokerd.sh
. "$top_srcdir/tests/own-brokerd.sh"

show=${top_builddir:?}/broker/broker-status
ctl=$top_builddir/broker/broker-ctl
client=$top_builddir/tests/integration/status-client
page=$top_srcdir/man/broker-status.1

work=$(mktemp -d) || exit 1
name=json-$$
clients=()
cleanup() {
	[ -n "$broker" ] && kill -KILL "$broker"
	[ ${#clients[@]} -gt 0 ] && kill -KILL "${clients[@]}"
	wait
	rm -rf "$work" /dev/shm/gpubroker."$name"*
} 2>/dev/null
trap cleanup EXIT
cd "$work" || exit 1
chmod 711 .
socket=$work/run/socket
export GPUBROKER=unix:$socket GPUB_HOST_MEMORY=64M
configure 'quota "default" { bytes = 1G buffers = 100 sessions = 100 grants = 100 mappings = 100 tickets = 10 greetings = 100
	descriptors = 500 queued = 1M requests = 10000 }'
# shellcheck disable=SC2119 # a start without a command in front
if ! start; then
	echo "Bail out! the broker does not start: $(cat err)"
	exit 1
fi

# flat FILE: "PATH TYPE" for each value that is neither array nor object, "PATH object" for each object, in the file's order
flat() {
	awk '
		{
			line = $0
			sub(/^ */, "", line)
			depth = (length($0) - length(line)) / 2
			sub(/,$/, "", line)
			if (line ~ /^[]}]/ || (!depth && line == "["))
				next
			path = depth ? at[depth - 1] : "."
			if (match(line, /^"[^"]*": /)) {
				path = path (path == "." ? "" : ".") substr(line, 2, RLENGTH - 4)
				line = substr(line, RLENGTH + 1)
			} else if (depth) {
				path = path "[]"
			}
			at[depth] = path
			type = "unknown"
			if (line ~ /^"/) type = "string"
			if (line ~ /^(true|false)$/) type = "boolean"
			if (line ~ /^-?[0-9]+$/) type = "integer"
			if (line ~ /^[{]/) type = "object"
			if (line ~ /^\[/) type = "array"
			if (type != "array")
				print path, type
		}' "$1" | sed 's/^\.\([^ ]\)/\1/; s/\.microseconds\.[a-z0-9]* /.microseconds.N /'
}

# schema: "PATH TYPE" or "PATH? TYPE" of the page
schema() {
	sed -n '/^The schema of version/,/^\.Ed/p' "$page" | awk 'NF == 2 && !/^\./'
}

# put_out: what all files together have
put_out() {
	flat whole
	flat listed
}
undocumented() {
	# the page says that these have such keys, which they have where something waited
	put_out | grep -v ' object$' | grep -vE '^times\.(acquire_wait|drain)\.microseconds\.N ' | sort -u | comm -23 - <(schema | sed 's/? / /' | awk '{ print $1, $2 }' | sort -u) >out
	[ -s whole ] && [ -s listed ] && [ ! -s out ]
}
not_put_out() {
	schema | sed 's/? / /' | awk '{ print $1, $2 }' | sort -u | comm -23 - <(put_out | sort -u) >out
	[ -n "$(schema)" ] && [ ! -s out ]
}
# what may not be missing is in each object that could have it
complete() {
	flat whole | awk '
		NR == FNR { if ($1 !~ /\?$/) wanted[$1] = 1; next }
		{ count[$1]++ }
		END {
			for (path in wanted) {
				parent = path
				if (!sub(/\.[^.]*$/, "", parent))
					parent = "."
				if (path !~ /\[\]$/ && count[path] != count[parent])
					print path ": " count[path] + 0 " of " count[parent] + 0
			}
		}' <(schema) - >out
	[ ! -s out ]
}

"$ctl" create typed "i32[3]"
kill -KILL "$(broker_of "$broker")" # from here on the broker's process is another one
GPUBROKER_RANK=3 "$client" create held 1 create gone 1 acquire held acquire gone unlink gone mark ready wait go 2>client.err &
clients+=($!)
taskset -c "$(sed -n 's/^Cpus_allowed_list:.\([0-9]*\).*/\1/p' /proc/self/status)" "$client" mark second wait go 2>client.err &
clients+=($!)
# a timeline of each kind of end, and each kind of wait
"$client" signal left 1 unlink left
"$client" signal ended 1
GPUBROKER_RANK=4 "$client" signal line 1 create drained 1 acquire drained create fill 40 mark third wait go 2>client.err &
clients+=($!)
if ! soon test -e third; then
	echo "Bail out! the third client does not get ready: $(cat client.err)"
	exit 1
fi
GPUBROKER_RANK=no PMIX_RANK=5 SLURM_PROCID=6 "$client" await line 9 mark fourth wait never 2>client.err &
waiter=$!
"$ctl" create --wait 600 late 40M 2>ctl.err &
creator=$!
"$ctl" drain drained 2>ctl.err &
drainer=$!
waits() {
	"$show" --why "$name" >why; "$show" --json "$name" >whole &&
		grep -q '"stream"' whole && grep -q '"drain"' whole && grep -q '"kind": "create"' whole
}
soon waits
if ! soon test -e ready || ! soon test -e second || ! soon test -e fourth; then
	echo "Bail out! the clients do not get ready: $(cat client.err)"
	exit 1
fi
: >"/dev/shm/gpubroker.$name-bad"
"$show" --json "$name" >whole
# a job has a broker-run alone
SLURM_JOB_ID=42 "$top_builddir/broker/broker-run" -q --device host --name "$name-job" -- "$client" mark fifth wait go 2>run.err &
runner=$!
clients+=("$runner")
soon test -e fifth
# whose first owner of the device memory has died
kill -KILL "$(owner_of "$runner")"
soon eval '"$show" --json "$name-job" | grep -q "\"died\": 1"'
# another test's broker may remove it, as a dead one's
listed() {
	: >"/dev/shm/gpubroker.$name-bad"
	"$show" --json --list >listed 2>err && grep -q '"error"' listed
}
soon listed

check "each key is in the schema, with its type" undocumented
check "each key of the schema is put out" not_put_out
check "what is not said to be missing at times is never missing" complete
check "a broker-run has its job" eval '"$show" --json "$name-job" >out && flat out | grep -qx "job.id string" && grep -q "\"launcher\": \"Slurm\"" out &&
	"$show" "$name-job" | sed -n 4p | grep -qx "job 42 of Slurm"'
check "a brokerd has none" eval '! flat whole | grep -q "^job"'
check "the version is the first key" eval '[ "$(sed -n 2p whole)" = "  \"version\": 1," ]'
check "a session without a rank has none" eval '[ "$(flat whole | grep -c "^sessions\[\].rank ")" = 3 ] && [ "$(flat whole | grep -c "^sessions\[\].pid ")" -gt 3 ]'
check "a rank is that of broker-run, or else of what started the job" \
	eval '"$show" -o rank "$name" | sort >out; [ "$(grep -cx " *[345]" out)" = 3 ] && ! grep -qx " *6" out'
check "a session says what it holds" eval 'grep -A2 "\"holds\"" whole | grep -q "\"held\""'

kill -STOP "${clients[1]}"
stopped() {
	"$show" "$name" >out && grep -qE " ${clients[1]}  [^ ]+  +status-client .* stopped " out
}
check "a session whose process is stopped says so" soon stopped
check "so does its JSON" eval '"$show" --json "$name" | grep -q "\"process\": \"stopped\""'
kill -CONT "${clients[1]}"
kill -KILL "$waiter" "$creator"
wait "$waiter" "$creator" 2>/dev/null
touch go
wait "$drainer"
for pid in "${clients[@]}"; do
	wait "$pid"
done
clients=()
check "the broker ends balanced" eval 'stops TERM 0 && grep -q "balanced$" err'
plan

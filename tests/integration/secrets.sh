#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# secrets.sh - no handle, key or ticket is in what anybody says: the broker's log, the workers' errors, broker-status and broker-ctl events.
# The workers fail in every way that has to do with a handle, and all that was written meanwhile is searched.
# shellcheck disable=SC2016 # expanded by the worker's shell
set -u
# shellcheck source=tests/tap.sh
. "${top_srcdir:?}/tests/tap.sh"

export GPUBROKER_EXPORT=ipc # whose handles are what there is to find
run=${top_builddir:?}/broker/broker-run
show=$top_builddir/broker/broker-status
ctl=$top_builddir/broker/broker-ctl
client=$top_builddir/tests/integration/status-client
name=secrets-$$
work=$(mktemp -d) || exit 1
broker=''
cleanup() {
	touch "$work/go"
	[ -n "$broker" ] && wait "$broker"
	rm -rf "$work"
} 2>/dev/null
trap cleanup EXIT
cd "$work" || exit 1

# objects [SIZE]: the memory of this broker's buffers
objects() {
	find "/dev/shm/gpubroker.$name.mem" -type f ${1:+-size "$1"}
}

# Rank 0 makes a (1 MiB), b (3 MiB) and c (2 MiB) and is refused much; 1 cannot open a handle; 2 finds b cut off; 3 is killed.
cat >worker <<'END'
wait_for() { while [ ! -e "$1" ]; do sleep 0.02; done; }
case $GPUBROKER_RANK in
0) exec "$1" create a 1 create b 3 create c 2 acquire a unlink c mark ready complain a mark complained wait go ;;
1) wait_for ready; GPUB_HOST_FAIL=open:1:EIO "$1" acquire a; touch unopened; wait_for go ;;
2) wait_for cut; GPUB_HOST_STRICT=0 "$1" acquire b; touch short; wait_for go ;;
3) wait_for ready; echo $$ >victim; exec "$1" acquire a mark held wait never ;;
esac
exit 0
END
GPUB_HOST_STRICT=0 timeout -s KILL 60 "$run" --device host --name "$name" --pool 0 -n 4 -- sh worker "$client" >said 2>&1 </dev/null &
broker=$!
soon test -e ready
# what was unlinked is freed behind the answer
two_left() { [ "$(objects | wc -l)" = 2 ]; }
soon two_left
handles=$(objects | sed 's,.*/,,')
truncate -s 4096 "$(objects 3M)"
touch cut
for step in complained unopened short held; do
	if ! soon test -e $step; then
		echo "Bail out! a worker does not get to '$step': $(tail -n 3 said)"
		exit 1
	fi
done
kill -KILL "$(cat victim)"
# not --list: it shows other brokers too, whose buffers may have long names
for arguments in "$name" "--counters $name" "--json $name"; do
	# shellcheck disable=SC2086 # several words
	"$show" $arguments >>shown 2>&1
done
"$ctl" events "$name" >>shown 2>&1
"$ctl" events "$name" --json >>shown 2>&1
cp "/dev/shm/gpubroker.$name" status
touch go
wait "$broker"
broker=''
cp said out # explains a failure

# The host device's handle is the random name of its memory object, behind the instance's.
check "there are handles to look for" [ "$(grep -cx '[0-9a-f]\{32\}' <<<"$handles")" = 2 ]
check "every refusal has its error message" [ "$(grep -c '^status-client: .*: -[0-9]*, .\{10\}' said)" = 12 ]
check "a handle that cannot be opened: so does it" grep -q '^status-client: .*injected failure of open' said
check "a handle whose memory is cut off: so does it" grep -q "^status-client: .*memory has" said
check "the broker's log is there" grep -q '^broker-run: worker 3 .*was killed' said
check "what broker-status shows is there" grep -q '"name": "b"' shown
check "what broker-ctl events shows is there" grep -q "created 'b' of 3 MiB" shown

# As text, in hexadecimal and in base64; its bytes as well.
forms_of() {
	local bytes
	bytes=$(fold -w 2 <<<"$1" | sed 's/^/\\x/' | tr -d '\n')
	printf '%s\n' "$1"
	printf %s "$1" | od -An -v -tx1 | tr -d ' \n'
	echo
	printf %s "$1" | base64 -w 0 | cut -c 1-40
	printf '%b' "$bytes" | base64 -w 0 | cut -c 1-20
}
hidden() {
	local handle
	for handle in $handles; do
		forms_of "$handle" >forms
		if grep -aiF -f forms "$@" >found; then
			return 1
		fi
	done
}
check "the search finds a handle where there is one" eval 'head -n 1 <<<"$handles" >planted; ! hidden planted'
check "no handle is in the log or in an error" hidden said
check "no handle is in table, JSON or status file" hidden shown status
check "nor is anything as long as a key or a ticket" eval \
	'! grep -aE -e "[0-9a-fA-F]{32}" -e "[0-9A-Za-z+_-]{43}" said shown status >found'
plan

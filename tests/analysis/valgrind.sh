#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# valgrind.sh - broker, tools, library and unit tests under valgrind: no access to memory that is none, no decision by
# what was never written, no memory that is lost, in any process.
#
#   BUILD_DIR=build valgrind.sh
#
# That tree must be one without sanitizers; what is missing in it is built. The host device, one broker with a client
# that does everything and is asked about, one with a computation, and the unit tests that valgrind can run (left out:
# those of the host device, of which many tests end in an abort that valgrind would report; test-slot, test-close and
# test-table, whose races are too slow under it; and test-wire, which limits the descriptors, of which valgrind hides some). No finding is suppressed.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath -m "${BUILD_DIR:-build}")
work=$(mktemp -d) || exit 1
failed=()
units=(broker/test-{accounting,grid,log,places,process,rates,records,registry,registry-random}
	broker/test-{session,session-death,status-read,status-table,timeline,waiting}
	broker/test-{histograms,openmetrics}
	common/test-{board,error,name,sealed,size,ticket})
programs=(broker/broker-run broker/broker-status broker/broker-ctl libbroker/libgpubroker.la
	tests/integration/status-client kernels/kernels.so examples/heat/heat "${units[@]/#/tests/unit/}")

# This build has libmicrohttpd.
has_exporter() {
	grep -q '^MICROHTTPD_LIBS = .' "$build/Makefile"
}

if ! command -v valgrind >/dev/null; then
	echo "valgrind.sh: valgrind is missing (Debian: valgrind)" >&2
	exit 1
fi
if ! [ -e "$build/Makefile" ] || grep -q '^SANITIZER_FLAGS = .*-fsanitize' "$build/Makefile"; then
	echo "valgrind.sh: $build is no build without sanitizers: run ./bootstrap, or name another BUILD_DIR" >&2
	exit 1
fi
! has_exporter || programs+=(broker/broker-exporter)
make -s -C "$build" --no-print-directory -j "$(nproc)" "${programs[@]}" || exit 1

# The programs themselves and not libtool's scripts, so that valgrind follows into no shell.
export LD_LIBRARY_PATH=$build/libbroker/.libs GPUBROKER_MODULE_PATH=$build/kernels GPUB_HOST_STRICT=1
export CMOCKA_MESSAGE_OUTPUT=TAP
unset GPUBROKER GPUBROKER_RANK GPUBROKER_SIZE GPUB_HOST_SEED GPUB_HOST_FAIL GPUB_HOST_MEMORY GPUB_HOST_VISIBLE
client=$build/tests/integration/.libs/status-client
heat=$build/examples/heat/.libs/heat
name=valgrind-$$
broker=''
cd "$work" || exit 1
cleanup() {
	touch go
	[ -n "$broker" ] && wait "$broker"
	rm -rf "$work"
} 2>/dev/null
trap cleanup EXIT

# grinds COMMAND...: every process of it is watched, and leaves a report, which is empty when there is nothing to say
grinds() {
	GPUB_VALGRIND=1 timeout -k 5 80 valgrind --quiet --trace-children=yes --vgdb=no --log-file="$work/%p.report" \
		--leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite --error-exitcode=99 \
		--num-callers=20 "$@" </dev/null
}

# passes NAME STATUS COMMAND...
passes() {
	local name=$1 wanted=$2 start=$SECONDS status
	shift 2
	grinds "$@" >"$name.out" 2>&1
	status=$?
	echo "valgrind.sh: $name: exit $status, $((SECONDS - start)) s"
	[ "$status" = "$wanted" ] && return
	failed+=("$name")
	tail -n 20 "$name.out"
}

soon() {
	local tries
	for ((tries = 0; tries < 300; tries++)); do
		"$@" && return
		sleep 0.1
	done
	return 1
}

# An exporter that is asked for all it has, and by who is gone before the answer.
exporter() {
	local port request pid child
	grinds "$build/broker/broker-exporter" --listen 127.0.0.1:0 --instance "$name" --instance absent >exporter.out 2>&1 &
	pid=$!
	soon grep -q 'serves http' exporter.out
	port=$(sed -n 's|.*http://127.0.0.1:\([0-9]*\)/metrics|\1|p' exporter.out)
	for request in 'GET /metrics' 'GET /metrics' 'GET /' 'POST /metrics' 'nonsense'; do
		{ exec 5<>"/dev/tcp/127.0.0.1/$port"; } || failed+=("the exporter takes no connection")
		# It may refuse a request, and hang up, before all of its lines are written.
		(trap '' PIPE && printf '%s HTTP/1.1\r\nHost: x\r\nAccept: application/openmetrics-text\r\n\r\n' "$request" >&5) 2>/dev/null
		[ "$request" = nonsense ] || cat <&5 >>exporter.answers
		exec 5>&-
	done
	grep -q '^# EOF' exporter.answers || failed+=("the exporter has no metrics")
	# timeout(1), which passes it on; the line there has no end, which read takes for a failure
	read -r child <"/proc/$pid/task/$pid/children"
	kill -TERM "$child"
	wait "$pid" || { failed+=("broker-exporter") && tail -n 20 exporter.out; }
}

# A client that holds, is refused and waits; meanwhile broker-status and broker-ctl look and change.
tools() {
	# The shell is watched too, and becomes the client.
	# shellcheck disable=SC2016 # it expands there
	grinds "$build/broker/broker-run" --quiet --name "$name" -n 1 --device host:2 -b declared=1M@1 -b other=1M -- \
		sh -c 'echo "$GPUBROKER" >address; exec "$@"' - "$client" create held 1 complain held acquire held acquire declared \
		unlink held churn busy 50 mark ready wait go >broker.out 2>&1 &
	broker=$!
	if ! soon test -e ready; then
		failed+=("the client does not get ready")
	else
		passes status 0 "$build/broker/broker-status" --counters "$name"
		passes status-sorted 0 "$build/broker/broker-status" --sort -buffer --user "$(id -u)" "$name"
		passes status-json 0 "$build/broker/broker-status" --json "$name"
		passes status-metrics 0 "$build/broker/broker-status" --openmetrics "$name"
		! has_exporter || exporter
		passes ctl-create 0 "$build/broker/broker-ctl" --address "$(cat address)" create made 1M
		passes ctl-ticket 0 "$build/broker/broker-ctl" --address "$(cat address)" ticket made
		passes ctl-drain 0 "$build/broker/broker-ctl" --address "$(cat address)" drain made
		passes ctl-refused 1 "$build/broker/broker-ctl" --address "$(cat address)" unlink made
	fi
	touch go
	wait "$broker" || { failed+=("broker-run with status-client"); tail -n 20 broker.out; }
	broker=''
}

tools
passes heat 0 "$build/broker/broker-run" --quiet --name "$name" -n 2 --device host -- "$heat" --size 64 --steps 20
for unit in "${units[@]}"; do
	passes "${unit#*/}" 0 "$build/tests/unit/$unit"
done

# The warning of five lines that valgrind has no pidfd_open (434 on each architecture) is no finding: the keeper looks
# for the ends of its children by a timer then.
sed -i '/WARNING: unhandled .* syscall: 434$/,+4d' ./*.report
# A process that was watched in the background, or whose parent does not look at how it ended, has its report all the same.
if cat ./*.report | grep -q .; then
	failed+=("what follows")
	cat ./*.report
fi
reports=(./*.report)
echo "valgrind.sh: ${#reports[@]} processes watched"
[ ${#failed[@]} -eq 0 ] || printf 'valgrind.sh: failed: %s\n' "${failed[@]}"
[ ${#failed[@]} -eq 0 ]

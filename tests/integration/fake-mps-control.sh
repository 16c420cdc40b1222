#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# fake-mps-control.sh - stands for nvidia-cuda-mps-control in tests that have no GPU: the same options, commands and files.
#
# A test puts it into PATH under that name. FAKE_MPS=fail: it ends at its start; =hang: it never serves; =mute: it never answers a
# command; =deaf: it ignores SIGTERM. FAKE_MPS_LOG: a directory, where the daemon writes its environment, its descriptors, its pid and that of its server. As long as there is a file "client" there, the daemon has one.
set -u
pipe=$CUDA_MPS_PIPE_DIRECTORY

if [ "${1-}" != -f ]; then # a user's commands
	IFS= read -r command
	daemon=$(cat "$pipe/nvidia-cuda-mps-control.pid" 2>/dev/null) || exit 1
	case $command in
	get_server_list)
		echo $$ >"$FAKE_MPS_LOG/command"
		[ "$FAKE_MPS" != mute ] || exec sleep 1000
		kill -0 "$daemon"
		;;
	quit)
		while [ -e "$FAKE_MPS_LOG/client" ]; do sleep 0.05; done
		kill -TERM "$daemon"
		;;
	*) exit 1 ;;
	esac
	exit
fi

case ${FAKE_MPS-} in
fail)
	echo "Cannot access CUDA_MPS_PIPE_DIRECTORY=$pipe"
	exit 1
	;;
hang) exec sleep 1000 ;;
esac
env >"$FAKE_MPS_LOG/environment"
ls -l /proc/$$/fd >"$FAKE_MPS_LOG/descriptors"
echo $$ >"$pipe/nvidia-cuda-mps-control.pid"
echo $$ >"$FAKE_MPS_LOG/daemon"
# as the real one's, it ends with the daemon, a little later
bash -c 'while kill -0 "$0" 2>/dev/null; do sleep 0.1; done; sleep 0.3' $$ &
server=$!
echo $server >"$FAKE_MPS_LOG/server"
trap 'exit 0' TERM
[ "$FAKE_MPS" != deaf ] || trap '' TERM
mkfifo "$pipe/log"
: >"$pipe/control"
wait $server
exit 1

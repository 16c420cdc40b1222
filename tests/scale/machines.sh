# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# machines.sh - several "machines" on this one: network namespaces on a bridge of their own, each with its own host name, and mpirun over
# them. Scripts of this folder source it behind tap.sh. They share processors, files, users and pids; names of buffers, brokers
# and everything that goes by the network are apart.

# need_machines: skips the script, with the reason, where this user cannot make them, or there is no Open MPI
need_machines() {
	local reason=
	command -v ip >/dev/null || reason="there is no ip (Debian: iproute2)"
	[ -n "$reason" ] || { command -v mpirun >/dev/null && mpirun --version 2>/dev/null | grep -q 'Open MPI'; } || reason="no Open MPI (Debian: openmpi-bin)"
	[ -n "$reason" ] || { unshare -n true 2>/dev/null; } || reason="this user makes no network namespaces"
	machine_prefix=gb$$-$RANDOM-
	[ -n "$reason" ] || ip netns add "${machine_prefix}s" || reason="ip makes no named namespaces"
	[ -n "$reason" ] || ip -n "${machine_prefix}s" link add bridge type bridge 2>/dev/null || reason="no bridge in a network namespace"
	[ -z "$reason" ] && return
	ip netns del "${machine_prefix-}s" 2>/dev/null
	echo "1..0 # SKIP $reason"
	exit 0
}

# machines_up COUNT: 1 to 9 of them, 10.77.0.1 and so on
machines_up() {
	local i
	machine_count=$1
	ip -n "${machine_prefix}s" link set bridge up
	for ((i = 1; i <= machine_count; i++)); do
		ip netns add "$machine_prefix$i" &&
			ip link add eth0 netns "$machine_prefix$i" type veth peer name "port$i" netns "${machine_prefix}s" &&
			ip -n "${machine_prefix}s" link set "port$i" master bridge up &&
			ip -n "$machine_prefix$i" addr add "10.77.0.$i/24" dev eth0 &&
			ip -n "$machine_prefix$i" link set lo up && ip -n "$machine_prefix$i" link set eth0 up || return
	done
	# what mpirun calls to start something on another machine: HOST COMMAND...
	cat >"${work:?}/agent" <<-END
		#!/bin/bash
		number=\${1##*.}
		shift
		exec ip netns exec $machine_prefix\$number unshare -u bash -c "hostname machine\$number; \$*"
	END
	chmod +x "$work/agent"
}

machines_down() {
	local i
	for ((i = 1; i <= ${machine_count:-0}; i++)); do
		ip netns del "$machine_prefix$i"
	done
	ip netns del "${machine_prefix}s"
}

# on MACHINE COMMAND...: there, in the foreground
on() {
	local number=$1
	shift
	# shellcheck disable=SC2016 # $0 and $@ are that shell's
	ip netns exec "$machine_prefix$number" unshare -u bash -c 'hostname "machine$0"; exec "$@"' "$number" "$@"
}

# mpi COUNT:COUNT... COMMAND...: by mpirun of machine 1, that many processes on machine 1, 2 and so on
mpi() {
	local counts=() hosts='' total=0 i
	IFS=: read -ra counts <<<"$1"
	shift
	for ((i = 0; i < ${#counts[@]}; i++)); do
		hosts+=${hosts:+,}10.77.0.$((i + 1)):${counts[i]}
		total=$((total + counts[i]))
	done
	OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 on 1 timeout -k 5 "${MPI_SECONDS:-60}" mpirun --mca plm_rsh_agent "$work/agent" \
		--mca orte_keep_fqdn_hostnames 1 --mca btl self,vader,tcp --mca btl_tcp_if_include 10.77.0.0/24 --mca oob_tcp_if_include 10.77.0.0/24 \
		--oversubscribe -H "$hosts" -n "$total" "$@" </dev/null
}

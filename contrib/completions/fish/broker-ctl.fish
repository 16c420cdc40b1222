# SPDX-License-Identifier: Apache-2.0
# What fish completes for broker-ctl. Made by contrib/completions/generate.sh: make completions renews it.
function __broker_ctl_buffers
	broker-status --list --json 2>/dev/null | sed -n '/"buffers": \[$/,/"sessions":/{/{$/{n;s/^ *"name": "\(.*\)",$/\1/p}}'
end
function __broker_ctl_sessions
	broker-status --list --json 2>/dev/null | sed -n '/"sessions": \[$/,/"users":/s/^ *"session": \([0-9]*\),$/\1/p'
end
complete -c broker-ctl -f
complete -c broker-ctl -n __fish_use_subcommand -a create -d 'make a buffer of zeros; SIZE in bytes, or with K, M, G'
complete -c broker-ctl -n '__fish_seen_subcommand_from create' -x -a '(__broker_ctl_buffers)'
complete -c broker-ctl -n __fish_use_subcommand -a unlink -d 'take names away; memory is freed when nobody can touch it'
complete -c broker-ctl -n '__fish_seen_subcommand_from unlink' -x -a '(__broker_ctl_buffers)'
complete -c broker-ctl -n __fish_use_subcommand -a chmod -d 'change who may acquire them: 0640, or g+r,o-w'
complete -c broker-ctl -n '__fish_seen_subcommand_from chmod' -x -a '(__broker_ctl_buffers)'
complete -c broker-ctl -n __fish_use_subcommand -a chown -d 'give them to another user, group (:GROUP) or both'
complete -c broker-ctl -n '__fish_seen_subcommand_from chown' -x -a '(__broker_ctl_buffers)'
complete -c broker-ctl -n '__fish_seen_subcommand_from chown' -x -a '(__fish_complete_users)'
complete -c broker-ctl -n __fish_use_subcommand -a drain -d 'unlink them, and wait until their memory is freed'
complete -c broker-ctl -n '__fish_seen_subcommand_from drain' -x -a '(__broker_ctl_buffers)'
complete -c broker-ctl -n __fish_use_subcommand -a ticket -d 'print a ticket for it: a secret, for gpub_redeem(3)'
complete -c broker-ctl -n '__fish_seen_subcommand_from ticket' -x -a '(__broker_ctl_buffers)'
complete -c broker-ctl -n __fish_use_subcommand -a evict -d 'cut a session off; broker-status numbers them'
complete -c broker-ctl -n '__fish_seen_subcommand_from evict' -x -a '(__broker_ctl_sessions)'
complete -c broker-ctl -n __fish_use_subcommand -a doctor -d 'look for what keeps a program here from using the broker'
complete -c broker-ctl -l address -x -d 'the broker: unix:PATH ($GPUBROKER, else the default sockets)'
complete -c broker-ctl -l mode -x -n '__fish_seen_subcommand_from create' -d 'who may acquire it, in octal (0600)'
complete -c broker-ctl -l timeline -n '__fish_seen_subcommand_from create' -d 'with a timeline'
complete -c broker-ctl -l dedicated -n '__fish_seen_subcommand_from create' -d 'with an allocation of its own, so that it can be given to others'
complete -c broker-ctl -l alone -n '__fish_seen_subcommand_from create' -d 'the old name of --dedicated'
complete -c broker-ctl -l wait -x -n '__fish_seen_subcommand_from create' -d 'how long to wait for memory; 30, 30s, 5m, 2h (0)'
complete -c broker-ctl -l timeout -x -n '__fish_seen_subcommand_from drain' -d 'how long to wait (without limit)'
complete -c broker-ctl -l rights -x -a 'r w rw' -n '__fish_seen_subcommand_from ticket' -d 'r, w or rw (r)'
complete -c broker-ctl -l user -x -a '(__fish_complete_users)' -n '__fish_seen_subcommand_from ticket' -d 'who may redeem it (whoever has it)'
complete -c broker-ctl -l lifetime -x -n '__fish_seen_subcommand_from ticket' -d 'for how long; forever: as long as the buffer (1h)'
complete -c broker-ctl -l many -n '__fish_seen_subcommand_from ticket' -d 'it can be redeemed any number of times, not once'
complete -c broker-ctl -l kill -n '__fish_seen_subcommand_from evict' -d 'and kill its process'
complete -c broker-ctl -s h -l help -d 'print this and exit'
complete -c broker-ctl -s V -l version -d 'print the version and exit'

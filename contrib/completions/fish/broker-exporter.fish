# SPDX-License-Identifier: Apache-2.0
# What fish completes for broker-exporter. Made by contrib/completions/generate.sh: make completions renews it.
function __broker_exporter_buffers
	broker-status --list --json 2>/dev/null | sed -n '/"buffers": \[$/,/"sessions":/{/{$/{n;s/^ *"name": "\(.*\)",$/\1/p}}'
end
complete -c broker-exporter -f
complete -c broker-exporter -l listen -x -d 'where to serve /metrics (127.0.0.1:14782)'
complete -c broker-exporter -l instance -x -a '(__broker_exporter_buffers)' -d 'a broker to show, also where it is absent; may be repeated (all that are found)'
complete -c broker-exporter -l owner -x -a '(__fish_complete_users)' -d 'whose brokers are shown: another user\'s counts as absent (everybody\'s)'
complete -c broker-exporter -s h -l help -d 'print this and exit'
complete -c broker-exporter -s V -l version -d 'print the version and exit'

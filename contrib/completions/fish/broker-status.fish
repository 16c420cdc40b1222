# SPDX-License-Identifier: Apache-2.0
# What fish completes for broker-status. Made by contrib/completions/generate.sh: make completions renews it.
function __broker_status_instances
	broker-status --list --json 2>/dev/null | sed -n 's/^ *"instance": "\(.*\)",$/\1/p'
end
complete -c broker-status -f
complete -c broker-status -s l -l list -d 'one line a broker, also when there is only one'
complete -c broker-status -s j -l json -d 'JSON: an object, or with --list and for several brokers an array'
complete -c broker-status -s c -l counters -d 'all counters, not only those that counted something, and all users'
complete -c broker-status -s h -l help -d 'print this and exit'
complete -c broker-status -s V -l version -d 'print the version and exit'
complete -c broker-status -x -a '(__broker_status_instances)'

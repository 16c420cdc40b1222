# SPDX-License-Identifier: Apache-2.0
# What fish completes for broker-status. Made by contrib/completions/generate.sh: make completions renews it.
function __broker_status_instances
	broker-status --list --json 2>/dev/null | sed -n 's/^ *"instance": "\(.*\)",$/\1/p'
end
complete -c broker-status -f
complete -c broker-status -s l -l list -d 'one line a broker, also when there is only one'
complete -c broker-status -s j -l json -d 'JSON: an object, or with --list and for several brokers an array'
complete -c broker-status -s c -l counters -d 'all counters, not only those that counted something, and all users'
complete -c broker-status -s s -l sort -x -d 'sort each table that has the column; -COLUMN: the other way round'
complete -c broker-status -s o -l columns -x -d 'these columns alone, with commas between them; help: list all there are'
complete -c broker-status -s u -l user -x -a '(__fish_complete_users)' -d 'only what is of this user, by name or number'
complete -c broker-status -l device -x -d 'only what is on this device'
complete -c broker-status -l holder -x -d 'only what this process or session holds'
complete -c broker-status -s w -l watch -d 'on the whole terminal, again and again, with rates; the keys are shown there'
complete -c broker-status -l delay -x -d '--watch: from one look to the next, 1 to 3600 (1)'
complete -c broker-status -l why -d 'what waits, for whom, and what to do: of a BUFFER, a PID, or all'
complete -c broker-status -l openmetrics -d 'metrics as OpenMetrics text, of all brokers or of INSTANCE'
complete -c broker-status -l prometheus -d 'the same as Prometheus text, for node_exporter\'s textfile collector'
complete -c broker-status -s h -l help -d 'print this and exit'
complete -c broker-status -s V -l version -d 'print the version and exit'
complete -c broker-status -x -a '(__broker_status_instances)'

# SPDX-License-Identifier: Apache-2.0
# What fish completes for brokerd. Made by contrib/completions/generate.sh: make completions renews it.
complete -c brokerd -f
complete -c brokerd -s c -l config -r -F -d 'the configuration (brokerd.conf, if it is there)'
complete -c brokerd -l check-config -d 'tell whether the configuration is good, and exit'
complete -c brokerd -l socket -r -F -d 'where to listen (/run/gpubroker/socket)'
complete -c brokerd -l instance -x -d 'the broker\'s name for broker-status (system)'
complete -c brokerd -l device -x -a 'auto cuda host' -d 'auto, cuda, host, or host:N for N host devices (auto: cuda where there is one)'
complete -c brokerd -s q -l quiet -d 'log only what fails, whatever the configuration says'
complete -c brokerd -s h -l help -d 'print this and exit'
complete -c brokerd -s V -l version -d 'print the version and exit'

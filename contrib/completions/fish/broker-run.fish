# SPDX-License-Identifier: Apache-2.0
# What fish completes for broker-run. Made by contrib/completions/generate.sh: make completions renews it.
complete -c broker-run -f
complete -c broker-run -s n -l workers -x -d 'how many workers to fork, 1 to 1024 (1)'
complete -c broker-run -s b -l buffer -x -d 'a buffer that exists before the workers start; bytes, or with K, M, G, or f32[1024,1024]; WORD: timeline, dedicated, mode=0640; may be repeated'
complete -c broker-run -l spec -r -F -d 'more such buffers, from a file (see broker-run(1)); may be repeated'
complete -c broker-run -l device -x -a 'auto cuda host' -d 'auto, cuda, host, or host:N for N host devices (auto: cuda where there is one)'
complete -c broker-run -l name -x -d 'the broker\'s name for broker-status (run-PID)'
complete -c broker-run -l poll -x -d 'after a request, poll for the next one this long before sleeping; uses a processor (0)'
complete -c broker-run -l pool -x -d 'freed memory of each device that is kept for later buffers; 0: none (64M)'
complete -c broker-run -l buffers -x -d 'how many buffers there may be, 1 to 1048576 (4096)'
complete -c broker-run -l mappings -x -d 'how many mappings of all workers together, 1 to 4194304 (16384)'
complete -c broker-run -l connections -x -d 'CUDA_DEVICE_MAX_CONNECTIONS of the workers, 1 to 32, or inherit (16 unless it is set)'
complete -c broker-run -l kill-on-failure -d 'end the other workers when one fails or is killed'
complete -c broker-run -l no-hints -d 'print no hints, such as the one about workers that share a GPU without MPS'
complete -c broker-run -s q -l quiet -d 'print neither the first line nor the closing account, and no hints'
complete -c broker-run -s h -l help -d 'print this and exit'
complete -c broker-run -s V -l version -d 'print the version and exit'
complete -c broker-run -F -a '(__fish_complete_command)'

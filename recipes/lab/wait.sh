#!/bin/bash
# Waits until the work is done, or SECONDS, and hands over what has come to back/ since: at most 4 pieces of 15 MB.
#
#     bash recipes/lab/wait.sh SECONDS FOLDER
for ((n = 0; n < $1; n++)); do
    sleep 1
    compgen -G "back/busy-*" > /dev/null || break
done
mkdir -p taken
for piece in $(ls -tr back | grep part- | head -n 4); do
    mv "back/$piece" taken/ && cp "taken/$piece" "$2/"
done
compgen -G "back/*part-*"
compgen -G "back/busy-*" || echo done
tail -qn 1 logs/*.log
nvidia-smi --query-gpu=utilization.gpu,memory.used --format=csv,noheader 2> /dev/null || true

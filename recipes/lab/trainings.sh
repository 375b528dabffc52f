#!/bin/bash
# Trainings at once on one GPU, and the evaluation sets with the best weights of each, in SECONDS.
#
#     bash recipes/lab/trainings.sh SECONDS 1.5b 0.5b 1.5b:search-r1
#
# SIZE trains CoDA, SIZE:search-r1 the single-context agent on the same questions; alone, one does about twice the steps of
# each of three. What is worth keeping goes to back/ (README.md). Shares and micro-batches are those for a GPU of 140 GB.
set -u
seconds=$1
shift
. recipes/lab/common.sh
nvidia-cuda-mps-control -d 2> /dev/null || true  # several processes at once on the GPU
sets=110                                         # seconds that the evaluation sets need
share=$(awk "BEGIN { print 0.45 / $# }") micro="8192 6144"
[ $# -gt 1 ] || micro="16384 12288 8192 6144"

for training in "$@"; do
    agent=${training#*:}
    [ "$agent" != "$training" ] || agent=coda
    SUBQUEST_GPU_SHARE=$share AGENT=$agent MICRO=${MICRO:-$micro} RESERVE=${RESERVE:-120} PECO=${PECO:-700} \
        bash recipes/lab/train.sh "${training%:*}" $(($(left) - sets)) > "logs/train-$training.log" 2>&1 &
done
wait
for training in "$@"; do
    size=${training%:*} agent=${training#*:} name=qwen-${training/:/-}
    [ "$agent" != "$training" ] || agent=coda
    [ -e "runs/$name.final" ] || continue  # it ended before PECO: logs/train-….log says why
    SHARE=0.07 SECONDS_LEFT=$(left) bash recipes/lab/sets.sh "eval-$size-$agent" eval "$size" \
        --system "$agent" --adapter "runs/$(cat "runs/$name.final")/best" &
done
wait
tar cJf logs/results-sets.tar.xz logs/*.log runs/eval-*.sqlite 2> /dev/null
keep logs/results-sets.tar.xz

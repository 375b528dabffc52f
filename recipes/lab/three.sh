#!/bin/bash
# Three trainings at once on one GPU, and the evaluation sets with the best weights of each, in SECONDS.
#
#     bash recipes/lab/three.sh SECONDS
#
# CoDA at 1.5B and at 0.5B, and the single-context agent Search-R1 at 1.5B, on the same questions with the same budget. What
# is worth keeping goes to back/ (README.md). The shares and micro-batches are those for a GPU of 140 GB.
set -u
seconds=$1
. recipes/lab/common.sh
nvidia-cuda-mps-control -d 2> /dev/null || true  # several processes at once on the GPU
sets=110                                         # seconds that the evaluation sets need

training() {  # SHARE SIZE [AGENT]
    SUBQUEST_GPU_SHARE=$1 AGENT=${3:-coda} MICRO=${MICRO:-"8192 6144"} RESERVE=${RESERVE:-120} PECO=${PECO:-700} \
        bash recipes/lab/train.sh "$2" $(($(left) - sets)) > "logs/train-$2-${3:-coda}.log" 2>&1
}

training 0.16 1.5b &
training 0.17 0.5b &
training 0.10 1.5b search-r1 &
wait

evaluation() {  # NAME SIZE SYSTEM RUN
    SHARE=0.07 SECONDS_LEFT=$(left) bash recipes/lab/sets.sh "eval-$1" eval "$2" --system "$3" --adapter "runs/$4/best"
}

evaluation coda-1.5b 1.5b coda qwen-1.5b-peco &
evaluation coda-0.5b 0.5b coda qwen-0.5b-peco &
evaluation search-r1-1.5b 1.5b search-r1 qwen-1.5b-search-r1-rl &
wait
tar cJf logs/results-sets.tar.xz logs/*.log runs/eval-*.sqlite 2> /dev/null
keep logs/results-sets.tar.xz

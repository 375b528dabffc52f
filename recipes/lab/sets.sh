#!/bin/bash
# Answers to HotpotQA, 2WikiMultihopQA and MuSiQue, the three sets at once on one GPU, five passages of BM25 a search.
#
#     bash recipes/lab/sets.sh NAME dev|eval SIZE WORDS...
#
# `dev` are the dev questions of the train splits, to choose by; `eval` the 1,500 questions that only measure. WORDS go to
# `subquest eval`, such as `--system rag --adapter none`. It leaves runs/NAME-SET.sqlite and logs/NAME-SET.log.
set -u
name=$1 split=$2 model=${MODEL:-torch:qwen-$3} seconds=${SECONDS_LEFT:-600}
shift 3
. recipes/lab/common.sh
case $split in
    dev) folder=../shared/data/train questions=dev ;;
    eval) folder=../shared/data/eval questions=test500 ;;
    *) echo "sets.sh: $split is neither dev nor eval" >&2 && exit 2 ;;
esac

answer() {  # SET WORDS...
    local set=$1 index=runs/$1-$split.sq
    shift
    [ -d "$index" ] || $python -m subquest index build "$folder/$set"*_corpus.jsonl.gz --out "$index"
    SUBQUEST_GPU_SHARE=${SHARE:-0.12} timeout "$(left)" $python -m subquest eval "$folder/${set}_$questions.jsonl.gz" --index "$index" \
        --model "$model" -k 5 --max-tokens 256 --concurrency 170 --by hops --out "runs/$name-$set.sqlite" "$@"
}

for set in hotpotqa 2wikimultihopqa musique; do
    answer $set "$@" > "logs/$name-$set.log" 2>&1 &
done
wait

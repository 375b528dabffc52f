#!/bin/bash
# Gold traces, fine-tuning, PECO, and answers to the ordinary documents, in SECONDS on a GPU that is lent for so long.
#
#     bash recipes/lab/train.sh SIZE SECONDS [START]
#
# SIZE is 1.5b or 0.5b, and both may run at once; START is the adapter to begin PECO with, in place of fine-tuning. Run it
# in the unpacked `subquest/` (README.md). What is worth keeping goes to back/, in pieces of 15 MB. SET has further words
# for both trainings, as --set pairs; MICRO are the sizes of micro-batches to try, in tokens: for two trainings on one GPU
# of 140 GB begin with 12288. AGENT=search-r1 trains the single-context agent instead of CoDA.
set -u
size=$1 seconds=$2 start=${3:-} name=qwen-$1 agent=${AGENT:-coda}
case $agent in
    coda) run=$name sft=$name/sft rl=$name/peco ;;
    *) run=$name-$agent sft=$name/$agent-sft rl=$name/$agent-rl ;;
esac
. recipes/lab/common.sh
reserve=${RESERVE:-130}  # seconds for what comes after PECO
model=${MODEL:-torch:$name}
office=../shared/data/ordinary/dev/questions.jsonl
passages=${PASSAGES:-../shared/data/train/hotpotqa_train_corpus.jsonl.gz}

minutes() { awk "BEGIN { m = ($(left) - $1) / 60; print (m > 0.2 ? m : 0.2) }"; }

# What a model has to write first, and the gold traces. What was carried here is not made again; of trainings that run at
# once one makes it, and the others wait.
prepare() {
    (
        flock 9
        if [ ! -d runs/asked/train ]; then
            ask runs/asked "$passages" "${ASKED:-3500}" > logs/asked.log 2>&1 &
        fi
        if [ -d runs/asked-office ] && [ ! -e runs/asked-office/reworded.jsonl ]; then
            # what was written about the papers is there: it is only put otherwise, and all of it rendered again
            ask runs/asked-office "--index runs/asked-office/docs.sq" 1 > logs/asked-office.log 2>&1 \
                && $python -m subquest data questions --index runs/asked-office/docs.sq --out runs/asked-office \
                    --count 4000 >> logs/asked-office.log 2>&1 &
        fi
        wait
    ) 9> runs/asked.lock
    (
        flock 9
        [ -n "$start" ] || for part in rest asked; do
            made=${sft#*/}-$part  # both sizes read the same tokens
            [ -e "runs/$made.xz" ] && continue
            $python recipes/lab/part.py "recipes/qwen-1.5b/${sft#*/}.toml" $part > "runs/$made.toml" || continue
            $python -m subquest train "runs/$made.toml" --prepare "runs/new-$made.xz" ${SET:-} > "logs/traces-$made.log" 2>&1 \
                && mv "runs/new-$made.xz" "runs/$made.xz"
        done
    ) 9> "runs/${sft#*/}.lock"
}

ask() {  # FOLDER SOURCE COUNT
    # shellcheck disable=SC2086
    SUBQUEST_GPU_SHARE=0.25 $python -m subquest data questions $2 --out "$1" --model "${WRITER:-torch:qwen-1.5b}" \
        --count "$3" --reword --concurrency 256 --minutes 3
}

# A training, again with smaller micro-batches where the GPU has no room for it: what it has done is kept.
train() {  # RECIPE RUN SECONDS-FOR-THE-REST WORDS...
    local recipe=$1 run=$2 rest=$3 tokens
    shift 3
    for tokens in ${MICRO:-16384 12288 8192 6144}; do
        $python -m subquest train "$recipe" --out "runs/$run" --minutes "$(minutes "$rest")" \
            --set optimiser.micro_tokens=$tokens "$@" ${SET:-} >> "logs/$run.log" 2>&1 && return
        tail -n 3 "logs/$run.log" | grep -q "out of GPU memory\|out of memory" || return 1
    done
}

# Answers with an adapter to the ordinary documents, beside a training on the same GPU.
answer() {  # NAME ADAPTER
    SUBQUEST_GPU_SHARE=${ANSWER_SHARE:-0.1} $python -m subquest eval $office --index runs/ordinary.sq --model "$model" \
        --adapter "$2" --system "$agent" -k 5 --abstain --judge rules --by type --max-tokens 256 --concurrency 40 \
        --out "runs/${run#qwen-}-$1.sqlite" > "logs/${run#qwen-}-$1.log" 2>&1
}

adapter() {  # RUN FOLDER
    [ -d "runs/$1/$2" ] && $python -m subquest model adapter convert "runs/$1/$2" "logs/$1-$2.gguf" \
        --base "${BASE:-$name}" >> logs/adapters.log 2>&1 && keep "logs/$1-$2.gguf"
}

results() {
    tar cJf "logs/results-$1.tar.xz" logs/*.log runs/*.sqlite runs/*/run.sqlite runs/*/*.json runs/*/*/*.json \
        runs/*/reworded.jsonl 2> /dev/null
    keep "logs/results-$1.tar.xz"
}

mkdir -p runs
prepare
if [ -z "$start" ]; then
    traces=$(printf ', "%s"' runs/"${sft#*/}"-*.xz)
    train "recipes/$sft.toml" "$run-sft" "${PECO:-900}" --set "traces=[${traces#, }]"
    start=runs/$run-sft/last
    adapter "$run-sft" last
    results "${run#qwen-}-sft"
    answer office-sft "$start" &
fi
rl_run=$run-${rl##*[/-]}
train "recipes/$rl.toml" "$rl_run" "$reserve" --set "model.adapter=\"$start\""
if [ "$(left)" -gt $((reserve + 240)) ]; then  # a guard has ended it: on from the best weights, more slowly
    train "recipes/$rl.toml" "$rl_run-2" "$reserve" --set "model.adapter=\"runs/$rl_run/best\"" \
        --set optimiser.learning_rate=2e-5 --set seed=1
    rl_run=$rl_run-2
fi
echo "$rl_run" > "runs/$run.final"  # whose best weights are measured
adapter "$rl_run" best
results "${rl_run#qwen-}"
adapter "$rl_run" last
wait
answer office-best "runs/$rl_run/best" &
answer office-last "runs/$rl_run/last" &
wait
results "${run#qwen-}"

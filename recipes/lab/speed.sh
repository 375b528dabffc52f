#!/bin/bash
# Our speed beside vLLM's and TRL's, measured in SECONDS on a GPU that is lent for so long.
#
#     bash recipes/lab/speed.sh SECONDS [NAME...]
#
# Measures what the table below lists, or only the NAMEs, one after the other. Run it in the unpacked `subquest/`, with
# the other libraries' packages in peers/ (README.md). A measurement saves what it has found so far in logs/NAME.json,
# and all of logs/ goes to back/ after each. PLAN is another table.
set -u
seconds=$1
. recipes/lab/common.sh
shift
peers=${PEERS:-$PWD/peers}
grace=${GRACE:-20}  # seconds that a measurement whose time is over has to end by itself, and again when it is told to

# NAME LIMIT LEAST BENCHMARK OPTIONS..., the most wanted first. A measurement is stopped after LIMIT seconds, with what
# it has found, and not begun with fewer than LEAST left. Expected are, from the top, 315 s, 25, 205, 400, 210, 200, 190,
# 70, 40, 35 and 210: two runs of 1,550 s. `fastest` is vLLM's best single engine at 1.5b, `v2` if that was not measured.
plan=${PLAN:-"
rollout-1.5b 400 200 rollout --shape 1.5b --runs 1 --peer vllm --peer-configs v2,wide,v2-two
decode-1.5b   80  30 rollout --shape 1.5b --only decode,prefill --batches 256 384 --contexts 700 2000
grpo-1.5b    260 120 train --shape 1.5b --questions 32 --steps 2 --micro-tokens 16384 --peer trl --peer-batch 32
rollout-7b   430 250 rollout --shape 7b --runs 1 --peer vllm --peer-configs fastest,v2-two
rollout-0.5b 270 180 rollout --shape 0.5b --runs 1 --peer vllm --peer-configs fastest,v2-two
rollout-135m 250 160 rollout --shape 135m --runs 1 --peer vllm --peer-configs fastest,v2-two
serve-1.5b   250 130 serve --shape 1.5b --peer vllm
shared-1.5b  120  60 rollout --shape 1.5b --only shared --batches 256 384 --contexts 300 1000 --prefixes 2500
fits-1.5b     90  30 fits --shapes 1.5b --ranks 16,0
fits-7b       90  30 fits --shapes 7b --ranks 16
rollout-3b   270 150 rollout --shape 3b --runs 1 --peer vllm --peer-configs fastest
"}

say() { echo "$(left) s left: $*" >> logs/speed.log; }

fastest() {
    $python - 2> /dev/null <<'PYTHON' || echo v2
import json
rows = json.load(open("logs/rollout-1.5b.json"))["figures"]["vllm"]
row = min((row for row in rows if "two" not in row), key=lambda row: rows[row]["seconds"])
print(row.split(",")[0].removeprefix("vLLM "))
PYTHON
}

# Ends the processes of a measurement that outlived it, which would disturb the next one.
sweep() {  # NAME
    local found
    for found in $(grep -lzx "MEASURED=$1-$$" /proc/[0-9]*/environ 2> /dev/null); do
        say "$1 left process $(basename "$(dirname "$found")") behind"
        kill -KILL "$(basename "$(dirname "$found")")"
        sleep 1
    done
}

results() {
    tar cJf results-speed.tar.xz logs && keep results-speed.tar.xz
}

measure() {  # NAME LIMIT LEAST BENCHMARK OPTIONS...
    local name=$1 limit=$2 least=$3 bench=$4 path=$PYTHONPATH room=$(($(left) - 2 * grace))
    shift 4
    [ "$limit" -gt "$room" ] && limit=$room
    [ "$limit" -lt "$least" ] && say "$name needs $least s: not begun" && return
    case " $* " in *" --peer "*)
        mkdir -p "logs/$name"
        set -- "$@" --peer-path "$peers" --peer-logs "logs/$name" --peer-seconds 240
    esac
    [ "$bench" = serve ] && path=$path:$peers  # our server needs packages, too
    say "$name, up to $limit s"
    MEASURED=$name-$$ PYTHONPATH=$path timeout -k "$grace" $((limit + grace)) $python -m subquest bench "$bench" "$@" \
        --seconds "$limit" --save "logs/$name.json" > "logs/$name.log" 2>&1 < /dev/null
    say "$name ended with status $?"
    sweep "$name"
    results
}

$python - > logs/packages.txt 2>&1 <<'PYTHON'
from importlib.metadata import distributions
print(*sorted({f"{found.name}=={found.version}" for found in distributions()}), sep="\n")
PYTHON
nvidia-smi > logs/gpu.txt 2>&1
while read -r name limit least command; do
    case $name in "" | "#"*) continue ;; esac
    [ $# -gt 0 ] && [[ " $* " != *" $name "* ]] && continue
    case $command in *fastest*) command=${command/fastest/$(fastest)} ;; esac
    # shellcheck disable=SC2086
    measure "$name" "$limit" "$least" $command
done <<< "$plan"
say "all measured"
results

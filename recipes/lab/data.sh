#!/bin/bash
# What recipes/qwen-1.5b/ and recipes/qwen-0.5b/ learn from and are measured on, as far as it needs no GPU, in runs/.
#
#     bash recipes/lab/data.sh
#
# The papers of organisations and the questions about them, from what a model wrote once, an index of `ordinary/dev`, and
# the gold traces of all questions but those that the model writes on the GPU. What is there is kept. ORGANISATIONS is
# another number of them.
set -eu
run="${PYTHON:-.venv/bin/python} -m subquest"
recipes=recipes/qwen-1.5b papers=runs/organisations asked=runs/asked-office

unpack() {  # FROM TO
    [ -e "$2" ] && return
    mkdir -p "$(dirname "$2")" && xz -dc "$1" > "$2.tmp" && mv "$2.tmp" "$2"
}

unpack $recipes/organisations.jsonl.xz $papers/organisations.jsonl
[ -d $papers/dev ] || $run data organisations $papers --count "${ORGANISATIONS:-140}"
unpack $recipes/asked-office.jsonl.xz $asked/passages.jsonl
unpack $recipes/asked-office-reworded.jsonl.xz $asked/reworded.jsonl
[ -d $asked/train ] || $run data questions $papers/train/docs --out $asked --count 4000
[ -d runs/ordinary.sq ] || $run index build ../shared/data/ordinary/dev/docs --out runs/ordinary.sq --encoder minilm
for recipe in sft search-r1-sft; do
    [ -e runs/$recipe-rest.xz ] && continue
    ${PYTHON:-.venv/bin/python} recipes/lab/part.py $recipes/$recipe.toml rest > runs/$recipe-rest.toml
    $run train runs/$recipe-rest.toml --prepare runs/new.xz && mv runs/new.xz runs/$recipe-rest.xz
done

#!/usr/bin/env bash
# Parity of our advantages, losses and metrics with other people's implementations.
#
#     tests/parity/run.sh [--record] [BASE]
#
# builds one environment for each peer under BASE (default: a folder beside the temporary files; kept between runs),
# lets each peer compute its own numbers on the same random batches, and compares ours with theirs. The environments
# are apart because the peers want different versions of transformers. Exit status 0: everything agrees.
# `--record` keeps the peers' numbers of the first batches in recorded.json, which `make test` compares ours with.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
record=""
if [ "${1:-}" = "--record" ]; then
    record="$1"
    shift
fi
base="${1:-${TMPDIR:-/tmp}/subquest-parity}"
python="${PYTHON:-python3.11}"
mkdir -p "$base"
base="$(cd "$base" && pwd)"

environment() {  # NAME then pip arguments, one call a line of requirements; built once
    local name="$1" done="$base/$1/.complete"
    shift
    [ -e "$done" ] && return
    echo "building $base/$name" >&2
    "$python" -m venv --clear "$base/$name"
    local requirements
    for requirements in "$@"; do
        # shellcheck disable=SC2086
        "$base/$name/bin/pip" install --quiet $requirements >&2
    done
    touch "$done"
}

environment trl "torch==2.13.0" "trl==1.16.0 transformers==5.22.2 accelerate==1.15.0 peft==0.21.2 tokenizers torchmetrics"
environment verl "torch==2.13.0" "packaging ray tensordict==0.10.0 omegaconf codetiming transformers<5.11 numpy pillow datasets cachetools uvicorn fastapi torchdata peft hydra-core" "--no-deps verl==0.9.1 TransferQueue==0.1.11" "pyzmq msgspec aiohttp prometheus_client"

cd "$here/../.."
export PYTHONPATH="$PWD/src" OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" PYTHONWARNINGS=ignore \
    TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1
status=0
"$base/trl/bin/python" -m tests.parity.against_squad || status=1
"$base/trl/bin/python" -m tests.parity.against_trl "$record" || status=1
"$base/verl/bin/python" -m tests.parity.against_verl "$record" || status=1
"$base/verl/bin/python" -m tests.parity.verl_contract "$record" || status=1
exit $status

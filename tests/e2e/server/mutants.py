"""mutants.py - makes faults in the server, one at a time, and asks whether the cases see them.

Works in the tree it stands in (which must have no changes under src/), builds with make, and puts
each file back.  Not a part of `make test`: every fault costs a build and a case.
"""

import subprocess
import sys

MUTANTS = [  # (file, what stands there, the fault, the case that must fail)
    ("src/engine/stream.c", "stream->n_unread >= LIMIT_UNREAD", "stream->n_unread >= (1 << 30)", "STR_12_a_slow"),
    ("src/server/guard.c", "bool is_allowed = guard_is_loopback(name);",
     'bool is_allowed = strstr(name, "127.0.0.1") != NULL || guard_is_loopback(name);', "SEC_01"),
    ("src/server/guard.c", "differs |= a[i] ^ b[i];", "differs |= i < 31 ? 0 : a[i] ^ b[i];", "SEC_03_keys"),
    ("src/server/guard.c", "strcmp(guard->origins[i], origin) == 0;",
     "strncmp(guard->origins[i], origin, strlen(guard->origins[i])) == 0;", "SEC_02"),
    ("src/server/server.c", "while (http_n_answering(http) > 0) {", "while (false) {", "OPS_04"),
    ("src/engine/scheduler.c", "(n_tokens - 1), n_tokens - 1);", "(n_tokens - 1), 1);", "OPS_01"),
    ("src/server/http.c", "e->reads_on = reads_on(&e->x);", "e->reads_on = reads_on(&e->x) && false;", "SEC_06_a_refusal"),
    ("src/server/http_watch.c", "shutdown(c->fd, SHUT_RDWR);", "(void)c->fd;", "SEC_12"),
    ("src/server/api_job.c", "keep_alive_ms > 0 && now", "keep_alive_ms > 1e9 && now", "STR_08_silence"),
]


def is_seen(path, before, after, case):
    with open(path) as file:
        source = file.read()
    assert source.count(before) == 1, f"{path}: '{before}' does not stand there once"
    try:
        with open(path, "w") as file:
            file.write(source.replace(before, after))
        subprocess.run(["make", "-s", "WERROR=", "build/release/selfsame"], check=True, stderr=subprocess.DEVNULL)
        out = subprocess.run(["tests/e2e/server.sh", case], capture_output=True, text=True).stdout
    finally:
        with open(path, "w") as file:
            file.write(source)
    return "FAILED " + case in out


def main():
    subprocess.run(["git", "diff", "--quiet", "--", "src"], check=True)
    seen = [is_seen(*mutant) for mutant in MUTANTS]
    for (path, _, after, case), is_it in zip(MUTANTS, seen):
        print(f"{case}: {'sees' if is_it else 'MISSES'} '{after}' in {path}")
    subprocess.run(["make", "-s", "build/release/selfsame"], check=True)
    print(f"{sum(seen)} passed, {len(seen) - sum(seen)} failed")
    return not all(seen)


if __name__ == "__main__":
    sys.exit(main())

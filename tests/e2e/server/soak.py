"""soak.py SELFSAME [MINUTES] [STREAMS] - many streams for long, with clients that leave at random.

Every reply that ends must have the receipt of the same request served alone; at the end nothing may
run or wait, and memory may not have grown.  Not a part of `make test`: it takes as long as asked.
"""

import random
import statistics
import sys
import threading
import time

import harness
from cases_load import receipt_of, request_of

MODEL = "tests/data/family/smollm2"
REQUESTS = 64  # different ones
GROWTH_KIB_PER_MINUTE = 256


class Soak:
    def __init__(self, server, wanted):
        self.server, self.wanted = server, wanted
        self.lock, self.stop = threading.Lock(), threading.Event()
        self.finished = self.left = self.busy = self.wrong = 0

    def count(self, **what):
        with self.lock:
            for name, n in what.items():
                setattr(self, name, getattr(self, name) + n)

    def finish(self, rng):
        i = rng.randrange(REQUESTS)
        reply = self.server.post("/v1/completions", request_of(i))
        if reply.status == 429:
            self.count(busy=1)
            time.sleep(rng.random())
            return
        chunks, _ = harness.check_stream(reply.body, is_clean=False)
        self.count(finished=1, wrong=harness.proof(chunks[-1]["selfsame"]) != self.wanted[i])

    def leave(self, rng):
        body = {**request_of(rng.randrange(10000)), "max_tokens": 900, "stream": rng.random() < 0.7}
        with self.server.connect() as s:
            s.sendall(harness.post_bytes("/v1/completions", body)[:rng.choice([None, None, 150])])
            time.sleep(rng.expovariate(20))
            if rng.random() < 0.5:
                s.setblocking(False)
                try:
                    s.recv(rng.randrange(1, 4000))
                except BlockingIOError:
                    pass
        self.count(left=1)

    def client(self, seed):
        rng = random.Random(seed)
        while not self.stop.is_set():
            (self.leave if rng.random() < 0.3 else self.finish)(rng)


def slope(samples):
    """KiB a minute, by least squares over (minutes, KiB)."""
    x, y = zip(*samples)
    mean_x, mean_y = statistics.fmean(x), statistics.fmean(y)
    spread = sum((a - mean_x) ** 2 for a in x)
    return sum((a - mean_x) * (b - mean_y) for a, b in samples) / spread


def main(program, minutes="10", streams="200"):
    minutes, streams = float(minutes), int(streams)
    with harness.Server(program, MODEL, "--parallel", "1", "--threads", "1") as alone:
        wanted = [receipt_of(alone, {**request_of(i), "draft": False}) for i in range(REQUESTS)]
    with harness.Server(program, MODEL, "--parallel", "32") as server:
        soak = Soak(server, wanted)
        threads = [threading.Thread(target=soak.client, args=(i,)) for i in range(streams)]
        begun, samples = time.monotonic(), []
        for thread in threads:
            thread.start()
        while time.monotonic() - begun < minutes * 60:
            time.sleep(2)
            now = (time.monotonic() - begun) / 60
            if now > minutes / 4:  # caches and arenas fill before that
                samples.append((now, server.memory_kib()))
        soak.stop.set()
        for thread in threads:
            thread.join()
        is_idle = harness.wait_until(lambda: server.metric("requests_running") == 0
                                     and server.metric("requests_waiting") == 0)
        m, growth = server.metrics(), slope(samples)
        print(f"{streams} streams, {minutes:g} min: {soak.finished} finished, {soak.wrong} not as alone, "
              f"{soak.left} left ({m['requests_cancelled_total']:.0f} cancelled), {soak.busy} told to come back, "
              f"{m['draft_accepted_total']:.0f} drafts accepted, idle at the end: {is_idle}, "
              f"memory {samples[0][1]} to {samples[-1][1]} KiB, {growth:+.0f} KiB a minute")
        is_good = (soak.wrong == 0 and soak.finished > 0 and is_idle and m["requests_failed_total"] == 0
                   and growth < GROWTH_KIB_PER_MINUTE)
    code = server.process.wait()
    print(f"{int(is_good and code == 0)} passed, {int(not is_good or code != 0)} failed")
    return not is_good or code != 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

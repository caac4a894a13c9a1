"""hub_server.py SELFSAME MODEL - serves MODEL as the Hub would, on loopback, and pulls it: whole,
resumed after a cut, with a wrong hash, refused, unauthorised, unsupported.  Standard library only.
"""

import hashlib
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading

COMMIT = "0123456789abcdef0123456789abcdef01234567"
passed = failed = 0


def check(name, condition):
    global passed, failed
    passed, failed = passed + bool(condition), failed + (not condition)
    if not condition:
        print("FAILED:", name)


class Hub(http.server.BaseHTTPRequestHandler):
    files, cut_after, wrong_hash, token, ranges, ignores_ranges = {}, None, False, None, [], False

    def log_message(self, *args):
        pass

    def send(self, code, body=b"", headers=()):
        self.send_response(code)
        for key, value in (*headers, ("Content-Length", str(len(body)))):
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        hub = type(self)
        if hub.token and self.headers.get("Authorization") != f"Bearer {hub.token}":
            return self.send(401)
        if self.path.startswith("/api/models/o/m/revision/"):
            siblings = [{"rfilename": name} for name in hub.files]
            return self.send(200, json.dumps({"sha": COMMIT, "siblings": siblings}).encode())
        name = self.path.rsplit("/", 1)[1]
        if name not in hub.files or not self.path.startswith("/o/m/resolve/"):
            return self.send(404)
        data = hub.files[name]
        etag = hashlib.sha256(b"x" + data if hub.wrong_hash and name.endswith("safetensors") else data).hexdigest()
        headers = [("ETag", f'"{etag}"'), ("X-Repo-Commit", COMMIT)]
        if self.command == "HEAD":
            return self.send(200, b"", headers)
        start = int(self.headers.get("Range", "bytes=0-")[6:].split("-")[0])
        hub.ranges.append((name, start))
        if start >= len(data) > 0:
            return self.send(416)
        if hub.cut_after and name.endswith("safetensors") and start == 0:
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data[:hub.cut_after])
            self.close_connection = True
            return None
        if start and hub.ignores_ranges:
            start = 0
        if start:
            headers.append(("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}"))
        return self.send(206 if start else 200, data[start:], headers)


def pull(selfsame, home, port, reference="o/m", **env):
    return subprocess.run([selfsame, "pull", reference], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "HF_HOME": home, "HF_ENDPOINT": f"http://127.0.0.1:{port}", **env})


def main():
    selfsame, model = sys.argv[1], pathlib.Path(sys.argv[2])
    Hub.files = {p.name: p.read_bytes() for p in model.iterdir() if p.name != "reference.safetensors"}
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    port = server.server_address[1]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    homes = tempfile.mkdtemp()
    home = lambda name: os.path.join(homes, name)
    try:
        one = pull(selfsame, home("a"), port)
        folder = pathlib.Path(one.stdout.strip() or "none")
        check("pull: " + one.stderr, one.returncode == 0)
        check("every byte", all((folder / n).read_bytes() == d for n, d in Hub.files.items()))
        check("blobs are linked", (folder / "config.json").is_symlink())
        Hub.ranges.clear()
        check("again: nothing is fetched twice", pull(selfsame, home("a"), port).returncode == 0 and not Hub.ranges)
        listed = subprocess.run([selfsame, "models", "--json"], capture_output=True, text=True,
                                env={**os.environ, "HF_HOME": home("a")}).stdout
        check("models lists it", "o/m" in [m["name"] for m in json.loads(listed)])
        info = subprocess.run([selfsame, "info", "o/m", "--json"], capture_output=True, text=True,
                              env={**os.environ, "HF_HOME": home("a"), "HF_ENDPOINT": "http://127.0.0.1:9"})
        check("offline, the name still resolves", info.returncode == 0)
        Hub.cut_after, Hub.ranges = 1000, []
        two = pull(selfsame, home("b"), port)
        check("a cut is resumed: " + two.stderr, two.returncode == 0 and any(s == 1000 for _, s in Hub.ranges))
        folder = pathlib.Path(two.stdout.strip() or "none")
        check("resumed bytes", all((folder / n).read_bytes() == d for n, d in Hub.files.items()))
        Hub.ignores_ranges = True
        three = pull(selfsame, home("g"), port)
        folder = pathlib.Path(three.stdout.strip() or "none")
        check("a server without ranges: " + three.stderr, three.returncode == 0)
        check("whole again", all((folder / n).read_bytes() == d for n, d in Hub.files.items()))
        Hub.ignores_ranges, Hub.cut_after, Hub.wrong_hash = False, None, True
        bad = pull(selfsame, home("c"), port)
        check("a wrong hash is refused", bad.returncode == 4 and "SHA-256" in bad.stderr)
        check("and removed", not list(pathlib.Path(home("c")).rglob("*.incomplete")))
        Hub.wrong_hash, Hub.token = False, "secret"
        check("no token", "HF_TOKEN" in pull(selfsame, home("d"), port).stderr)
        check("a token", pull(selfsame, home("d"), port, HF_TOKEN="secret").returncode == 0)
        Hub.token = None
        check("no such repo", pull(selfsame, home("e"), port, "o/nope").returncode == 3)
        check("no repo id", pull(selfsame, home("e"), port, "../etc").returncode == 3)
        Hub.files = {"config.json": b'{"model_type": "gpt17"}', "model.safetensors": b"x" * 100}
        Hub.ranges = []
        odd = pull(selfsame, home("f"), port)
        check("unsupported, before any weights", odd.returncode == 3 and "gpt17" in odd.stderr and
              not any(n.endswith("safetensors") for n, _ in Hub.ranges))
    finally:
        server.shutdown()
        shutil.rmtree(homes)
    print(f"{passed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())

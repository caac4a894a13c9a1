"""clients_test.py SELFSAME - serves scripted models and runs the official clients against them."""

import pathlib
import re
import subprocess
import sys
import tempfile

import clients_chat
import clients_idle
import clients_messages
import clients_recorded
import clients_responses
import script_model
from clients_check import check, report

ROOT = pathlib.Path(__file__).parents[2]


class Served:
    """A scripted model, served."""

    def __init__(self, selfsame, name, *flags):
        folder = ROOT / "build" / f"script-{name}"
        script_model.main(folder, ROOT / "tests" / "data" / "scripts" / f"{name}.json")
        self.process = subprocess.Popen(
            [selfsame, "serve", folder, "--port", "0", "--device", "cpu", *flags],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.base = re.search(r"http://\S+", self.process.stdout.readline()).group(0)

    def __enter__(self):
        return self.base

    def __exit__(self, *unused):
        self.process.terminate()
        check("a signal ends it with 0", self.process.wait(timeout=20) == 0)


def main():
    with Served(sys.argv[1], "hermes") as base:
        clients_chat.run(base)
        clients_messages.run(base)
        clients_responses.run(base)
        clients_recorded.run(base, ROOT / "tests" / "data")
    with Served(sys.argv[1], "strict") as base:
        clients_messages.strict(base)
    with Served(sys.argv[1], "hermes", *clients_idle.FLAGS) as base:
        clients_idle.run(base)
    with tempfile.TemporaryDirectory() as folder:
        kept = ("--responses", folder + "/responses.db", "--api-keys", folder + "/keys")
        pathlib.Path(folder, "keys").write_text("key-one one\nkey-two two\n")
        with Served(sys.argv[1], "hermes", *kept) as base:
            ids = clients_responses.run_kept(base)
        with Served(sys.argv[1], "hermes", *kept) as base:
            clients_responses.run_kept_again(base, ids)
    return report()


if __name__ == "__main__":
    sys.exit(main())

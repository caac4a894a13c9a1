"""scripts.py - what the scripted model answers, by the letter that a prompt ends with."""

import scripted_model

CUT_TEXT = "日本x漢😀🦙"  # the cuts below go through every character
CONTEXT = 32768


def cut(text, sizes):
    data, pieces = text.encode(), []
    while data:
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(data[:size])
        data = data[size:]
    return pieces


def write(folder):
    script = scripted_model.Script()
    script.add("A", [b"\xf0\x9f", b"\x98", b"\x80!"])
    script.add("B", ["alpha be", "ta gam", "ma delta"])
    script.add("C", ["a", "\nUs", "eful"])
    script.add("D", ["4", "."])
    script.add("E", cut(CUT_TEXT, [1, 2, 2]))
    script.add("N", ["nul\0", "byte"])
    script.add("Z", ["tick ", "tock "], cycles=True)
    scripted_model.write(folder, script, CONTEXT)

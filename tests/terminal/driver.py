"""A terminal with somebody in front of it: runs a program on a terminal of its own, and keeps what stands on its screen.

    python3 driver.py ROWS COLUMNS PROGRAM ARGUMENTS...

Commands come as lines of JSON on standard input, and each is answered with one. Only what a quiet program needs is known of
escape sequences; of others it is said that they came, so that nothing of what a program is told can pass as one.
"""

import codecs
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
import unicodedata

PATIENCE = 120
SEQUENCE = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])")
BEGUN = re.compile(r"\x1b(\[[?0-9;]*)?$")


class Screen:
    def __init__(self, rows, columns):
        self.unknown = []
        self.modes = {"1049": "l", "25": "h", "7": "h"}
        self.rest = ""
        self.text = ""
        self.size(rows, columns)

    def size(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.cells = [[" "] * columns for _ in range(rows)]
        self.row = self.column = 0

    def lines(self):
        return ["".join(row).rstrip() for row in self.cells]

    def feed(self, text):
        text = self.rest + text
        begun = BEGUN.search(text)
        self.rest = begun.group(0) if begun else ""
        text = text[: len(text) - len(self.rest)]
        at = 0
        while at < len(text):
            found = SEQUENCE.match(text, at)
            if found:
                self.sequence(found.group(1), found.group(2))
                at = found.end()
            else:
                self.letter(text[at])
                at += 1

    def sequence(self, numbers, last):
        if last == "H":
            row, _, column = numbers.partition(";")
            self.row, self.column = int(row or 1) - 1, int(column or 1) - 1
        elif last == "J" and numbers == "2":
            self.cells = [[" "] * self.columns for _ in range(self.rows)]
        elif last == "K" and numbers == "2" and self.row < self.rows:
            self.cells[self.row] = [" "] * self.columns
        elif last == "m":
            pass
        elif last in "hl" and numbers[:1] == "?" and numbers[1:] in self.modes:
            self.modes[numbers[1:]] = last
        else:
            self.unknown.append(f"{numbers}{last}")

    def letter(self, letter):
        if unicodedata.category(letter) in ("Cc", "Cf"):
            self.unknown.append(f"U+{ord(letter):04X}")
            return
        wide = 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        if self.row < self.rows and self.column + wide <= self.columns:
            self.cells[self.row][self.column] = letter
            if wide == 2:
                self.cells[self.row][self.column + 1] = ""
        self.column += wide


rows, columns = int(sys.argv[1]), int(sys.argv[2])
child, terminal = pty.fork()
if child == 0:
    # It begins when the terminal has its size.
    sys.stdin.readline()
    os.execv(sys.argv[3], sys.argv[3:])


def set_size(rows, columns):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


screen = Screen(rows, columns)
set_size(rows, columns)
before = termios.tcgetattr(terminal)
os.write(terminal, b"\n")
decoder = codecs.getincrementaldecoder("utf-8")("replace")
is_open, has_begun, words = True, False, ""


def read(seconds):
    """What the program writes within this time, if it does."""
    global is_open, has_begun, words
    if not is_open or not select.select([terminal], [], [], seconds)[0]:
        return
    try:
        text = decoder.decode(os.read(terminal, 65536))
    except OSError:
        is_open = False
        return
    # What comes before its first screen, and behind its last, are words for whoever sits there.
    if not has_begun:
        words += text
        _, begun, text = words.partition("\x1b[?1049h")
        has_begun = bool(begun)
        if not has_begun:
            return
        text = begun + text
    shown, end, after = text.partition("\x1b[?1049l")
    screen.feed(shown + end)
    if end:
        words += after


def wait(what, holds):
    end = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {PATIENCE} s; on the screen:\n" + "\n".join(screen.lines()) + words)
        if not is_open:
            raise EOFError(f"{what}: the program has ended, and said {words!r}")
        read(0.1)


def ends():
    """Waits for its end, and says how it left the terminal."""
    global is_open
    end, status, pid = time.monotonic() + PATIENCE, 0, 0
    while pid == 0:
        if time.monotonic() > end:
            raise TimeoutError("it has not ended")
        read(0.05)
        pid, status = os.waitpid(child, os.WNOHANG)
    while is_open and select.select([terminal], [], [], 0)[0]:
        read(0)
    return {
        "status": os.waitstatus_to_exitcode(status),
        "is_given_back": termios.tcgetattr(terminal) == before and screen.modes == {"1049": "l", "25": "h", "7": "h"},
        "unknown": screen.unknown,
        "words": words,
    }


def do(command):
    what = command["do"]
    if what == "sees":
        wait(command["text"], lambda: command["text"] in "\n".join(screen.lines()))
    elif what == "loses":
        wait("without " + command["text"], lambda: command["text"] not in "\n".join(screen.lines()))
    elif what == "press":
        os.write(terminal, command["keys"].encode())
    elif what == "size":
        screen.size(command["rows"], command["columns"])
        set_size(command["rows"], command["columns"])
    elif what == "signal":
        os.kill(child, getattr(signal, "SIG" + command["name"]))
    elif what == "ends":
        return ends()
    else:
        raise ValueError(what)
    return screen.lines()


for line in sys.stdin:
    try:
        answer = {"value": do(json.loads(line))}
    except Exception as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer), flush=True)
# Whoever gave the commands has gone.
try:
    os.kill(child, signal.SIGKILL)
except ProcessLookupError:
    pass

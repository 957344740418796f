#!/usr/bin/env python3
"""Records a demonstration from a terminal: docs/demos/NAME.cast (asciinema, version 2) and NAME.svg (the same, moving).

    scripts/record.py docs/demos/NAME.txt       all of them: scripts/demos.sh

The demonstration is a list of lines:

    size 80 24             columns and rows; first
    before COMMAND         run out of sight, until the end of the recording
    type TEXT              typed as a hand does, with Enter
    key NAME               a key by its name in tmux(1), such as q or C-c
    wait SECONDS           at most that long, or until the command has ended: `wait 20 done`

A `$NAME` in a line is a variable of the environment. It takes tmux, and `hairpin` in PATH. What is recorded is the screen, ten times a second, where it has changed.
"""
import html
import json
import os
import re
import subprocess
import sys
import tempfile
import time

TICK_S = 0.1
TYPED_S = 0.04
# Letters of which one screen is kept: each screen makes the picture larger.
LETTERS = 3
PROMPT = "$ "
# The palette of the SVG: the eight colours of a terminal, and their bright forms.
COLOURS = ["#3b4252", "#bf616a", "#a3be8c", "#ebcb8b", "#81a1c1", "#b48ead", "#88c0d0", "#e5e9f0"]
INK, PAPER = "#e5e9f0", "#242933"
WIDTH, HEIGHT, MARGIN = 8.4, 18, 14


class Terminal:
    """A shell in a tmux server of its own."""

    def __init__(self, folder):
        self.tmux = ["tmux", "-S", os.path.join(folder, "socket"), "-f", "/dev/null", "-u"]

    def start(self, columns, rows):
        shell = f"PS1='{PROMPT}' exec bash --norc --noprofile -i"
        size = ["-x", str(columns), "-y", str(rows)]
        subprocess.run(self.tmux + ["new-session", "-d", *size, shell], check=True)
        subprocess.run(self.tmux + ["set", "-g", "status", "off"], check=True)

    def keys(self, *keys):
        subprocess.run(self.tmux + ["send-keys", *keys], check=True)

    def screen(self):
        """The screen's text with its colours."""
        captured = subprocess.run(self.tmux + ["capture-pane", "-e", "-p"], check=True, capture_output=True, text=True)
        return captured.stdout.rstrip("\n")

    def idle(self):
        """True if the shell waits for a command."""
        shown = subprocess.run(self.tmux + ["display", "-p", "#{pane_current_command}"], check=True, capture_output=True, text=True)
        return shown.stdout.strip() == "bash"

    def end(self):
        subprocess.run(self.tmux + ["kill-server"], check=False)


class Recording:
    """Screens with the time since the start in s; what is waited for is watched meanwhile."""

    def __init__(self, terminal):
        self.terminal, self.began, self.frames = terminal, time.monotonic(), []

    def look(self):
        screen = self.terminal.screen()
        if not self.frames or self.frames[-1][1] != screen:
            self.frames.append((time.monotonic() - self.began, screen))

    def wait(self, seconds, until=lambda: False):
        end = time.monotonic() + seconds
        while time.monotonic() < end and not until():
            time.sleep(TICK_S)
            self.look()


def play(steps):
    size, behind = (80, 24), []
    with tempfile.TemporaryDirectory() as folder:
        terminal = Terminal(folder)
        try:
            for word, rest in steps:
                if word == "size":
                    size = tuple(int(number) for number in rest.split())
                elif word == "before":
                    behind.append(subprocess.Popen(rest, shell=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True))
            terminal.start(*size)
            time.sleep(1)
            recording = Recording(terminal)
            for word, rest in steps:
                if word == "type":
                    for at, letter in enumerate(rest):
                        terminal.keys("-l", letter)
                        time.sleep(TYPED_S)
                        if at % LETTERS == 0:
                            recording.look()
                    terminal.keys("Enter")
                    recording.wait(0.3)
                elif word == "key":
                    terminal.keys(rest)
                    recording.wait(0.3)
                elif word == "wait":
                    seconds, *done = rest.split()
                    recording.wait(float(seconds), terminal.idle if done else lambda: False)
            return size, recording.frames
        finally:
            terminal.end()
            for process in behind:
                os.killpg(process.pid, 15)
            for process in behind:
                process.wait(10)


def cast(size, frames):
    head = {"version": 2, "width": size[0], "height": size[1]}
    lines = [json.dumps(head)]
    for at, screen in frames:
        text = "\x1b[H\x1b[2J" + screen.replace("\n", "\r\n")
        lines.append(json.dumps([round(at, 3), "o", text], ensure_ascii=False))
    return "\n".join(lines) + "\n"


def colour_of(number):
    """One of the 256 colours of a terminal."""
    if number < 16:
        return COLOURS[number % 8]
    if number >= 232:
        return "#" + 3 * f"{8 + 10 * (number - 232):02x}"
    level = lambda part: 0 if part == 0 else 55 + 40 * part
    number -= 16
    return "#" + "".join(f"{level(part):02x}" for part in (number // 36, number // 6 % 6, number % 6))


def lines_of(screen):
    """The lines of a screen, each as its pieces: (column, text, colour, bold, dim). What is set at a line's end holds in the next one."""
    colour, bold, dim, lines = None, False, False, []
    for line in screen.split("\n"):
        column, pieces = 0, []
        for piece in re.split(r"(\x1b\[[0-9;]*m)", line):
            if not piece.startswith("\x1b["):
                if piece.strip():
                    pieces.append((column, piece, colour, bold, dim))
                column += len(piece)
                continue
            codes = [int(code or 0) for code in piece[2:-1].split(";")]
            while codes:
                code = codes.pop(0)
                if code == 0:
                    colour, bold, dim = None, False, False
                elif code == 1:
                    bold = True
                elif code == 2:
                    dim = True
                elif code == 22:
                    bold = dim = False
                elif code == 39:
                    colour = None
                elif code in (38, 48) and codes[:1] == [5] and len(codes) > 1:
                    colour = colour_of(codes[1]) if code == 38 else colour
                    codes = codes[2:]
                elif 30 <= code <= 37:
                    colour = COLOURS[code - 30]
                elif 90 <= code <= 97:
                    colour = COLOURS[code - 90]
        lines.append(tuple(pieces))
    return lines


def drawn(row, line):
    pieces = []
    for column, text, colour, bold, dim in line:
        style = f' fill="{colour}"' if colour else ""
        style += ' font-weight="bold"' if bold else ""
        style += ' opacity="0.6"' if dim else ""
        # Blanks at the begin are skipped. Each piece has its width, so that the columns stand under each other in every font.
        column, text = column + len(text) - len(text.lstrip()), text.strip()
        x, y = MARGIN + column * WIDTH, MARGIN + (row + 0.8) * HEIGHT
        pieces.append(f'<text x="{x:g}" y="{y:g}" textLength="{len(text) * WIDTH:g}"{style}>{html.escape(text, quote=False)}</text>')
    return "".join(pieces)


def svg(size, frames, last_s=6.0):
    """Every line stands in the picture once for each time that it is on the screen, so lines that stay cost nothing."""
    width, height = 2 * MARGIN + size[0] * WIDTH, 2 * MARGIN + size[1] * HEIGHT
    whole = frames[-1][0] + last_s
    begins = [at for at, _ in frames] + [whole]
    screens = [lines_of(screen) for _, screen in frames]
    shown = {}
    for row in range(size[1]):
        lines = [screen[row] if row < len(screen) else () for screen in screens]
        first = 0
        for at in range(1, len(lines) + 1):
            if at == len(lines) or lines[at] != lines[first]:
                shown.setdefault((first, at), []).append(drawn(row, lines[first]))
                first = at
    style, groups = ["text{white-space:pre}g{visibility:hidden}"], []
    for number, ((first, last), pieces) in enumerate(sorted(shown.items())):
        if not (text := "".join(pieces)):
            continue
        a, b = 100 * begins[first] / whole, 100 * begins[last] / whole
        style.append(f"#a{number}{{animation:f{number} {whole:.2f}s steps(1,end) infinite}}")
        before = f"0%{{visibility:hidden}}{a:.2f}%" if first else "0%"
        after = "" if last == len(lines) else f"{b:.2f}%{{visibility:hidden}}"
        style.append(f"@keyframes f{number}{{{before}{{visibility:visible}}{after}}}")
        groups.append(f'<g id="a{number}">{text}</g>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" font-family="monospace" font-size="14" fill="{INK}">'
        f'<style>{"".join(style)}</style><rect width="100%" height="100%" rx="8" fill="{PAPER}"/>{"".join(groups)}</svg>\n'
    )


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    given = sys.argv[1]
    with open(given, encoding="utf-8") as file:
        lines = [os.path.expandvars(line.strip()) for line in file if line.strip() and not line.startswith("#")]
    steps = [(line.split(" ", 1) + [""])[:2] for line in lines]
    if bad := [word for word, _ in steps if word not in ("size", "before", "type", "key", "wait")]:
        sys.exit(f"{given}: no step is called {bad[0]}")
    size, frames = play(steps)
    name = given.removesuffix(".txt")
    with open(f"{name}.cast", "w", encoding="utf-8") as file:
        file.write(cast(size, frames))
    with open(f"{name}.svg", "w", encoding="utf-8") as file:
        file.write(svg(size, frames))
    print(f"{name}.cast and .svg: {len(frames)} screens in {frames[-1][0]:.1f} s")


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that includes point only leftwards through the rooms: exits 1 and names file:line where one does not."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# From left to right. A file may include headers of its own room and of rooms to its left.
ROOMS = ["include/convt", "src/base", "src/epilogue", "src/problem", "src/plan", "src/reference", "src/cpu",
         "src/cuda/common", "src/cuda/chain", "src/cuda/schedule", "src/cuda/sums", "src/cuda/simt", "src/cuda/sm90",
         "src/backends", "src/capi"]
# Engines: none includes another.
ENGINES = ["src/reference", "src/cpu", "src/cuda/sums", "src/cuda/simt", "src/cuda/sm90"]
# The parts of a room, from left to right likewise: a kernel is made of those to its left.
PARTS = {"src/cuda/sm90": ["config", "operand", "instructions", "scheduler", "pipeline", "loader", "mainloop", "store",
                           "epilogue", "kernel", "host"]}
# These speak the public API: they may include it and their own headers, nothing else of convt.
DOORS = ["cli", "examples", "python/torch_ext"]

GENERATED = {"convt_ops_includes.hpp": "src/epilogue"}
SUFFIXES = {".h", ".hpp", ".c", ".cpp", ".cu", ".cuh", ".inc", ".def"}
INCLUDE = re.compile(r'\s*#\s*include\s*(["<])([^">]+)[">]')


def room_of(path):
    """The room a file lives in, or None for a file outside every room. src/backends.* is a room without a folder."""
    place = path.relative_to(ROOT).as_posix()
    for room in ROOMS + DOORS:
        if place.startswith((room + "/", room + ".")):
            return room
    return None


def file_included(path, quote, name):
    """The file an include leads to; None for a header that is not convt's. Raises LookupError if there is no such file."""
    folders = [ROOT / "src", ROOT / "include"]
    for folder in [path.parent, *folders] if quote == '"' else folders:
        if (folder / name).is_file():
            return (folder / name).resolve()
    if quote == '"':
        raise LookupError
    return None


def part_of(room, path):
    """The place of a file among the parts of its room."""
    name = (path.relative_to(ROOT / room)).parts[0].split(".")[0]
    if name not in PARTS[room]:
        raise LookupError
    return PARTS[room].index(name)


def allowed(room):
    if room in DOORS:
        return {"include/convt", room}
    left = set(ROOMS[: ROOMS.index(room) + 1])
    return left - set(ENGINES) | {room} if room.startswith("src/cuda") or room in ENGINES else left


def problems_of(path):
    room = room_of(path)
    if room is None:
        yield 1, "this file is in no room"
        return
    try:
        part = part_of(room, path) if room in PARTS else None
    except LookupError:
        yield 1, f"this file is in no part of {room}"
        return
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        quote, name = match.groups()
        try:
            file = None if name in GENERATED else file_included(path, quote, name)
        except LookupError:
            yield number, f'no file "{name}"; write includes relative to src/ or include/'
            continue
        target = GENERATED.get(name) or (room_of(file) if file else None)
        if target is not None and target not in allowed(room):
            yield number, f"{room} may not include {name} ({target})"
        elif part is not None and target == room and part_of(room, file) > part:
            yield number, f"{room}/{PARTS[room][part]} may not include {name}: its part is further right"


def main():
    files = sorted(path for top in ("include", "src", *DOORS) for path in (ROOT / top).rglob("*")
                   if path.suffix in SUFFIXES)
    bad = [f"{path.relative_to(ROOT)}:{number}: {text}" for path in files for number, text in problems_of(path)]
    print(*bad, sep="\n", end="\n" if bad else "")
    print(f"check_rooms: {len(files)} files, {len(bad)} bad includes")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

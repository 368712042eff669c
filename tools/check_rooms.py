#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that includes point only leftwards through the rooms, and that no enum is switched on in several files of
device code: exits 1 and names file:line where that is not so."""

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
# A room whose kernels are made of policies, and the header that names them in a Config. A policy is compared in that
# header alone: others, host code too, ask the Config for its properties. Any other enum of the room is compared in the
# header that defines it and in one file of device code. The rule is not for what an interpreter of data reads: the steps
# of chains, RegisterProgram::Code here and ChainStep::Kind in src/cuda/chain.
KERNELS = "src/cuda/sm90"
CONFIG = f"{KERNELS}/config/config.hpp"
POLICIES = {"Phases", "Loader", "Operands", "Store", "Scheduler", "Warps"}
INTERPRETED = {"RegisterProgram::Code"}
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


def enums_in(path):
    """The enums that a file defines, as pairs: a name for messages, and a pattern for their enumerators."""
    text = re.sub(r"//.*", "", path.read_text(encoding="utf-8"))
    for indent, scoped, name, body in re.findall(r"^( *)enum (class )?(\w+)[^{};]*\{([^}]*)\}", text, re.M):
        before = text[: text.index(f"{indent}enum {scoped}{name}")]
        owners = re.findall(r"^(?:struct|class) (\w+)", before, re.M) if indent else []
        owner = owners[-1] + "::" if owners else ""
        # The enumerators of a table are not in the enum's body.
        names = r"\w+" if "#" in body else "|".join(re.findall(r"(\w+)(?:\s*=[^,]*)?(?:,|\s*$)", body))
        yield owner + name, rf"{name if scoped else owner[:-2]}::(?:{names})" if scoped or owner else rf"(?:{names})"


def comparisons(pattern):
    """A pattern for an enumerator that is compared, or is a case."""
    operator = r"(?:[=!<>]=| [<>] )"
    return re.compile(rf"(?:{operator}\s*|\bcase\s+)(?:\w+::)*{pattern}\b|(?<!\w){pattern}\s*{operator}")


def lines_with(pattern, path):
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if pattern.search(line.split("//")[0]):
            yield number


def problems_of_enums():
    """Yields path, line and text of each comparison that is in the wrong file."""
    files = sorted(path for path in (ROOT / KERNELS).rglob("*") if path.suffix in SUFFIXES)
    host = [path for path in files if ROOT / KERNELS / "host" in path.parents]
    for header in [path for path in files if path not in host]:
        for name, pattern in enums_in(header):
            compared = comparisons(pattern)
            found = {path: list(lines_with(compared, path)) for path in files if path != header}
            users = [path for path in files if found.get(path) and path not in host]
            if name in POLICIES:
                bad, why = users + host, f"{name} is compared; ask the Config for a property ({CONFIG})"
            elif name not in INTERPRETED and len(users) > 1:
                bad, why = users[1:], f"{name} is compared in {users[0].relative_to(ROOT)} already; ask a function there"
            else:
                continue
            for path in bad:
                yield from ((path, number, why) for number in found[path])
    whole = re.compile(r"[=!]=\s*configs::\w+|configs::\w+\s*[=!]=")
    for path in files:
        for number in lines_with(whole, path):
            yield path, number, f"a Config is compared with a named one; ask it for a property ({CONFIG})"


def main():
    files = sorted(path for top in ("include", "src", *DOORS) for path in (ROOT / top).rglob("*")
                   if path.suffix in SUFFIXES)
    bad = [f"{path.relative_to(ROOT)}:{number}: {text}" for path in files for number, text in problems_of(path)]
    enums = [f"{path.relative_to(ROOT)}:{number}: {text}" for path, number, text in problems_of_enums()]
    print(*bad, *enums, sep="\n", end="\n" if bad or enums else "")
    print(f"check_rooms: {len(files)} files, {len(bad)} bad includes, {len(enums)} bad comparisons of enums")
    return 1 if bad or enums else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Runs the sample `grad_cam` and reads its pictures: each must be a PNG file of the right size with
a grey digit on the left and, on the right, a map that is red somewhere and not everywhere."""
import argparse
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import zlib

SIDE, GAP = 280, 4
LINE = re.compile(r"(\S+)  taken for (\d), ([\d.]+) % sure")


def demand(fine, what):
    if not fine:
        sys.exit(what)


def chunks(data):
    """(kind, content) of each chunk; its checksum must be right."""
    demand(data.startswith(b"\x89PNG\r\n\x1a\n"), "no PNG file")
    at = 8
    while at < len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        content = data[at + 8 : at + 8 + size]
        (checksum,) = struct.unpack_from(">I", data, at + 8 + size)
        demand(zlib.crc32(kind + content) == checksum, f"{kind} is damaged")
        yield kind, content
        at += size + 12


def predictor(kind, left, up, corner):
    if kind == 4:
        near = [abs(up - corner), abs(left - corner), abs(left + up - 2 * corner)]
        return (left, up, corner)[near.index(min(near))]
    return (0, left, up, (left + up) // 2)[kind]


def unfiltered(raw, width):
    """The rows of an image of three bytes per pixel."""
    rows, above = [], bytes(3 * width)
    for at in range(0, len(raw), 3 * width + 1):
        row = bytearray()
        for i, byte in enumerate(raw[at + 1 : at + 1 + 3 * width]):
            left, corner = (row[i - 3], above[i - 3]) if i >= 3 else (0, 0)
            row.append((byte + predictor(raw[at], left, above[i], corner)) % 256)
        rows.append(row)
        above = row
    return rows


def read_png(file):
    """Rows of (red, green, blue)."""
    parts = list(chunks(file.read_bytes()))
    width, height, depth, color, _, _, interlaced = struct.unpack(">IIBBBBB", parts[0][1])
    demand((depth, color, interlaced) == (8, 2, 0), f"{file}: colour type {color}, depth {depth}")
    raw = zlib.decompress(b"".join(content for kind, content in parts if kind == b"IDAT"))
    demand(len(raw) == height * (3 * width + 1), f"{file}: {len(raw)} bytes of pixels")
    return [list(zip(row[0::3], row[1::3], row[2::3])) for row in unfiltered(raw, width)]


def check_picture(file):
    rows = read_png(file)
    demand((len(rows), len(rows[0])) == (SIDE, 2 * SIDE + GAP), f"{file}: {len(rows)} rows")
    digit = [pixel for row in rows for pixel in row[:SIDE]]
    demand(all(red == green == blue for red, green, blue in digit), f"{file}: colours on the left")
    demand(min(digit)[0] < 80 and max(digit)[0] > 240, f"{file}: no digit on the left")
    heat = [red - blue for row in rows for red, _, blue in row[SIDE + GAP :]]
    demand(max(heat) > 180 and max(heat) - min(heat) > 120,
           f"{file}: heat from {min(heat)} to {max(heat)}")
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("arguments", nargs="*")
    args = parser.parse_args()
    shutil.rmtree(args.out, ignore_errors=True)
    run = subprocess.run([args.program, "--out", args.out] + args.arguments, timeout=200,
                         stdout=subprocess.PIPE, text=True, check=True)
    *lines, legend = run.stdout.splitlines()
    demand(legend == "red is what spoke for the answer", f"the last line is {legend}")
    lines = [LINE.fullmatch(line).groups() for line in lines]
    files = [args.out / f"digit-{digit}.png" for digit in range(10)]
    demand([pathlib.Path(line[0]) for line in lines] == files, f"written: {run.stdout}")
    demand(sorted(args.out.iterdir()) == files, f"{args.out} holds other files")
    right = sum(int(answer) == digit for digit, (_, answer, _) in enumerate(lines))
    demand(right >= 9, f"{right} of 10 digits are taken for what they are")
    pictures = [check_picture(file) for file in files]
    demand(all(picture != pictures[0] for picture in pictures[1:]), "pictures are equal")


main()

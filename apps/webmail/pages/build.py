#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the pages as C: build.py OUTPUT.h OUTPUT.c STATIC FILE.html...

A file holds blocks. Each becomes a struct with a member a name, and a function that writes the block with those values. A
name that a page uses and nobody fills in is empty; one that nobody uses any more does not compile.

    {{block row}} ... {{endblock}}    view_row, a struct, and put_row(page, &values)
    {{name}}                          text, escaped for HTML
    {{#name}}                         a number
    {{%name}}                         text, percent-encoded for a query
    {{!name}}                         HTML that is safe already
    {{?name}} ... {{:}} ... {{/}}     if the text is not empty, or the number or switch not 0; otherwise
    {{static style.css}}              the address of a file of the folder STATIC, which is embedded
"""
import hashlib
import os
import re
import sys

MARK = re.compile(r"\{\{(.*?)\}\}", re.S)
TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml", ".txt": "text/plain; charset=utf-8"}
WRITES = {"": ("weir_span ", "page_text"), "#": ("int64_t ", "page_number"), "%": ("weir_span ", "page_query"), "!": ("weir_span ", "page_html")}


def fail(where, what):
    sys.exit(f"{where}: {what}")


def quoted(text):
    escaped = text.encode("utf-8")
    out = "".join(chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else {10: "\\n", 9: "\\t", 34: '\\"', 92: "\\\\"}.get(b, f"\\{b:03o}") for b in escaped)
    return f'"{out}"', len(escaped)


def squeezed(text):
    """Indentation is for those who write pages."""
    return re.sub(r"\n\s*", "\n", text)


class Block:
    def __init__(self, name, text, where):
        self.name, self.where, self.types, self.lines, self.depth = name, where, {}, [], 0
        at = 0
        for mark in MARK.finditer(text):
            self.literal(text[at:mark.start()])
            self.mark(mark[1].strip())
            at = mark.end()
        self.literal(text[at:])
        if self.depth:
            fail(where, f"block {name}: {{{{/}}}} is missing")

    def put(self, line):
        self.lines.append("\t" * (self.depth + 1) + line)

    def literal(self, text):
        if text:
            literal, length = quoted(text)
            self.put(f"page_add(to, {literal}, {length});")

    def use(self, name, kind):
        if not re.fullmatch(r"[a-z_]+", name):
            fail(self.where, f"block {self.name}: '{name}' is no name")
        known = self.types.get(name)
        if known is not None and kind is not None and known != kind:
            fail(self.where, f"block {self.name}: '{name}' has two types")
        self.types[name] = kind if kind is not None else known

    def mark(self, mark):
        if mark == "/":
            self.depth -= 1
            self.put("}")
        elif mark == ":":
            self.depth -= 1
            self.put("} else {")
            self.depth += 1
        elif mark.startswith("?"):
            self.use(mark[1:], None)
            self.put(f"if (@{mark[1:]}@) {{")
            self.depth += 1
        else:
            sign = mark[0] if mark[0] in WRITES else ""
            name = mark[len(sign):]
            self.use(name, WRITES[sign][0])
            self.put(f"{WRITES[sign][1]}(to, v->{name});")

    def condition(self, match):
        return f"v->{match[1]}.length > 0" if self.types[match[1]] == "weir_span " else f"v->{match[1]}"

    def header(self):
        members = "".join(f"\t{kind or 'bool '}{name};\n" for name, kind in self.types.items()) or "\tchar unused;\n"
        return f"typedef struct view_{self.name} {{\n{members}}} view_{self.name};\nvoid put_{self.name}(webpage *to, const view_{self.name} *v);\n\n"

    def code(self):
        lines = [re.sub(r"@(\w+)@", self.condition, line) if "if (@" in line else line for line in self.lines]
        return f"void put_{self.name}(webpage *to, const view_{self.name} *v)\n{{\n" + "\n".join(lines) + "\n}\n\n"


def blocks(path, addresses):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    text = re.sub(r"\{\{static ([a-z.]+)\}\}", lambda match: addresses[match[1]], text)
    for match in re.finditer(r"\{\{block ([a-z_]+)\}\}\n?(.*?)\{\{endblock\}\}", text, re.S):
        yield Block(match[1], squeezed(match[2]), os.path.basename(path))


def assets(folder):
    names = sorted(os.listdir(folder))
    for name in names:
        with open(os.path.join(folder, name), "rb") as file:
            data = file.read()
        yield name, TYPES[os.path.splitext(name)[1]], hashlib.sha256(data).hexdigest()[:12], data


def main(header, code, static, *paths):
    files = list(assets(static))
    addresses = {name: f"/static/{digest}/{name}" for name, _, digest, _ in files}
    found = [block for path in paths for block in blocks(path, addresses)]
    with open(header, "w", encoding="ascii") as to:
        to.write('/* Made by pages/build.py. */\n#ifndef WEBMAIL_VIEWS_H\n#define WEBMAIL_VIEWS_H\n\n#include <webmail/page.h>\n\n')
        to.writelines(block.header() for block in found)
        to.write("#endif\n")
    with open(code, "w", encoding="ascii") as to:
        to.write(f'/* Made by pages/build.py. */\n#include <webmail/views.h>\n\n#include <webmail/static.h>\n\n')
        to.writelines(block.code() for block in found)
        for at, (_, _, _, data) in enumerate(files):
            rows = ",\n".join(", ".join(str(byte) for byte in data[i:i + 32]) for i in range(0, len(data), 32))
            to.write(f"static const unsigned char file_{at}[] = {{\n{rows}}};\n")
        to.write("\nconst static_file static_files[] = {\n")
        to.writelines(f'\t{{"/static/{digest}/{name}", "{kind}", file_{at}, {len(data)}}},\n' for at, (name, kind, digest, data) in enumerate(files))
        to.write("\t{0},\n};\n")


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])

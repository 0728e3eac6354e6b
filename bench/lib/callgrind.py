# SPDX-License-Identifier: Apache-2.0
"""What callgrind has counted, by function and object, for a server that runs under it."""
import glob
import os
import re

# Its log is long, and a pipe that nobody reads would fill up and stop the server.
COMMAND = ["valgrind", "--tool=callgrind", "--separate-threads=yes", "--log-file=/dev/null"]


def command(path):
    """What goes before a program's own command line; the counts of its threads go to files that begin with the path."""
    return COMMAND + [f"--callgrind-out-file={path}"]


def name_of(names, text):
    """Names are numbered where they come first: "(12) weir_offer", then "(12)"."""
    number, name = re.match(r"\((\d+)\)(?: (.*))?$", text).groups()
    if name:
        names[number] = name
    return names[number]


def read(lines):
    """{(object, function): instructions of its own, without those of what it calls}."""
    counts, objects, functions = {}, {}, {}
    place = [None, None]
    skip = False
    for line in lines:
        key, _, value = line.rstrip("\n").partition("=")
        if key == "ob":
            place[0] = os.path.basename(name_of(objects, value))
        elif key == "fn":
            place[1] = name_of(functions, value)
        elif key == "cob":
            name_of(objects, value)
        elif key == "cfn":
            name_of(functions, value)
        elif key == "calls":
            skip = True  # the next line has what was spent inside
        elif re.match(r"[0-9+*-]", line):
            if not skip:
                counts[tuple(place)] = counts.get(tuple(place), 0) + int(line.split()[1])
            skip = False
    return counts


def own(path, program, function):
    """Instructions of the program's own code, without libraries, in the threads that have run the function."""
    total = 0
    for name in glob.glob(glob.escape(path) + "-*"):
        with open(name, encoding="utf-8", errors="replace") as file:
            counts = read(file)
        if (program, function) in counts:
            total += sum(count for (owner, _), count in counts.items() if owner == program)
    return total

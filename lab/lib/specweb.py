# SPDX-License-Identifier: Apache-2.0
"""The static files of SPECweb99: 36 in a directory, four classes of nine sizes; 680 directories are the papers' 3.31 GB."""
import os

CLASSES, FILES = 4, 9


def size(klass, number):
    return round(102.4 * (number + 1) * 10 ** klass)


def directory_bytes():
    return sum(size(klass, number) for klass in range(CLASSES) for number in range(FILES))


def make(root, directories):
    """Names as `weir load` asks for: dir00000/class0_0 to class3_8."""
    for at in range(directories):
        folder = os.path.join(root, f"dir{at:05d}")
        os.makedirs(folder)
        for klass in range(CLASSES):
            for number in range(FILES):
                with open(os.path.join(folder, f"class{klass}_{number}"), "wb") as file:
                    file.write(b"w" * size(klass, number))
    # Servers that run as another user read them, too.
    for where, _, _ in os.walk(root):
        os.chmod(where, 0o755)

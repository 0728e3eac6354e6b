# SPDX-License-Identifier: Apache-2.0
"""A name server for tests: answers A and SRV questions from a table, with the time to live that the table says, and counts them."""
import socket
import struct
import threading

A, SRV, NO_NAME = 1, 33, 3


def packed(name):
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"


class Names:
    """records: {(name, type): [(ttl, data)]}; data of A: an address; of SRV: (priority, weight, port, target). They may be changed at any time."""

    def __init__(self, records):
        self.records, self.asked = records, []
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.socket.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *ignored):
        self.socket.close()

    def serve(self):
        while True:
            try:
                question, client = self.socket.recvfrom(4096)
                self.socket.sendto(self.answer(question), client)
            except OSError:
                return

    def answer(self, question):
        at, labels = 12, []
        while question[at]:
            labels.append(question[at + 1:at + 1 + question[at]].decode())
            at += 1 + question[at]
        name, end = ".".join(labels).lower(), at + 5
        kind = struct.unpack(">H", question[at + 1:at + 3])[0]
        self.asked.append((name, kind))
        found = self.records.get((name, kind), [])
        known = any(key[0] == name for key in self.records)
        head = question[:2] + struct.pack(">HHHHH", 0x8180 | (0 if known else NO_NAME), 1, len(found), 0, 0)
        records = b"".join(self.record(kind, ttl, data) for ttl, data in found)
        return head + question[12:end] + records

    @staticmethod
    def record(kind, ttl, data):
        data = socket.inet_aton(data) if kind == A else struct.pack(">HHH", *data[:3]) + packed(data[3])
        return b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, ttl, len(data)) + data

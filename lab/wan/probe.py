#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packets that measure a network: probe.py echo | ping ADDRESS COUNT EVERY_MS | sink IDLE_S | blast ADDRESS COUNT BYTES PER_S

UDP on port 9. `echo` and `sink` print "ready 1" when they listen, and end with their input or after a silence. All print lines of "key value"."""
import contextlib
import os
import select
import socket
import struct
import sys
import time

PORT = 9
SO_TIMESTAMPNS = 35


def say(**found):
    for key, value in found.items():
        print(key, value, flush=True)


def listener():
    here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    here.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    here.bind(("0.0.0.0", PORT))
    say(ready=1)
    return here


def stamp(notes):
    """When the kernel got a packet."""
    seconds, ns = struct.unpack("qq", notes[0][2][:16])
    return seconds + ns / 1e9


def echo():
    here = listener()
    while True:
        ready, _, _ = select.select([here, sys.stdin], [], [])
        if sys.stdin in ready:
            return
        data, sender = here.recvfrom(2048)
        here.sendto(data, sender)


def ping(address, count, every_ms):
    """Round trips, one after the other; one that takes longer than a second is lost."""
    here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    here.settimeout(1)
    times = []
    for number in range(int(count)):
        begin = time.perf_counter()
        here.sendto(number.to_bytes(4, "big"), (address, PORT))
        try:
            while int.from_bytes(here.recv(2048), "big") != number:
                pass
            times.append(time.perf_counter() - begin)
        except socket.timeout:
            pass
        time.sleep(max(0, begin + float(every_ms) / 1000 - time.perf_counter()))
    times.sort()
    say(sent=count, back=len(times), mean_ms=1000 * sum(times) / max(1, len(times)), median_ms=1000 * times[len(times) // 2] if times else 0)


def sink(idle_s):
    """Counts what comes until nothing has come for this long."""
    here = listener()
    here.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    here.settimeout(30)
    packets = received = 0
    first = last = 0.0
    while True:
        try:
            data, notes, _, _ = here.recvmsg(2048, 64)
        except socket.timeout:
            break
        length, last = len(data), stamp(notes)
        if packets == 0:
            first = last
            here.settimeout(float(idle_s))
        else:
            received += length + 28  # UDP's header and IP's
        packets += 1
    say(packets=packets, bits_per_s=8 * received / (last - first) if last > first else 0)


def blast(address, count, length, per_s):
    """Packets in bursts of a millisecond's worth."""
    here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    here.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
    data, begin, sent = bytes(int(length)), time.perf_counter(), 0
    while sent < int(count):
        due = min(int(count), int((time.perf_counter() - begin) * float(per_s)) + 1)
        for _ in range(sent, due):
            here.sendto(data, (address, PORT))
        sent = max(sent, due)
        time.sleep(0.001)
    say(sent=sent)


if __name__ == "__main__":
    # Before other programs, where that is allowed: what is measured is the network.
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    {"echo": echo, "ping": ping, "sink": sink, "blast": blast}[sys.argv[1]](*sys.argv[2:])

# SPDX-License-Identifier: Apache-2.0
"""A service that computes, for gunicorn: one request in ten takes ten times as long as the others, and nothing tells them apart. While the file $SLOWED is there
all of them take twice as long."""
import os
import random
import time

SHORT_S = 0.0026
SLOWED = os.environ["SLOWED"]


def compute(seconds):
    end = time.thread_time() + seconds
    number = 1
    while time.thread_time() < end:
        for _ in range(200):
            number = number * 1103515245 + 12345 & 0x7FFFFFFF
    return number


def app(_, start_response):
    seconds = SHORT_S * (10 if random.random() < 0.1 else 1) * (2 if os.path.exists(SLOWED) else 1)
    body = f"{compute(seconds)}\n".encode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]

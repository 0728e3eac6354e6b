# SPDX-License-Identifier: Apache-2.0
"""A page for gunicorn: waits, computes, and answers with what it saw of itself: when it began and ended, and its processor time, in ns."""
import os
import time

WAIT_S, COMPUTE_S = float(os.environ["WAIT_S"]), float(os.environ["COMPUTE_S"])


def app(_, start_response):
    begin, used = time.monotonic_ns(), time.thread_time_ns()
    time.sleep(WAIT_S)
    number = 1
    while time.thread_time_ns() - used < COMPUTE_S * 1e9:
        for _ in range(200):
            number = number * 1103515245 + 12345 & 0x7FFFFFFF
    body = f"{begin} {time.monotonic_ns()} {time.thread_time_ns() - used}\n".encode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The benchmarks' own code that makes rows, tables and JSON of numbers. Measuring itself is ./dev bench.
exec python3 "$SOURCE/tests/scenario/bench_lib.py"

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The count at the end of ./dev test is right when tests fail, crash, hang, are skipped, or pass in a program that does not.
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# expect "PASSED FAILED SKIPPED" RESULT OUTPUT: one program that ended like this.
expect() {
	printf '{"name": "unit / x", "result": "%s", "duration": 1.0, "stdout": "%s"}\n' "$2" "$3" >"$scratch/log"
	"$SOURCE/tools/test-report" "$scratch/log" "$scratch/counts" >"$scratch/said" || { echo "test-report failed" && exit 1; }
	[ "$(cat "$scratch/counts")" = "$1" ] || {
		echo "counted $(cat "$scratch/counts"), expected $1, for $2: $3"
		exit 1
	}
}

run='[==========] Running 3 test(s).\n[ RUN      ] a\n[       OK ] a\n[ RUN      ] b\n'
expect '3 0 0' OK "$run"'[       OK ] b\n[ RUN      ] c\n[       OK ] c\n'
expect '2 1 0' FAIL "$run"'[  FAILED  ] b\n[ RUN      ] c\n[       OK ] c\n[  FAILED  ] tests: 1 test(s), listed below:\n'
expect '2 0 1' OK "$run"'[  SKIPPED ] b\n[ RUN      ] c\n[       OK ] c\n'
listed='[  PASSED  ] 2 test(s).\n[  SKIPPED ] 1 test(s), listed below:\n'
expect '2 0 1' OK "$run"'[  SKIPPED ] b\n[ RUN      ] c\n[       OK ] c\n'"$listed"'[  SKIPPED ] b\n'
expect '2 0 1' OK "$run"'[  SKIPPED ] b by the ring\n[ RUN      ] c\n[       OK ] c\n'"$listed"'[  SKIPPED ] b by the ring\n'
expect '1 1 1' FAIL "$run"'[  SKIPPED ] b\n[ RUN      ] c\n[  FAILED  ] c\n'"$listed"'[  SKIPPED ] b\n'
expect '1 2 0' FAIL "$run"
expect '1 2 0' TIMEOUT "$run"
expect '3 1 0' FAIL "$run"'[       OK ] b\n[ RUN      ] c\n[       OK ] c\nWARNING: ThreadSanitizer: data race'
expect '1 0 0' OK 'no cmocka here\n'
expect '0 1 0' FAIL 'no cmocka here\n'
expect '0 1 0' TIMEOUT ''
expect '0 0 1' SKIP ''

rm "$scratch/log"
"$SOURCE/tools/test-report" "$scratch/log" "$scratch/counts" >"$scratch/said" && exit 1
[ "$(cat "$scratch/counts")" = "0 1 0" ] || { echo "a run without a log was not counted as a failure" && exit 1; }

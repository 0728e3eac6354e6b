#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The examples do what they say: every guest is served or turned away, some of each; every load gets its row.
set -eu

"$EXAMPLES/hello" | tee /dev/stderr | awk '
	/^100 guests: [0-9]+ served, [0-9]+ turned away$/ { ok = $3 > 0 && $5 > 0 && $3 + $5 == 100 }
	END { exit !(ok && NR == 1) }' || { echo "hello: not what was expected" && exit 1; }

lines=$(wc -l <"$SOURCE/examples/hello.c")
[ "$lines" -le 60 ] || { echo "hello.c has grown to $lines lines; it promises at most 60" && exit 1; }

# Short loads: this looks at the form and the way out, not at the numbers.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$EXAMPLES/overload" 0.05 >"$scratch/table" || { echo "overload failed" && exit 1; }
cat "$scratch/table"
rows=$(grep -cE '^ +(0\.5|1\.0|2\.0|5\.0|10\.0)x ' "$scratch/table") || :
[ "$rows" -eq 10 ] || { echo "overload: $rows rows instead of 10" && exit 1; }

# An interrupt in the middle leaves cleanly: no crash, no leak, the status of an interrupt.
mkfifo "$scratch/pipe"
"$EXAMPLES/overload" 60 >"$scratch/pipe" &
pid=$!
exec 3<"$scratch/pipe"
# The signal handler is there before the first line is out.
read -r line <&3
echo "$line"
kill -TERM "$pid"
status=0
wait "$pid" || status=$?
[ "$status" -eq 130 ] || { echo "overload: exit status $status after an interrupt" && exit 1; }

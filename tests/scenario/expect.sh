# SPDX-License-Identifier: Apache-2.0
# For scenarios of one verb, whose name is in $verb: failures that are told and counted, while the rest goes on.
failures=0

fail() {
	printf '%s\n' "$*"
	failures=$((failures + 1))
}

# expect STATUS PATTERN ARGUMENT...: the exit status, and a pattern that some line of the output matches.
expect() {
	expected=$1
	pattern=$2
	shift 2
	output=$("$WEIR" "$verb" "$@" 2>&1)
	status=$?
	if [ "$status" -ne "$expected" ] || ! printf '%s\n' "$output" | grep -q -e "$pattern"; then
		fail "weir $verb $*: status $status, expected $expected with \"$pattern\", said: $output"
	fi
}

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The binary's front: help, version, and what it says to those who type something else.
set -u

failures=0
# expect STATUS PATTERN ARGUMENT...: the exit status, and a pattern that some line of the output matches.
expect() {
	expected=$1
	pattern=$2
	shift 2
	output=$("$WEIR" "$@" 2>&1)
	status=$?
	if [ "$status" -ne "$expected" ] || ! printf '%s\n' "$output" | grep -q -e "$pattern"; then
		printf 'weir %s: status %s, expected %s with "%s", said:\n%s\n' "$*" "$status" "$expected" "$pattern" "$output"
		failures=$((failures + 1))
	fi
}

expect 0 '^usage: weir VERB' help
expect 0 '^usage: weir VERB' --help
expect 0 '^weir [0-9]*\.[0-9]*\.[0-9]*$' --version
expect 0 'epoll: yes' version
expect 0 'compiler  [a-z]' version
expect 0 'jansson [0-9]' version
expect 0 '^usage: weir version' version --help
expect 0 '^usage: weir version' help version
expect 2 "did you mean 'version'" verison
expect 2 "did you mean 'version'" vers
expect 2 "did you mean 'help'" halp
expect 2 "'weir help' lists" frobnicate
expect 2 "'weir help' lists" ''
expect 2 "'weir help' lists" aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
expect 2 "there is no verb" help frobnicate
expect 2 "unexpected argument 'now'" version now
expect 2 '^usage:'

# Every verb has a line in the list, a help of its own and a place in the manual.
for verb in $("$WEIR" help --verbs); do
	expect 0 "^  $verb " help
	expect 0 "^usage: weir $verb" "$verb" --help
	grep -q "^\.BR\{0,1\} *$verb" "$SOURCE/docs/man/weir.1" || {
		echo "docs/man/weir.1 does not tell about $verb"
		failures=$((failures + 1))
	}
done

# An answer that could not be written is a failure.
"$WEIR" help >/dev/full 2>/dev/null
[ $? -eq 1 ] || { echo "weir help into a full device succeeded" && failures=$((failures + 1)); }

# The completion asks the binary.
if command -v bash >/dev/null; then
	replies=$(bash -c '. "$SOURCE/completions/weir.bash"; COMP_WORDS=("$WEIR" ver); COMP_CWORD=1; _weir; echo "${COMPREPLY[*]}"')
	[ "$replies" = version ] || { echo "completion of 'ver' gave '$replies'" && failures=$((failures + 1)); }
fi
exit $((failures > 0))

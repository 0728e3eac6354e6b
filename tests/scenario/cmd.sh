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
# What other programs call it.
expect 2 "there is no verb 'reload'; .*kill -HUP PID$" reload
expect 2 "there is no verb '-v'; 'weir version' shows" -v
for verb in start run; do
	expect 2 "there is no verb '$verb'; 'weir sentry --to URL --p90 TIME' protects a service, 'weir serve" "$verb"
done
for verb in sentry serve; do
	expect 2 "unexpected argument '--target'; write the target as --p90 200ms, and the service as --to URL$" "$verb" --target 200ms
	expect 2 "unexpected argument '--port'; did you mean '--listen'?" "$verb" --port 80
done
for option in --port --port=7777 -p --admin --address --host; do
	expect 2 "unexpected argument '$option'; the address comes without an option, as 127.0.0.1:7777$" top "$option" 7777
done
expect 2 "unexpected argument '-d'; a body is --body TEXT or --body @FILE, and how long to send is --duration" load -d hello http://127.0.0.1:1/
expect 2 "unexpected argument '-D'; a body from a file is --body @FILE" load -D body http://127.0.0.1:1/
expect 2 "unexpected argument '--lisen'; did you mean '--listen'?" serve --lisen 127.0.0.1:1
expect 2 "unexpected argument '--lisen=x'; did you mean '--listen'?" sentry --lisen=x
expect 2 "did you mean '--seed'" sim --sede 1
expect 2 "did you mean '--token-file'" top --tokenfile x
expect 2 "unexpected argument '--frobnicate'; see 'weir top --help'" top --frobnicate
expect 2 "unexpected argument 'here'; see 'weir serve --help'" serve here
expect 2 "unexpected argument '--'; see" serve --
expect 2 "^weir sentry: --to: '127.0.0.1:9000': write http://HOST:PORT" sentry --to 127.0.0.1:9000
expect 2 "^weir sentry: --to: 'http://a/b': write it without the path" sentry --to http://a/b
expect 2 'name a folder with --root DIR.* or --demo' serve

# Every verb has a line in the list and a help of its own; manuals.py looks for its place in the manual.
for verb in $("$WEIR" help --verbs); do
	expect 0 "^  $verb " help
	expect 0 "^usage: weir $verb" "$verb" --help
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

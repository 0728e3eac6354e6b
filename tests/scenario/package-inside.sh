#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What tools/check-package runs in a system of its own, as root: the packages are installed, used, upgraded over themselves, removed and purged.
# /run/weir-test has the packages, and in `upper` what was changed in that system. Where systemd runs, so do the units.
set -eu
cd /run/weir-test
export DEBIAN_FRONTEND=noninteractive
ADDRESS=127.0.0.1:8080

fail() {
	echo "FAILED: $*"
	if [ -d /run/systemd/system ]; then
		journalctl --sync
		journalctl --no-pager --lines=40
	fi
	exit 1
}

say() {
	echo "-- $*"
}

# wait_for WHAT COMMAND...: until it succeeds; the bound is reached only by a failure.
wait_for() {
	what=$1
	shift
	for _ in $(seq 600); do
		"$@" >/dev/null 2>&1 && return 0
		sleep 0.1
	done
	fail "in vain: $what"
}

# What was changed, but for what dpkg, its triggers and a running system keep for themselves. Files only: a folder that was touched is copied.
changed() {
	find upper ! -type d | grep -v -e '^upper/var/lib/dpkg/' -e '^upper/var/log/dpkg.log' -e '^upper/var/cache/' -e '^upper/etc/ld.so.cache' \
		-e '^upper/var/lib/systemd/' -e '^upper/var/log/journal/' -e '^upper/etc/machine-id' -e '^upper/etc/.pwd.lock' -e '^upper/tmp/' \
		-e '^upper/var/log/lastlog' -e '^upper/var/lib/dbus/' | sort
}

# property NAME [UNIT]
property() {
	systemctl show --property="$1" --value "${2-weir.service}"
}

answers() {
	[ "$(curl -s -o /dev/null -m 10 -w '%{http_code}' "http://$ADDRESS/")" = 200 ]
}

# main_is_not PID [UNIT]
main_is_not() {
	[ "$(property MainPID "${2-weir.service}")" != "$1" ] && [ "$(property MainPID "${2-weir.service}")" != 0 ] && [ ! -e "/proc/$1" ]
}

# The same package with a higher version, so that it is an upgrade.
install_newer() {
	dpkg-deb -R packages/"$1"_*.deb newer
	sed -i 's/^Version: .*/&+1/' newer/DEBIAN/control
	dpkg-deb --root-owner-group -b newer newer.deb >/dev/null
	rm -r newer
	dpkg -i newer.deb
}

# ---- steps ----

installs() {
	say "installed"
	dpkg -i packages/weir_*.deb packages/weir-webmail_*.deb packages/libweir0_*.deb packages/libweir-dev_*.deb
	weir check /etc/weir/weir.conf
	[ -z "$(find /etc/systemd -name 'weir.*')" ] || fail "an installation enables a unit"
	man -w weir-sentry weir-webmail weir.conf weir_stage >/dev/null 2>&1 || [ -f /usr/share/man/man3/weir_stage.3.gz ] || fail "there are no manual pages"
	# A program that knows only what is installed.
	# shellcheck disable=SC2046 # flags are words
	cc -o hello /usr/share/doc/libweir-dev/examples/hello.c $(pkg-config --cflags --libs libweir)
	./hello >/dev/null
}

verifies() {
	command -v systemd-analyze >/dev/null || return 0
	say "units are right, and sandboxed"
	said=$(systemd-analyze verify weir.service weir.socket weir-webmail.service 2>&1) || fail "systemd-analyze verify: $said"
	[ -z "$said" ] || fail "systemd-analyze verify: $said"
	for unit in weir weir-webmail; do
		said=$(systemd-analyze security --offline=true --threshold=20 "/lib/systemd/system/$unit.service") || fail "$unit is more exposed than 2.0"
		echo "$said" | tail -n 1
	done
}

starts() {
	say "started"
	systemctl start dbus.service
	ip link set lo up
	cat >backend.py <<'END'
import http.server
import os
import time


class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        while self.path == "/slow" and not os.path.exists("release"):
            time.sleep(0.02)
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")


http.server.ThreadingHTTPServer(("127.0.0.1", 3000), Hello).serve_forever()
END
	python3 backend.py >/dev/null 2>&1 &
	wait_for "the backend" curl -sf http://127.0.0.1:3000/
	[ "$(systemctl is-active weir.service)" = inactive ] || fail "an installation starts the service"
	systemctl start weir.service || fail "the service does not start"
	wait_for "an answer" answers
	pid=$(property MainPID)
	is_sandboxed weir.service
}

is_sandboxed() {
	main=$(property MainPID "$1")
	[ "$(stat -c %u "/proc/$main")" -ne 0 ] || fail "it runs as root"
	grep -q '^Seccomp:.2' "/proc/$main/status" || fail "system calls are not filtered"
	! nsenter -t "$main" -m touch /usr/bin/intruder /etc/weir/intruder 2>/dev/null || fail "the file system can be written to"
	# Whether the sandbox lets it confine itself is in its log.
	! journalctl --no-pager -u "$1" | grep -e 'not confined' || fail "confined less than without the sandbox"
}

reloads() {
	say "reloaded"
	echo 'limit "all" { rate = 1000000/s }' >>/etc/weir/weir.conf
	systemctl reload weir.service || fail "a good file is not taken"
	wait_for "the new file" sh -c 'curl -s http://127.0.0.1:7777/metrics | grep -qx "weir_config_reloads_total 1"'
	cp /etc/weir/weir.conf good.conf
	echo 'limit "all" { rat = 1/s }' >>/etc/weir/weir.conf
	! systemctl reload weir.service 2>/dev/null || fail "a file with errors is taken"
	cp good.conf /etc/weir/weir.conf
	[ "$(property MainPID)" = "$pid" ] || fail "a reload restarts it"
	answers || fail "a failed reload does harm"
}

hand_over() {
	systemctl kill --kill-who=main --signal=USR2 weir.service
	wait_for "the successor" main_is_not "$pid"
	pid=$(property MainPID)
}

asks_on() {
	while [ -e going ]; do
		answers || echo failed
		echo asked
	done >asked
}

takes_over() {
	say "taken over"
	touch going
	asks_on &
	asker=$!
	hand_over
}

upgrades() {
	say "upgraded, while it runs"
	install_newer weir
	wait_for "the new binary" main_is_not "$pid"
	pid=$(property MainPID)
	cmp -s "/proc/$pid/exe" /usr/bin/weir || fail "the old binary runs on"
	rm going
	wait "$asker"
	[ "$(grep -c asked asked)" -gt 0 ] || fail "nobody asked"
	! grep -q failed asked || fail "requests failed: $(grep -c failed asked) of $(grep -c asked asked)"
	[ "$(property NRestarts) $(property ActiveState)" = "0 active" ] || fail "it was restarted"
	cmp good.conf /etc/weir/weir.conf || fail "an upgrade changes the configuration"
}

comes_back() {
	say "killed"
	kill -KILL "$pid"
	wait_for "another one" main_is_not "$pid"
	wait_for "an answer" answers
	[ "$(property NRestarts)" = 1 ] || fail "restarts: $(property NRestarts)"
	pid=$(property MainPID)
}

busy() {
	curl -s http://127.0.0.1:7777/metrics | grep -qx 'weir_http_busy 1'
}

is_over() {
	case $(property ActiveState) in
	inactive | failed) ;;
	*) return 1 ;;
	esac
}

not_ready() {
	! curl -sf http://127.0.0.1:7777/readyz
}

# After a takeover the main process is not what systemd started; it drains nevertheless.
is_stopped() {
	say "stopped, with a request under way"
	hand_over
	curl -s -m 60 "http://$ADDRESS/slow" >slow &
	slow=$!
	wait_for "the request" busy
	systemctl stop --no-block weir.service
	wait_for "the drain" not_ready
	touch release
	wait "$slow" || fail "stopping cuts a request off"
	[ "$(cat slow)" = hello ] || fail "the request got: $(cat slow)"
	wait_for "the end" test ! -e "/proc/$pid"
	wait_for "systemd to see it" is_over
	[ "$(property Result)" = success ] || fail "it does not end well: $(property Result)"
	systemctl start weir.service
	wait_for "an answer" answers
	pid=$(property MainPID)
}

is_activated() {
	say "activated by its socket"
	systemctl stop weir.service
	systemctl start weir.socket
	[ "$(systemctl is-active weir.service)" = inactive ] || fail "it was started by its socket alone"
	answers || fail "who comes first is not answered"
	[ "$(systemctl is-active weir.service)" = active ] || fail "the socket does not start it"
	# The address is systemd's: the service could not have bound it.
	pid=$(property MainPID)
	hand_over
	answers || fail "a successor does not have the socket"
}

# ---- the webmail ----

MAIL=/var/lib/weir-webmail

add_user() {
	echo "correct horse" | weir-webmail user add "$1" --data "$MAIL" || fail "a user cannot be added"
}

# logs_in NAME: and sees the inbox.
logs_in() {
	rm -f cookies
	curl -s -o /dev/null -c cookies -d "user=$1&password=correct horse" http://127.0.0.1:8025/login
	curl -sf -b cookies http://127.0.0.1:8025/folder/1 >inbox
}

# Users are added by root before the first start, while it runs, and while it is stopped.
mail_starts() {
	say "the webmail: started, with users and mail"
	[ "$(systemctl is-active weir-webmail.service)" = inactive ] || fail "an installation starts the webmail"
	add_user ann
	systemctl start weir-webmail.service || fail "the webmail does not start"
	add_user bob
	wait_for "ann" logs_in ann
	is_sandboxed weir-webmail.service
	systemctl stop weir-webmail.service
	add_user carl
	systemctl start weir-webmail.service
	for user in ann bob carl; do
		python3 -c 'import smtplib, sys
with smtplib.LMTP("127.0.0.1", 2424) as lmtp:
    lmtp.sendmail("x@example.org", [sys.argv[1] + "@example.org"], "Subject: for " + sys.argv[1] + "\r\n\r\nHello.\r\n")' "$user" || fail "mail for $user is not taken"
		wait_for "$user" logs_in "$user"
		grep -q "for $user" inbox || fail "$user does not see the mail"
	done
}

mail_goes_on() {
	say "the webmail: upgraded while it runs, killed, stopped"
	old=$(property MainPID weir-webmail.service)
	install_newer weir-webmail
	wait_for "the new binary" main_is_not "$old" weir-webmail.service
	wait_for "ann" logs_in ann
	cmp -s "/proc/$(property MainPID weir-webmail.service)/exe" /usr/bin/weir-webmail || fail "the old binary runs on"
	systemctl reload weir-webmail.service || fail "it cannot be reloaded"
	old=$(property MainPID weir-webmail.service)
	kill -KILL "$old"
	wait_for "another one" main_is_not "$old" weir-webmail.service
	wait_for "ann" logs_in ann
	grep -q "for ann" inbox || fail "mail is lost"
	systemctl stop weir-webmail.service
	[ "$(property Result weir-webmail.service)" = success ] || fail "the webmail does not end well"
	weir-webmail check --data "$MAIL" || fail "the database disagrees"
	systemctl start weir-webmail.service
}

removes() {
	say "removed"
	dpkg -r weir weir-webmail libweir-dev libweir0
	for file in weir.conf webmail.conf; do
		[ -f "/etc/weir/$file" ] || fail "removing it removes the configuration"
	done
	if [ -d /run/systemd/system ]; then
		[ -z "$(pidof weir weir-webmail)" ] || fail "a removed service runs on"
		[ "$(systemctl is-active weir.socket)" != active ] || fail "the socket of a removed service is there"
	fi
	say "purged"
	dpkg -P weir weir-webmail
	# The mail is the users', not the package's.
	if [ -d /run/systemd/system ]; then
		[ -f "$MAIL/mail.db" ] || fail "purging it removes the mail"
		rm -r "$(readlink -f "$MAIL")"
		rm "$MAIL"
	fi
	changed >after
	comm -13 before after >left
	[ ! -s left ] || fail "left behind: $(cat left)"
	[ -z "$(find /etc/weir /var/log/weir* /var/log/private/weir* 2>/dev/null)" ] || fail "folders are left behind"
}

[ ! -w /proc/sys/fs/protected_regular ] || fail "settings of the kernel can be changed"
# In a container, services are often not started or stopped by packages.
rm -f /usr/sbin/policy-rc.d
changed >before
installs
verifies
if [ -d /run/systemd/system ]; then
	starts
	reloads
	takes_over
	upgrades
	comes_back
	is_stopped
	is_activated
	mail_starts
	mail_goes_on
else
	say "there is no systemd here, so the units do not run"
	install_newer weir
	install_newer weir-webmail
fi
removes
echo "all is well"

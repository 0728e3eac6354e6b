# SPDX-License-Identifier: Apache-2.0
"""weir uplink on a pair of virtual devices, in a network namespace that the test makes: install, show, remove; whose qdisc is touched and
whose is not; which band packets go to; and a link that works after an install that was killed at any step. Needs root, ip and tc."""
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile

from weirlib import LONG, SANITIZED, SKIPPED, WEIR, expect, run, same

INSIDE = "WEIR_UPLINK_INSIDE"
DEVICE, PEER = "wu0", "wu1"
OTHER = socket.htons(0x88b5)  # the type of frames for local experiments
STEPS = 40  # more than an install has
state = None


def skip(why):
    print("skipped:", why)
    sys.exit(SKIPPED)


def enter():
    """Runs this script again in a namespace of its own."""
    if os.environ.get(INSIDE):
        return
    for program in ("ip", "tc", "unshare"):
        if not shutil.which(program):
            skip(f"there is no {program}")
    if os.geteuid() != 0 or subprocess.run(["unshare", "-n", "true"], check=False, capture_output=True).returncode:
        skip("making a network namespace needs root")
    os.execvpe("unshare", ["unshare", "-n", sys.executable, *sys.argv], {**os.environ, INSIDE: "1"})


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=LONG)


def tc(*words):
    return subprocess.run(["tc", *words], check=True, capture_output=True, text=True, timeout=LONG).stdout


def uplink(*words, before=(), env=None):
    return subprocess.run([*before, WEIR, "uplink", *words, "--state", state], capture_output=True, text=True, check=False, timeout=LONG,
                          env={**os.environ, **(env or {})})


def install(*words, **more):
    return uplink("install", DEVICE, *words, **more)


def remove(**more):
    return uplink("remove", DEVICE, **more)


def fresh():
    """Devices as the kernel makes them."""
    subprocess.run(["ip", "link", "del", DEVICE], check=False, capture_output=True, timeout=LONG)
    ip("link", "add", "name", DEVICE, "type", "veth", "peer", "name", PEER)
    for device in (DEVICE, PEER):
        ip("link", "set", "dev", device, "addrgenmode", "none")
        ip("link", "set", "dev", device, "up")
    shutil.rmtree(state, ignore_errors=True)


def link():
    found = subprocess.run(["ip", "-d", "-j", "link", "show", "dev", DEVICE], check=True, capture_output=True, text=True, timeout=LONG)
    return json.loads(found.stdout)[0]


def looks():
    """All that an install changes: the qdiscs, without their counters, and the limits of segments."""
    about = link()
    limits = [about.get(name) for name in ("gso_max_size", "gso_max_segs", "gso_ipv4_max_size")]
    return tc("qdisc", "show", "dev", DEVICE), tc("class", "show", "dev", DEVICE), limits


def send(priority, count=1):
    """Frames that the device sends; the other end sees them if the link works."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, OTHER) as sender:
        sender.bind((DEVICE, 0))
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, priority)
        for _ in range(count):
            sender.send(b"\xff" * 6 + b"\x02" + b"\0" * 5 + struct.pack("!H", 0x88b5) + b"weir" * 20)


def works(what):
    """Whether frames of every kind come through."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, OTHER) as receiver:
        receiver.bind((PEER, 0))
        receiver.settimeout(LONG)
        for priority in (0, 1, 6, 0x57520016, 0x57520012):
            send(priority)
            try:
                receiver.recv(2000)
            except TimeoutError:
                expect(False, f"{what}: a frame with the priority {priority:#x} did not come through")


def counted():
    """The packets of each band, and of other traffic."""
    shown = uplink("show", DEVICE).stdout
    return {name: int(packets) for name, packets in re.findall(r"^  (\d|other)\s+0(?:x\w+)?(?:, \d)?\s+(\d+)", shown, re.M)}


def test_install_show_remove():
    fresh()
    before = looks()
    expect("not installed" in uplink("show", DEVICE).stdout, "nothing is installed at first")
    done = install("--rate", "10mbit")
    same((done.returncode, done.stderr), (0, ""), "install")
    expect("installed by weir, 5 bands" in done.stdout and "9.8mbit" in done.stdout, f"what it says: {done.stdout}")
    same(link()["gso_max_size"], 1514, "segments are limited to a packet")
    works("installed")
    shown = uplink("show")
    expect(shown.stdout.startswith(DEVICE + ": installed by weir"), f"without a device all are shown: {shown.stdout}")
    expect(os.listdir(state), "what was there is in a file")
    done = remove()
    same((done.returncode, done.stderr), (0, ""), "remove")
    same(looks(), before, "everything is as it was")
    same(os.listdir(state), [], "no file is left")
    works("removed")
    same(uplink("show").stdout, "weir has installed nothing on any device\n", "show without a device")
    same(remove().returncode, 0, "a second remove")
    expect("nothing" in remove().stdout, "which says that there is nothing")


def test_again():
    """The same install changes nothing; another one replaces it, and what was there at first is restored."""
    fresh()
    before = looks()
    install("--rate", "10mbit")
    send(6, 3)
    first = looks()
    done = install("--rate", "10mbit")
    expect("already" in done.stdout, "the same again")
    same(counted()["0"], 3, "its counters go on")
    same(looks(), first, "nothing changed")
    done = install("--rate", "100mbit", "--bands", "8")
    same(done.returncode, 0, f"another rate: {done.stderr}")
    expect("8 bands" in done.stdout and "98mbit" in done.stdout, f"it is another: {done.stdout}")
    same(link()["gso_max_size"], 12500, "segments of a millisecond")
    install("--rate", "10gbit")
    same(link()["gso_max_size"], before[2][0], "a rate that needs no limit")
    works("changed")
    remove()
    same(looks(), before, "everything is as it was at first")


def test_bands():
    """SO_PRIORITY chooses the band: by class, and without a privilege by 6 to 1; all else is other traffic."""
    fresh()
    install("--rate", "100mbit")
    for priority, count in ((0, 2), (6, 3), (5, 4), (4, 5), (3, 6), (2, 7), (1, 8), (100, 1), (0x57510016, 1)):
        send(priority, count)
    same(counted(), {"0": 3, "1": 4, "2": 5, "3": 6, "4": 15, "other": 4}, "five bands by plain priorities")
    install("--rate", "100mbit", "--bands", "8")
    for band, nibble in enumerate((6, 5, 4, 3, 2, 1, 8, 9)):
        send(0x57520010 + nibble, band + 1)
    same(counted(), {**{str(band): band + 1 for band in range(8)}, "other": 0}, "eight bands by class")
    install("--rate", "100mbit")
    send(0x57520019, 2)
    same(counted()["4"], 2, "a class of a band that was not installed is in the last one")
    remove()


def test_order():
    """While the uplink is busy, a band overtakes those behind it."""
    fresh()
    install("--rate", "64kbit")
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, OTHER) as receiver:
        receiver.bind((PEER, 0))
        receiver.settimeout(LONG)
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, OTHER) as sender:
            sender.bind((DEVICE, 0))
            for priority, count in ((2, 40), (6, 10)):
                sender.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, priority)
                for _ in range(count):
                    sender.send(b"\xff" * 6 + b"\x02" + b"\0" * 5 + struct.pack("!HB", 0x88b5, priority) + b"x" * 300)
        came = [receiver.recv(2000)[14] for _ in range(50)]
    urgent = [at for at, priority in enumerate(came) if priority == 6]
    expect(urgent[-1] < 35, f"those of band 0 came at {urgent}, though 40 of band 4 were first")
    remove()


def test_foreign():
    """What somebody else has installed is refused and stays as it is."""
    for words in (("htb", "default", "1"), ("tbf", "rate", "1mbit", "burst", "10k", "latency", "10ms"), ("pfifo", "limit", "100")):
        fresh()
        tc("qdisc", "add", "dev", DEVICE, "root", "handle", "1:", *words)
        before = looks()
        done = install("--rate", "10mbit")
        same(done.returncode, 1, f"install over {words[0]}")
        expect("somebody else" in done.stderr and f"tc qdisc del dev {DEVICE} root" in done.stderr, f"what to do: {done.stderr}")
        expect("somebody else" in uplink("show", DEVICE).stdout, "show says so")
        same(looks(), before, "nothing changed")
        same(remove().returncode, 0, "remove")
        same(looks(), before, "remove leaves it alone")
    # Of the same kind of handle, and of another kind.
    fresh()
    tc("qdisc", "add", "dev", DEVICE, "root", "handle", "5752:", "pfifo", "limit", "100")
    same(install("--rate", "10mbit").returncode, 1, "our handle on a qdisc of another kind")


def test_replaced_meanwhile():
    """Somebody replaced our root: remove restores the limits and leaves the root."""
    fresh()
    before = looks()
    install("--rate", "10mbit")
    tc("qdisc", "replace", "dev", DEVICE, "root", "handle", "1:", "pfifo", "limit", "100")
    done = remove()
    same(done.returncode, 0, "remove")
    expect("somebody else" in done.stdout, f"it says so: {done.stdout}")
    same(looks()[2], before[2], "the limits are as they were")
    expect("pfifo 1:" in looks()[0], "the root stays")
    same(os.listdir(state), [], "no file is left")


def test_refused():
    fresh()
    before = looks()
    for words, status, says in ((("install", DEVICE, "--rate", "0"), 2, "from 64kbit to 100gbit"),
                                (("install", DEVICE, "--rate", "0mbit"), 2, "from 64kbit to 100gbit"),
                                (("install", DEVICE, "--rate", "63kbit"), 2, "from 64kbit to 100gbit"),
                                (("install", DEVICE, "--rate", "101gbit"), 2, "from 64kbit to 100gbit"),
                                (("install", DEVICE, "--rate", "10"), 2, "write a rate as 10mbit"),
                                (("install", DEVICE, "--rate", "10mb/s"), 2, "write a rate as 10mbit"),
                                (("install", DEVICE), 2, "--rate 10mbit"),
                                (("install", "--rate", "10mbit"), 2, "give the device"),
                                (("install", DEVICE, "--rate", "10mbit", "--bands", "6"), 2, "write 5 or 8"),
                                (("install", DEVICE, "more", "--rate", "10mbit"), 2, "unexpected argument 'more'"),
                                (("instal", DEVICE), 2, "write install"),
                                (("install", "no-such-dev", "--rate", "10mbit"), 1, "there is no device 'no-such-dev'; 'ip link'"),
                                (("install", "x" * 300, "--rate", "10mbit"), 1, "there is no device"),
                                (("show", "no-such-dev"), 1, "there is no device"),
                                (("remove", "no-such-dev"), 1, "there is no device"),
                                (("install", "lo", "--rate", "10mbit"), 1, "--force")):
        done = uplink(*words)
        same(done.returncode, status, f"{words}")
        expect(says in done.stderr, f"{words}: {done.stderr}")
    same(looks(), before, "nothing changed")
    expect(not os.path.exists(state) or not os.listdir(state), "nothing was written")


def test_loopback_by_force():
    ip("link", "set", "dev", "lo", "up")
    done = uplink("install", "lo", "--rate", "1gbit", "--force")
    same(done.returncode, 0, f"lo by force: {done.stderr}")
    same(uplink("remove", "lo").returncode, 0, "removed from lo")
    expect("not installed" in uplink("show", "lo").stdout, "it is gone")


def test_no_privilege():
    if not shutil.which("setpriv"):
        print("  no setpriv: not tested without privilege")
        return
    fresh()
    before = looks()
    drop = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all", "--bounding-set", "-all")
    with tempfile.TemporaryDirectory() as folder:
        weir = os.path.join(folder, "weir")  # where everybody may run it
        shutil.copy(WEIR, weir)
        os.chmod(folder, 0o755)
        for words in (("install", DEVICE, "--rate", "10mbit"), ("remove", DEVICE)):
            done = subprocess.run([*drop, weir, "uplink", *words], capture_output=True, text=True, check=False, timeout=LONG)
            same(done.returncode, 1, f"{words[0]} without privilege")
            expect("CAP_NET_ADMIN" in done.stderr, f"it names the capability: {done.stderr}")
        done = subprocess.run([*drop, weir, "uplink", "show", DEVICE], capture_output=True, text=True, check=False, timeout=LONG)
        same(done.returncode, 0, f"show needs none: {done.stderr}")
    same(looks(), before, "nothing changed")


def test_state_is_lost():
    """Remove restores without the file, and with one that is damaged or somebody else's."""
    def lost(path):
        os.remove(path)

    def damaged(path):
        with open(path, "w", encoding="ascii") as file:
            file.write("weir uplink 1\ngso-size -1\n")

    def writable(path):
        os.chmod(path, 0o666)

    for harm in (lost, damaged, writable):
        fresh()
        before = looks()
        install("--rate", "10mbit")
        harm(os.path.join(state, os.listdir(state)[0]))
        done = remove()
        same(done.returncode, 0, f"{harm.__name__}: remove: {done.stderr}")
        expect("not known" in done.stderr, f"{harm.__name__}: it says so: {done.stderr}")
        same(looks()[:2], before[:2], f"{harm.__name__}: the qdisc is as it was")
        same(looks()[2], before[2], f"{harm.__name__}: the usual limits, which are those of this device")


def test_state_cannot_be_kept():
    """Nothing is changed if what was there cannot be kept."""
    fresh()
    before = looks()
    os.mkdir(state, 0o777)
    os.chmod(state, 0o777)
    done = install("--rate", "10mbit")
    same(done.returncode, 1, "a folder that others may write to")
    expect("chmod go-w" in done.stderr, f"what to do: {done.stderr}")
    same(looks(), before, "nothing changed")


def test_failed_change():
    """An install that the kernel refuses leaves the earlier one: here a scheduler that the kernel may not have."""
    fresh()
    before = looks()
    done = install("--rate", "10mbit", "--scheduler", "prio")
    if done.returncode == 0:
        expect("prio" in done.stdout, "this kernel has prio")
        works("prio")
        remove()
        return
    expect("sch_prio" in done.stderr, f"what to do: {done.stderr}")
    same(looks(), before, "nothing is left of it")
    same(os.listdir(state), [], "no file is left")
    install("--rate", "10mbit", "--bands", "8")
    earlier = looks()
    same(install("--rate", "20mbit", "--scheduler", "prio").returncode, 1, "a change that fails")
    same(sorted(looks()[1].splitlines()), sorted(earlier[1].splitlines()), "the earlier classes are there again")
    same(looks()[2], earlier[2], "and the earlier limits")
    expect("already" in install("--rate", "10mbit", "--bands", "8").stdout, "it is whole")
    remove()
    same(looks(), before, "everything is as it was")


def test_two_at_once():
    """A second process is refused while one is at work."""
    import fcntl
    fresh()
    os.mkdir(state, 0o755)
    folder = os.open(state, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    done = install("--rate", "10mbit")
    same(done.returncode, 1, "install while another is at work")
    expect("another weir uplink" in done.stderr, f"it says so: {done.stderr}")
    os.close(folder)
    same(install("--rate", "10mbit").returncode, 0, "and after it")
    remove()


def injected(fault, *words):
    """A command under strace, with a fault in its system calls."""
    trace = ("strace", "-f", "-o", "/dev/null", "-e", "trace=sendto,bpf", "-e", f"inject={fault}")
    return uplink(*words, before=trace, env={"ASAN_OPTIONS": "detect_leaks=0"})


def killed(step, *words):
    """A command that is killed when it sends its step-th message; whether it was."""
    return injected(f"sendto:signal=SIGKILL:when={step}", *words).returncode != 0


def no_faults():
    """Whether there is no way to make system calls fail."""
    fresh()
    if shutil.which("strace") and killed(1, "show", DEVICE):
        return False
    print("  no strace that can inject faults: not tested")
    return True


def test_failing():
    """The kernel refuses one message, whichever: what was done is taken back, or it was one that can be done without."""
    if no_faults():
        return
    before = looks()
    refused = 0
    for step in range(1, STEPS, 3 if SANITIZED else 1):
        done = injected(f"sendto:error=ENOBUFS:when={step}", "install", DEVICE, "--rate", "10mbit")
        if done.returncode == 0:
            works(f"step {step} failed")
            same(remove().returncode, 0, f"step {step} failed: remove")
        else:
            refused += 1
            expect(done.stderr.startswith("weir uplink: "), f"step {step} failed: {done.stderr}")
            same(os.listdir(state) if os.path.exists(state) else [], [], f"step {step} failed: no file is left")
        if not same(looks(), before, f"step {step} failed: everything is as it was"):
            fresh()
    expect(refused > 3, f"only {refused} steps failed")


def test_no_filter():
    """Without the right to load the filter, classes choose a band and plain priorities do not; show says so."""
    if no_faults():
        return
    done = injected("bpf:error=EPERM", "install", DEVICE, "--rate", "100mbit")
    same(done.returncode, 0, f"install without the filter: {done.stderr}")
    expect("choose no band" in done.stdout and "(htb)" in done.stdout, f"it says so: {done.stdout}")
    send(6, 2)
    send(0x57520016, 3)
    same((counted()["0"], counted()["other"]), (3, 2), "band 0, and other traffic")
    remove()


def test_killed():
    """kill -9 at every step of an install, a change and a remove: the link works, and remove and install both still do what they say."""
    if no_faults():
        return
    before = looks()
    stride = 3 if SANITIZED else 1
    for name, prepared, words in (("install", None, ("install", DEVICE, "--rate", "10mbit")),
                                  ("change", ("--rate", "20mbit", "--bands", "8"), ("install", DEVICE, "--rate", "10mbit")),
                                  ("remove", ("--rate", "10mbit"), ("remove", DEVICE))):
        for step in range(1, STEPS, stride):
            if prepared:
                install(*prepared)
            if not killed(step, *words):
                remove()
                break
            works(f"{name} killed at {step}")
            if step % 2 == 0:
                done = install("--rate", "10mbit")
                same(done.returncode, 0, f"{name} killed at {step}: install again: {done.stderr}")
                expect("5 bands" in done.stdout and "not to the end" not in done.stdout, f"{name} killed at {step}: it is whole")
            same(remove().returncode, 0, f"{name} killed at {step}: remove")
            if not same(looks(), before, f"{name} killed at {step}: everything is as it was"):
                fresh()
        expect(step > 3, f"{name}: only {step} steps were seen")


enter()
with tempfile.TemporaryDirectory() as top:
    state = os.path.join(top, "state")
    run(test_install_show_remove, test_again, test_bands, test_order, test_foreign, test_replaced_meanwhile, test_refused,
        test_loopback_by_force, test_no_privilege, test_state_is_lost, test_state_cannot_be_kept, test_failed_change, test_two_at_once,
        test_failing, test_no_filter, test_killed)

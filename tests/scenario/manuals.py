#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Manual pages and completions against the binary: every verb, flag and key is there, none is that does not exist, pages are without
warnings, and the completions work in those of the shells that are installed."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

WEIR, SOURCE = os.environ["WEIR"], os.environ["SOURCE"]
# Pages of section 3 are made when the library is built.
MAN3, LIBRARY = os.environ["MAN3"], os.environ["LIBRARY"]
MAN = os.path.join(SOURCE, "docs/man")
FLAG = r"(?<![\w[-])(?:--[a-z][a-z0-9-]*|-[a-zA-Z]\b)"
failures = 0


def expect(good, text):
    global failures
    if not good:
        failures += 1
        print(text)


def ask(*words):
    return subprocess.run([WEIR, *words], check=True, capture_output=True, text=True).stdout


def read(path):
    with open(os.path.join(SOURCE, path)) as file:
        return file.read()


def pages():
    return [os.path.join(MAN, name) for name in sorted(os.listdir(MAN))]


def plain(path):
    """A page's text without what roff makes of it."""
    text = re.sub(r"\\f.", "", read(path)).replace("\\-", "-").replace("\\(aq", "'").replace("\\e", "\\")
    return re.sub(r'^\.\\".*$|^\.(?:BR?|BI|IR?|RB|IB|SS) ', "", text, flags=re.M)


VERBS = ask("help", "--verbs").split()
# Of the first column alone, by which a flag that is only mentioned is no option.
OPTIONS = {verb: set(re.findall(FLAG, "\n".join(re.findall(r"^  (-\S+(?: \S+, --\S+)?)", ask(verb, "--help"), re.M)))) for verb in VERBS}
ALWAYS = {"--help", "--version", "--verbs"}


def test_pages_know_what_the_help_does():
    for verb in VERBS:
        path = "docs/man/weir-%s.1" % verb
        if verb in ("help", "version"):
            path = "docs/man/weir.1"
        text = plain(path)
        found = set(re.findall(FLAG, text))
        expect(OPTIONS[verb] <= found, "%s lacks %s" % (path, sorted(OPTIONS[verb] - found)))
        known = set().union(*OPTIONS.values(), ALWAYS) if verb != "load" else OPTIONS[verb]
        expect(found <= known, "%s has what there is not: %s" % (path, sorted(found - known)))
        options = re.search(r"^\.SH OPTIONS\n(.*?)^\.SH ", text, re.M | re.S)
        described = set(re.findall(r"^\.TP\n(?:.*?, )?(-\S+)", options.group(1), re.M)) if options else set()
        expect(verb in ("help", "version") or described <= OPTIONS[verb], "%s describes %s" % (path, sorted(described - OPTIONS[verb])))
        expect("weir %s" % verb in plain("docs/man/weir.1") or "weir-%s" % verb in plain("docs/man/weir.1"), "weir.1 lacks %s" % verb)
    for path in pages():
        for section in ["NAME", "EXIT STATUS", "EXAMPLES", "SEE ALSO"] + (["FILES", "SIGNALS"] if os.path.basename(path) != "weir.1" else []):
            expect("\n.SH %s\n" % section in read(path), "%s has no %s" % (path, section))


def sections(text):
    """Of `weir check --list` and the like, or of a page: the keys of each block or section, by its name."""
    found, name = {}, None
    for line in text.splitlines():
        heading = re.match(r"(?:\.SS )?(\[\w+|[a-z]+)(?: NAME| TIME)?(?:\]| \"?TITLE\"?(?: \{.*)?| \{.*|)$", line)
        key = re.match(r"  ([a-z][a-z0-9_-]*) {2,}\S|([a-z][a-z0-9_-]*) = ", line) or re.match(r"  ([a-z][a-z0-9_-]{19,}) \S", line)
        if heading and not line.startswith(" "):
            name = heading.group(1)
            found.setdefault(name, [])
        elif key and name:
            found[name].append(key.group(1) or key.group(2))
    return found


def test_every_key_is_in_the_page():
    for page, chapter, words in (("weir.conf.5", "BLOCKS AND KEYS", ("check", "--list")), ("weir-sim.1", "SCENARIOS", ("sim", "--keys")), ("weir-load.1", "MODELS", ("load", "--keys"))):
        keys = sections(ask(*words))
        there = sections(plain("docs/man/" + page).split(".SH %s\n" % chapter)[1].split("\n.SH ")[0])
        expect(len(keys) >= 3 and sum(map(len, keys.values())) >= 12, "weir %s was not understood: %s" % (" ".join(words), keys))
        for name in keys:
            expect(keys[name] == there.get(name), "%s, %s: %s instead of %s" % (page, name, there.get(name), keys[name]))


def test_every_key_is_in_the_documents():
    """The tables of the documents, compared with what the program explains, and not with what makes them."""
    for document, words in (("config.md", ("check", "--list")), ("sim.md", ("sim", "--keys")), ("load-models.md", ("load", "--keys"))):
        made = read("docs/" + document).split("<!-- keys -->")[1].split("<!-- /keys -->")[0]
        there = {re.match(r"`(\[?\w+)", part).group(1): re.findall(r"^\| `([^`]+)`", part, re.M) for part in made.split("### ")[1:]}
        keys = sections(ask(*words))
        expect(keys == there, "docs/%s: %s instead of %s" % (document, there, keys))
    options = re.findall(r"^\| `(--[a-z0-9-]+|-[a-zA-Z]\b)", read("docs/load.md"), re.M)
    expect(set(options) == OPTIONS["load"], "docs/load.md: %s" % sorted(set(options) ^ OPTIONS["load"]))


def test_made_parts_are_new():
    done = subprocess.run([sys.executable, os.path.join(SOURCE, "tools/manuals"), WEIR, "--check"], capture_output=True, text=True)
    expect(done.returncode == 0, done.stdout + done.stderr)


def test_pages_without_warnings():
    checks = [["mandoc", "-T", "lint", "-W", "warning"], ["groff", "-man", "-ww", "-z", "-T", "utf8", "-K", "utf8"]]
    for path in pages() + api_pages():
        for command in checks:
            if shutil.which(command[0]) is None:
                continue
            done = subprocess.run([*command, path], capture_output=True, text=True)
            expect(not done.stdout + done.stderr, "%s: %s" % (" ".join(command), done.stdout + done.stderr))


# ---- section 3, from the headers ----


def api_pages():
    return [os.path.join(MAN3, name) for name in sorted(os.listdir(MAN3)) if name.endswith(".3")]


def test_every_function_has_its_entry():
    symbols = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], check=True, capture_output=True, text=True).stdout
    exported = set(re.findall(r"^\S+ [A-Z] (weir_\w+)", symbols, re.M))  # a small letter: not exported after all
    expect(len(exported) > 200, "nm was not understood: %s" % symbols)
    named, entries = set(), set()
    for path in api_pages():
        text = read(path)
        names = re.search(r"^\.SH NAME\n(.*?) \\- \S", text, re.M | re.S).group(1).split(", ")
        expect(names[0] == os.path.basename(path)[:-2], "%s is called %s" % (path, names[0]))
        named.update(names[1:])
        # An entry has a declaration and at least a sentence; a variable is in the code of its type.
        for declaration in re.findall(r"^\.TP\n\\fB(.*)\\fR\n[^.\s]", text, re.M):
            entries.add(re.search(r"(\w+)\(", declaration).group(1))
        entries.update(re.findall(r"^extern const .*?(weir_\w+);$", text, re.M))
        for section in ("LIBRARY", "SYNOPSIS", "DESCRIPTION", "SEE ALSO"):
            expect("\n.SH %s\n" % section in text, "%s has no %s" % (path, section))
    expect(exported <= named, "without a page: %s" % sorted(exported - named))
    expect(named <= entries, "without an entry: %s" % sorted(named - entries))


def test_every_header_has_its_page():
    headers = {name[:-2] for name in os.listdir(os.path.join(SOURCE, "include/weir"))}
    there = {os.path.basename(path)[:-2] for path in api_pages()}
    wanted = {"weir" if name == "weir" else "weir_" + name for name in headers}
    expect(there == wanted, "pages of section 3: %s" % sorted(there ^ wanted))
    parts = set(re.findall(r"^\.TP\n\.BR (\w+) \(3\)\n\S", read(os.path.join(MAN3, "weir.3")), re.M))
    expect(parts == wanted - {"weir"}, "weir.3: %s" % sorted(parts ^ (wanted - {"weir"})))


def test_a_function_without_a_comment_is_told():
    tool = os.path.join(SOURCE, "tools/api-manuals")
    with tempfile.TemporaryDirectory() as folder:
        header = os.path.join(folder, "odd.h")
        with open(header, "w") as file:
            file.write("/* What it is for. */\n\n/* Does this. */\nWEIR_API int weir_good(void);\n\nWEIR_API int weir_bare(int a,\n\t\t\tint b);\n")
        done = subprocess.run([sys.executable, tool, "1", folder, header], capture_output=True, text=True)
        expect(done.returncode != 0 and done.stderr.endswith("odd.h: without a comment: weir_bare\n"), "%s: %s" % (done.returncode, done.stderr))


# ---- completions ----


def folder_with_weir():
    folder = tempfile.mkdtemp()
    os.symlink(WEIR, os.path.join(folder, "weir"))
    return folder


def complete_bash(line):
    words = line.split(" ")
    script = '. "$SOURCE/completions/weir.bash"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _weir; printf "%s\\n" "${COMPREPLY[@]}"'
    return subprocess.run(["bash", "-c", script, "bash", *words], capture_output=True, text=True).stdout.split()


def complete_fish(line):
    script = 'source $SOURCE/completions/weir.fish; complete -C "%s"' % line
    out = subprocess.run(["fish", "--no-config", "-c", script], capture_output=True, text=True).stdout
    return [row.split("\t")[0] for row in out.splitlines()]


# A zsh in a terminal of its own is asked, as a user would with the tab key; what it would add is told instead of shown.
ZSH = r"""
zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z "PS1=; fpath=($SOURCE/completions \$fpath); autoload -U compinit; compinit -u -D"
zpty -w z 'compadd() {
  if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)* ]]; then builtin compadd "$@"; return $?; fi
  local -a __hits; builtin compadd -A __hits "$@"; builtin compadd "$@"; print -rl -- "<hit>"${^__hits}"</hit>" >>'$OUT'
}'
zpty -w z "zstyle ':completion:*' menu no; setopt no_list_beep; bindkey '^I' complete-word; done_() { print '<done>' >>$OUT; zle kill-whole-line }; zle -N done_; bindkey '^X' done_; print up >>$OUT"
while [[ ! -s $OUT ]] { zpty -r -t z || : }
zpty -w -n z "$LINE"$'\t\x18'
while ! grep -q '<done>' $OUT; do zpty -r -t z; done >/dev/null
zpty -d z
"""


def complete_zsh(line):
    with tempfile.NamedTemporaryFile() as out:
        subprocess.run(["zsh", "-f", "-c", ZSH], env={**os.environ, "OUT": out.name, "LINE": line, "TERM": "dumb"}, capture_output=True, timeout=60)
        return re.findall(r"<hit>(.*?)</hit>", out.read().decode())


SHELLS = {"bash": complete_bash, "fish": complete_fish, "zsh": complete_zsh}


def test_completions_in_text():
    zsh, fish = read("completions/_weir"), read("completions/weir.fish")
    for verb in VERBS:
        expect("'%s:" % verb in zsh, "_weir lacks %s" % verb)
        expect(" -a %s -d " % verb in fish, "weir.fish lacks %s" % verb)
        of_zsh = re.search(r"^\t%s\)\n(.*?);;" % verb, zsh, re.M | re.S).group(1)
        of_zsh = set(re.findall(r"'\*?(--?[a-zA-Z0-9-]+)\[", of_zsh)) - {"--help"}
        of_fish = re.findall(r"^complete -c weir -n '__fish_seen_subcommand_from (?:[a-z ]* )?%s(?: [a-z ]*)?' -([ls]) (\S+)" % verb, fish, re.M)
        of_fish = {("--" if kind == "l" else "-") + name for kind, name in of_fish} - {"--help"}
        expect(of_zsh == OPTIONS[verb], "_weir, %s: %s" % (verb, sorted(of_zsh ^ OPTIONS[verb])))
        expect(of_fish == OPTIONS[verb], "weir.fish, %s: %s" % (verb, sorted(of_fish ^ OPTIONS[verb])))


def test_completions_at_work():
    folder = folder_with_weir()
    os.environ["PATH"] = folder + ":" + os.environ["PATH"]
    for shell, complete in SHELLS.items():
        if shutil.which(shell) is None:
            print("there is no", shell)
            continue
        found = set(complete("weir "))
        expect(found == set(VERBS), "%s: verbs: %s" % (shell, sorted(found)))
        for verb in VERBS:
            wanted = {flag for flag in OPTIONS[verb] if flag.startswith("--")} | {"--help"}
            found = set(complete("weir %s --" % verb))
            expect(found == wanted, "%s: weir %s --: %s" % (shell, verb, sorted(found ^ wanted)))
        found = set(complete("weir sim --law aim"))
        expect(found == {"aimd"}, "%s: laws: %s" % (shell, sorted(found)))
        found = set(complete("weir check --explain li"))
        expect(found == {"listen", "limit", "limits"}, "%s: blocks: %s" % (shell, sorted(found)))
        found = set(complete("weir help s"))
        expect(found == {"sentry", "serve", "sim"}, "%s: weir help s: %s" % (shell, sorted(found)))
    shutil.rmtree(folder)


for name, test in sorted(globals().copy().items()):
    if name.startswith("test_"):
        test()
sys.exit(failures > 0)

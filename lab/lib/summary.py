# SPDX-License-Identifier: Apache-2.0
"""docs/results/lab.md: a table of all experiments, and a section for each, between marks; a run replaces its own section and leaves the others as they are."""
import os
import re

from lab.lib import experiments, page

HEAD = """# Results of the lab

The papers' experiments, run again here by `./dev lab all`. Each section is written by its experiment and says when and where. Whether
a claim holds is computed from the data by the rule that the experiment states (`lab/NAME/experiment.py`). What anybody would expect, such as
that no control is bad, is marked and does not count towards a verdict ([../lab.md](../lab.md#how-a-verdict-is-reached)). The simulated halves
have services and users of their own (threads, think and waiting times), so their figures differ from those of [../laws/papers.md](../laws/papers.md).

Claims: how many of those that count hold, and how many that do not count are not as expected, which keeps a verdict from being "holds". Quiet: whether other programs left the machine alone, and the load generator kept up. Data: `lab-data/` has what was measured,
so that `./dev lab NAME --again` judges it again; sections without data were judged by the rules of their day.
"""
SECTION = re.compile(r"<!-- ([a-z0-9-]+) -->\n(.*?)\n<!-- /\1 -->", re.DOTALL)
TITLE = re.compile(r"## (.*)\n\n\*\*(.*?)\*\* \(`[^`]*`, ([0-9-]+)")


def markdown_table(item):
    def line(cells):
        return "| " + " | ".join(page.cell(value).replace("|", "\\|") for value in cells) + " |"
    parts = [f"**{item['title']}**", "", line(item["headings"]), line(["---"] * len(item["headings"]))] + [line(row) for row in item["rows"]]
    return "\n".join(parts + (["", item["note"]] if item["note"] else []))


def section(experiment, run, claims, tables):
    parts = [f"## {experiment.TITLE}", "", f"**{experiments.verdict(claims)}** (`./dev lab {experiment.NAME}{' --full' if run['mode'] == 'full' else ''}`, "
             f"{page.when(run)})", ""]
    parts += [f"- {experiments.answer(item)}: {item['text']}: {item['seen']}" for item in claims]
    for item in tables:
        parts += ["", markdown_table(item)]
    if run["notes"]:
        parts += [""] + [f"- note: {note}" for note in run["notes"]]
    return "\n".join(parts)


def quiet(text):
    """By the notes of a section: whether anything disturbed the run, and what."""
    found = re.findall(r"^- note: other programs used (most|\d+ %)", text, re.MULTILINE)
    words = [f"others used {'most' if 'most' in found else max(found, key=lambda share: int(share.split()[0]))} of the machine"] if found else []
    if re.search(r"^- note: .*(fell behind|late by more than)", text, re.MULTILINE):
        words.append("the generator was late")
    return f"no: {', '.join(words)}" if words else "yes"


def anchor(title):
    """A heading's, as those who show Markdown make it."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def row(name, text, kept):
    title, verdict, date = TITLE.match(text).groups()
    counting, odd, file = re.findall(r"^- (yes|NO): ", text, re.MULTILINE), len(re.findall(r"^- NO, though expected: ", text, re.MULTILINE)), kept(name)
    claims = f"{counting.count('yes')} of {len(counting)}" + (f"; {odd} not as expected" if odd else "")
    return f"| [{name}](#{anchor(title)}) | {verdict} | {claims} | {date} | {quiet(text)} | {f'[yes](lab-data/{file})' if file else 'none'} |"


def index(sections, kept):
    """One row an experiment; kept(name): the name of the file with its data, or ""."""
    rows = [row(name, text, kept) for name, text in sorted(sections.items())]
    return "\n".join(["| experiment | verdict | claims | date | quiet | data |", "|---|---|---|---|---|---|", *rows]) + "\n"


def replaced(text, name, new, kept):
    """The document with this section in it, in alphabetical order of the names."""
    sections = {**dict(SECTION.findall(text)), name: new}
    return HEAD + "\n" + index(sections, kept) + "".join(f"\n<!-- {key} -->\n{sections[key]}\n<!-- /{key} -->\n" for key in sorted(sections))


def replace(path, name, new, kept):
    text = ""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            text = file.read()
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(replaced(text, name, new, kept))
    os.replace(path + ".new", path)

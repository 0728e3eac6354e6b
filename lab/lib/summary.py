# SPDX-License-Identifier: Apache-2.0
"""docs/results/lab.md: a section for each experiment, between marks; a run replaces its own and leaves the others as they are."""
import os
import re

from lab.lib import experiments, page

HEAD = """# Results of the lab

The papers' experiments, run again here by `./dev lab all`. Each section is written by its experiment and says when and where. Whether
a claim holds is computed from the data by the rule that the experiment states (`lab/NAME/experiment.py`). The simulated halves
have services and users of their own (threads, think and waiting times), so their figures differ from those of [../laws/papers.md](../laws/papers.md).
"""


def markdown_table(item):
    def line(cells):
        return "| " + " | ".join(page.cell(value).replace("|", "\\|") for value in cells) + " |"
    parts = [f"**{item['title']}**", "", line(item["headings"]), line(["---"] * len(item["headings"]))] + [line(row) for row in item["rows"]]
    return "\n".join(parts + (["", item["note"]] if item["note"] else []))


def section(experiment, run, claims, tables, notes):
    parts = [f"## {experiment.TITLE}", "", f"**{experiments.verdict(claims)}** (`./dev lab {experiment.NAME}{' --full' if run['mode'] == 'full' else ''}`, "
             f"{page.when(run)})", ""]
    parts += [f"- {'yes' if item['holds'] else 'NO'}: {item['text']}: {item['seen']}" for item in claims]
    for item in tables:
        parts += ["", markdown_table(item)]
    if notes:
        parts += [""] + [f"- note: {note}" for note in notes]
    return "\n".join(parts)


def replaced(text, name, new):
    """The document with this section in it: in its place, or in alphabetical order of the names."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    sections = dict(re.findall(r"<!-- ([a-z0-9-]+) -->\n(.*?)\n<!-- /\1 -->", text, re.DOTALL))
    sections[name] = new
    if begin in text and end in text:
        before, _, rest = text.partition(begin)
        return before + begin + "\n" + new + "\n" + end + rest.partition(end)[2]
    return HEAD + "".join(f"\n<!-- {key} -->\n{sections[key]}\n<!-- /{key} -->\n" for key in sorted(sections))


def replace(path, name, new):
    text = ""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            text = file.read()
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(replaced(text, name, new))
    os.replace(path + ".new", path)

# SPDX-License-Identifier: Apache-2.0
"""The page of an experiment, and the page of all: HTML that needs nothing else, plots inside."""
import html
import json
import os
import re

from lib.rows import number

from lab.lib import experiments

STYLE = """body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; background: #fff }
h1 { font-size: 1.6rem; line-height: 1.2 } h2 { font-size: 1.1rem; margin-top: 2rem }
table { border-collapse: collapse; margin: .5rem 0; font-size: .92rem } th, td { padding: .3rem .7rem; border-bottom: 1px solid #ddd; text-align: right }
td { white-space: nowrap } td.long { white-space: normal } th:first-child, td:first-child { text-align: left } th { border-bottom: 2px solid #999 } tr.paper { background: #f4efe3 }
.wide { overflow-x: auto } .verdict { display: inline-block; padding: .2rem .8rem; border-radius: 1rem; color: #fff; font-weight: 600 }
.holds { background: #2f7d4f } .part { background: #a36a00 } .not { background: #a8322d } .faint { color: #666; font-size: .9rem }
figure { margin: 1rem 0 } figure svg { max-width: 100%; height: auto } li.yes::marker { content: "\\2713  "; color: #2f7d4f } li.no::marker { content: "\\2717  "; color: #a8322d }
"""
MARKS = {experiments.HOLDS: "holds", experiments.IN_PART: "part", experiments.DOES_NOT: "not", experiments.NOT_JUDGED: "part"}


def cell(value):
    """A cell as text: numbers as people read them, nothing for None."""
    if value is None:
        return ""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return number(float(value))
    return str(value)


def safe(value):
    return html.escape(cell(value))


def prose(text):
    """Words between backticks are code."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", html.escape(" ".join(text.split())))


def paragraphs(text):
    return "".join(f"<p>{prose(part)}</p>" for part in text.strip().split("\n\n"))


def data_cell(value):
    return f"<td{' class=long' if len(cell(value)) > 30 else ''}>{safe(value)}</td>"


def table(item):
    rows = [f'<tr{" class=paper" if cell(row[0]).startswith("paper") else ""}>' + "".join(map(data_cell, row)) + "</tr>"
            for row in item["rows"]]
    return (f"<h2>{safe(item['title'])}</h2><div class=wide><table><tr>" + "".join(f"<th>{safe(value)}</th>" for value in item["headings"]) +
            "</tr>" + "".join(rows) + "</table></div>" + (f'<p class=faint>{safe(item["note"])}</p>' if item["note"] else ""))


def picture(folder, title, name):
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        svg = file.read()
    return f"<figure aria-label=\"{html.escape(title)}\">{svg[svg.index('<svg'):]}</figure>"


def claims_list(claims):
    """Those that do not count say so."""
    return "<ul>" + "".join(f'<li class={"yes" if item["holds"] else "no"}>{"" if item["counts"] else f"<i>{experiments.answer(item)}:</i> "}{safe(item["text"])}: <b>{safe(item["seen"])}</b></li>'
                            for item in claims) + "</ul>"


def when(run):
    text = f"{run['date']}, {run['seconds']:.0f} s. {run['machine']}."
    return text + {"quick": " A quick run: it shows that this works, and its numbers mean nothing.", "full": " With the paper's durations.",
                   "default": ""}[run["mode"]]


def badge(verdict):
    return f'<span class="verdict {MARKS[verdict]}">{html.escape(verdict)}</span>'


def document(title, body):
    return (f'<!doctype html>\n<html lang=en><meta charset=utf-8><meta name=viewport content="width=device-width"><title>{html.escape(title)}</title>'
            f"<style>{STYLE}</style>\n<body>{body}</body></html>\n")


def write(folder, experiment, run, claims, tables, pictures, notes):
    verdict = experiments.verdict(claims)
    body = [f"<p class=faint><a href=../index.html>all experiments</a></p><h1>{safe(experiment.TITLE)}</h1><p>{badge(verdict)}</p>",
            f"<p class=faint>{safe(when(run))}</p>", "<h2>What the paper says, and what is seen here</h2>", claims_list(claims)]
    body += [table(item) for item in tables]
    body += [picture(folder, title, name) for title, name in pictures]
    body += ["<h2>The paper</h2>", paragraphs(experiment.PAPER), "<h2>Ours</h2>", paragraphs(experiment.OURS),
             "<h2>How the verdict comes about</h2>", paragraphs(experiment.RULE)]
    if notes:
        body.append("<h2>Notes</h2><ul>" + "".join(f"<li>{safe(note)}</li>" for note in notes) + "</ul>")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "index.html"), "w", encoding="utf-8") as file:
        file.write(document(experiment.TITLE, "\n".join(body)))
    with open(os.path.join(folder, "verdict.json"), "w", encoding="utf-8") as file:
        json.dump({"title": experiment.TITLE, "verdict": verdict, "when": when(run), "held": experiments.held(claims)}, file)


def write_index(results):
    """A page with all experiments that have been run, also earlier; its path."""
    os.makedirs(results, exist_ok=True)
    rows = []
    for name in sorted(os.listdir(results)):
        try:
            with open(os.path.join(results, name, "verdict.json"), encoding="utf-8") as file:
                found = json.load(file)
        except (OSError, ValueError):
            continue
        rows.append(f'<tr><td><a href="{name}/index.html">{html.escape(found["title"])}</a></td><td>{badge(found["verdict"])}</td>'
                    f'<td>{found["held"]}</td><td>{re.split(r"[,.] ", found["when"])[0]}</td></tr>')
    path = os.path.join(results, "index.html")
    with open(path, "w", encoding="utf-8") as file:
        file.write(document("The papers' experiments", "<h1>The papers' experiments</h1><table><tr><th>experiment</th><th>verdict</th>"
                            "<th>claims</th><th>date</th></tr>" + "".join(rows) + "</table>"))
    return path

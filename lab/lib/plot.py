# SPDX-License-Identifier: Apache-2.0
"""Plots by gnuplot, as SVG."""
import os
import re
import shutil
import subprocess

COLOURS = ("#1b6ca8", "#c8553d", "#3a7d44", "#8a5a9e", "#b08900", "#555555")


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', "'") + '"'


def identifier(name):
    """Names within the SVG begin with it, so that several fit into one page; gnuplot takes letters, digits and underscores."""
    return "p_" + re.sub(r"[^a-zA-Z0-9]", "_", name)


def script(plot, path):
    """What gnuplot is told; the points go along in it."""
    lines = [f"set terminal svg size 760,380 dynamic font 'sans-serif,13' background '#ffffff' name {quoted(identifier(plot['name']))}",
             f"set output {quoted(path)}", "set datafile separator ' '", "set termoption noenhanced",
             f"set title {quoted(plot['title'])}", f"set xlabel {quoted(plot['x'])} offset 0,0.4", f"set ylabel {quoted(plot['y'])}",
             "set grid lc rgb '#dddddd'", "set key outside below height 1", "set border 3", "set tics nomirror"]
    lines += [f"set logscale {axis}" for axis in "xy" if plot["log_" + axis]]
    if not plot["log_y"]:
        lines.append("set yrange [0:*]")
    curves = []
    for number, (title, points) in enumerate(plot["lines"]):
        lines += [f"$d{number} << EOD", *(f"{x:g} {y:g}" for x, y in points), "EOD"]
        style = "linespoints pt 7 ps 0.5" if len(points) <= 30 else "lines"
        curves.append(f"$d{number} with {style} lw 2 lc rgb '{COLOURS[number % len(COLOURS)]}' title {quoted(title)}")
    for title, level in plot["levels"]:
        curves.append(f"{level:g} with lines dt 2 lc rgb '#333333' title {quoted(title)}")
    return "\n".join(lines + ["plot " + ", ".join(curves), ""])


def draw(plots, folder):
    """([(title, file's name)], why some are missing or "")."""
    plots = [plot for plot in plots if any(points for _, points in plot["lines"])]
    for plot in plots:
        plot["lines"] = [(title, points) for title, points in plot["lines"] if points]
    if not plots:
        return [], ""
    if not shutil.which("gnuplot"):
        return [], "there are no plots: gnuplot is not installed"
    os.makedirs(folder, exist_ok=True)
    drawn, problems = [], []
    for plot in plots:
        name = plot["name"] + ".svg"
        done = subprocess.run(["gnuplot", "-"], input=script(plot, os.path.join(folder, name)), text=True, capture_output=True, check=False)
        if done.returncode == 0:
            drawn.append((plot["title"], name))
        else:
            problems.append(f"no plot {name}: {' '.join(done.stderr.split())[-200:]}")
    return drawn, "; ".join(problems)

# SPDX-License-Identifier: Apache-2.0
"""A site with other sizes: SRPT's figures 13 to 16."""
import os

from lab.lib import experiments, srpt
from lab.lib.experiments import claim

TITLE = "SRPT: a second trace, whose files are four times as large"
PAPER = """The experiments again with a log of NASA's web server: mean size 19 KB instead of 5, largest 1.93 MB, the largest 2.5 % of the requests have half of the bytes. Response times are longer under both; the gains are similar, and so is what happens to large requests."""
OURS = srpt.OURS + """ Sizes are generated with NASA's figures (`--sizes nasa`). A third mix has few very large files: 0.2 % of 2 MB, which have 59 % of the bytes. By default workloads W1, W4 and W9, and setup J; with --full all of them."""
RULE = """Fair's mean is at least twice as long as that of `srpt` in W1, W4 and W9, and at least 1.7 times in J; the largest 1 % take at most 1.15 times as long, also with few very large files. Simulated, which is expected and does not count: in every workload ideal SRPT's mean is at least 1.5 times as short as ideal FAIR's."""
MINUTES = 8
NEEDS = srpt.NEEDS
SIZES = ["--sizes", "nasa"]
FEW = ["--sizes", "500 .5, 2KB .3, 10KB .178, 50KB .02, 2MB .002"]
LAB = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


def other(name):
    return experiments.load(os.path.join(LAB, name))


PARTS = (*other("srpt-workloads").PARTS, *other("srpt-setups").WORDS, "few")


def measure(lab):
    workloads, setups = other("srpt-workloads"), other("srpt-setups")
    names = lab.pick(["W1", "W4", "W9"], list(workloads.WORKLOADS), ["W9"])
    data = {"workloads": workloads.each(lab, names, SIZES), "setups": {}}
    seeds = lab.pick((1, 2, 3), (1, 2, 3), (1,))
    for name in filter(lab.wants, lab.pick(["J"], list(setups.WORDS), ["A"])):
        lab.say(f"setup {name}")
        data["setups"][name] = setups.one(lab, setups.setup_of(name), seeds, SIZES, name)
    if lab.wants("few"):
        lab.say("few very large files")
        data["few"] = setups.one(lab, srpt.Setup(), lab.pick((1, 2, 3), (1, 2, 3), (1,)), FEW)
    return data


def judge(data):
    if not data.get("workloads"):
        return [claim("a second trace", False, "nothing was measured")]
    claims = []
    for name, found in data["workloads"].items():
        claims += srpt.factor_claims(found, name, 2, 1.15)
    if "J" in data["setups"]:
        claims += srpt.factor_claims(data["setups"]["J"], "(J)", 1.7, 1.15)
    if data.get("few"):
        claims += srpt.factor_claims(data["few"], "few very large files", 2, 1.15)
    return claims + other("srpt-workloads").simulated(data["workloads"])[:1]


def show(data):
    if not data.get("workloads"):
        return [], []
    tables, plots = other("srpt-workloads").show(data["workloads"])
    more, curves = other("srpt-setups").show({"setups": data["setups"]})
    if data.get("few"):
        more.append(srpt.summary("W1 with few very large files", data["few"], "The largest 1 % are those of 50 KB and 2 MB. Under fair, losses hold up small answers, so large ones get more than an equal share: compare fair with ideal FAIR."))
    return tables + more, plots + curves

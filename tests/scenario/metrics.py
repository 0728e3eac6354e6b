# SPDX-License-Identifier: Apache-2.0
"""/metrics under load: promtool finds nothing, it is OpenMetrics to the letter of what scrapers rely on, and its numbers are the API's."""
import os
import re
import shutil
import subprocess
import sys

from service import Backend, Crowd, Weir, free_port, wait_for

SAMPLE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{(?:[a-z_]+="(?:[^"\\\n]|\\[\\"n])*",?)*\})? ([-+0-9.eE]+|\+Inf|NaN)$')


def parse(text):
    """{name: {labels: value}}; fails on what is no OpenMetrics."""
    lines = text.split("\n")
    assert lines[-2:] == ["# EOF", ""], lines[-3:]
    types, values, family = {}, {}, None
    for line in lines[:-2]:
        if line.startswith("# "):
            _, kind, name, rest = line.split(" ", 3)
            assert kind in ("TYPE", "HELP", "UNIT") and rest, line
            if kind == "TYPE":
                assert name not in types, f"{name} twice"
                types[name] = rest
            family = name
            continue
        match = SAMPLE.match(line)
        assert match, f"no sample: {line!r}"
        name, labels, value = match[1], match[2] or "", float(match[3])
        assert name.startswith(family), f"{name} amid {family}"
        suffix = {"counter": ("_total",), "info": ("_info",), "histogram": ("_bucket", "_sum", "_count"), "summary": ("", "_sum", "_count"), "gauge": ("",)}[types[family]]
        assert name[len(family):] in suffix, f"{name} is a sample of {types[family]} {family}"
        assert labels not in values.setdefault(name, {}), f"twice: {line}"
        values[name][labels] = value
    return values


def promtool(text):
    """Its exit status and what it found. It reads the format before OpenMetrics."""
    check = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=60, check=False)
    return check.returncode, (check.stdout + check.stderr).strip()


def main():
    if shutil.which("promtool") is None:
        print("skipped: there is no promtool (Debian: prometheus)")
        return 77
    backend, listen = Backend(workers=2, ms=10), free_port()
    weir = Weir("sentry", "--to", f"http://127.0.0.1:{backend.port}", "--p90", "100ms", "--listen", f"127.0.0.1:{listen}", "--admin", f"127.0.0.1:{free_port()}")
    parse(weir.get("/metrics")[1].decode())  # with nothing to tell
    crowd = Crowd(listen, clients=40, fresh=2, pause_ms=20)
    wait_for("something turned away", lambda: weir.stage("backend")["all"]["shed"] > 100)
    assert not crowd.stop()

    def settled():
        """Both of the same second, with nothing under way."""
        before, body, after = weir.stage("backend"), weir.get("/metrics")[1].decode(), weir.stage("backend")
        return body if before["all"] == after["all"] and after["all"]["in_flight"] == 0 else None
    text = wait_for("a quiet second", settled)
    values = parse(text)
    stage = weir.stage("backend")["all"]
    for name in ("offered", "admitted", "shed", "completed", "failed", "dropped"):
        counted = [sum(value for labels, value in of.items() if 'stage="backend"' in labels) for metric, of in values.items() if metric == f"weir_stage_{name}_total"]
        assert sum(counted) == stage[name], (name, counted, stage[name])  # what never happened is not told
    found = promtool(weir.get("/metrics", Accept="text/plain")[1].decode())
    assert found == (0, ""), found
    # It knows only the format before, in which the text of a counter is told of NAME_total and not of NAME: there is nothing else that it finds.
    status, said = promtool(text)
    assert status == 3 and all(line.endswith("_total no help text") for line in said.split("\n")), (status, said)
    bare = re.sub(r"# HELP weir_ready .*\n", "", text)
    assert "weir_ready no help text" in promtool(bare)[1], "a gauge without a text is found"
    assert promtool(text.replace("# TYPE weir_ready gauge", "# TYPE weir_ready gouge"))[0] == 1, "promtool finds nothing, whatever it is given"
    answers = {labels: value for labels, value in values["weir_http_answers_total"].items()}
    assert answers['{status="200"}'] == stage["completed"] and answers['{status="503"}'] >= stage["shed"], (answers, stage)
    buckets = {labels: value for labels, value in values["weir_stage_duration_seconds_bucket"].items() if 'stage="backend"' in labels}
    assert list(buckets.values()) == sorted(buckets.values()) and max(buckets.values()) == stage["completed"] + stage["failed"], buckets
    server = {name: next(iter(of.values())) for name, of in values.items() if name.startswith("weir_backend_")}
    assert (server["weir_backend_up"], server["weir_backend_answers_2xx_total"], server["weir_backend_answers_5xx_total"]) == (1, stage["completed"], 0), server
    assert values["process_resident_memory_bytes"][""] > 1e6 and values["process_open_fds"][""] > 5 and values["process_cpu_seconds_total"][""] > 0
    assert weir.end() == 0
    return subprocess.run([sys.executable, os.path.join(os.environ["SOURCE"], "tools/metrics"), os.environ["WEIR"], "--check"], timeout=300, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""What contrib/ and debian/ have is right: configurations pass `weir check`, boards and rules use metrics that exist, units are sandboxed, manifests
fit together, and all of them name the same version. Whether packages can be installed is what tools/check-package looks at."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from service import Backend, Weir, free_port, wait_for

try:
    import yaml
except ImportError:
    yaml = None

SOURCE, WEIR = os.environ["SOURCE"], os.environ["WEIR"]
METRIC = re.compile(r"\bweir_[a-z0-9_]+")
SELECTOR = re.compile(r"\b(weir_[a-z0-9_]+)(?:\{([^}]*)\})?")


def read(*path):
    with open(os.path.join(SOURCE, *path), encoding="utf-8") as file:
        return file.read()


def call(*command, **more):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **more)
    return done.returncode, done.stdout + done.stderr


def there(program, what):
    """Whether there is such a program; if not, says what is not looked at."""
    if shutil.which(program):
        return True
    print(f"not looked at, since there is no {program}: {what}")
    return False


# ---- configurations ----

def check_text(folder, text):
    path = os.path.join(folder, "weir.conf")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return call(WEIR, "check", path)


def test_config(folder):
    """As it is, and with everything that it suggests but for files, which are not here."""
    text = read("contrib", "weir.conf")
    status, said = check_text(folder, text)
    assert status == 0 and "listen   127.0.0.1:8080" in said, said
    suggested, count = re.subn(r"(?m)^(\t*)# (?=(?:[a-z-]+ = |class |limit |route )(?!.*/(?:etc|srv|var)/))", r"\1", text)
    assert count == 8, (count, suggested)
    status, said = check_text(folder, suggested)
    assert status == 0 and "checkout" in said and "per-client" in said, said


def test_units():
    unit, socket = read("contrib", "systemd", "weir.service"), read("contrib", "systemd", "weir.socket")
    assert "\nRuntimeDirectory=weir\n" in unit, "nowhere to make a Unix socket"
    address = re.search(r"(?m)^ListenStream=(.*)$", socket)[1]
    assert f'listen "{address}"' in read("contrib", "weir.conf"), "the socket has another address than the configuration"
    seconds = {name: int(re.search(rf"(?m)^#?\s*(?:# )?{name} ?= ?(\d+)s$", text)[1]) for name, text in
               (("TimeoutStopSec", unit), ("drain-timeout", read("contrib", "weir.conf")))}
    assert seconds["TimeoutStopSec"] > seconds["drain-timeout"], seconds
    start = re.search(r"(?m)^ExecStart=/usr/bin/weir (.*)$", unit)[1].replace("/etc/weir", os.path.join(SOURCE, "contrib"))
    status, said = call(WEIR, *start.split(), "--check")
    assert status == 0, said
    for name in ("weir", "weir-webmail"):
        if there("systemd-analyze", "how exposed the service is"):
            status, said = call("systemd-analyze", "security", "--offline=true", "--threshold=20", os.path.join(SOURCE, "contrib", "systemd", f"{name}.service"))
            assert status == 0, said
            print(said.strip().split("\n")[-1])


def sandbox(unit):
    """What a unit may not do: its lines from the account on, but for its folders."""
    return [line for line in unit[unit.index("DynamicUser="):].splitlines() if "=" in line and not re.match(r"#|\w+Directory(Mode)?=|UMask=", line)]


def test_webmail_unit():
    """As the other one, for another program; its configuration is checked by the scenario `webmail`."""
    one, other = read("contrib", "systemd", "weir.service"), read("contrib", "systemd", "weir-webmail.service")
    assert sandbox(one) == sandbox(other), "the webmail has another sandbox"
    config = read("contrib", "webmail.conf")
    state = re.search(r"(?m)^StateDirectory=(.*)$", other)[1]
    assert f'data = "/var/lib/{state}"' in config, "the mail is elsewhere than the unit allows"
    admins = [re.search(r'(?m)^admin "(.*)"', text)[1] for text in (config, read("contrib", "weir.conf"))]
    assert admins[0] != admins[1], "both services have the same admin listener"


# ---- Kubernetes ----

def by_kind(documents):
    found = {}
    for document in documents:
        assert document["apiVersion"] and document["metadata"]["name"], document
        assert document["kind"] not in found, "two of a kind"
        found[document["kind"]] = document
    return found


def seconds_of(config, key):
    return int(re.search(rf"{key} = (\d+)s", config)[1])


def test_manifest(folder, name):
    found = by_kind(yaml.safe_load_all(read("contrib", "kubernetes", name)))
    config = found["ConfigMap"]["data"]["weir.conf"]
    with open(os.path.join(folder, "token"), "w", encoding="utf-8") as file:
        file.write("secret\n")
    status, said = check_text(folder, config.replace("/run/weir/token", os.path.join(folder, "token")))
    assert status == 0, said
    pod = found["Deployment"]["spec"]["template"]
    container = next(one for one in pod["spec"]["containers"] if one["name"] == "weir")
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    for block, port in (("listen", "http"), ("admin", "admin")):
        assert re.search(rf'{block} "0\.0\.0\.0:{ports[port]}"', config), (block, ports)
    for probe in ("readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["port"] == "admin", probe
    assert found["Service"]["spec"]["ports"][0]["targetPort"] == "http"
    labels = pod["metadata"]["labels"]
    assert found["Service"]["spec"]["selector"] == labels == found["Deployment"]["spec"]["selector"]["matchLabels"]
    volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == set(volumes)
    assert volumes["config"]["configMap"]["name"] == found["ConfigMap"]["metadata"]["name"]
    assert pod["spec"]["terminationGracePeriodSeconds"] > seconds_of(config, "drain-delay") + seconds_of(config, "drain-timeout")
    assert container["securityContext"]["runAsNonRoot"] and container["securityContext"]["readOnlyRootFilesystem"]
    return container["image"]


# ---- metrics ----

def metrics_there():
    """What a sentry with a request behind it tells: {sample: labels}. A family that has no sample yet has None."""
    backend, listen = Backend(workers=2, ms=1), free_port()
    weir = Weir("sentry", "--to", f"http://127.0.0.1:{backend.port}", "--p90", "100ms", "--listen", f"127.0.0.1:{listen}", "--admin", f"127.0.0.1:{free_port()}")
    wait_for("an answer", lambda: call("curl", "-sf", f"http://127.0.0.1:{listen}/")[0] == 0)
    text = wait_for("its numbers", lambda: (body := weir.get("/metrics")[1].decode()) and 'weir_stage_completed_total{stage="backend"' in body and body)
    found = {}
    for family, kind in re.findall(r"(?m)^# TYPE (\S+) (\S+)$", text):
        found[family + ("_total" if kind == "counter" else "")] = None
    for name, labels in re.findall(r"(?m)^(weir_\w+)(?:\{(.*)\})? ", text):
        found[name] = set(re.findall(r'(\w+)="', labels))
    assert weir.end() == 0
    return found


def check_expression(there_are, expression):
    for name, selector in SELECTOR.findall(expression):
        assert name in there_are, f"there is no metric {name}: {expression}"
        labels = there_are[name]
        wanted = set(re.findall(r"(\w+)\s*[=!]", selector)) - {"job", "instance"}
        assert labels is None or wanted <= labels, f"{name} has labels {labels}, not {wanted}"


def expressions_of(board):
    for panel in board["panels"]:
        yield from (target["expr"] for target in panel.get("targets", []))
    yield from (annotation["expr"] for annotation in board["annotations"]["list"])


def test_places(panels):
    """Panels have numbers of their own and do not cover each other."""
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = set()
    for at in (panel["gridPos"] for panel in panels):
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken and at["x"] + at["w"] <= 24, at
        taken |= cells


def test_board(folder, there_are):
    board = json.loads(read("contrib", "grafana", "weir.json"))
    test_places(board["panels"])
    expressions = list(expressions_of(board))
    assert len(expressions) > 30
    for expression in expressions:
        check_expression(there_are, expression)
    for variable in board["templating"]["list"]:
        for name in METRIC.findall(str(variable["query"])):
            assert name in there_are, name
    if there("promtool", "whether the board's expressions can be read") and yaml:
        rules = [{"record": f"board:panel{i}", "expr": expression.replace("$__rate_interval", "5m").replace("$instance", ".*").replace("$stage", ".*")}
                 for i, expression in enumerate(expressions)]
        path = os.path.join(folder, "board.yml")
        with open(path, "w", encoding="utf-8") as file:
            yaml.safe_dump({"groups": [{"name": "board", "rules": rules}]}, file)
        status, said = call("promtool", "check", "rules", path)
        assert status == 0, said


def test_rules(folder, there_are):
    text = read("contrib", "prometheus", "rules.yml")
    for name in METRIC.findall(re.sub(r"(?m)^ *#.*$", "", text)):
        assert name in there_are, f"there is no metric {name}"
    if yaml:
        rules = [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]
        tested = read("contrib", "prometheus", "rules_test.yml")
        for rule in rules:
            check_expression(there_are, rule["expr"])
            # That it fires, and that it does not.
            assert "alert" not in rule or tested.count(f"alertname: {rule['alert']}") >= 2, f"{rule['alert']} is not tested"
    if not there("promtool", "whether the rules do what they say"):
        return
    for name in ("rules.yml", "rules_test.yml"):
        shutil.copy(os.path.join(SOURCE, "contrib", "prometheus", name), folder)
    status, said = call("promtool", "check", "rules", "rules.yml", cwd=folder)
    assert status == 0, said
    status, said = call("promtool", "test", "rules", "rules_test.yml", cwd=folder)
    assert status == 0, said
    with open(os.path.join(folder, "rules.yml"), "w", encoding="utf-8") as file:
        file.write(text.replace("> 0.05", "> 5"))
    assert call("promtool", "test", "rules", "rules_test.yml", cwd=folder)[0] != 0, "the tests of the rules find nothing"


# ---- versions ----

def test_versions(images):
    version = re.search(r"(?m)^ *version: '([0-9.]+)'", read("meson.build"))[1]
    header = read("include", "weir", "base.h")
    assert version == ".".join(re.search(rf"#define WEIR_VERSION_{part} (\d+)", header)[1] for part in ("MAJOR", "MINOR", "PATCH"))
    assert read("debian", "changelog").startswith(f"weir ({version}-"), "debian/changelog has another version"
    assert re.search(r"(?m)^## ([0-9.]+)", read("CHANGELOG.md"))[1] == version, "CHANGELOG.md has another version"
    for image in images:
        assert image.endswith(f":{version}"), image
    soname = re.search(r"soversion: '(\d+)'", read("meson.build"))[1]
    assert f"Package: libweir{soname}\n" in read("debian", "control"), "the package of the library has another soname"


def test_container():
    """The libraries that the binary needs are in the image."""
    if not (there("dpkg-query", "what the image has") and there("readelf", "what the image has")):
        return
    image = read("contrib", "Containerfile").split("FROM ")[-1]
    for library in re.findall(r"NEEDED.*\[(.*)\]", call("readelf", "-d", WEIR)[1]):
        status, said = call("dpkg-query", "-S", f"*/{library}")
        packages = set(re.findall(r"(?m)^([a-z0-9.+-]+)(?::\w+)?: ", said))
        # Of the C compiler and of sanitizers: every image has the first, and none the others.
        if status != 0 or packages & {"libc6", "libgcc-s1"} or re.match(r"lib(a|ub|t)san", library):
            continue
        assert any(re.search(rf"\s{re.escape(package)}\s", image) for package in packages), f"{library} is in {packages}, which the image does not have"


def main():
    there_are = metrics_there()
    with tempfile.TemporaryDirectory() as folder:
        test_config(folder)
        test_units()
        test_webmail_unit()
        test_container()
        test_board(folder, there_are)
        test_rules(folder, there_are)
        images = []
        if yaml:
            images = [test_manifest(folder, name) for name in ("sidecar.yaml", "gateway.yaml")]
        else:
            print("not looked at, since there is no python3-yaml: the manifests for Kubernetes")
        test_versions(images)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What `cargo xtask test --only kubernetes` asks of packaging/kubernetes.

    check.py FOLDER VERSION [HELM]

The manifest, and with HELM what the chart makes of several values, are held against the
schemas of all versions of Kubernetes that it is for, and nothing else may be in them. Each
check is a line, `ok` or `FAILED name - why`.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import kubernetes_validate as schemas
import yaml

MANIFEST = "zmeld-survey.yaml"
# The chart's release that is the manifest: its name, namespace and image. The last is nowhere,
# so that whoever forgets to name his own gets nobody's.
RELEASE, NAMESPACE = "zmeld-survey", "zmeld"
REPOSITORY = "registry.invalid/zmeld"
# The oldest with appArmorProfile in the manifest, and the oldest that the chart takes.
OLDEST_MANIFEST, OLDEST_CHART = "1.30", "1.25"

# Values that change what the chart makes, and what the pods' arguments must then hold.
VALUES = [
    ({"labels": {"role": "web", "price": "5$(x)"}}, ["role=web", "price=5$$(x)"]),
    ({"place": "/srv/surveys", "every": "6h", "priorityClass": {"create": False}}, ["6h"]),
    ({"every": "10min"}, ["10min"]),
    ({"every": "600s", "image": {"repository": "localhost:5000/a/zmeld"}}, ["600s"]),
    (
        {
            "place": "s3://surveys/production",
            "credentialsSecret": "store",
            "environment": {"AWS_REGION": "eu-north-1"},
            "topologyLabels": True,
        },
        ["s3://surveys/production", "zone=$(ZONE)", "region=$(REGION)"],
    ),
    (
        {
            "place": "gs://surveys",
            "certificates": "",
            "serviceAccount": {"annotations": {"iam.gke.io/gcp-service-account": "x@y"}},
        },
        ["gs://surveys"],
    ),
    (
        {
            "image": {
                "repository": "example.org/zmeld",
                "digest": "sha256:" + "0" * 64,
                "pullSecrets": [{"name": "pull"}],
            },
            "selinuxType": "spc_t",
            "tolerations": [],
            "nodeSelector": {"pool": "batch"},
            "affinity": {"nodeAffinity": {}},
            "podAnnotations": {"a": "b"},
            "podLabels": {"team": "x"},
            "networkPolicy": {"create": False},
        },
        ["node=$(NODE)"],
    ),
]
# Values that look like something else to YAML: they are to come out as they are.
TEXTS = {
    "environment": {"null": "null", "yes": "no", "A": "1e3", "B": "0x10"},
    "place": "s3://surveys",
    "credentialsSecret": "123",
    "priorityClass": {"name": "true"},
    "selinuxType": "null",
    "key": {"secret": "1e3", "item": "on"},
}
# Values that the chart must refuse, and what it then names.
WRONG = [
    ({"plase": "/srv"}, "plase"),
    ({"place": "surveys"}, "place"),
    ({"place": "/"}, "place"),
    ({"place": "/srv"}, "place"),
    ({"place": "/etc"}, "place"),
    ({"place": "/etc/zmeld"}, "place"),
    ({"place": "/srv/../etc"}, "place"),
    ({"place": "/var/lib"}, "place"),
    ({"place": "/var/lib/kubelet/x"}, "place"),
    ({"place": "/srv/$(NODE)"}, "place"),
    ({"place": "ftp://x"}, "place"),
    ({"place": "s3://"}, "place"),
    ({"every": "daily"}, "every"),
    ({"every": "1s"}, "every"),
    ({"every": "599s"}, "every"),
    ({"every": "9min"}, "every"),
    ({"labels": {"node": "x"}}, "node"),
    ({"labels": {"a b": "x"}}, "a b"),
    ({"environment": {"NODE": "x"}}, "NODE"),
    ({"environment": {"STATE_DIRECTORY": "/x"}}, "STATE_DIRECTORY"),
    ({"environment": {"A": 1}}, "environment"),
    ({"image": {"repository": ""}}, "image.repository"),
    ({"image": {"repository": "zmeld"}}, "repository"),
    ({"image": {"repository": "user/zmeld"}}, "repository"),
    ({"image": {"tag": "a b"}}, "tag"),
    ({"image": {"digest": "sha256:1"}}, "digest"),
    ({"key": {"secret": "a: b"}}, "secret"),
    ({"priorityClass": {"name": "a: b"}}, "priorityClass"),
    (
        {"podAnnotations": {"container.apparmor.security.beta.kubernetes.io/zmeld": "x"}},
        "apparmor",
    ),
    ({"credentialsSecret": "store"}, "credentialsSecret"),
    ({"place": "s3://x", "certificates": "ca.pem"}, "certificates"),
]

FAILED: list[str] = []


def say(name: str, problems: list[str]) -> None:
    """One check."""
    if problems:
        FAILED.append(name)
    print(f"FAILED {name} - {'; '.join(problems)}" if problems else f"ok {name}", flush=True)


def minor(version: str) -> tuple[int, ...]:
    """1.30 comes after 1.9."""
    return tuple(int(part) for part in version.split(".")[:2])


def versions(oldest: str) -> list[str]:
    """Those that there are schemas of."""
    known = {".".join(version.split(".")[:2]) for version in schemas.utils.all_versions()}
    return sorted((it for it in known if minor(it) >= minor(oldest)), key=minor)


def objects(text: str) -> list[dict]:
    """The objects of a text, each once."""
    found = [it for it in yaml.safe_load_all(text) if it]
    found.sort(key=lambda it: (it["kind"], it["metadata"]["name"]))
    return found


def against(version: str, found: list[dict]) -> list[str]:
    """What that version's schemas say against these objects."""
    problems = []
    for one in found:
        try:
            schemas.validate(one, version, strict=True)
        except schemas.ValidationError as error:
            where = ".".join(str(part) for part in error.path)
            problems.append(f"{one['kind']} {where}: {error.message[:200]}")
        except schemas.SchemaNotFoundError as error:
            problems.append(error.message)
    return problems


def pod(found: list[dict]) -> dict:
    """What the nodes run."""
    sets = [it for it in found if it["kind"] == "DaemonSet"]
    return sets[0]["spec"]["template"]["spec"]


def rights(found: list[dict]) -> list[str]:
    """What pods have that they should not, or lack."""
    spec = pod(found)
    container = spec["containers"][0]
    security = container["securityContext"]
    wanted = {
        "capabilities": {"drop": ["ALL"], "add": ["SYS_PTRACE", "DAC_READ_SEARCH"]},
        "privileged": False,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
    }
    problems = [
        f"{name} is {security.get(name)}" for name in wanted if security.get(name) != wanted[name]
    ]
    if spec["securityContext"]["seccompProfile"] != {"type": "RuntimeDefault"}:
        problems.append("no seccomp profile")
    for name in ("hostNetwork", "hostIPC", "initContainers"):
        if spec.get(name):
            problems.append(f"{name} is {spec[name]}")
    if spec["automountServiceAccountToken"] is not False:
        problems.append("it has a token of the API")
    kinds = {it["kind"] for it in found} - {"Namespace"}
    more = kinds - {"DaemonSet", "NetworkPolicy", "PriorityClass", "ServiceAccount"}
    problems += [f"there is a {kind}" for kind in more]
    # One folder or file of the node, no more.
    if len([it for it in spec["volumes"] if "hostPath" in it]) > 1:
        problems.append("more than one hostPath")
    secret = [it["secret"] for it in spec["volumes"] if "secret" in it]
    if [it["defaultMode"] for it in secret] != [0o400]:
        problems.append("others may read the key")
    return problems


def check_manifest(folder: Path, version: str) -> list[dict]:
    """The plain manifest, and what says a version."""
    found = objects((folder / MANIFEST).read_text())
    for kubernetes in versions(OLDEST_MANIFEST):
        say(f"{MANIFEST} for {kubernetes}", against(kubernetes, found))
    # The check itself: what no schema has is refused.
    spoilt = json.loads(json.dumps(found))
    pod(spoilt)["hostPid"] = True
    refused = against(versions(OLDEST_MANIFEST)[-1], spoilt)
    say("a misspelt field is refused", [] if len(refused) == 1 else [str(refused)])
    say(f"rights in {MANIFEST}", rights(found))
    image = pod(found)["containers"][0]["image"]
    chart = yaml.safe_load((folder / "chart/Chart.yaml").read_text())
    built = (folder / "Containerfile").read_text()
    wrong = [f"{image} runs"] if image != f"{REPOSITORY}:{version}" else []
    wrong += [f"{it} of the chart" for it in ("version", "appVersion") if chart[it] != version]
    if f'image.version="{version}"' not in built or f"zmeld:{version} " not in built:
        wrong.append("Containerfile")
    say(f"all say version {version}", wrong)
    return found


class Chart:
    """The chart and what renders it."""

    def __init__(self, helm: str, folder: Path) -> None:
        self.helm, self.folder = helm, folder

    def run(self, words: list[str], values: dict) -> subprocess.CompletedProcess:
        """Helm with these values."""
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            named = {"repository": REPOSITORY, **values.get("image", {})}
            json.dump({**values, "image": named}, file)
            file.flush()
            command = [self.helm, *words, str(self.folder), "--values", file.name]
            return subprocess.run(command, capture_output=True, text=True, check=False)

    def template(
        self, kubernetes: str, values: dict, release: str = RELEASE, namespace: str = NAMESPACE
    ) -> subprocess.CompletedProcess:
        """The objects that it makes."""
        words = ["template", release, "--namespace", namespace, "--kube-version", kubernetes]
        return self.run(words, values)

    def check_names(self, kubernetes: str) -> None:
        """Texts stay texts, and two releases have nothing in common."""
        made = self.template(kubernetes, TEXTS, release="123", namespace="0x10")
        found = objects(made.stdout) if made.returncode == 0 else []
        problems = against(kubernetes, found) if found else [made.stderr.strip()]
        if found:
            spec = pod(found)
            env = {it["name"]: it.get("value") for it in spec["containers"][0]["env"]}
            problems += [
                f"no {it}" for it in TEXTS["environment"].items() if it not in env.items()
            ]
            if spec["priorityClassName"] != "true":
                problems.append("another class")
        say("values that look like others stay texts", problems)
        seen: dict[tuple, str] = {}
        problems = []
        for release, namespace in (("a", "x"), ("b", "x"), ("a", "y"), ("x-a", "b"), ("a", "b-x")):
            made = self.template(kubernetes, {}, release, namespace)
            found = objects(made.stdout) if made.returncode == 0 else []
            if not found:
                problems.append(made.stderr.strip())
            for one in found:
                place = one["metadata"].get("namespace")
                key = (one["kind"], place, one["metadata"]["name"])
                problems += [f"{key} is in two releases"] if key in seen else []
                seen[key] = release
            classes = [it["metadata"]["name"] for it in found if it["kind"] == "PriorityClass"]
            if found and classes != [pod(found)["priorityClassName"]]:
                problems.append(f"the pods have another class than {classes}")
        say("two releases stand beside each other", problems)

    def check(self, plain: list[dict]) -> None:
        """Everything of the chart."""
        lint = self.run(["lint", "--strict"], {})
        say("helm lint", [lint.stdout[-500:] + lint.stderr[-500:]] if lint.returncode else [])
        known = versions(OLDEST_CHART)
        wanted = [it for it in plain if it["kind"] != "Namespace"]
        made = self.template(known[-1], {})
        same = made.returncode == 0 and objects(made.stdout) == wanted
        say("the chart's default is the manifest", [] if same else [made.stderr or "they differ"])
        for number, (values, words) in enumerate([({}, []), *VALUES]):
            problems = []
            for kubernetes in known:
                made = self.template(kubernetes, values)
                if made.returncode:
                    problems.append(f"{kubernetes}: {made.stderr.strip()}")
                    continue
                found = objects(made.stdout)
                problems += [f"{kubernetes}: {it}" for it in against(kubernetes, found)]
                problems += [f"{kubernetes}: {it}" for it in rights(found)]
                arguments = pod(found)["containers"][0]["args"]
                problems += [f"no {word}" for word in words if word not in arguments]
            say(f"the chart with values {number}, {known[0]} to {known[-1]}", problems)
        self.check_names(known[-1])
        for values, named in WRONG:
            made = self.template(known[-1], values)
            taken = [] if made.returncode else ["the chart takes it"]
            if made.returncode and named not in made.stderr:
                taken.append(f"{named} is not named: {made.stderr.strip()}")
            say(f"{json.dumps(values)} is refused", taken)


def main(folder: str, version: str, helm: str = "") -> int:
    """All checks; 1 where one failed."""
    plain = check_manifest(Path(folder), version)
    if helm:
        Chart(helm, Path(folder) / "chart").check(plain)
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

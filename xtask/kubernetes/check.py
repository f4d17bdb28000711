"""What `cargo xtask test --only kubernetes` asks of packaging/kubernetes.

    check.py FOLDER VERSION

The manifest is held against the schemas of all versions of Kubernetes that it is for, and
nothing else may be in it. Each check is a line, `ok` or `FAILED name - why`.
"""

import json
import sys
from pathlib import Path

import jsonpatch
import kubernetes_validate as schemas
import yaml

MANIFEST = "zmeld-survey.yaml"
# Nowhere, so that whoever forgets to name his own gets nobody's.
REPOSITORY = "registry.invalid/zmeld"
# The oldest with appArmorProfile.
OLDEST = "1.30"

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
    kinds = {it["kind"] for it in found} - {"Namespace", "PersistentVolumeClaim"}
    more = kinds - {"DaemonSet", "NetworkPolicy", "PriorityClass", "ServiceAccount"}
    problems += [f"there is a {kind}" for kind in more]
    # One folder or file of the node, no more.
    if len([it for it in spec["volumes"] if "hostPath" in it]) > 1:
        problems.append("more than one hostPath")
    # It would let its group read the key, which zmeld then refuses.
    if "fsGroup" in spec["securityContext"]:
        problems.append("it has an fsGroup")
    secret = [it["secret"] for it in spec["volumes"] if "secret" in it]
    if [it["defaultMode"] for it in secret] != [0o400]:
        problems.append("others may read the key")
    return problems


def check_manifest(folder: Path, version: str) -> None:
    """The manifest, the base that names it, and what says a version."""
    found = objects((folder / MANIFEST).read_text())
    for kubernetes in versions(OLDEST):
        say(f"{MANIFEST} for {kubernetes}", against(kubernetes, found))
    # The check itself: what no schema has is refused.
    spoilt = json.loads(json.dumps(found))
    pod(spoilt)["hostPid"] = True
    refused = against(versions(OLDEST)[-1], spoilt)
    say("a misspelt field is refused", [] if len(refused) == 1 else [str(refused)])
    say(f"rights in {MANIFEST}", rights(found))
    image = pod(found)["containers"][0]["image"]
    built = (folder / "Containerfile").read_text()
    wrong = [f"{image} runs"] if image != f"{REPOSITORY}:{version}" else []
    if f'image.version="{version}"' not in built or f"zmeld:{version} " not in built:
        wrong.append("Containerfile")
    say(f"all say version {version}", wrong)
    base = yaml.safe_load((folder / "kustomization.yaml").read_text())
    say("the base is the manifest", [] if base["resources"] == [MANIFEST] else [str(base)])


def check_collect(folder: Path) -> None:
    """The component: the base with a claim where its folder was."""
    component = yaml.safe_load((folder / "collect/kustomization.yaml").read_text())
    found = objects((folder / MANIFEST).read_text())
    for resource in component["resources"]:
        found += objects((folder / "collect" / resource).read_text())
    for one in component["patches"]:
        (at,) = [
            at
            for at, it in enumerate(found)
            if (it["kind"], it["metadata"]["name"])
            == (one["target"]["kind"], one["target"]["name"])
        ]
        found[at] = jsonpatch.apply_patch(found[at], yaml.safe_load(one["patch"]))
    for kubernetes in versions(OLDEST):
        say(f"collect for {kubernetes}", against(kubernetes, found))
    say("rights with collect", rights(found))
    (claim,) = [it for it in found if it["kind"] == "PersistentVolumeClaim"]
    named = [it["persistentVolumeClaim"] for it in pod(found)["volumes"] if "secret" not in it]
    wrong = [] if named == [{"claimName": claim["metadata"]["name"]}] else [str(named)]
    if claim["spec"]["accessModes"] != ["ReadWriteMany"]:
        wrong.append("one node alone may write")
    say("surveys go to the claim and nowhere else", wrong)


def main(folder: str, version: str) -> int:
    """All checks; 1 where one failed."""
    check_manifest(Path(folder), version)
    check_collect(Path(folder))
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

"""What `cargo xtask test --only kubernetes` asks of packaging/kubernetes.

    check.py FOLDER VERSION

The manifest is held against the schemas of all versions of Kubernetes that it is for, and
nothing else may be in it. It speaks TAP.
"""

import sys
from pathlib import Path

import jsonpatch
import kubernetes_validate as schemas
import yaml

MANIFEST = "zmeld-survey.yaml"
# Nowhere, so that whoever forgets to name his own gets nobody's.
REPOSITORY = "registry.invalid/zmeld"
# The oldest with appArmorProfile.
OLDEST = (1, 30)

RIGHTS = {
    "capabilities": {"drop": ["ALL"], "add": ["SYS_PTRACE", "DAC_READ_SEARCH"]},
    "privileged": False,
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
}
KINDS = {"Namespace", "PersistentVolumeClaim", "DaemonSet", "NetworkPolicy", "PriorityClass"}
KINDS |= {"ServiceAccount"}

# What each check found.
FOUND: list[bool] = []


def say(name: str, problems: list[str]) -> None:
    """One check."""
    FOUND.append(not problems)
    said = f"not ok {len(FOUND)} - {name}: {'; '.join(problems)}"
    print(said if problems else f"ok {len(FOUND)} - {name}", flush=True)


def versions() -> list[str]:
    """Those that there are schemas of, 1.30 behind 1.9."""
    known = {tuple(map(int, it.split(".")[:2])) for it in schemas.utils.all_versions()}
    return [f"{major}.{minor}" for major, minor in sorted(known) if (major, minor) >= OLDEST]


def against(version: str, found: list[dict]) -> list[str]:
    """What that version's schemas say against these objects."""
    problems = []
    for one in found:
        try:
            schemas.validate(one, version, strict=True)
        except schemas.ValidationError as error:
            where = ".".join(map(str, error.path))
            problems.append(f"{one['kind']} {where}: {error.message[:200]}")
        except schemas.SchemaNotFoundError as error:
            problems.append(error.message)
    return problems


def pod(found: list[dict]) -> dict:
    """What the nodes run."""
    (one,) = [it for it in found if it["kind"] == "DaemonSet"]
    return one["spec"]["template"]["spec"]


def rights(found: list[dict]) -> list[str]:
    """What pods have that they should not, or lack."""
    spec = pod(found)
    (container,) = spec["containers"]
    security, own = container["securityContext"], spec["securityContext"]
    kinds = {it["kind"] for it in found} - KINDS
    secrets = [it["secret"]["defaultMode"] for it in spec["volumes"] if "secret" in it]
    more = [name for name in ("hostNetwork", "hostIPC", "initContainers") if spec.get(name)]
    checks = {
        f"its rights are {security}": RIGHTS.items() <= security.items(),
        "no seccomp profile": own["seccompProfile"] == {"type": "RuntimeDefault"},
        f"it has {more}": not more,
        "it has a token of the API": spec["automountServiceAccountToken"] is False,
        f"there is a {kinds}": not kinds,
        # One folder or file of the node, no more.
        "more than one hostPath": sum("hostPath" in it for it in spec["volumes"]) <= 1,
        # It would let its group read the key, which zmeld then refuses.
        "it has an fsGroup": "fsGroup" not in own,
        "others may read the key": secrets == [0o400],
    }
    return [problem for problem, holds in checks.items() if not holds]


def check_manifest(folder: Path, found: list[dict], version: str) -> None:
    """The manifest, the base that names it, and what says a version."""
    for kubernetes in versions():
        say(f"{MANIFEST} for {kubernetes}", against(kubernetes, found))
    say(f"rights in {MANIFEST}", rights(found))
    image = pod(found)["containers"][0]["image"]
    built = (folder / "Containerfile").read_text()
    wrong = [f"{image} runs"] if image != f"{REPOSITORY}:{version}" else []
    if f'image.version="{version}"' not in built or f"zmeld:{version} " not in built:
        wrong.append("Containerfile")
    say(f"all say version {version}", wrong)
    base = yaml.safe_load((folder / "kustomization.yaml").read_text())
    say("the base is the manifest", [] if base["resources"] == [MANIFEST] else [str(base)])


def check_collect(folder: Path, found: list[dict]) -> None:
    """The component: the base with a claim where its folder was."""
    component = yaml.safe_load((folder / "collect/kustomization.yaml").read_text())
    for resource in component["resources"]:
        found += yaml.safe_load_all((folder / "collect" / resource).read_text())
    for one in component["patches"]:
        target = (one["target"]["kind"], one["target"]["name"])
        named = [(it["kind"], it["metadata"]["name"]) for it in found]
        at = named.index(target)
        found[at] = jsonpatch.apply_patch(found[at], yaml.safe_load(one["patch"]))
    for kubernetes in versions():
        say(f"collect for {kubernetes}", against(kubernetes, found))
    say("rights with collect", rights(found))
    (claim,) = [it for it in found if it["kind"] == "PersistentVolumeClaim"]
    named = [it["persistentVolumeClaim"] for it in pod(found)["volumes"] if "secret" not in it]
    wrong = [] if named == [{"claimName": claim["metadata"]["name"]}] else [str(named)]
    if claim["spec"]["accessModes"] != ["ReadWriteMany"]:
        wrong.append("one node alone may write")
    say("surveys go to the claim and nowhere else", wrong)


def main(folder: Path, version: str) -> int:
    """All checks; 1 where one failed."""
    found = [it for it in yaml.safe_load_all((folder / MANIFEST).read_text()) if it]
    check_manifest(folder, found, version)
    check_collect(folder, found)
    print(f"1..{len(FOUND)}")
    return 0 if all(FOUND) else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))

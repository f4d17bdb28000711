"""A survey in a container that has what packaging/kubernetes/zmeld-survey.yaml gives it.

    run.py FOLDER PROGRAM WORK

FOLDER is packaging/kubernetes, PROGRAM the static program. It runs as the first process of
a namespace of processes, as root. It speaks TAP.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import yaml

# Another user's process with memory of its own, in the same namespace.
OTHER = "import sys; held = [bytes([n % 251] * 4096) for n in range(2000)]; sys.stdin.read()"
NOBODY = 65534
# What a run gives back where memory was short: then again.
SHORT = 75


# What each check found.
FOUND: list[bool] = []


def say(name: str, ok: bool, why: str = "") -> None:
    """One check."""
    FOUND.append(ok)
    said = f"not ok {len(FOUND)} - {name}: {' '.join(why.split())[-400:]}"
    print(f"ok {len(FOUND)} - {name}" if ok else said, flush=True)


class Node:
    """What containers are started on."""

    def __init__(self, folder: Path, program: Path, work: Path) -> None:
        self.folder, self.work = folder, work
        self.images, self.state = work / "images", work / "state"
        self.surveys = work / "surveys"
        texts = (folder / "zmeld-survey.yaml").read_text()
        found = [it for it in yaml.safe_load_all(texts) if it["kind"] == "DaemonSet"]
        self.pod = found[0]["spec"]["template"]["spec"]
        self.container = self.pod["containers"][0]
        self.key = work / "key"
        self.program = program

    def podman(self, *words: str) -> list[str]:
        """A command of podman, with images and state of its own."""
        at = ["--root", str(self.images), "--runroot", str(self.state)]
        return ["podman", *at, "--storage-driver=vfs", "--runtime=runc", *words]

    def build(self) -> subprocess.CompletedProcess:
        """The image, by its own file."""
        context = self.work / "context"
        (context / "licences").mkdir(parents=True)
        shutil.copy(self.program, context / "zmeld")
        shutil.copy(self.folder.parents[1] / "LICENSE", context / "licences")
        file = str(self.folder / "Containerfile")
        words = ["build", "--timestamp", "0", "-t", self.container["image"], "-f", file]
        return ran(self.podman(*words, str(context)))

    def command(self, arguments: list[str], without: str = "") -> list[str]:
        """Podman's words for the manifest's rights, without one of them."""
        security = self.container["securityContext"]
        added = [it for it in security["capabilities"]["add"] if it != without]
        memory = self.container["resources"]["limits"]["memory"].removesuffix("i")
        words = ["run", "--rm", "--network=none", "--hostname=pod", "--cpu-shares=10"]
        words += ["--ulimit=nofile=1024:4096", "--ulimit=nproc=1000:1000"]
        words += [f"--memory={memory}", f"--user={self.pod['securityContext']['runAsUser']}"]
        words += [f"--cap-drop={it}" for it in security["capabilities"]["drop"]]
        words += [f"--cap-add={it}" for it in added]
        if self.pod["hostPID"]:
            words.append("--pid=host")
        if security["readOnlyRootFilesystem"]:
            words += ["--read-only", "--read-only-tmpfs=false"]
        if not security["allowPrivilegeEscalation"]:
            words.append("--security-opt=no-new-privileges")
        if security["appArmorProfile"]["type"] == "Unconfined":
            words.append("--security-opt=apparmor=unconfined")
        for mount in self.container["volumeMounts"]:
            source = {"key": self.key, "surveys": self.surveys}[mount["name"]]
            mode = ":ro" if mount.get("readOnly") else ""
            words.append(f"--volume={source}:{mount['mountPath']}{mode}")
        words += [f"--env={it['name']}=node7" for it in self.container["env"]]
        return self.podman(*words, self.container["image"], *arguments)

    def survey(self, without: str = "") -> subprocess.CompletedProcess:
        """One survey with the manifest's arguments but the time."""
        words = [it.replace("$(NODE)", "node7") for it in self.container["args"]]
        at = words.index("--every")
        words = words[:at] + words[at + 2 :] + ["--json"]
        for _ in range(120):
            done = ran(self.command(words, without))
            if done.returncode != SHORT:
                break
            time.sleep(1)
        return done

    def files(self) -> set[Path]:
        """Surveys so far."""
        return set(self.surveys.rglob("*.parquet"))


def ran(command: list[str]) -> subprocess.CompletedProcess:
    """A command to its end."""
    print("$", *command, flush=True)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(done.stdout, done.stderr, sep="", flush=True)
    return done


def check(node: Node) -> None:
    """All checks, with another user's process beside."""
    whole = node.survey()
    result = json.loads(whole.stdout) if whole.returncode == 0 else {}
    say("the manifest's rights do", whole.returncode == 0, whole.stderr)
    say("no process is refused", result.get("refused_processes") == 0, str(result)[:300])
    pages = result.get("total", {}).get("pages", 0)
    say("the other user's pages are read", pages > 2000, f"{pages} pages")
    say("a survey is in the node's folder", len(node.files()) == 1, str(node.files()))

    less = node.survey(without="SYS_PTRACE")
    told = less.returncode == 3 and "CAP_SYS_PTRACE" in less.stderr
    say("without CAP_SYS_PTRACE it says so", told, f"{less.returncode}: {less.stderr}")

    less = node.survey(without="DAC_READ_SEARCH")
    result = json.loads(less.stdout) if less.returncode == 0 else {}
    refused = result.get("refused_processes", 0)
    say("without CAP_DAC_READ_SEARCH others are refused", refused > 0, less.stderr)


def main(folder: str, program: str, work: str) -> int:
    """Builds, looks whether a container runs at all, checks, and cleans up."""
    at = Path(work) / "node"
    shutil.rmtree(at, ignore_errors=True)
    node = Node(Path(folder), Path(program), at)
    for made in (node.surveys, node.key):
        made.mkdir(parents=True)
    key = node.key / "fleet.key"
    key.write_text("5a" * 32)
    key.chmod(0o400)
    try:
        built = node.build()
        say("the image builds", built.returncode == 0, built.stderr)
        started = ran(node.command(["--version"]))
        if started.returncode:
            why = " ".join(started.stderr.split())[-200:]
            print(f"ok {len(FOUND) + 1} - containers # SKIP none runs here: {why}")
            print(f"1..{len(FOUND) + 1}")
            return 0
        words = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        words += [sys.executable, "-c", OTHER]
        with subprocess.Popen(words, stdin=subprocess.PIPE) as other:
            check(node)
            other.stdin.close()
        print(f"1..{len(FOUND)}")
    finally:
        shutil.rmtree(at, ignore_errors=True)
    return 0


if __name__ == "__main__":
    if os.getpid() != 1:
        sys.exit("it is the first process of a namespace: unshare --pid --fork --mount-proc")
    sys.exit(main(*sys.argv[1:]))

"""What `cargo xtask test --only world-dumps` asks of `zmeld scan --file`.

    judge.py ZMELD FOLDER

Dumps are made in FOLDER: by gcore, by the kernel where it writes cores into files, and by the
layouts that their formats document. Pages are counted again by pyelftools and by readers of a
few lines, and have to be as many from a file, through a pipe, through a named pipe, and from a
file as standard input. What is refused has to name a command that makes it readable, which is
run as it is printed. It speaks TAP.
"""

import json
import os
import random
import re
import resource
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from elftools.elf.elffile import ELFFile

PAGE = 4096
MIB = 1 << 20
# Only so that what hangs ends; nothing here takes a tenth of it.
PATIENCE_S = 120

# What each check found.
FOUND: list[bool] = []

Extents = list[tuple[int, int]]
Counts = dict[str, int]


def say(name: str, problem: str = "") -> None:
    """One check."""
    FOUND.append(not problem)
    said = f"not ok {len(FOUND)} - {name}: {problem}"
    print(said if problem else f"ok {len(FOUND)} - {name}", flush=True)


def skip(name: str, why: str) -> None:
    """One check that cannot be made here."""
    FOUND.append(True)
    print(f"ok {len(FOUND)} - {name} # SKIP {why}", flush=True)


# The readers: where pages lie in a file, by offset and length.


def plain(path: Path) -> Extents:
    """All of it."""
    return [(0, path.stat().st_size)]


def core(path: Path) -> Extents:
    """The segments of an ELF core; what one shows of another is shown once."""
    with path.open("rb") as file:
        headers = [segment.header for segment in ELFFile(file).iter_segments("PT_LOAD")]
    extents: Extents = []
    end = 0
    for offset, size in sorted(((it.p_offset, it.p_filesz) for it in headers), key=lambda it: (it[0], -it[1])):
        begin = max(offset, min(end, offset + size))
        if begin < offset + size:
            extents.append((begin, offset + size - begin))
        end = max(end, offset + size)
    return extents


def lime(path: Path) -> Extents:
    """The ranges of a LiME dump."""
    extents: Extents = []
    with path.open("rb") as file:
        while header := file.read(32):
            magic, version, first, last = struct.unpack("<IIQQ8x", header)
            assert (magic, version) == (0x4C694D45, 1)
            extents.append((file.tell(), last - first + 1))
            file.seek(last - first + 1, os.SEEK_CUR)
    return extents


def pages(path: Path, extents: Extents) -> Iterator[tuple[bytes, int]]:
    """Each page, filled up with zeros, or nothing and the number of pages that are holes."""
    with path.open("rb", buffering=0) as file:
        for at, size in extents:
            end = at + size
            while at < end:
                try:
                    data = min(os.lseek(file.fileno(), at, os.SEEK_DATA), end)
                except OSError:
                    data = end
                if holes := -(-(end - at) // PAGE) if data == end else (data - at) // PAGE:
                    yield b"", holes
                    at += holes * PAGE
                else:
                    yield os.pread(file.fileno(), min(PAGE, end - at), at).ljust(PAGE, b"\0"), 1
                    at += PAGE


def count(path: Path, extents: Extents) -> Counts:
    """What `zmeld scan --json` has to say."""
    counts = dict.fromkeys(("never_written", "zero", "same_filled", "unique", "duplicate"), 0)
    seen: set[bytes] = set()
    for page, number in pages(path, extents):
        if not page:
            kind = "never_written"
        elif page == page[:8] * (PAGE // 8):
            kind = "same_filled" if any(page) else "zero"
        else:
            kind = "duplicate" if page in seen else "unique"
            seen.add(page)
        counts[kind] += number
    return counts


# What zmeld says.


class Judge:
    """Runs the program."""

    def __init__(self, zmeld: Path, folder: Path) -> None:
        self.zmeld = zmeld
        self.folder = folder

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        """A script of a shell in which `zmeld` is the program."""
        path = f"{self.zmeld.parent}:{os.environ['PATH']}"
        return subprocess.run(
            ["bash", "-c", script],
            cwd=self.folder,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def counts(self, script: str) -> Counts | str:
        """The counts of a script that ends with a scan; what went wrong otherwise."""
        done = self.run(f"{script} --codecs lz4 --json")
        if done.returncode != 0:
            return f"code {done.returncode}: {done.stderr.strip()}"
        # What the script's other programs say stands before it.
        result = json.loads(done.stdout[done.stdout.index("{") :])
        counts = {"never_written": result["memory"]["never_written"], **result["pages"]}
        del counts["total"]
        return counts

    def equal(self, name: str, wanted: Counts, *, streams: bool = True) -> None:
        """The counts of a file, read in each way."""
        ways = {"a file": f"zmeld scan --file {name}", "standard input": f"< {name} zmeld scan --file -"}
        if streams:
            ways["a pipe"] = f"set -o pipefail; cat {name} | zmeld scan --file -"
            ways["a named pipe"] = f"rm -f fifo; mkfifo fifo; cat {name} > fifo & zmeld scan --file fifo"
        for way, script in ways.items():
            expected = dict(wanted)
            if "pipe" in way:
                # What was never written comes as zeros.
                expected["zero"] += expected["never_written"]
                expected["never_written"] = 0
            found = self.counts(script)
            say(f"{name} from {way}", "" if found == expected else f"{found}, counted again: {expected}")

    def refused(self, name: str, words: str, *, streams: bool = True) -> str:
        """A refusal in one line that names the file; what it says behind the last colon."""
        said = ""
        ways = [f"zmeld scan --file {name}"]
        if streams:
            ways.append(f"cat {name} | zmeld scan --file -")
        for script in ways:
            done = self.run(script)
            lines = done.stderr.splitlines()
            is_one = done.returncode == 2 and len(lines) == 1 and not done.stdout
            is_named = is_one and re.search(words, lines[0])
            is_named = is_named and (name if "cat" not in script else "standard input") in lines[0]
            say(f"refused: {script}", "" if is_named else f"code {done.returncode}: {done.stderr}")
            said = said or (lines[0].rpartition(": ")[2] if lines else "")
        return said


# The dumps.


def page(number: int) -> bytes:
    """A quarter zeros, some alike, the others of words."""
    if number % 4 == 0:
        return bytes(PAGE)
    if number % 9 == 0:
        return bytes([number & 0xFF, 1, 2, 3, 4, 5, 6, 7]) * (PAGE // 8)
    words = random.Random(1 if number % 5 == 0 else number)
    text = " ".join(f"name{words.randrange(50)}={words.randrange(1000)}" for _ in range(400))
    return text.encode()[:PAGE].ljust(PAGE, b"x")


BODY = b"".join(page(number) for number in range(600))


def elf(
    path: Path,
    segments: list[tuple[int, int, int]],
    body: bytes,
    *,
    form: str = "64<",
    start: int = PAGE,
    table: str = "front",
    kind: int = 1,
) -> None:
    """A core of segments at an offset behind `start`, with so many bytes in the file and in
    memory. Where the table is `counted`, the first section's header has the count."""
    wide, order = form[:2] == "64", form[2]
    sizes = (64, 56, 64) if wide else (52, 32, 40)
    counted = table == "counted"
    at = sizes[0] + (sizes[2] if counted else 0)
    if table == "behind":
        at = start + len(body)
    ident = b"\x7fELF" + bytes([2 if wide else 1, 1 if order == "<" else 2, 1]) + bytes(9)
    machine = {"64<": 62, "64>": 22, "32<": 3, "32>": 20}[form]
    number = 0xFFFF if counted else len(segments)
    sections = (sizes[0] if counted else 0, sizes[0], sizes[1], number, sizes[2], int(counted), 0)
    words = "HHIQQQIHHHHHH" if wide else "HHIIIIIHHHHHH"
    head = ident + struct.pack(order + words, 4, machine, 1, 0, at, sections[0], 0, *sections[1:])
    if counted:
        head += struct.pack(order + ("IIQQQQIIQQ" if wide else "10I"), *([0] * 7), len(segments), 0, 0)
    entries = b""
    for offset, in_file, in_memory in segments:
        place, address = start + offset, 0x400000 + offset
        if wide:
            entries += struct.pack(order + "IIQQQQQQ", kind, 6, place, address, 0, in_file, in_memory, PAGE)
        else:
            entries += struct.pack(order + "8I", kind, place, address, 0, in_file, in_memory, 6, PAGE)
    with path.open("wb") as file:
        file.write(head if table == "behind" else head + entries)
        file.seek(start)
        file.write(body)
        if table == "behind":
            file.write(entries)


def lime_dump(path: Path, ranges: list[bytes]) -> None:
    """Ranges of memory, each behind its header."""
    address = 0x1000
    with path.open("wb") as file:
        for content in ranges:
            file.write(struct.pack("<IIQQ8x", 0x4C694D45, 1, address, address + len(content) - 1))
            file.write(content)
            address += len(content) + MIB


def flattened(path: Path, content: bytes) -> None:
    """As `makedumpfile -F` writes a dump to a pipe: pieces out of order, each behind its offset
    and size, in big endian."""
    with path.open("wb") as file:
        file.write((b"makedumpfile".ljust(16, b"\0") + struct.pack(">qq", 1, 1)).ljust(PAGE, b"\0"))
        for at in reversed(range(0, len(content), 65536)):
            piece = content[at : at + 65536]
            file.write(struct.pack(">qq", at, len(piece)) + piece)
        file.write(struct.pack(">qq", -1, -1))


def cores(judge: Judge) -> None:
    """ELF cores in every form, whole and broken."""
    folder, size = judge.folder, len(BODY)
    whole = [(0, size, size)]
    for form in ("64<", "64>", "32<", "32>"):
        name = f"core-{form[:2]}-{'little' if form[2] == '<' else 'big'}"
        elf(folder / name, whole, BODY, form=form)
        judge.equal(name, count(folder / name, core(folder / name)))
    many = [(at, PAGE, PAGE) for at in range(0, size, PAGE)]
    shapes = {
        # As gcore writes them, at no page's boundary.
        "core-odd": ([(0, 100 * PAGE, 120 * PAGE), (100 * PAGE + 24, size // 2, size)], 1234, "front"),
        "core-nested": ([(0, size, size), (8 * PAGE, 5 * PAGE, 5 * PAGE), (0, 700, 700), (90 * PAGE, 9, 9)], PAGE, "front"),
        "core-counted": (many, 16 * PAGE, "counted"),
        "core-reversed": (many[::-1], 16 * PAGE, "front"),
        "core-behind": (whole, PAGE, "behind"),
        "core-left-out": ([*whole, (0, 0, 1 << 30)], PAGE, "front"),
        "core-part-of-page": ([(0, 10 * PAGE + 77, 11 * PAGE), (20 * PAGE, 3, 3)], PAGE, "front"),
    }
    for name, (segments, start, table) in shapes.items():
        elf(folder / name, segments, BODY + bytes(9 * PAGE), start=start, table=table)
        judge.equal(name, count(folder / name, core(folder / name)))
    # Behind more than a gibibyte of notes, which are no memory.
    notes = (1 << 30) + 4096 + 20
    elf(folder / "core-late", [(0, notes, notes), (notes, size, size)], b"")
    with (folder / "core-late").open("r+b") as file:
        file.seek(64)
        file.write(struct.pack("<I", 4))
        file.seek(PAGE + notes)
        file.write(BODY)
    judge.equal("core-late", count(folder / "core-late", core(folder / "core-late")))
    elf(folder / "core-notes", whole, BODY, kind=4)
    judge.refused("core-notes", "PT_LOAD.*--raw")
    content = (folder / "core-64-little").read_bytes()
    (folder / "core-cut").write_bytes(content[: len(content) // 2])
    judge.refused("core-cut", "0x[0-9a-f]+.* cut short .*ulimit -c.*--raw")
    (folder / "core-cut-header").write_bytes(content[:90])
    judge.refused("core-cut-header", "0x5a.*--raw")
    # Too far behind its pages to be kept until it comes.
    elf(folder / "core-far", whole, BODY)
    with (folder / "core-far").open("r+b") as file:
        file.seek(32)
        file.write(struct.pack("<Q", 1 << 40))
    judge.refused("core-far", "(program header|too far for a stream).*--raw")


def real_cores(judge: Judge) -> None:
    """Cores of a process by gcore, and by the kernel where it writes them into files."""
    script = (
        "import mmap, os, sys, time\n"
        "m = mmap.mmap(-1, 4096 * 900, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n"
        "huge = mmap.mmap(-1, 8 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n"
        "huge.madvise(mmap.MADV_HUGEPAGE)\n"
        "huge[4 << 20:(4 << 20) + 5] = b'pages'\n"
        "for at in range(600):\n"
        "    text = (b'', b'the same of all', b'page %d ' % at)[at % 3]\n"
        "    m[at * 4096:(at + 1) * 4096] = (text * 600).ljust(4096, b'\\0')[:4096]\n"
        "print(flush=True)\n"
        "sys.stdin.read()\n"
        "os.abort()\n"
    )
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2)
    child = subprocess.Popen(
        [sys.executable, "-c", script], cwd=judge.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdin and child.stdout
    child.stdout.readline()
    done = judge.run(f"gcore -o core.gcore {child.pid}")
    name = f"core.gcore.{child.pid}"
    if done.returncode == 0 and (judge.folder / name).exists():
        (judge.folder / name).rename(judge.folder / "core-gcore")
        judge.equal("core-gcore", count(judge.folder / "core-gcore", core(judge.folder / "core-gcore")))
    else:
        skip("core-gcore", f"gcore: {done.stderr.strip().splitlines()[-1:]}")
    child.stdin.close()
    child.wait()
    made = [it for it in (judge.folder / "core", judge.folder / f"core.{child.pid}") if it.exists()]
    if made:
        made[0].rename(judge.folder / "core-kernel")
        judge.equal("core-kernel", count(judge.folder / "core-kernel", core(judge.folder / "core-kernel")))
    else:
        skip("core-kernel", "the kernel's cores go elsewhere (core_pattern)")


def lime_dumps(judge: Judge) -> None:
    """LiME, whole and broken."""
    folder = judge.folder
    # A range of PCs ends where no page does.
    lime_dump(folder / "two.lime", [BODY[: 0x9EC00], BODY[: len(BODY) // 2]])
    judge.equal("two.lime", count(folder / "two.lime", lime(folder / "two.lime")))
    content = (folder / "two.lime").read_bytes()
    second = struct.pack("<IIQQ8x", 0x4C694D45, 1, 0x9000, 0x1000)
    broken = {
        "cut.lime": (content[: len(content) // 2], r"cut short"),
        "cut-header.lime": (content[: 0x9EC00 + 40], r"header of range 1, at 0x9ec20: .*cut short"),
        "lost.lime": (content[: 0x9EC00 + 32] + bytes(PAGE), r"range 1, at 0x9ec20: .*magic"),
        "reversed.lime": (content[: 0x9EC00 + 32] + second, r"range 1, at 0x9ec20: .*0x9000 to 0x1000"),
    }
    for name, (bytes_of, words) in broken.items():
        (folder / name).write_bytes(bytes_of)
        judge.refused(name, words + ".*--raw")


def packed(judge: Judge) -> None:
    """What is packed is refused, and its remedy is run as it is printed."""
    folder = judge.folder
    plain_core = folder / "core-64-little"
    wanted = count(plain_core, core(plain_core))
    for program in ("zstd", "lz4", "gzip", "xz", "bzip2", "lzop"):
        # A name that a shell does not take as it is.
        name = f"a core's.{program}"
        if not shutil.which(program):
            skip(name, f"no {program}")
            continue
        (folder / name).write_bytes(subprocess.run([program, "-c", plain_core], capture_output=True, check=True).stdout)
        done = judge.run(f'zmeld scan --file "{name}"')
        remedy = done.stderr.strip().rpartition("is not read: ")[2]
        found = judge.counts(remedy) if done.returncode == 2 and "\n" not in remedy else done.stderr
        say(f"{name}: {remedy}", "" if found == wanted else f"{found}")
        (folder / "packed").write_bytes((folder / name).read_bytes())
        judge.refused("packed", f"compressed by {program}.*{program} -dc")
    flattened(folder / "flat", plain_core.read_bytes())
    remedy = judge.refused("flat", "flattened.*makedumpfile -R plain.vmcore < (flat|FILE); zmeld scan --file")
    if shutil.which("makedumpfile"):
        found = judge.counts(remedy)
        say(f"flat: {remedy}", "" if found == wanted else f"{found}")
    else:
        skip("flat: its remedy", "no makedumpfile")
    for name, head, words in (
        ("avml", struct.pack("<4sIQQ8x", b"AVML", 2, 0x1000, 0x1FFF), "avml-convert (avml|FILE) plain.lime"),
        ("kdump", b"KDUMP   " + struct.pack("<I", 6), "ELF form .*makedumpfile -E"),
        ("savevm", b"QEVM" + struct.pack(">I", 3), "ELF form: virsh dump"),
        ("minidump", b"MDMP\x93\xa7\0\0", "a minidump.*ELF or raw"),
        ("archive", b"PK\x03\x04", "unzip -p (archive|FILE)"),
    ):
        (folder / name).write_bytes(head + random.Random(3).randbytes(4 * PAGE))
        judge.refused(name, words)


def images(judge: Judge) -> None:
    """Images of drives, which only in the plain form have pages where they are in memory."""
    (judge.folder / "drive").write_bytes(BODY[: 64 * PAGE] + bytes(MIB) + BODY[: 16 * PAGE])
    wanted = count(judge.folder / "drive", plain(judge.folder / "drive"))
    for name, options in (
        ("qcow2", "qcow2"),
        ("qcow2-compressed", "qcow2 -c"),
        ("qed", "qed"),
        ("vmdk", "vmdk"),
        ("vmdk-stream", "vmdk -o subformat=streamOptimized"),
        ("vmdk-flat", "vmdk -o subformat=monolithicFlat"),
        ("vdi", "vdi"),
        ("vhdx", "vhdx"),
        ("vhd", "vpc -o force_size"),
        ("parallels", "parallels"),
    ):
        if not shutil.which("qemu-img"):
            skip(name, "no qemu-img")
            continue
        judge.run(f"rm -f {name} && qemu-img convert -f raw -O {options} drive {name}")
        remedy = judge.refused(name, "image, which is not read: qemu-img convert -O raw")
        # What is written in sectors may be longer than what was read.
        found = judge.run(f"{remedy.partition(';')[0]} && cmp -n $(stat -c %s drive) drive plain.img")
        say(f"{name}: {remedy}", found.stdout + found.stderr)
        found_counts = judge.counts(remedy)
        is_same = isinstance(found_counts, dict) and found_counts["unique"] == wanted["unique"]
        say(f"{name}: its pages", "" if is_same else f"{found_counts}, counted again: {wanted}")


def machines(judge: Judge) -> None:
    """What QEMU writes of a machine's memory in each of its ways."""
    folder = judge.folder
    qemu = shutil.which("qemu-system-x86_64")
    if not qemu:
        skip("qemu", "no qemu-system-x86_64")
        return
    ways = {
        "vm-elf": "dump-guest-memory vm-elf",
        "vm-paging": "dump-guest-memory -p vm-paging",
        "vm-zlib": "dump-guest-memory -z vm-zlib",
        "vm-physical": "pmemsave 0 0x8000000 vm-physical",
        "vm-migrated": 'migrate "exec:cat > vm-migrated"',
    }
    monitor = subprocess.Popen(
        [qemu, "-machine", "pc,accel=tcg", "-m", "128", "-display", "none", "-nodefaults", "-monitor", "stdio"],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    monitor.communicate("\n".join(["stop", *ways.values(), "quit", ""]), timeout=PATIENCE_S)
    for name, readers in (("vm-elf", core), ("vm-paging", core), ("vm-physical", plain)):
        judge.equal(name, count(folder / name, readers(folder / name)))
    judge.refused("vm-zlib", "flattened dump of makedumpfile|kdump")
    judge.refused("vm-migrated", "QEMU migration.*ELF form: virsh dump")
    # Put together, as the first refusal says, it is a kdump.
    done = judge.run("rm -f plain.vmcore; makedumpfile -R plain.vmcore < vm-zlib")
    if done.returncode == 0:
        judge.refused("plain.vmcore", "compressed kdump.*ELF form .*dump-guest-memory")


def sparse(judge: Judge) -> None:
    """Holes are counted, not read: a tebibyte with two pages, and a core of 22 GiB."""
    folder = judge.folder
    with (folder / "tebibyte").open("wb") as file:
        file.truncate(1 << 40)
        for at, number in ((1 << 39, 1), ((1 << 40) - PAGE, 2)):
            file.seek(at)
            file.write(page(number))
    judge.equal("tebibyte", count(folder / "tebibyte", plain(folder / "tebibyte")), streams=False)
    size = 22 << 30
    elf(folder / "core-sparse", [(0, size, size)], b"", start=PAGE + 1234)
    with (folder / "core-sparse").open("r+b") as file:
        for at in (5 << 30, 9 << 30):
            file.seek(at)
            file.write(BODY)
        file.truncate(PAGE + 1234 + size)
    judge.equal("core-sparse", count(folder / "core-sparse", core(folder / "core-sparse")), streams=False)
    with (folder / "holes").open("wb") as file:
        for at in range(0, 300, 7):
            file.seek(at * 1000)
            file.write(page(at)[:3000])
            file.truncate((at + 1) * 16384)
            file.seek((at + 1) * 16384)
            file.write(BODY[: 5 * PAGE])
        file.truncate(300 * 16384 + 77)
    judge.equal("holes", count(folder / "holes", plain(folder / "holes")))
    # A hole first, a hole last, and holes alone.
    for name, places in (("hole-first", [(1 << 22) + 100]), ("hole-last", [0]), ("holes-alone", [])):
        with (folder / name).open("wb") as file:
            for at in places:
                file.seek(at)
                file.write(BODY[: 9 * PAGE])
            file.truncate(1 << 23)
        judge.equal(name, count(folder / name, plain(folder / name)))
    (folder / "odd").write_bytes(BODY[: 100 * PAGE + 1234])
    judge.equal("odd", count(folder / "odd", plain(folder / "odd")))


def main() -> None:
    """All of them."""
    zmeld, folder = (Path(it).resolve() for it in sys.argv[1:])
    shutil.rmtree(folder)
    folder.mkdir()
    judge = Judge(zmeld, folder)
    for group in (cores, real_cores, lime_dumps, packed, images, machines, sparse):
        group(judge)
    print(f"1..{len(FOUND)}")


if __name__ == "__main__":
    main()

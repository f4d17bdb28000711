#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Keeps anonymous pages of eleven programs: on s390x, by qemu-user, or natively.

usage: pages.py FOLDER [ROOT]     FOLDER/NAME.pages, and FOLDER/all.pages of all

It needs Debian 12 with qemu-user-static, debootstrap and the programs. ROOT:

    debootstrap --foreign --arch=s390x --variant=minbase \\
        --include=python3,perl,sqlite3,gawk,lua5.4,jq,ruby3.1 bookworm ROOT
    for deb in ROOT/var/cache/apt/archives/*.deb; do dpkg-deb -x $deb ROOT; done

Then: zmeld scan --file FOLDER/all.pages --raw --full --codecs zword,zword:2,zstd,lz4
"""
import random
import re
import subprocess
import sys
import time
from pathlib import Path

TEXT = "cat $(find /usr/share/doc -name copyright | sort | head -1500)"
# Name, program, its arguments, what it reads.
PROGRAMS = [
    ("python-xml", "python3.11", ["-c", "import sys, time, xml.etree.ElementTree as t\n"
        "keep = t.fromstring('<r>' + ''.join(f'<e id=\"{i}\" name=\"n{i * 7919 % 10007}\"><v>{i / 7}</v><s>item {i}</s></e>'"
        " for i in range(60000)) + '</r>')\ntime.sleep(1000)"], None),
    ("python-records", "python3.11", ["-c", "import sys, time\n"
        "keep = [{'id': n, 'line': line, 'words': line.split(), 'share': n / 7} for n, line in enumerate(sys.stdin) if n < 60000]\n"
        "time.sleep(1000)"], TEXT),
    ("python-ast", "python3.11", ["-c", "import ast, sys, time\nkeep = ast.parse(open('/usr/lib/python3.11/_pydecimal.py').read()), "
        "ast.parse(open('/usr/lib/python3.11/typing.py').read()), ast.parse(open('/usr/lib/python3.11/tarfile.py').read())\n"
        "time.sleep(1000)"], None),
    ("perl-hashes", "perl", ["-ne", "push @k, {id => $., line => $_, words => [split ' ']} if $. < 60000; END { sleep 1000 }"], TEXT),
    ("perl-words", "perl", ["-ne", "$k{$_ . $. % 97}++ for split /\\W+/; END { sleep 1000 }"], TEXT),
    ("bash-arrays", "bash", ["-c", "mapfile -t a; declare -A b; for i in ${!a[@]}; do b[$i:${a[i]:0:20}]=$i; "
        "[ $i -lt 60000 ] || break; done; kill -STOP $$"], TEXT),
    ("gawk", "gawk", ["{ line[NR] = $0; for (i = 1; i <= NF; i++) n[$i \" \" NR % 31]++ } END { while (1) n[1]++ }"], TEXT),
    ("lua", "lua5.4", ["-e", "local k = {} for l in io.lines() do k[#k + 1] = {id = #k, line = l, share = #k / 7} "
        "if #k > 80000 then break end end while true do end"], TEXT),
    ("sqlite", "sqlite3", [":memory:"], "echo 'create table t(id integer primary key, path text, n int, line text);'; "
        + TEXT + " | iconv -c -t ascii | tr -d \"'\" | head -120000 | awk '{ printf \"insert into t(path, n, line) "
        "values(\\047p%d\\047, %d, \\047%s\\047);\\n\", NR % 97, NR, $0 }'; echo 'create index i on t(line);'; sleep 1000"),
    ("jq", "jq", ["-R", "-s", "split(\"\\n\") | map({line: ., words: split(\" \"), n: length}) | while(true; .) | empty"], TEXT + " | head -40000"),
    ("ruby", "ruby3.1", ["--disable-gems", "-e", "k = $stdin.each_line.first(50000).map.with_index { |l, i| {id: i, line: l, words: l.scrub.split, share: i / 7.0} }; "
        "sleep 1000"], TEXT),
]


def anonymous(pid, lowest):
    """Its pages that no file has, but those that are filled with one word."""
    found = []
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as mem:
        for line in maps:
            start, end, rights, inode = re.match(r"(\w+)-(\w+) (\S+) \S+ \S+ (\d+)", line).groups()
            start, end = int(start, 16), int(end, 16)
            if start < lowest or not rights.startswith("rw") or inode != "0" or "[v" in line:
                continue
            for at in range(start, end, 1 << 20):
                mem.seek(at)
                block = mem.read(min(1 << 20, end - at))
                pages = (block[k:k + 4096] for k in range(0, len(block), 4096))
                found += [page for page in pages if page[8:] != page[:-8]]
    return found


def keep(folder, root, name, program, arguments, source):
    guest = 0x600000000000
    command = [program, *arguments]
    if root:
        path = next(path for path in root.rglob(program) if path.parent.name == "bin")
        # The guest's memory is the part of the process's that begins there.
        command[:1] = ["qemu-s390x-static", "-B", hex(guest), "-R", "0x400000000", "-L", str(root), str(path)]
    stdin = subprocess.Popen(["sh", "-c", source or "true"], stdout=subprocess.PIPE, start_new_session=True)
    child = subprocess.Popen(command, stdin=stdin.stdout, stdout=subprocess.DEVNULL, start_new_session=True)
    size, still = 0, 0
    for _ in range(150):
        time.sleep(1)
        if child.poll() is not None:
            break
        now = int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{child.pid}/status").read_text()).group(1))
        still = still + 1 if now <= size + 256 and now > 20000 else 0
        size = max(size, now)
        if still == 6 or size > 300 << 10:
            break
    pages = anonymous(child.pid, guest if root else 0) if child.poll() is None else []
    for process in (child, stdin):
        subprocess.run(["kill", "-KILL", "--", f"-{process.pid}"], stderr=subprocess.DEVNULL)
    random.Random(name).shuffle(pages)
    print(name, len(pages), flush=True)
    (folder / f"{name}.pages").write_bytes(b"".join(pages[:1500]))


def main():
    folder, root = Path(sys.argv[1]), Path(sys.argv[2]).resolve() if sys.argv[2:] else None
    folder.mkdir(exist_ok=True)
    for program in PROGRAMS:
        keep(folder, root, *program)
    (folder / "all.pages").write_bytes(b"".join((folder / f"{name}.pages").read_bytes() for name, *_ in PROGRAMS))


main()

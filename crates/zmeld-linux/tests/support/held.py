"""A process whose memory nobody can read: every reader sleeps in its mmap_lock.

Run by root, which mounts a file system of this program's own and becomes an ordinary user. A page
fault on its file reads with mmap_lock held where the read before it failed; this read is never
answered, and mmap() in another thread waits to write that lock. Whoever wants it now waits too.
Says the numbers of the processes that are held, in a line, and ends with its standard input.
"""
import ctypes, ctypes.util, errno, glob, mmap, os, signal, struct, sys, threading, time

# A user of its own, and no subordinate one: what one user holds up is counted together.
USER = (1 << 30) + os.getpid()
FILE = 2
HOW_MANY, FAILING = int(sys.argv[1]), 1
WITHOUT_FIRST = sys.argv[3:] == ["without-first"]
IN, OUT = struct.Struct("<IIQQIIII"), struct.Struct("<IiQ")
SIZE = 1 << 16

libc = ctypes.CDLL(None, use_errno=True)


def checked(result):
    if result < 0:
        number = ctypes.get_errno()
        print(f"SKIP: {os.strerror(number)}", flush=True)
        sys.exit()


def attributes(node):
    mode = 0o100644 if node == FILE else 0o40755
    return struct.pack("<QQQQQQIIIIIIIIII", node, SIZE, SIZE // 512, 0, 0, 0, 0, 0, 0, mode, 1,
                       USER, USER, 0, 4096, 0)


reads = {}


def is_held(number, pid):
    """Its page is waited for with the lock held, and another thread waits for the lock."""
    threads = glob.glob(f"/proc/{pid}/task/*/stat")
    states = [open(stat).read().rpartition(")")[2].split()[0] for stat in threads]
    return reads.get(FILE + number, 0) > FAILING and "D" in states


def serve(device):
    """Answers what is asked for until the file is unmounted; all of its reads fail, but the last."""
    while True:
        try:
            request = os.read(device, 1 << 20)
        except OSError as error:
            if error.errno == errno.ENODEV:
                return
            raise
        _, opcode, unique, node, _, _, _, _ = IN.unpack_from(request)
        body, error = b"", 0
        if opcode == 26:  # INIT
            body = struct.pack("<IIIIHHIIHHI28x", 7, 31, 0, 0, 0, 0, 1 << 16, 1, 0, 0, 0)
        elif opcode == 1:  # LOOKUP: a file for each name
            name = request[IN.size:].rstrip(b"\0")
            node = FILE + int(name)
            body = struct.pack("<QQQQII", node, 0, 60, 60, 0, 0) + attributes(FILE)
        elif opcode == 3:  # GETATTR
            body = struct.pack("<QII", 60, 0, 0) + attributes(1 if node == 1 else FILE)
        elif opcode == 14:  # OPEN
            body = struct.pack("<QII", 0, 0, 0)
        elif opcode == 15:  # READ
            reads[node] = reads.get(node, 0) + 1
            if reads[node] > FAILING:
                continue
            error = -errno.EIO
        elif opcode in (2, 36, 42):  # FORGET, INTERRUPT, BATCH_FORGET: no answer
            continue
        elif opcode not in (18, 25):  # RELEASE, FLUSH
            error = -errno.ENOSYS
        os.write(device, OUT.pack(OUT.size + len(body), error, unique) + body)


def hold(path):
    """Maps the file and waits for its page; another thread maps something."""
    # Some memory of its own, which there is to read.
    memory = mmap.mmap(-1, 1 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.write(os.urandom(1 << 20))
    # Where there is swap, it is there.
    MADV_PAGEOUT = 21
    memory.madvise(MADV_PAGEOUT)
    file = os.open(path, os.O_RDONLY)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
    libc.memcpy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    mapped = libc.mmap(None, 4096, mmap.PROT_READ, mmap.MAP_PRIVATE, file, 0)
    place = ctypes.create_string_buffer(1)

    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

    def map_too():
        # Until it waits for the page's reader, for ever.
        while True:
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
            libc.munmap(libc.mmap(None, 4096, mmap.PROT_READ, flags, -1, 0), 4096)
            time.sleep(0.01)

    threading.Thread(target=map_too).start()
    # Called so, it leaves the interpreter to the other thread.
    libc.memcpy(place, mapped, 1)


try:
    device = os.open("/dev/fuse", os.O_RDWR)
except OSError as error:
    print(f"SKIP: /dev/fuse: {error.strerror}", flush=True)
    sys.exit()
folder = os.fsencode(sys.argv[2])
CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 1 << 18
checked(libc.unshare(CLONE_NEWNS))
checked(libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None))
options = f"fd={device},rootmode=40000,user_id={USER},group_id={USER},allow_other".encode()
checked(libc.mount(b"held", folder, b"fuse", 0, options))
os.setgroups([])
os.setresgid(USER, USER, USER)
os.setresuid(USER, USER, USER)
libc.prctl(4, 1, 0, 0, 0)
threading.Thread(target=serve, args=[device], daemon=True).start()
pids = []
for number in range(HOW_MANY):
    pid = os.fork()
    if pid == 0:
        # All of it ends with this program.
        libc.prctl(1, signal.SIGKILL, 0, 0, 0)
        os.close(device)
        place = os.path.join(sys.argv[2], str(number))
        if WITHOUT_FIRST:
            threading.Thread(target=hold, args=[place]).start()
            # This thread alone; the process has no memory then, by its own files.
            SYS_EXIT = {"x86_64": 60}.get(os.uname().machine, 93)
            libc.syscall(SYS_EXIT, 0)
        hold(place)
        os._exit(0)
    pids.append(pid)
for number, pid in enumerate(pids):
    # Seen twice, since any thread waits for something now and then.
    while not (is_held(number, pid) and time.sleep(0.1) is None and is_held(number, pid)):
        time.sleep(0.05)
print(*pids, flush=True)
sys.stdin.read()
for pid in pids:
    os.kill(pid, signal.SIGKILL)
os._exit(0)

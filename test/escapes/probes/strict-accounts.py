# expect: contained
# kind: boundary; profile: strict; why: the accounts are refused by every route, to every process, and cannot be uncovered
import ctypes, multiprocessing, os, subprocess, sys

FILES = ("/etc/passwd", "/etc/group")
read = []


def note(route, text):
    if text and b"root:" in (text if isinstance(text, bytes) else text.encode()):
        read.append(route)


def attempt(route, action):
    try:
        note(route, action())
    except (OSError, ValueError, subprocess.SubprocessError):
        pass


def content(path, **options):
    descriptor = os.open(path, os.O_RDONLY, **options)
    try:
        return os.read(descriptor, 4096)
    finally:
        os.close(descriptor)


def by_link(path, name, make):
    make(path, name)
    return content(name)


def by_path_descriptor(path):
    descriptor = os.open(path, os.O_PATH)
    return content(f"/proc/self/fd/{descriptor}")


def by_libc(path):
    libc = ctypes.CDLL(None, use_errno=True)
    text = ctypes.create_string_buffer(4096)
    descriptor = libc.open(path.encode(), 0)
    return text.raw[: libc.read(descriptor, text, 4096)] if descriptor >= 0 else b""


def uncover(path):
    libc = ctypes.CDLL(None)
    for flags in (0, 2, 8):
        libc.umount2(path.encode(), flags)
    for change in (lambda: os.chmod(path, 0o644), lambda: os.chown(path, 1000, 1000), lambda: os.unlink(path),
                   lambda: os.rename(path, path + "2"), lambda: os.truncate(path, 0)):
        try:
            change()
            read.append("it can be changed")
        except OSError:
            pass
    return content(path)


for number, path in enumerate(FILES):
    name = os.path.basename(path)
    attempt("open", lambda: content(path))
    attempt("for writing", lambda: os.read(os.open(path, os.O_RDWR), 4096))
    attempt("openat", lambda: content(name, dir_fd=os.open("/etc", os.O_RDONLY)))
    attempt("the folder's path", lambda: content("/etc/../etc//./" + name))
    attempt("the root of the process", lambda: content("/proc/self/root" + path))
    attempt("its folder", lambda: content("/proc/self/cwd/../.." + path))
    attempt("the root of another process", lambda: content(f"/proc/{os.getppid()}/root" + path))
    attempt("the first process", lambda: content("/proc/1/root" + path))
    attempt("a thread", lambda: content("/proc/thread-self/root" + path))
    attempt("a link", lambda: by_link(path, f"/tmp/s{number}", os.symlink))
    attempt("a hard link", lambda: by_link(path, f"/tmp/h{number}", os.link))
    attempt("a hard link beside it", lambda: by_link(path, path + "3", os.link))
    attempt("a descriptor of a path", lambda: by_path_descriptor(path))
    attempt("libc", lambda: by_libc(path))
    attempt("cat", lambda: subprocess.run(["cat", path], capture_output=True).stdout)
    attempt("cp", lambda: subprocess.run(["cp", path, "/tmp/copy"], capture_output=True) and content("/tmp/copy"))
    attempt("a shell", lambda: subprocess.run(f"cd /etc; while read l; do echo $l; done < {name}", shell=True, capture_output=True).stdout)
    attempt("getent", lambda: subprocess.run(["getent", name], capture_output=True).stdout)
    attempt("another Python", lambda: subprocess.run([sys.executable, "-c", f"print(open({path!r}).read())"], capture_output=True).stdout)
    attempt("uncovered", lambda: uncover(path))

    def child(pipe):
        try:
            pipe.send(content(path))
        except OSError:
            pipe.send(b"")

    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=child, args=(theirs,))
    process.start()
    note("a fork", ours.recv())
    process.join()

for name in ("shadow", "shadow-", "gshadow", "gshadow-", "passwd-", "group-", "subuid", "security/opasswd"):
    if os.path.lexists("/etc/" + name):
        read.append("/etc/" + name)
print(f"BREACH: accounts by {read}" if read else "CONTAINED")

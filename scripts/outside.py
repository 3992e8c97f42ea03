#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""outside.py [--self-test] [--list] [ROOT]: only src/base/ asks the system for what lies outside the program.

Files, network, clock, randomness, processes and signals are reached through base/world.h, so that a test can put a
simulated world in their place.  The table CALLS names the functions of the C library that reach the real ones.
They are looked for in two ways:

  text      in every file of src/, comments and strings left out
  objects   in the undefined symbols of every object file that a build left behind and that is newer than its source:
            this sees what a macro or an inline function of a system header calls

EXCEPTIONS says which file may still call what, and why.  A row that names a call which is no longer there is an error
too: delete it.  So the table can only get shorter, unless somebody adds a row and gives a reason.
--list prints the table as it stands.  check-style.py runs this check; --self-test shows that it can fail.
One line per violation, then "N passed, N failed", counted in files.
"""
import glob
import os
import re
import subprocess
import sys
import tempfile

CALLS = {
    "files": """open openat creat fopen fdopen freopen tmpfile read readv pread preadv write writev pwrite pwritev
        close lseek dup dup2 dup3 stat fstat lstat fstatat statx access faccessat rename renameat renameat2 unlink
        unlinkat remove mkdir mkdirat rmdir opendir fdopendir readdir closedir scandir ftw nftw glob fsync fdatasync
        sync syncfs sync_file_range statvfs fstatvfs statfs fstatfs flock lockf fcntl link linkat symlink symlinkat
        readlink readlinkat realpath truncate ftruncate fallocate posix_fallocate posix_fadvise mkstemp mkostemp
        mkdtemp chmod fchmod chown fchown utimensat futimens getcwd chdir fchdir mmap mremap munmap madvise msync
        sendfile copy_file_range splice ioctl inotify_init inotify_init1""",
    "network": """socket socketpair connect accept accept4 bind listen shutdown send sendto sendmsg sendmmsg recv
        recvfrom recvmsg recvmmsg setsockopt getsockopt getsockname getpeername getaddrinfo gethostbyname poll ppoll
        select pselect epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait eventfd timerfd_create
        timerfd_settime signalfd""",
    "clock": """clock_gettime clock_getres gettimeofday time clock times nanosleep clock_nanosleep usleep sleep alarm
        setitimer timer_create""",
    "random": "getrandom getentropy rand rand_r srand random srandom drand48 lrand48 arc4random arc4random_uniform",
    "processes": """fork vfork clone execl execle execlp execv execve execvp execvpe fexecve posix_spawn posix_spawnp
        system popen pclose kill killpg raise wait wait3 wait4 waitpid waitid pidfd_open pidfd_send_signal pipe pipe2
        setsid setpgid prctl ptrace dlopen syscall""",
    "signals": "signal sigaction sigprocmask pthread_sigmask sigwait sigwaitinfo sigtimedwait sigsuspend pause",
}

# Who may call what, and why.
TERMINAL = "the terminal of the person who types; it is not simulated"
SIGNALS = "a program decides what its signals do before it has a world"
EXCEPTIONS = [
    ("src/cli/prompt.c", "ioctl poll raise read sigaction", TERMINAL),
    ("src/cli/pull.c", "ioctl sigprocmask sigtimedwait", TERMINAL),
    ("src/cli/generate.c", "sigaction", SIGNALS),
    ("src/cli/up.c", "sigaction signal", SIGNALS),
    ("src/cli/chat.c", "signal", SIGNALS),
    ("src/cli/chat.c", "fopen rename unlink", "libedit writes its history to a FILE, and only its owner may read it"),
    ("src/cli/main.c", "signal", SIGNALS),
    ("src/cli/main.c", "open close", "closed standard streams are replaced before anything else is opened"),
    ("src/library/curl.c", "dlopen", "libcurl is loaded for the first download and may be missing; its sockets are its own"),
    ("src/device/cpu.c", "dlopen write close", "a module of the processor is a shared object, from a file or from memory"),
    ("src/cli/doctor.c", "dlopen", "doctor tells whether libcurl can be loaded"),
]

KIND = {name: kind for kind, names in CALLS.items() for name in names.split()}
CALL = re.compile(r"(?<![\w.>])(%s)\s*\(" % "|".join(sorted(KIND)))
BLANK = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def calls_in_text(text):
    """(line, name) of every call in a C text."""
    code = BLANK.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)
    return [(code.count("\n", 0, m.start()) + 1, m.group(1)) for m in CALL.finditer(code)]


def plain_name(symbol):
    """What a symbol is called in the source: open64, __read_chk and __isoc99_x are open, read and x."""
    symbol = re.sub(r"^__(\w+)_chk$", r"\1", symbol.split("@")[0])
    symbol = re.sub(r"^(__libc_|__isoc\d+_|__)", "", symbol)
    return symbol[:-2] if symbol.endswith("64") and symbol[:-2] in KIND else symbol


def objects(root):
    """{source: object file} of the newest build, for sources that did not change since."""
    found = {}
    for folder in ("build", "build/asan", "build/debug"):
        pattern = os.path.join(root, folder, "CMakeFiles/*.dir/src/**/*.o")
        for path in glob.glob(pattern, recursive=True):
            source = path.split(".dir/", 1)[1][:-2]
            whole = os.path.join(root, source)
            if os.path.exists(whole) and os.path.getmtime(path) > os.path.getmtime(whole):
                if source not in found or os.path.getmtime(found[source]) < os.path.getmtime(path):
                    found[source] = path
    return found


def undefined(path):
    listing = subprocess.run(["nm", "-u", path], capture_output=True, text=True, check=True)
    return {plain_name(line.split()[-1]) for line in listing.stdout.splitlines() if line.strip()}


def c_files(root):
    for folder, folders, files in sorted(os.walk(os.path.join(root, "src"))):
        folders.sort()
        for name in sorted(files):
            if name.endswith((".c", ".h", ".inc")):
                yield os.path.relpath(os.path.join(folder, name), root)


def check(root, exceptions=None, symbols=undefined):
    """(violations, files looked at)."""
    exceptions = EXCEPTIONS if exceptions is None else exceptions
    allowed = {(path, name) for path, names, _ in exceptions for name in names.split()}
    built, used, violations, count = objects(root), set(), [], 0
    for path in c_files(root):
        if path.startswith("src/base/"):
            continue
        count += 1
        with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
            places = {name: line for line, name in reversed(calls_in_text(file.read()))}
        if path in built:
            for name in symbols(built[path]) & set(KIND):
                places.setdefault(name, 1)
        for name, line in sorted(places.items(), key=lambda item: item[1]):
            used.add((path, name))
            if (path, name) not in allowed:
                violations.append(f"{path}:{line}: outside: {name} ({KIND[name]}) is for src/base/ alone; "
                                  "go through struct world of base/world.h")
    for path, name in sorted(allowed - used):
        violations.append(f"scripts/outside.py: exception: {path} does not call {name} any more; delete it from the table")
    return violations, count


# ---- the self-test

def self_test():
    """Each case: files, exceptions, symbols that objects have, and what must be reported."""
    clean = {"src/base/file.c": "int f(void) { return open(x); }\n",
             "src/net/a.c": '// open(x)\nint f(void) { world->open(x); s.read(1); return net_open("kill(1)"); }\n'}
    cases = [
        ({}, [], set(), None),
        ({"src/net/b.c": "int f(void) { return open (x); }\n"}, [], set(), "outside: open (files)"),
        ({"src/net/b.h": "static inline int f(void) { return fork(); }\n"}, [], set(), "outside: fork (processes)"),
        ({"src/net/b.c": "int f(void) { return time(0); }\n"}, [("src/net/b.c", "time", "why")], set(), None),
        ({"src/net/b.c": "int f(void);\n"}, [("src/net/b.c", "time", "why")], set(), "does not call time any more"),
        ({"src/net/b.c": "int f(void) { return HIDDEN; }\n"}, [], {"__read_chk", "memcpy"}, "outside: read (files)"),
        ({"src/net/b.c": "int f(void) { return HIDDEN; }\n"}, [], {"open64@GLIBC_2.2.5"}, "outside: open (files)"),
    ]
    failed = 0
    for files, exceptions, names, wanted in cases:
        with tempfile.TemporaryDirectory() as root:
            for path, text in {**clean, **files}.items():
                for whole, content in ((path, text), ("build/CMakeFiles/x.dir/" + path + ".o", "")):
                    whole = os.path.join(root, whole)
                    os.makedirs(os.path.dirname(whole), exist_ok=True)
                    with open(whole, "w", encoding="utf-8") as file:
                        file.write(content)
                    os.utime(whole, (2, 2) if whole.endswith(".o") else (1, 1))
            found, _ = check(root, exceptions,
                             lambda path, n=names: {plain_name(s) for s in n} if "/b.c" in path else set())
        if (len(found) != 1 or wanted not in found[0]) if wanted else found:
            print(f"self-test: {files} should report {wanted}: {found}")
            failed += 1
    print(f"{len(cases) - failed} passed, {failed} failed")
    return failed


def main():
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    if "--self-test" in sys.argv:
        sys.exit(self_test() != 0)
    if "--list" in sys.argv:
        for path, names, reason in EXCEPTIONS:
            print(f"{path:28} {names}: {reason}")
        sys.exit(0)
    root = arguments[0] if arguments else os.path.join(os.path.dirname(__file__), "..")
    violations, count = check(root)
    for violation in violations:
        print(violation)
    accused = {v.split(":")[0] for v in violations}
    print(f"{max(count - len(accused), 0)} passed, {len(accused)} failed")
    sys.exit(bool(violations))


if __name__ == "__main__":
    main()

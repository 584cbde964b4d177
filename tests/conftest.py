"""What all tests share: programs of the system, bundled files, and a check that nothing is left open."""

from __future__ import annotations

import gc
import os
import signal
import socket
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from kit.cli import COLLECT_EVERY
from kit.doctor import find_program
from tests.sshd import READY_S, Sshd

if TYPE_CHECKING:
    from kit.run import Run

ROOT = Path(__file__).resolve().parent.parent
THIS = psutil.Process()
LET_GO_S = 30.0
"""How long a test's processes and threads may take to end after it: a kernel or a shell needs a moment to be reaped."""

# Before matplotlib is imported by any test, here or in a notebook's kernel that inherits it.
os.environ["MPLBACKEND"] = "Agg"
# What a test starts (the kit, a kernel) need not compile the kit again; some machines of CI ask Python to keep nothing.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# A background job of a shell starts with Ctrl-C ignored, and so would all that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# nbformat's import compiles grammars of IRIs that no notebook holds: two seconds in each worker.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Five thousand tests are no garbage: looking through them and their modules, again and again, took a tenth of the time."""
    gc.disable()
    yield
    gc.freeze()
    gc.set_threshold(*COLLECT_EVERY)
    gc.enable()


LONGEST = ("test_project.py::test_checker[types]", "test_notebooks.py::test_all_run_from_any_folder", "test_wheel.py::")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest begins first: at the end one worker would go on with it alone."""
    items.sort(key=lambda item: not any(name in item.nodeid for name in LONGEST))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Workers of `-n auto`: two more than cores, for tests wait for a shell, a host, a browser; one more took 1.15 x as long."""
    return len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)) + 2


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("needs_tool"):
        for name in marker.args:
            _demand(name)


def _demand(name: str) -> str:
    """Path of a program; without it the test is skipped, or fails where CI is set."""
    found = find_program(name)
    if found is None:
        reason = f"{name} is not installed (`kit doctor` says how to get it)"
        if os.environ.get("CI"):
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    return found


@pytest.fixture
def tool() -> Callable[[str], str]:
    """`tool("strace")` gives the program's path, skips the test without it, fails it in CI."""
    return _demand


@pytest.fixture(scope="session")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """A private sshd on the loopback that all tests share: `open_host(sshd.target, **sshd.options())`."""
    server = Sshd(_demand("sshd"), tmp_path_factory.mktemp("sshd") / "server").start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator:
    """Chromium. It lives as long as a module: while it does, nothing else may run an event loop in this thread."""
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=_demand("chromium"), args=["--no-sandbox"])
        for name in ("new_page", "new_context"):
            setattr(chromium, name, _patient(getattr(chromium, name)))
        warm = chromium.new_page()  # its helpers are processes too: they begin before a test looks what it left open
        warm.goto("file:///")
        warm.wait_for_load_state("networkidle")
        yield chromium
        chromium.close()


def _patient(make: Callable) -> Callable:
    """The same page, whose waits end only where it hangs: 30 s, as is usual, may be short on a busy machine."""

    def patient(**about: object) -> object:
        made = make(**about)
        made.set_default_timeout(1000 * READY_S)
        return made

    return patient


@pytest.fixture
def make_sshd(tmp_path: Path) -> Iterator[Callable[..., Sshd]]:
    """`make_sshd(options="Banner /etc/issue")` starts a private sshd with options of its own (`tests.sshd.Sshd`)."""
    servers: list[Sshd] = []

    def make(**about: object) -> Sshd:
        servers.append(Sshd(_demand("sshd"), tmp_path / f"sshd{len(servers)}", **about))
        return servers[-1].start()

    yield make
    for server in servers:
        server.stop()


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT


@pytest.fixture(scope="session")
def data() -> Path:
    """Folder of the bundled runs."""
    return ROOT / "data"


@pytest.fixture(scope="session")
def opened() -> Callable[[str], Run]:
    """`opened("pipe-ticker")` is a bundled run that the tests of a worker share."""
    import kit

    return kit.sample


@pytest.fixture(scope="session")
def test_data() -> Path:
    """Folder of the files that tests alone use."""
    return ROOT / "tests" / "data"


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Frames of loose evidence are cached below here, not among the user's files; matplotlib keeps its list of fonts."""
    patch = pytest.MonkeyPatch()
    if "MPLCONFIGDIR" not in os.environ:
        patch.setenv("MPLCONFIGDIR", str(ROOT / "out" / "matplotlib"))
    patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    yield
    patch.undo()


@pytest.fixture(autouse=True, scope="session")
def _only_what_hangs_is_late() -> Iterator[None]:
    """On a machine without a free core a sampler of the lowest priority gets no turn: in tests it has theirs, and much time."""
    from kit.capture import recording
    from kit.capture.sampler import sampling

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recording, "LOOK_S", (60.0, 60.0))
        for name, value in {"NICE": 0, "PATIENCE_S": 600.0, "SILENT_S": 600.0, "FIRST_SILENT_S": 600.0, "END_S": 60.0}.items():
            patch.setattr(sampling, name, value)
        yield


@pytest.fixture(autouse=True, scope="session")
def _samples_are_opened_once() -> Iterator[None]:
    """`kit.sample` of tests and examples is one run in each worker, read and judged once; `kit.open_run` opens one anew."""
    from kit import samples

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(samples, "open_run", cache(samples.open_run))
        yield


@pytest.fixture(autouse=True)
def _nothing_left_open() -> Iterator[None]:
    """Fail a test that leaves figures, processes, threads or listening sockets behind."""
    figures, tasks = _figures(), _tasks()
    yield
    left = {f"figure {number}" for number in _figures() - figures}
    if left:
        sys.modules["matplotlib.pyplot"].close("all")
    deadline = time.monotonic() + LET_GO_S
    while (remaining := _tasks() - tasks) and time.monotonic() < deadline:
        time.sleep(0.02)
    left |= remaining
    if left:
        pytest.fail(f"left open: {', '.join(sorted(left))}", pytrace=False)


def _figures() -> set[int]:
    pyplot = sys.modules.get("matplotlib.pyplot")
    return set(pyplot.get_fignums()) if pyplot else set()


def _tasks() -> set[str]:
    """Processes, threads and listening sockets of this process, by a name that a person understands."""
    found = set()
    for child in _descendants():
        try:
            words = " ".join(psutil.Process(child).cmdline())
            if " --type=" not in words:  # helpers of a browser come and go while it runs; the browser itself is counted
                found.add(f"process {child} ({words[:80]})")
        except psutil.NoSuchProcess:
            continue
        except (psutil.AccessDenied, psutil.ZombieProcess):
            found.add(f"process {child}")
    found |= {f"thread {thread.name}" for thread in threading.enumerate() if not thread.daemon}
    return found | set(_listening())


def _listening() -> Iterator[str]:
    """Listening sockets of this process: psutil reads the kernel's tables of all connections, 7 ms before and after each test."""
    for number in os.listdir("/dev/fd"):
        with suppress(OSError):  # what lists the folder is in it, and closed by now
            if stat.S_ISSOCK(os.fstat(int(number)).st_mode):
                with socket.socket(fileno=os.dup(int(number))) as opened:
                    if opened.family != socket.AF_UNIX and opened.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                        yield f"socket listening on {opened.getsockname()[1]}"


def _descendants() -> list[int]:
    """Children and theirs, as the kernel lists them: psutil would look at each process of the machine, 8 ms a test."""
    if not Path(f"/proc/self/task/{os.getpid()}/children").exists():
        return [child.pid for child in THIS.children(recursive=True)]
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return []  # most tests start nothing
    found = [os.getpid()]
    for pid in found:
        with suppress(OSError):  # it has ended meanwhile
            for thread in os.listdir(f"/proc/{pid}/task"):
                with suppress(OSError):  # or this thread of it
                    found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    return found[1:]

"""Hosts over SSH: keys, logins, shells, lost connections, sudo, clocks; against a real sshd on the loopback."""

from __future__ import annotations

import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import paramiko
import psutil
import pytest

from kit.capture.hosts import ssh
from kit.capture.hosts.host import Host, HostLost, Shell
from kit.capture.hosts.known_hosts import HostKeyError
from kit.capture.hosts.remote import MarkedStream
from kit.capture.hosts.remote_files import FileShell, stat_script
from kit.capture.hosts.targets import open_host
from kit.capture.hosts.this_machine import LocalStream
from kit.errors import EvidenceError, UsageError
from tests.password_server import PasswordServer
from tests.sshd import Proxy, refuse_to_ask, wait_for, write_key

BOTH = pytest.mark.parametrize("transport", ["paramiko", "openssh"])
SECRET = "correct horse"


def stand_in(folder: Path, name: str, text: str) -> None:
    """A program that stands before the real one on a PATH."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


class TestTargets:
    @pytest.mark.parametrize(
        "target",
        [
            "gpu7",
            "",
            "ssh://",
            "ssh://host:port",
            "ssh://host:0",
            "ssh://host:70000",
            "ssh://-oProxyCommand=x",
            "ssh://@host",
            "ssh://host/path",
            "ssh://a b",
            "http://host",
        ],
    )
    def test_what_is_none_is_refused(self, target):
        with pytest.raises(UsageError):
            open_host(target)

    def test_a_password_is_refused_and_not_repeated(self):
        with pytest.raises(UsageError, match="password") as found:
            open_host("ssh://me:hunter2@host")
        assert "hunter2" not in str(found.value)

    def test_an_unknown_transport_is_refused(self):
        with pytest.raises(UsageError):
            open_host("ssh://host", transport="telnet")

    def test_an_alias_of_the_configuration(self, sshd, tmp_path):
        config = tmp_path / "config"
        (tmp_path / "more").write_text(f"Host gpu7\n  HostName 127.0.0.1\n  Port {sshd.port}\n  User {sshd.user}\n")
        config.write_text(
            f'Include {tmp_path}/mo*\nMatch exec "touch {tmp_path}/ran"\n  User nobody\nHost *\n  IdentityFile {sshd.key}\n'
        )
        with open_host("ssh://gpu7", **sshd.options(config=config)) as host:
            assert host.run(["echo", "in"], 5).text == "in\n"
            assert any("Match exec" in note for note in host.notes)
        assert not (tmp_path / "ran").exists()

    @BOTH
    def test_through_a_jump_host(self, sshd, tmp_path, transport):
        config = tmp_path / "config"
        config.write_text(
            f"Host behind\n  ProxyJump {sshd.user}@door\n"
            f"Host *\n  HostName 127.0.0.1\n  Port {sshd.port}\n  IdentityFile {sshd.key}\n"
            f"  UserKnownHostsFile {sshd.known_hosts}\n"
        )
        before = sshd.log.read_text().count("Accepted publickey")
        with open_host(f"ssh://{sshd.user}@behind", **sshd.options(config=config, known_hosts=None), transport=transport) as host:
            assert host.run(["echo", "in"], 5).text == "in\n"
        assert sshd.log.read_text().count("Accepted publickey") == before + 2

    def test_through_a_program(self, sshd, tmp_path):
        script = tmp_path / "pipe.py"
        script.write_text(
            "import os, socket, sys, threading\n"
            "there = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
            "def up():\n    while data := os.read(0, 65536):\n        there.sendall(data)\n    there.shutdown(1)\n"
            "threading.Thread(target=up, daemon=True).start()\n"
            "while data := there.recv(65536):\n    os.write(1, data)\n"
        )
        config = tmp_path / "config"
        config.write_text(sshd.config.read_text() + f"  ProxyCommand {sys.executable} {script} %h %p\n")
        with open_host(sshd.target, **sshd.options(config=config)) as host:
            assert host.run(["echo", "in"], 5).text == "in\n"


class TestHostKeys:
    @BOTH
    def test_an_unknown_key_is_shown_and_refused(self, sshd, tmp_path, transport):
        host = open_host(sshd.target, **sshd.options(known_hosts=tmp_path / "none", transport=transport))
        with pytest.raises(HostKeyError, match="not known") as found:
            host.connect()
        assert re.search(r"ssh-ed25519 SHA256:\S{43}", str(found.value)) and "--accept-new" in str(found.value)
        assert not (tmp_path / "none").exists()

    @BOTH
    def test_a_new_key_is_accepted_when_told(self, sshd, tmp_path, transport):
        known, said = tmp_path / "new" / "known_hosts", []
        known.parent.mkdir()
        known.write_text("# mine\n")
        options = sshd.options(known_hosts=known, transport=transport)
        with open_host(sshd.target, **options, accept_new=True, say=said.append):
            pass
        assert known.read_text().startswith("# mine\n") and re.search(r"SHA256:\S{43}", said[0]) and len(said) == 1
        with open_host(sshd.target, **options, say=said.append):
            assert len(said) == 1

    @BOTH
    def test_a_changed_key_is_refused_even_then(self, make_sshd, transport):
        server = make_sshd()
        server.stop()
        server.new_host_key(known=False)
        server.start()
        host = open_host(server.target, **server.options(transport=transport), accept_new=True)
        with pytest.raises(HostKeyError, match="CHANGED.*SHA256.*ssh-keygen -R"):
            host.connect()

    def test_hashed_names_and_revoked_keys(self, sshd, tmp_path, tool):
        known = tmp_path / "known_hosts"
        shutil.copy(sshd.known_hosts, known)
        subprocess.run([tool("ssh-keygen"), "-q", "-H", "-f", known], check=True, capture_output=True)
        assert "127.0.0.1" not in known.read_text()
        with open_host(sshd.target, **sshd.options(known_hosts=known)):
            pass
        known.write_text(f"{known.read_text()}@revoked * {sshd.host_key.with_name('host_key.pub').read_text()}")
        with pytest.raises(HostKeyError, match="REVOKED"):
            open_host(sshd.target, **sshd.options(known_hosts=known)).connect()


class TestLogin:
    @BOTH
    def test_a_wrong_key_is_refused(self, sshd, tmp_path, transport):
        write_key(tmp_path / "other")
        config = tmp_path / "config"
        config.write_text(f"Host *\n  IdentityFile {tmp_path}/other\n  IdentitiesOnly yes\n  IdentityAgent none\n")
        host = open_host(sshd.target, **sshd.options(config=config, ask=lambda prompt: "", transport=transport))
        with pytest.raises(EvidenceError, match="authentication failed"):
            host.connect()

    def test_a_key_of_the_agent(self, sshd, tmp_path, tool):
        socket = tmp_path / "agent"
        agent = subprocess.Popen([tool("ssh-agent"), "-D", "-a", socket], stdout=subprocess.DEVNULL)
        try:
            assert wait_for(socket.exists)
            environ = {**os.environ, "SSH_AUTH_SOCK": str(socket)}
            subprocess.run([tool("ssh-add"), "-q", sshd.key], env=environ, check=True, capture_output=True)
            config = tmp_path / "config"
            config.write_text(f"Host *\n  IdentityFile {tmp_path}/none\n  IdentityAgent {socket}\n")
            with open_host(sshd.target, **sshd.options(config=config)) as host:
                assert host.run(["echo", "in"], 5).text == "in\n"
        finally:
            agent.terminate()
            agent.wait()

    def test_a_key_with_a_passphrase(self, sshd, tmp_path, tool):
        key, asked = tmp_path / "key", []
        shutil.copy(sshd.key, key)
        key.chmod(0o600)
        subprocess.run([tool("ssh-keygen"), "-q", "-p", "-P", "", "-N", SECRET, "-f", key], check=True, capture_output=True)
        config = tmp_path / "config"
        config.write_text(f"Host *\n  IdentityFile {key}\n  IdentityAgent none\n")
        host = open_host(sshd.target, **sshd.options(config=config, ask=lambda prompt: asked.append(prompt) or SECRET))
        with host:
            host.connect()  # it is not asked again
        assert len(asked) == 1 and str(key) in asked[0]

    @pytest.mark.parametrize("methods", ["password", "keyboard-interactive", "publickey,password"])
    def test_a_password_is_asked_for(self, sshd, tmp_path, methods):
        server, asked = PasswordServer(SECRET, methods), []
        try:
            known = tmp_path / "known_hosts"
            known.write_text(server.known_line)
            answers = iter(["wrong", SECRET])
            options = sshd.options(known_hosts=known, ask=lambda prompt: asked.append(prompt) or next(answers))
            with open_host(f"ssh://me@127.0.0.1:{server.port}", **options) as host:
                assert host.run(["echo", "in"], 5).text == "in\n"
                assert SECRET not in repr(host) + repr(vars(host)["_secrets"])
            assert len(asked) == 2 and "me@127.0.0.1" in asked[0]
        finally:
            server.close()

    def test_wrong_passwords_end_it(self, sshd, tmp_path):
        server = PasswordServer(SECRET)
        try:
            (tmp_path / "known_hosts").write_text(server.known_line)
            options = sshd.options(known_hosts=tmp_path / "known_hosts", ask=lambda prompt: "wrong")
            with pytest.raises(EvidenceError, match="authentication failed for me@"):
                open_host(f"ssh://me@127.0.0.1:{server.port}", **options).connect()
        finally:
            server.close()


def all_works(host: Host, folder: Path) -> None:
    """Use every part of a host once."""
    path = folder / "a log"
    path.write_bytes(b"0123456789" * 100_000)
    assert host.run(["printf", "%s", "it's $HOME"], 5).text == "it's $HOME"
    assert host.run(["sleep", "9"], 0.3).timed_out
    assert host.read_file(str(path), 12) == b"012345678901"
    file = host.open_file(str(path))
    path.unlink()
    assert (file.stat().size, file.stat().links, file.stat_path()) == (1_000_000, 0, None)
    assert file.read(999_995, 100) == b"56789" and file.read(1_000_000, 100) == b""
    assert b"".join(file.stream(70_001, 1 << 40)) == (b"0123456789" * 100_000)[70_001:]
    file.close()
    stream = host.start_python("print('snake')\n")
    assert stream.read(10) == b"snake\n"
    stream.stop()


class TestLoginShells:
    @pytest.mark.parametrize("shell", ["sh", "dash", "bash", "fish", "csh", "tcsh", "busybox"])
    def test_any_will_do(self, make_sshd, tmp_path, tool, shell):
        shell = f"{tool(shell)} sh" if shell == "busybox" else tool(shell)
        server = make_sshd(login=f'exec {shell} -c "$SSH_ORIGINAL_COMMAND"')
        with open_host(server.target, **server.options()) as host:
            all_works(host, tmp_path)

    @BOTH
    def test_a_banner_and_a_noisy_login(self, make_sshd, tmp_path, transport):
        (tmp_path / "banner").write_text("Authorised use only, token=abcdef\n")
        noise = 'echo "Welcome to gpu7"; echo "module loaded" >&2; exec sh -c "$SSH_ORIGINAL_COMMAND"'
        server = make_sshd(options=f"Banner {tmp_path}/banner", login=noise)
        with open_host(server.target, **server.options(transport=transport)) as host:
            all_works(host, tmp_path)
            notes = "\n".join(host.notes)
            assert "Authorised use only" in notes and "Welcome to gpu7" in notes and "abcdef" not in notes

    def test_a_login_that_starts_nothing(self, make_sshd):
        server = make_sshd(login="echo This account is not available.")
        with pytest.raises(HostLost, match="This account is not available"):
            open_host(server.target, **server.options()).connect()

    def test_what_a_login_said_is_told_where_it_takes_no_input_any_more(self):
        class Ended:
            errors, said = "", [b"This account is not available.\n", b""]

            def send(self, data: bytes) -> None:
                raise HostLost("the connection is gone", "Socket is closed", "connect again")

            def read(self, timeout_s: float) -> bytes:
                return self.said.pop(0)

        with pytest.raises(HostLost, match="This account is not available"):
            MarkedStream(Ended(), b"the mark", {}).send(b"echo")

    def test_busybox_programs(self, make_sshd, tmp_path, tool):
        programs = tmp_path / "bin"
        programs.mkdir()
        for name in ("cat", "date", "dd", "head", "id", "ls", "sleep", "stat", "tail", "timeout", "uname"):
            (programs / name).symlink_to(tool("busybox"))
        server = make_sshd(environ={"PATH": f"{programs}:/usr/bin:/bin"})
        with open_host(server.target, **server.options()) as host:
            all_works(host, tmp_path)
            assert abs(host.abilities.offset_ns) < host.abilities.offset_error_ns + 1_000_000

    @pytest.mark.parametrize("shell", ["dash", "bash --posix", "busybox sh"])
    def test_files_are_held_by_any_posix_shell(self, tmp_path, tool, shell):
        command = [tool(shell.split()[0]), *shell.split()[1:], "-s"]
        held = FileShell(Shell(LocalStream(command)))
        (tmp_path / "log").write_bytes(b"x" * 5000)
        status, said, _ = held.open(str(tmp_path / "none"))
        assert status and "no such file" in said.lower()
        status, _, number = held.open(str(tmp_path / "log"))
        assert not status and number == 3
        (tmp_path / "log").unlink()
        assert held.shell.ask(stat_script("/proc/$$/fd/3"))[1].split()[2:] == [b"5000", b"0"]
        without = held.shell.ask("stat() { false; }; " + stat_script("/proc/$$/fd/3"))[1].split()
        assert without[0] == b"0" and without[2:] == [b"5000", b"0"]
        held.close(number)
        assert 3 in held.free
        held.shell.close()


class TestLostConnections:
    @BOTH
    def test_sshd_is_killed_and_comes_back(self, make_sshd, tmp_path, transport):
        server = make_sshd()
        (tmp_path / "log").write_bytes(b"line\n")
        with open_host(server.target, **server.options(transport=transport)) as host:
            file, stream = host.open_file(str(tmp_path / "log")), host.start_shell("exec sleep 60\n")
            server.stop()
            for act in (lambda: host.ask("true"), lambda: host.run(["true"], 5), lambda: file.read(0, 5), lambda: stream.read(5)):
                with pytest.raises(HostLost):
                    act()
            with pytest.raises(HostLost):
                host.connect()
            server.start()
            host.connect()
            stream.stop()
            file.close()
            file = host.open_file(str(tmp_path / "log"))
            assert file.read(0, 9) == b"line\n"
            file.close()

    @BOTH
    def test_a_black_hole_is_noticed(self, sshd, monkeypatch, transport):
        for module in ("hosts.ssh", "hosts.remote"):
            monkeypatch.setattr(f"kit.capture.{module}.ANSWER_S", 0.5)
        monkeypatch.setattr("kit.capture.hosts.openssh.ALIVE_S", 1)
        with Proxy(sshd.port) as proxy:
            sshd.know(proxy.port)
            target = f"ssh://{sshd.user}@127.0.0.1:{proxy.port}"
            with open_host(target, **sshd.options(transport=transport)) as host:
                stream = host.start_shell("while sleep 0.1; do echo tick; done\n")
                assert stream.read(10)
                proxy.black_hole()
                with pytest.raises(TimeoutError):
                    while stream.read(1):
                        pass
                with pytest.raises(HostLost):
                    host.ask("true", 0.5)
                with pytest.raises(HostLost):
                    host.ask("true", 0.5)  # a new shell cannot be had either
                with pytest.raises(HostLost):
                    host.run(["true"], 0.1)
                stream.stop()
        assert wait_for(lambda: not sshd.children())

    def test_a_pull_that_is_cut_says_so(self, make_sshd, tmp_path):
        server = make_sshd()
        with open(tmp_path / "log", "wb") as file:
            file.truncate(1 << 30)
        with Proxy(server.port) as proxy:
            server.know(proxy.port)
            with open_host(f"ssh://{server.user}@127.0.0.1:{proxy.port}", **server.options()) as host:
                file = host.open_file(str(tmp_path / "log"))
                with pytest.raises(HostLost):
                    for number, _ in enumerate(file.stream(0, 1 << 40)):
                        if number == 3:
                            server.stop()
                file.close()

    @BOTH
    def test_a_time_limit_holds_without_the_connection(self, make_sshd, tmp_path, transport):
        server, pid = make_sshd(), tmp_path / "pid"
        with open_host(server.target, **server.options(transport=transport)) as host:
            errors = []

            def run() -> None:
                try:
                    host.run(["sh", "-c", f"echo $$ >{pid}; exec sleep 60"], 2)
                except HostLost as error:
                    errors.append(error)

            thread = threading.Thread(target=run)
            thread.start()
            assert wait_for(lambda: pid.exists() and pid.read_text().endswith("\n"))
            process = psutil.Process(int(pid.read_text()))
            server.stop()
            thread.join()
            assert errors and wait_for(lambda: not process.is_running())

    @BOTH
    def test_nothing_is_left_on_the_host(self, make_sshd, tmp_path, transport):
        server = make_sshd()
        (tmp_path / "log").write_text("x")
        with open_host(server.target, **server.options(transport=transport)) as host:
            host.open_file(str(tmp_path / "log"))
            assert server.children()
        assert wait_for(lambda: not server.children())

    def test_a_request_that_hangs_costs_no_connection(self, sshd, monkeypatch, tmp_path):
        with open_host(sshd.target, **sshd.options()) as host:
            monkeypatch.setattr(Host.ask, "__defaults__", (0.5,))
            with pytest.raises(TimeoutError):
                host._request("sleep 2")
            assert host.read_file("/proc/self/comm")

    @BOTH
    def test_few_sessions_take_more_connections(self, make_sshd, tmp_path, transport):
        server = make_sshd(options="MaxSessions 2")
        (tmp_path / "log").write_text("x")
        with open_host(server.target, **server.options(transport=transport)) as host:
            files = [host.open_file(str(tmp_path / "log")) for _ in range(20)]
            assert all(file.read(0, 9) == b"x" for file in files)
            assert host.run(["echo", "in"], 5).text == "in\n"

    def test_nobody_listens(self, sshd):
        with pytest.raises(HostLost, match="nothing listens"):
            open_host("ssh://me@127.0.0.1:1", **sshd.options()).connect()


SUDO = f"""#!{sys.executable} -SI
# As sudo 1.9.17: what is there before the prompt is dropped; the password comes from standard input; the rest is the program's.
import os, select, sys
words, never, prompt = sys.argv[1:], False, ""
with open(os.environ["SUDO_LOG"], "a") as log:
    print(words, file=log)
while words[0].startswith("-"):
    word = words.pop(0)
    never = never or word == "-n"
    prompt = words.pop(0) if word == "-p" else prompt
if "SUDO_FREE" not in os.environ:
    if never:
        sys.exit("sudo: a password is required")
    for _ in range(3):
        while select.select([0], [], [], 0.1)[0] and os.read(0, 1):
            pass
        os.write(2, prompt.encode())
        line = b""
        while not line.endswith(b"\\n"):
            if not (byte := os.read(0, 1)):
                sys.exit("sudo: no password was provided")
            line += byte
        if line == b"{SECRET}\\n":
            break
        os.write(2, b"Sorry, try again.\\n")
    else:
        sys.exit("sudo: 3 incorrect password attempts")
os.environ["AS_ROOT"] = "1"
os.execvp(words[0], words)
"""
ID = '#!/bin/sh\n[ "$1" = -u ] && { [ "$AS_ROOT" ] && echo 0 || echo 1000; exit; }\nexec /usr/bin/id "$@"\n'


class TestSudo:
    @pytest.fixture
    def server(self, make_sshd, tmp_path):
        """`server(free)` has a stand-in for sudo on its PATH, and a user who is not root."""

        def make(**environ: str):
            stand_in(tmp_path / "bin", "sudo", SUDO)
            stand_in(tmp_path / "bin", "id", ID)
            return make_sshd(environ={"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "SUDO_LOG": f"{tmp_path}/sudo.log", **environ})

        return make

    @BOTH
    def test_with_a_password(self, server, tmp_path, transport):
        server, asked = server(), []
        options = server.options(ask=lambda prompt: asked.append(prompt) or SECRET, transport=transport)
        with open_host(server.target, **options, sudo=True) as host:
            assert host.abilities.uid == 0
            ran = host.run(["sh", "-c", "echo $AS_ROOT; echo oh >&2"], 5)
            assert (ran.text, ran.errors) == ("1\n", "oh\n")
            all_works(host, tmp_path)
            host.connect()
            seen = [ran.text, ran.errors, *host.notes, repr(host), server.log.read_text(), (tmp_path / "sudo.log").read_text()]
        assert len(asked) == 1 and "sudo" in asked[0]
        assert SECRET not in "\n".join(seen)

    def test_without_a_password(self, server):
        server = server(SUDO_FREE="1")
        with open_host(server.target, **server.options(ask=refuse_to_ask), sudo=True) as host:
            assert host.run(["sh", "-c", "echo $AS_ROOT"], 5).text == "1\n"

    def test_a_wrong_password(self, server):
        server = server()
        host = open_host(server.target, **server.options(ask=lambda prompt: "wrong horse"), sudo=True)
        with pytest.raises(EvidenceError, match="sudo refused the password") as found:
            host.connect()
        assert "wrong horse" not in str(found.value)

    def test_root_needs_none(self, sshd):
        if os.geteuid():
            pytest.skip("the private sshd lets in who runs the tests")
        with open_host(sshd.target, **sshd.options(), sudo=True) as host:
            assert host.abilities.uid == 0


class TestClock:
    @pytest.mark.parametrize(
        "date",
        [
            "echo $(($(/bin/date +%s%N) + 90000000000))",
            'case "$1" in *N) echo "${1#+}";; *) echo $(($(/bin/date "$1") + 90));; esac',
        ],
        ids=["nanoseconds", "seconds"],
    )
    def test_a_host_that_is_90_s_ahead(self, make_sshd, tmp_path, date):
        stand_in(tmp_path / "bin", "date", f'#!/bin/sh\ncase "$1" in +%s*) {date};; *) exec /bin/date "$@";; esac\n')
        server = make_sshd(environ={"PATH": f"{tmp_path}/bin:/usr/bin:/bin"})
        with open_host(server.target, **server.options()) as host:
            offset, error = host._find_offset(None)
            assert abs(offset - 90_000_000_000) <= error


@pytest.mark.parametrize("banner_s", [0.1, 30.0])
def test_a_port_that_accepts_and_stays_silent_is_said_whichever_wait_ends_first(
    banner_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Paramiko waits for the banner and for the keys; the second wait ends as a session that does not exist."""
    monkeypatch.setattr(ssh, "CONNECT_S", 0.5)
    monkeypatch.setattr(
        paramiko.Transport, "banner_timeout", property(lambda self: banner_s, lambda self, seconds: None), raising=False
    )
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host = open_host(f"ssh://127.0.0.1:{silent.getsockname()[1]}", transport="paramiko", known_hosts=tmp_path / "known")
        with pytest.raises(HostLost, match="no SSH server answered on it"), host:
            pass

"""`kit doctor`: what it finds, on this machine and on /proc folders written as other machines have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit import doctor

SOME_CAPABILITIES = "00000000a80425fb"
"""Those of a container that was started without options: CAP_SYS_PTRACE is not among them."""
ALL_CAPABILITIES = "000001ffffffffff"


def proc(folder: Path, scope: str | None = "1", capabilities: str = SOME_CAPABILITIES, options: str = "rw,nosuid") -> Path:
    (folder / "self").mkdir(parents=True)
    (folder / "self" / "status").write_text(f"Name:\tpython3\nCapInh:\t0000000000000000\nCapEff:\t{capabilities}\n")
    (folder / "self" / "mounts").write_text(f"overlay / overlay rw 0 0\nproc /proc proc {options} 0 0\n")
    if scope is not None:
        (folder / "sys/kernel/yama").mkdir(parents=True)
        (folder / "sys/kernel/yama/ptrace_scope").write_text(scope + "\n")
    return folder


def named(name: str, found: list[doctor.Check]) -> doctor.Check:
    return next(check for check in found if check.name == name)


def test_this_machine_works():
    found = doctor.checks()
    assert [check for check in found if check.ok is False and check.name != "disk"] == []
    assert len({check.name for check in found}) == len(found)
    assert all(check.why and check.do for check in found if check.ok is not True)


@pytest.mark.parametrize(
    ("scope", "capabilities", "ok"),
    [
        ("0", SOME_CAPABILITIES, True),
        ("1", SOME_CAPABILITIES, None),
        ("2", SOME_CAPABILITIES, None),
        ("2", ALL_CAPABILITIES, True),
        ("3", ALL_CAPABILITIES, None),
        (None, SOME_CAPABILITIES, True),
        ("1", "no hexadecimal", None),
    ],
)
def test_right_to_trace(tmp_path, scope, capabilities, ok):
    check = named("tracing", doctor.checks(proc(tmp_path, scope, capabilities), tmp_path))
    assert check.ok is ok
    assert bool(check.do) is (ok is None)


@pytest.mark.parametrize(
    ("options", "ok"),
    [
        ("rw,nosuid,nodev,noexec,relatime", True),
        ("rw,hidepid=0", True),
        ("rw,relatime,hidepid=2", None),
        ("rw,hidepid=invisible,gid=4", None),
    ],
)
def test_hidden_processes(tmp_path, options, ok):
    assert named("hidepid", doctor.checks(proc(tmp_path, options=options), tmp_path)).ok is ok


def test_without_proc_only_local_collection_is_out(tmp_path):
    found = doctor.checks(tmp_path / "none", tmp_path)
    assert named("tracing", found).ok is None
    assert "hidepid" not in {check.name for check in found}


def test_folder_that_is_not_there(tmp_path):
    check = named("disk", doctor.checks(data=tmp_path / "gone"))
    assert check.ok is False
    assert "No such file" in check.what


def test_programs_are_found_outside_the_path(tmp_path, monkeypatch):
    program = tmp_path / "chromium-browser"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(doctor, "SYSTEM_FOLDERS", ())
    assert doctor.find_program("chromium") == str(program)
    assert doctor.find_program("gdb") is None


def test_missing_program_is_a_note(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(doctor, "SYSTEM_FOLDERS", ())
    check = named("gdb", doctor.checks())
    assert check.ok is None
    assert "install gdb" in check.do


def test_package_out_of_bounds_fails():
    from packaging.specifiers import SpecifierSet

    assert doctor._package("psutil", SpecifierSet(">=7")) is None
    assert "wanted <1" in doctor._package("psutil", SpecifierSet("<1")).what
    assert doctor._package("no-such-package", SpecifierSet(">=1")).what == "not installed"


def test_text_ends_with_the_sum():
    fine = doctor.Check("python", True, "3.12.1")
    wrong = doctor.Check("disk", False, "0.1 GiB free", "a run may need more", "free some space")
    assert doctor.render([fine]).endswith("all that it can use is present.")
    text = doctor.render([wrong, fine]).splitlines()
    assert text[0].startswith("ok")
    assert text[-1] == "The kit does not work here yet: 1 of 2 checks failed."

"""Blocks are scrubbed as their lines are, only faster."""

from __future__ import annotations

import random
import re

import pytest

from kit.capture.logs.scrub import BLOCK_FROM_BYTES, LONGEST_LINE, SUSPECT, Scrubber
from tests.secret_corpus import placements
from tests.test_redact import SECRETS

PLAIN = b"[2026-02-18 02:11:52 TP0] Decode batch, #running-req: 1, #token: 20, token usage: 0.00, gen throughput (token/s): 7.1\n"
FILL = PLAIN * (BLOCK_FROM_BYTES // len(PLAIN) + 1)


def by_block(data: bytes, step: int = 1 << 20) -> bytes:
    scrubber = Scrubber()
    return b"".join(scrubber.take(data[at : at + step]) for at in range(0, len(data), step)) + scrubber.rest()


@pytest.mark.parametrize(("template", "secret"), SECRETS)
def test_secret_in_a_block_goes(template, secret):
    line = template.format(secret).encode() + b"\r\n"
    found = by_block(FILL + line + FILL)
    assert found == FILL + by_block(line) + FILL
    assert secret.encode() not in found[len(FILL) : -len(FILL)] and b"[redacted]" in found


def test_lines_of_a_busy_server_are_not_suspect():
    import pyarrow.compute

    assert not pyarrow.compute.match_substring_regex(pyarrow.array([PLAIN]), SUSPECT)[0].as_py()


def test_lines_made_of_pieces_of_secrets():
    """Each line of a block comes out as it does alone."""
    pieces = re.findall(r"\w+|\W", " ".join(template.format(secret) for template, secret in SECRETS))
    pieces += re.findall(r"\w+|\W", " ".join(text for text, _ in placements()))
    pieces += ["\u00a0", "\x0b", "\u2028", "TOKEN", "Token", "token", "1234", "5", "é", "\0", *"=:-'\"\\ ", "--"]
    chance = random.Random(7)
    lines = [re.sub("[\r\n]", " ", "".join(chance.choices(pieces, k=chance.randrange(3, 14)))) for _ in range(7_000)]
    lines = [line for line in lines if "PRIVATE KEY" not in line]
    data = "\n".join(lines).encode() + b"\n"
    alone = Scrubber()
    expected = [alone.take(line.encode() + b"\n") for line in lines]
    found = by_block(data)
    assert sum(line != other.encode() + b"\n" for line, other in zip(expected, lines, strict=True)) > 500
    assert found == b"".join(expected)


def test_body_of_a_key_goes_with_its_lines():
    key = b"-----BEGIN PRIVATE KEY-----\nMIIEowIBAAKCAQEA\n\nabcd+/12==\n-----END PRIVATE KEY-----\nnext line\n"
    for data in (key, FILL + key + FILL, FILL + key[:45]):
        for step in (10, 1000, 1 << 20):
            found = by_block(data, step)
            assert b"MIIE" not in found and b"abcd" not in found
            assert found.count(b"\n") == data.count(b"\n")
    assert b"next line" in by_block(FILL + key + FILL)


def test_bytes_pass_unchanged_in_any_pieces():
    chance = random.Random(3)
    data = bytes(chance.choices(b"ab\xff\xfe\r\n\xe2\x96\x88 ", k=300_000))
    for step in (7001, 1 << 16, 1 << 20):
        assert by_block(data, step) == data


def test_a_long_line_without_an_end_is_looked_through_once():
    line = b"x" * (LONGEST_LINE - 1)  # to look for an end from each of its bytes would take hours
    scrubber = Scrubber()
    assert scrubber.take(line) + scrubber.rest() == line


@pytest.mark.parametrize("step", [1, 1 << 20])
def test_a_value_that_stands_before_its_name_waits_for_it(step: int) -> None:
    pairs = b"env:\n- value: hunter-2-otter\n  name: HF_TOKEN\n- value: plain-word-9\n  name: MODEL_DIR\nvalue: last-word-7"
    for data in (pairs, FILL + pairs):
        found = by_block(data, step)
        assert found[-len(pairs) :].count(b"[redacted]") == 1 and b"hunter" not in found
        assert found.count(b"\n") == data.count(b"\n") and found.endswith(b"plain-word-9\n  name: MODEL_DIR\nvalue: last-word-7")

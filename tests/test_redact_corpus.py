"""A corpus of secrets in the places where logs and command lines have them, and one of look-alikes: how many leak, how many go.

The bounds are those that docs/reliability.md names. A placement that leaks is shown by its text, not by a rate alone.
"""

from __future__ import annotations

import random
import string

import pytest

from kit.capture.logs.scrub import BLOCK_FROM_BYTES, Scrubber
from kit.redact import scrub_argv, scrub_text
from kit.secret_environ import scrub_environ

LEAKS, MASKED = 0.01, 0.01
LETTERS = string.ascii_letters + string.digits
HEX = "0123456789abcdef"


def _token(chance: random.Random, letters: str, length: int, prefix: str = "") -> str:
    return prefix + "1a" + "".join(chance.choices(letters, k=length - 2))


def _secrets() -> list[str]:
    """Values that only a name or a place gives away, and values that have a shape."""
    chance = random.Random(5)
    plain = ["hunter2", "s3cr3t!", "Tr0ub4dor&3", "correct-horse-9", _token(chance, LETTERS, 24), _token(chance, HEX, 40)]
    return plain


def _shaped() -> list[str]:
    chance = random.Random(6)
    made = [("hf_", LETTERS, 34), ("sk-proj-", LETTERS, 40), ("sk-ant-api03-", LETTERS, 60), ("ghp_", LETTERS, 36)]
    made += [("glpat-", LETTERS, 20), ("xoxb-", string.digits + "-", 24), ("nvapi-", LETTERS, 60), ("gsk_", LETTERS, 52)]
    made += [
        ("r8_", LETTERS, 37),
        ("xai-", LETTERS, 60),
        ("npm_", LETTERS, 36),
        ("dckr_pat_", LETTERS, 27),
        ("hvs.", LETTERS, 24),
    ]
    tokens = [_token(chance, letters, length, prefix) for prefix, letters, length in made]
    tokens.append("AKIA" + "".join(chance.choices(string.ascii_uppercase + string.digits, k=16)))
    tokens.append(".".join(("eyJhbGciOiJIUzI1NiJ9", _token(chance, LETTERS, 30, "eyJ"), _token(chance, LETTERS, 40))))
    return tokens


NAMED = [
    "INFO: HF_TOKEN={}",
    "env: X_TOKEN={}",
    "INFO 02-18 02:11:52 [api.py:9] args: api_key='{}', port=8000",
    "ServerArgs(api_key='{}', admin_api_key=None)",
    '{{"api_key": "{}", "port": 8000}}',
    r"{{\"api_key\": \"{}\", \"port\": 8000}}",
    '{{"name":"WANDB_API_KEY","value":"{}"}}',
    "      HF_TOKEN:    {}",
    "export OPENAI_API_KEY={}",
    "PGPASSWORD={} psql -h db",
    "http://127.0.0.1:8888/lab?token={}",
    "GET /v1/models?api_key={}&limit=5 HTTP/1.1",
    "%26token%3D{}%26x",
    r"line one\nHF_TOKEN={}\nline three",
    "Authorization: ApiKey {}",
    "Authorization: Bearer {}",
    "-H 'X-Auth-Token: {}'",
    "Cookie: theme=dark; session={}; lang=en",
    "redis://:{}@127.0.0.1:6379/0",
    "postgresql://ada:{}@db/x",
    "curl -u ada:{} http://127.0.0.1:8000/",
    "mysql -h db -p{} llm",
    "sshpass -p {} ssh host",
    "vllm serve m --api-key {} --port 8000",
    "--hf-token={}",
    'writev(3, [{{iov_base="Authorization: Bear", iov_len=19}}, {{iov_base="er {}", iov_len=40}}], 2) = 59',
    'write(1, "HF_TOKEN={}\\n", 30) = 30',
    "2026-02-18T01:33:13Z stdout F AWS_SECRET_ACCESS_KEY={}",
    "AccountKey={};EndpointSuffix=core",
    "[pod/llm-0] MASTER_KEY: '{}'",
]
BARE = ["login with {}", "token{}", r"x\n{}\n", "remote: {}.", '["{}"]', "{}", "id={}&x=1", "%20{}", "pull {}@main", "({})"]


def placements() -> list[tuple[str, str]]:
    every = [(template.format(secret), secret) for template in NAMED for secret in [*_secrets(), *_shaped()]]
    return every + [(template.format(secret), secret) for template in BARE for secret in _shaped()]


def test_secrets_go_from_text_and_from_blocks() -> None:
    texts = placements()
    assert len(texts) >= 500
    leaked = [text for text, secret in texts if secret in scrub_text(text)]
    assert len(leaked) <= LEAKS * len(texts), leaked
    scrubber = Scrubber()
    fill = b"[2026-02-18 02:11:52 TP0] Decode batch, #running-req: 1, #token: 20, token usage: 0.00\n" * 20
    for some in (texts[at : at + 20] for at in range(0, len(texts), 20)):
        lines = b"".join(fill + text.encode() + b"\n" for text, _ in some)
        assert len(lines) > BLOCK_FROM_BYTES, "it is scrubbed as a block"
        kept = scrubber.take(lines).split(b"\n")[20::21]
        assert not [t for (t, secret), line in zip(some, kept, strict=True) if secret.encode() in line and t not in leaked]


ARGV = [
    ["curl", "-u", "ada:{}", "http://x"],
    ["curl", "--cookie", "sid={}", "http://x"],
    ["curl", "-b", "sid={}", "http://x"],
    ["serve", "--jwt", "{}"],
    ["serve", "--auth", "{}"],
    ["serve", "--creds", "{}"],
    ["mysql", "-p{}", "llm"],
    ["serve", "--api-keys", "{},second"],
    ["vllm", "serve", "m", "--api-key", "first", "{}", "--port", "8000"],
    ["serve", "--password", "-{}"],
    ["env", "HF_TOKEN={}", "python3"],
    ["sh", "-c", "HF_TOKEN={} python3 -m x"],
    ["redis-cli", "-a", "{}", "PING"],
    ["serve", "--header=Authorization: Bearer {}"],
]


@pytest.mark.parametrize("words", ARGV, ids=lambda words: " ".join(words[:3]))
def test_secrets_go_from_command_lines(words: list[str]) -> None:
    for secret in [*_secrets(), *_shaped()]:
        scrubbed = scrub_argv([word.format(secret) for word in words])
        assert len(scrubbed) == len(words)
        assert not any(secret in word for word in scrubbed), scrubbed


def test_secrets_go_from_environments() -> None:
    for secret in [*_secrets(), *_shaped()]:
        environ = {"HF_TOKEN": secret, "VLLM_API_KEY": secret, "HF_ENDPOINT": f"https://ada:{secret}@hub", "MY_VAR": secret}
        environ |= {"VLLM_ARGS": f"--api-key {secret} --port 1", "NCCL_X": f'{{"token": "{secret}"}}'}
        assert secret not in str(scrub_environ(environ)), environ


def test_a_name_and_its_value_on_two_lines(tmp_path) -> None:
    lines = b"env:\n- name: HF_TOKEN\n  value: hunter2\n- name: PORT\n  value: 8000\n"
    filled = b"plain line of a log\n" * 2000
    for data in (lines, filled + lines + filled):
        scrubber = Scrubber()
        found = scrubber.take(data) + scrubber.rest()
        assert b"hunter2" not in found
        assert b"  value: 8000\n" in found


def test_the_body_of_a_key_goes_behind_the_prefixes_of_a_log() -> None:
    chance = random.Random(8)
    body = ["".join(chance.choices(LETTERS + "+/", k=64)) for _ in range(4)] + ["MIIEowIBAAKCAQ=="]
    for begin, end in (("RSA PRIVATE KEY", "RSA PRIVATE KEY"), ("PGP PRIVATE KEY BLOCK", "PGP PRIVATE KEY BLOCK")):
        key = [f"-----BEGIN {begin}-----", *body, f"-----END {end}-----"]
        text = "".join(f"2026-02-18T01:33:13Z stdout F {line}\n" for line in key) + "next line\n"
        scrubber = Scrubber()
        found = (scrubber.take(text.encode()) + scrubber.rest()).decode()
        assert not [line for line in body if line in found]
        assert "next line" in found


INNOCENT = [
    "the --token flag is missing",
    "VLLM_MAX_TOKENS_PER_STEP={n}",
    "loaded hf_Qwen{d}MoeForCausalLM",
    "max_num_batched_tokens={n}, max_total_tokens=None",
    "eos_token_id={n}, bos_token='<s>', pad_token: <pad>",
    "token usage: 0.{n}, #token: {n}, gen throughput (token/s): {n}.5",
    "next token: Hello",
    "KV cache size: {n} tokens; key=value; keys: {d}",
    "TOKENIZERS_PARALLELISM=false tokenizer_mode=auto",
    "HF_TOKEN=$HF_TOKEN",
    'export OPENAI_API_KEY="${{OPENAI_API_KEY}}"',
    "HF_TOKEN: <set to the key 'token' in secret 'hub'>",
    "api_key=None admin_api_key='***'",
    "secretName: hub-credentials",
    "--ssl-keyfile /etc/tls/k{n}.pem",
    "password_file=/run/secrets/p{n}",
    "http://127.0.0.1:{n}/v1/models",
    "docker run -u {n}:{n} image",
    "torch inductor cache key: fxabcdef{n}",
    "task-{n}AB done, sk-container-id-{d}",
    "multi_token_prediction: enabled, num_speculative_tokens={d}",
    "prompt tokens: {n}, completion tokens: {n}",
    "compass={n} monkey={d} bypass=true passed={n}",
    "signature mismatch in module {n}",
    "NCCL_SOCKET_IFNAME=eth{d} GLOO_X={n}",
    "Authorization header missing",
    "prefix cache hit rate: GPU: {n}.00%",
    "author=ada authors: {n}",
    "keyboard={n} turkey={d}",
    "accepted {n} draft tokens, token acceptance rate: 0.{n}",
]


def test_look_alikes_stay() -> None:
    texts = [template.format(n=number, d=number % 9 + 1) for template in INNOCENT for number in range(1_000, 1_035)]
    assert len(texts) >= 1_000
    masked = [text for text in texts if scrub_text(text) != text]
    assert len(masked) <= MASKED * len(texts), masked[:20]


PIECES = ["token=", "key: ", "-u ", "name: a value", "[", '"', "\\", " ", "a-", "Bearer ", "mysql ", 'iov_base="', "://", "a"]


@pytest.mark.parametrize("piece", PIECES)
def test_patterns_are_linear(piece: str) -> None:
    """A line four times as long may not take sixteen times the steps: counted in processor time, with room for noise."""
    import time

    def cost(count: int) -> float:
        text = "token " + piece * count
        begun = time.process_time()
        scrub_text(text)
        return time.process_time() - begun

    assert min(cost(12_000) for _ in range(2)) < 10 * max(min(cost(3_000) for _ in range(2)), 0.002)

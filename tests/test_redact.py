"""Secrets go, what analysis needs stays."""

from __future__ import annotations

import pytest

from kit.redact import MARK, scrub_argv, scrub_text
from kit.secret_environ import scrub_environ

SECRETS = [
    ("vllm serve m --api-key {} --port 8000", "s3cr3tvalue"),
    ("vllm serve m --api-key={} --port 8000", "s3cr3tvalue"),
    ("--admin-api-key '{}' -x", "two words"),
    ("python -m sglang.launch_server --hf-token {}", "abc123"),
    ("export HF_TOKEN={}", "abc123"),
    ("env: {{'HF_TOKEN': '{}', 'X': 1}}", "abc123"),
    ('{{"api_key": "{}", "port": 8000}}', "abc 123"),
    (r"{{\"api_key\": \"{}\"}}", "abc123"),
    ("non-default args: {{'api_key': ['{}'], 'port': 1}}", "abc123"),
    ("ServerArgs(api_key='{}', tp_size=8)", "abc123"),
    ("PASSWORD={}", "12345"),
    ("db password: {}", "hunter2"),
    ("dbPassword={}", "hunter2"),
    ("MY_SIGNING_KEY={}", "zzz"),
    ("AWS_SECRET_ACCESS_KEY={}", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
    ("id {} seen", "AKIAIOSFODNN7EXAMPLE"),
    ("login with {}", "hf_aBcDeFgHiJkLmNoPqRsTuVwXyZ01234567"),
    ("login with {}.", "sk-proj-abcdefGHIJKL0123456789"),
    ("remote {}", "ghp_0123456789abcdefghijABCDEFGHIJ012345"),
    ("remote {}", "github_pat_11ABCDEFG0123456789_abcdefghijklmnop"),
    ("Authorization: Bearer {}", "abc.def-ghi"),
    ("'authorization': 'Basic {}'", "dXNlcjpwYXNz"),
    ('curl -H "Authorization: Bearer {}" http://x', "tok"),
    ("X-API-Key: {}", "tok123"),
    ("GET https://ada:{}@host/path", "p@ss:w"),
    ("redis://:{}@127.0.0.1:6379/0", "hunter2"),
    ("git clone https://{}@github.com/a/b", "oauthvalue"),
    ("GET /x?token={}&a=1", "abcdef"),
    ("GET /x?X-Amz-Signature={}&a=1", "abcdef0123"),
    ("jwt {}", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcDEF123"),
    ("-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----", "MIIEow"),
    ('write(1, "Authorization: Bearer {}\\r\\n"..., 64) = 64', "abcdefgh"),
]


@pytest.mark.parametrize(("template", "secret"), SECRETS)
def test_secret_goes_and_second_scrub_changes_nothing(template, secret):
    text = template.format(secret)
    scrubbed = scrub_text(text)
    assert secret not in scrubbed and MARK in scrubbed
    assert scrub_text(scrubbed) == scrubbed


@pytest.mark.parametrize(
    "text",
    [
        "ServerArgs(model_path='m', tokenizer_path='m', tokenizer_mode='auto', api_key=None, max_total_tokens=None, tp_size=8)",
        "Avg prompt throughput: 0.0 tokens/s, max_num_batched_tokens=2048, chunked_prefill_size=8192",
        "eos_token_id=2, bos_token='<s>', pad_token: <pad>, next_token=5, skip_tokenizer_init=False",
        "KV cache size: 8,192 tokens; key=value; keys: 3; monkey=1; passed=3; compass=n",
        "INFO 02-18 02:11:52 [core.py:58] Initializing a V1 LLM engine (v0.32.0) with config: model='m', tokenizer='m'",
        "torch inductor cache key: fxabcdef",
        "task-0123456789AB done",
        "http://127.0.0.1:8000/v1/models",
        "ssh://root@host:22",
        "{'VLLM_MAX_TOKENS': 5, 'TOKENIZERS_PARALLELISM': 'false'}",
        "--max-tokens 5 --tokenizer hf-internal/tok --ssl-keyfile k.pem",
        '12:00:01.5 write(7, "x", 1) = 1 <0.000020>',
        "Loading safetensors checkpoint shards:  50% Completed | 1/2",
        "multi_token_prediction: enabled, num_speculative_tokens=3, token_usage: 0.00",
    ],
)
def test_innocent_text_stays(text):
    assert scrub_text(text) == text


def test_argv_keeps_its_length_and_hides_every_key():
    argv = [
        "/usr/bin/python3",
        "-m",
        "vllm",
        "--api-key",
        "k1",
        "k2",
        "--port",
        "8000",
        "--token",
        "t",
        "model",
        "--key=abc def",
        "HF_TOKEN=a b",
        "sh",
        "-c",
        "curl -H 'Authorization: Bearer abc' u",
        "--password",
        "--x",
    ]
    scrubbed = scrub_argv(argv)
    assert len(scrubbed) == len(argv)
    assert scrubbed[4:12] == [MARK, MARK, "--port", "8000", "--token", MARK, "model", "--key=" + MARK]
    assert scrubbed[12] == "HF_TOKEN=" + MARK and "abc" not in scrubbed[15] and scrubbed[17] == "--x"


def test_environ_keeps_names_and_allowed_values_only():
    kept = scrub_environ(
        {
            "HF_TOKEN": "a",
            "HF_HUB_OFFLINE": "1",
            "HF_HUB_TOKEN": "a",
            "VLLM_PROXY": "http://u:p@h",
            "SHELL": "sh",
            "VLLM_MAX_TOKENS": "5",
            "PYTHONPATH": "/x",
            "RANK": "3",
        }
    )
    assert kept == {
        "HF_TOKEN": None,
        "HF_HUB_OFFLINE": "1",
        "HF_HUB_TOKEN": None,
        "VLLM_PROXY": "http://[redacted]@h",
        "SHELL": None,
        "VLLM_MAX_TOKENS": "5",
        "PYTHONPATH": "/x",
        "RANK": "3",
    }

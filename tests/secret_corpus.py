"""A second corpus of secrets and of look-alikes, of other kinds than `test_redact_corpus` has: what each channel is tried with.

The shapes of issued tokens are those that the rules of gitleaks and detect-secrets describe; the places are files, command
lines and languages that write a secret down. All values are made up here, from a seed.
"""

from __future__ import annotations

import base64
import json
import random
import re
import string
from collections.abc import Callable
from functools import cache
from pathlib import Path

from kit.redact import scrub_argv
from kit.secret_environ import scrub_environ

LETTERS = string.ascii_letters + string.digits
LOWER = string.ascii_lowercase + string.digits
UPPER = string.ascii_uppercase + string.digits
HEX = "0123456789abcdef"
THIRD = Path(__file__).resolve().parent / "data" / "secrets"
chance = random.Random(2026)


def made(pattern: list[tuple[str, str, int]]) -> str:
    return "".join(before + "".join(chance.choices(letters, k=length)) for before, letters, length in pattern)


ISSUED: dict[str, list[tuple[str, str, int]]] = {
    "1password": [("A3-", UPPER, 6), ("-", UPPER, 6), ("-", UPPER, 5), ("-", UPPER, 5), ("-", UPPER, 5), ("-", UPPER, 5)],
    "1password service": [("ops_eyJ", LETTERS, 260)],
    "adobe": [("p8e-", LOWER, 32)],
    "airtable": [("pat", LETTERS, 14), (".", HEX, 64)],
    "alibaba": [("LTAI", LETTERS, 20)],
    "artifactory": [("AKCp", LETTERS, 69)],
    "artifactory reference": [("cmVmd", LETTERS, 59)],
    "atlassian": [("ATATT3", LETTERS + "_-", 186)],
    "azure ad": [("aB3", string.digits, 1), ("Q~", LETTERS + "_~.-", 34)],
    "bedrock": [("bedrock-api-key-YmVkcm9jay5hbWF6b25hd3MuY29t", LETTERS, 40)],
    "clojars": [("CLOJARS_", LOWER, 60)],
    "cloudflare origin": [("v1.0-", HEX, 24), ("-", HEX, 146)],
    "doppler": [("dp.pt.", LETTERS, 43)],
    "duffel": [("duffel_live_", LETTERS + "_-", 43)],
    "dynatrace": [("dt0c01.", UPPER, 24), (".", UPPER, 64)],
    "easypost": [("EZAK", LETTERS, 54)],
    "facebook": [("EAAM", LETTERS, 110)],
    "fly": [("fo1_", LETTERS + "_-", 43)],
    "fly machine": [("fm2_", LETTERS + "+/", 110)],
    "frameio": [("fio-u-", LETTERS + "_-", 64)],
    "gitlab feature": [("glffct-", LETTERS, 20)],
    "gitlab mail": [("glimt-", LETTERS, 25)],
    "gitlab oauth app": [("gloas-", LETTERS, 64)],
    "gitlab runner": [("GR1348941", LETTERS, 20)],
    "grafana cloud": [("glc_", LETTERS + "+/", 60)],
    "grafana service": [("glsa_", LETTERS, 32), ("_", HEX, 8)],
    "harness": [("pat.", LETTERS, 22), (".", LETTERS, 24), (".", LETTERS, 20)],
    "terraform": [("", LETTERS, 14), (".atlasv1.", LETTERS + "_-", 64)],
    "heroku": [("HRKU-AA", LETTERS, 58)],
    "infracost": [("ico-", LETTERS, 32)],
    "maxmind": [("", LETTERS, 6), ("_", LETTERS, 29), ("_mmk", "x", 0)],
    "new relic": [("NRAK-", UPPER, 27)],
    "octopus": [("API-", UPPER, 26)],
    "openshift": [("sha256~", LETTERS + "_-", 43)],
    "planetscale": [("pscale_tkn_", LETTERS + "_-", 40)],
    "planetscale password": [("pscale_pw_", LETTERS + "_-", 40)],
    "postman": [("PMAK-", HEX, 24), ("-", HEX, 34)],
    "prefect": [("pnu_", LETTERS, 36)],
    "pulumi": [("pul-", HEX, 40)],
    "readme": [("rdme_", LOWER, 70)],
    "rubygems": [("rubygems_", HEX, 48)],
    "scalingo": [("tk-us-", LETTERS + "_-", 48)],
    "sendinblue": [("xkeysib-", HEX, 64), ("-", LOWER, 16)],
    "settlemint": [("sm_pat_", LETTERS, 16)],
    "shippo": [("shippo_live_", HEX, 40)],
    "sonar": [("squ_", HEX, 40)],
    "sourcegraph": [("sgp_", HEX, 40)],
    "square": [("sq0atp-", LETTERS + "_-", 22)],
    "typeform": [("tfp_", LOWER, 59)],
    "twilio": [("SK", HEX, 32)],
    "yandex": [("AQVN", LETTERS, 36)],
    "mailchimp": [("", HEX, 32), ("-us12", "x", 0)],
    "google refresh": [("1//0", LETTERS + "_-", 40)],
    "azure devops": [("", LOWER, 52), ("AZDO", LETTERS, 4)],
    "supabase": [("sbp_", HEX, 40)],
    "replicate of langfuse": [("sk-lf-", HEX, 8), ("-", HEX, 4), ("-", HEX, 4), ("-", HEX, 4), ("-", HEX, 12)],
    "nomic": [("nk-", LETTERS + "_-", 43)],
    "pinecone": [("pcsk_", LETTERS, 60)],
    "vercel blob": [("vercel_blob_rw_", LETTERS, 40)],
    "circleci": [("CCIPAT_", LETTERS, 22), ("_", HEX, 40)],
}
"""Issued tokens by their prefix, a shape each."""
AROUND = ("cannot log in with {}, giving up", '"{}"', "msg=sent {} to hub")


def base64_of(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


WORD = ["Vk8-quartz", "k7Qm2xLpZ9", "lantern-Otter-42", "x9!fQ#2m"]
PLAIN = [*WORD, made([("", HEX, 32)]), made([("", LETTERS, 40)])]
BODY = [made([("", LETTERS + "+/", 64)]) for _ in range(3)]

FILES = [
    "machine hub.example login ada password {}",
    "machine hub.example\n  login ada\n  password {}\n",
    "db.example:5432:llm:ada:{}",
    "*:*:*:ada:{}",
    "//registry.example/:_authToken={}",
    "_auth = {}",
    "index-url = https://ada:{}@pypi.example/simple",
    "https://ada:{}@git.example",
    "aws_secret_access_key = {}",
    "aws_session_token = {}",
    "requirepass {}",
    "masterauth {}",
    "bindpw {}",
    "PrivateKey = {}",
    "PresharedKey = {}",
    "[client]\nuser=ada\npassword={}\n",
    'Environment="HF_TOKEN={}"',
    "ENV HF_TOKEN {}",
    "ARG HF_TOKEN={}",
    "c.ServerApp.token = '{}'",
    "c.NotebookApp.password = u'{}'",
    "spring.datasource.password={}",
    'password: !vault "{}"',
    "ansible_become_pass: {}",
    "ansible_ssh_pass={}",
    "smtp_pass: {}",
    "Login: ada Password: {}",
]
YAML = [
    "stringData:\n  hf-token: |\n    {}\n",
    "  password: >-\n    {}\n  port: 8000\n",
    "env:\n  - name: HF_TOKEN\n    value: {}\n",
    'env:\n  - value: "{}"\n    name: HF_TOKEN\n',
    "  - name: WANDB_API_KEY\n    # from the hub\n    value: {}\n",
    "api_key:\n  - {}\n",
    "token: >\n  {}\n",
    "password:\n    {}\n",
]
KUBE = [
    "kind: Secret\ndata:\n  hub: {}\n",
    "  .dockerconfigjson: {}\n",
    '"auths": {{"registry.example": {{"auth": "{}"}}}}',
    "    client-key-data: {}\n",
    "    id-token: {}\n",
    "Authorization: Basic {}",
    "> proxy-authorization: basic {}",
    "x-registry-auth: {}",
]
"""Places of base64."""
CONNECTION = [
    "DefaultEndpointsProtocol=https;AccountName=a;AccountKey={};EndpointSuffix=core.windows.net",
    "Endpoint=sb://a.example/;SharedAccessKeyName=Root;SharedAccessKey={}",
    "Server=db;Database=llm;User Id=sa;Password={};Encrypt=true",
    "Driver=x;Server=db;Uid=sa;Pwd={};",
    "host=db port=5432 user=ada password={} dbname=llm",
    "mongodb+srv://ada:{}@cluster.example/llm?retryWrites=true",
    "amqps://ada:{}@mq.example:5671/v",
    "jdbc:mysql://db:3306/llm?user=ada&password={}&useSSL=false",
    "jdbc:oracle:thin:ada/{}@db.example:1521:llm",
    "https://a.blob.example/c/m?sv=2020-08-04&sr=c&sp=r&sig={}",
    "https://storage.example/m?X-Goog-Algorithm=x&X-Goog-Signature={}",
    "ALTER USER ada WITH PASSWORD '{}';",
    "CREATE USER 'ada'@'%' IDENTIFIED BY '{}';",
    'sasl.jaas.config=PlainLoginModule required username="ada" password="{}";',
    "otpauth://totp/hub:ada?secret={}&issuer=hub",
    "ssh://git:{}@git.example:2222/a/b.git",
    "HTTPS_PROXY=http://ada:{}@proxy.example:3128",
    "socks5h://ada:{}@127.0.0.1:1080",
]
SHELL = [
    "+ export HF_TOKEN={}",
    "set -gx HF_TOKEN {}",
    "setenv HF_TOKEN {}",
    '$env:HF_TOKEN = "{}"',
    'declare -x HF_TOKEN="{}"',
    "docker run -e HF_TOKEN={} -p 8000:8000 img",
    "docker login -u ada -p {} registry.example",
    "helm install x --set hub.token={} --set port=8000",
    "helm install x --set-string auth.password={}",
    "kubectl create secret generic hub --from-literal=token={}",
    "openssl rsa -in k.pem -passin pass:{}",
    "gpg --batch --passphrase {} -d x.gpg",
    "unzip -P {} model.zip",
    "7z x -p{} model.7z",
    "smbclient -U ada%{} //nas/models",
    "lftp -u ada,{} sftp://nas",
    "ldapsearch -D cn=a -w {} -b dc=x",
    "ipmitool -I lanplus -H bmc -U ADMIN -P {} chassis status",
    "sqlcmd -S db -U sa -P {} -Q x",
    "mongosh --host db -u ada -p {}",
    "wandb login {}",
    "huggingface-cli login --token {} --add-to-git-credential",
    "hf auth login --token={}",
    "echo {} | docker login -u ada --password-stdin",
    "wget --http-user=ada --http-password={} http://x",
    "rclone copy --s3-secret-access-key {} a b",
    "ray start --head --redis-password={}",
    "jupyter lab --IdentityProvider.token={}",
    "jupyter lab --ServerApp.token {} --no-browser",
    "curl -sS --oauth2-bearer {} http://x",
    "curl --proxy-user ada:{} http://x",
    "curl -H api-key:{} http://x",
    "aws configure set aws_secret_access_key {}",
    "git config credential.helper 'store --password={}'",
    "cryptsetup --key-passphrase={} open",
]
LANGUAGES = [
    'os.environ["HF_TOKEN"] = "{}"',
    "os.environ.setdefault('HF_TOKEN', '{}')",
    "environ({{'HF_TOKEN': '{}', 'HOME': '/root'}})",
    "[('HOME', '/root'), ('HF_TOKEN', '{}')]",
    'requests.get(url, auth=("ada", "{}"))',
    "HTTPBasicAuth('ada', '{}')",
    "Namespace(port=8000, hf_token='{}', tp=8)",
    "b'HF_TOKEN={}'",
    'login(token="{}")',
    "Settings(db_password=SecretStr('{}'))",
    "client = OpenAI(base_url=u, api_key = '{}')",
    "<password>{}</password>",
    "<ns:apiKey>{}</ns:apiKey>",
    '<add key="ClearTextPassword" value="{}" />',
    '<user name="ada" password="{}"/>',
    "&quot;token&quot;:&quot;{}&quot;",
    r"\u0022api_key\u0022:\u0022{}\u0022",
    r"{{\\\"token\\\": \\\"{}\\\"}}",
    '{{"key": "HF_TOKEN", "port": 1, "value": "{}"}}',
    '{{"value": "{}", "name": "HF_TOKEN"}}',
    '{{"Env": ["PATH=/bin", "HF_TOKEN={}", "HOME=/root"]}}',
    '"password" => "{}"',
    "password -> {}",
    'password := "{}"',
    'api_key == "{}"',
    "| HF_TOKEN | {} |",
    "│ api_key    │ {} │",
    "HF_TOKEN\t{}",
    "NAME        VALUE\nHF_TOKEN    {}\n",
    "hf_token ........ {}",
    "password[0]: {}",
    "token is {}",
    "using password {}",
    "api key '{}' was refused",
    "Invalid API key: {}",
    "Incorrect API key provided: {}. You can find your API key in the settings",
    "secret={} (16 bytes)",
    "db.password={}",
    "LLM__API__KEY={}",
    "spring_datasource_password : {}",
]
HEADERS = [
    "> X-Api-Key: {}",
    "api-key: {}",
    "x-goog-api-key: {}",
    "Ocp-Apim-Subscription-Key: {}",
    "PRIVATE-TOKEN: {}",
    "X-Vault-Token: {}",
    "DD-API-KEY: {}",
    "X-Amz-Security-Token: {}",
    "Set-Cookie: sid={}; Path=/; HttpOnly",
    "Cookie: _xsrf=2|a|b; username-hub={}",
    "('authorization', 'Bearer {}')",
    "(b'authorization', b'Bearer {}')",
    "[b'x-api-key', b'{}']",
    "grant_type=client_credentials&client_secret={}&scope=all",
    "#access_token={}&token_type=bearer",
    "POST /login username=ada&password={}&next=%2F",
    "%22password%22%3A%22{}%22",
    "next=%2Fcb%3Faccess_token%3D{}%26state%3D1",
    "password%253D{}",
    "refresh_token: {}",
    "Sec-WebSocket-Protocol: bearer, {}",
]
STRACE = [
    'read(3, "machine hub login ada password {}\\n", 4096) = 60',
    'execve("/usr/bin/curl", ["curl", "-u", "ada:{}", "http://x"], 0x7ffd /* 9 vars */) = 0',
    'execve("/usr/bin/docker", ["docker", "login", "-u", "ada", "-p", "{}"], 0x7ffd /* 9 vars */) = 0',
    'execve("/usr/bin/serve", ["serve", "--api-key", "{}", "--port", "1"], ["HF_TOKEN={}", "A=1"]) = 0',
    'sendmsg(5, {{msg_name=NULL, msg_iov=[{{iov_base="HF_TOK", iov_len=6}}, {{iov_base="EN={}", iov_len=20}}]}}, 0) = 26',
    'write(2, "HF_TOKEN=", 9) = 9\nwrite(2, "{}", 10) = 10\n',
    'write(5, "GET / HTTP/1.1\\r\\nAuthorization: Bear", 35) = 35\nwrite(5, "er {}\\r\\n", 20) = 20\n',
    '7 write(5, "POST / HTTP/1.1\\r\\nx-api-key: {}"..., 400 <unfinished ...>',
    '[pid 8] sendto(5, "{{\\"api_key\\":\\"{}\\",\\"n\\":1}}", 40, 0, NULL, 0) = 40',
    '7 <... read resumed>"password={}\\n", 4096) = 20',
    'pwrite64(4, "token: {}\\n", 20, 0) = 20',
    'writev(2, [{{iov_base="api_key=", iov_len=8}}, {{iov_base="{}", iov_len=9}}, {{iov_base="\\n", iov_len=1}}], 3) = 18',
]
KEYS = [
    "".join(f"{prefix}{line}\n" for line in (f"-----BEGIN {kind}-----", *BODY, f"-----END {kind}-----"))
    for prefix, kind in (
        ("> ", "EC PRIVATE KEY"),
        ("[rank0]: ", "OPENSSH PRIVATE KEY"),
        ("(Worker_TP3 pid=7) ", "PRIVATE KEY"),
        ("    ", "ENCRYPTED PRIVATE KEY"),
        ("| ", "DSA PRIVATE KEY"),
        ("", "OpenVPN Static key V1"),
        ("ERROR 02-18 02:11:53 [core.py:9] ", "RSA PRIVATE KEY"),
    )
]
KEYS += [
    '"private_key": "-----BEGIN PRIVATE KEY-----\\n' + "\\n".join(BODY) + '\\n-----END PRIVATE KEY-----\\n", "id": 1',
    'write(3, "-----BEGIN OPENSSH PRIVATE KEY-----\\n' + "\\n".join(BODY) + '"..., 4096) = 4096',
    "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\n" + "\n".join(BODY) + "\n---- END SSH2 ENCRYPTED PRIVATE KEY ----\n",
    "PuTTY-User-Key-File-2: ssh-rsa\nEncryption: none\nPrivate-Lines: 3\n" + "\n".join(BODY) + "\nPrivate-MAC: 00\n",
    "SSH_KEY=" + base64_of("-----BEGIN OPENSSH PRIVATE KEY-----\n" + BODY[0]) + "\n",
    "  key: " + base64_of("-----BEGIN PRIVATE KEY-----\n" + BODY[1]) + "\n",
]
"""Private keys: texts whose lines of `BODY`, or their base64, may not be found."""
KEY_PARTS = [
    *BODY,
    *(
        base64_of(f"-----BEGIN {kind}-----\n{line}")[48:80]
        for kind, line in (("OPENSSH PRIVATE KEY", BODY[0]), ("PRIVATE KEY", BODY[1]))
    ),
]


BLIND = r"""
terraform: db_password = "{}"
variable "hub_token" {{ default = "{}" }}
[registry]
token = "{}"
##[debug]Evaluating: secrets.HF_TOKEN => '{}'
::add-mask::{}
Run HF_TOKEN='{}' ./serve.sh
WARN config.py: unused key hf_token={}
curl -X POST -d 'user=ada&passwd={}' http://x
curl -H "Authorization: token {}" https://api
curl --header "X-Api-Key: {}" http://x
http --auth ada:{} GET :8000
wget --password={} ftp://x
ssh-keygen -N {} -f k
export NGC_CLI_API_KEY={}
ngc config set --apikey {}
vllm serve m --api-key="{}"
python -m sglang.launch_server --api-key={} --tp 8
EngineArgs(hf_token='{}', tokenizer='m')
Config: {{"llm": {{"auth": {{"password": "{}"}}}}}}
{{"level":"info","msg":"login","password":"{}"}}
level=info msg="using token" token={}
time="2026" level=debug msg="auth" api_key="{}"
token:{}
password={};retry=3
?access_token={}
&api_key={}&x=1
wss://x/ws?token={}
nats://ada:{}@nats:4222
kafka: sasl.password={}
spark.hadoop.fs.s3a.secret.key={}
fs.azure.account.key.x.dfs.core.windows.net={}
hive.metastore.password={}
ray://?_redis_password={}
etcdctl --user root:{} get /
consul -token={} members
CONSUL_HTTP_TOKEN={}
VAULT_TOKEN={}
NOMAD_TOKEN={}
SLACK_WEBHOOK_SECRET={}
slurm: SLURM_JWT={}
MUNGE_KEY={}
AZURE_OPENAI_KEY={}
OPENROUTER_API_KEY={}
COHERE_API_KEY: {}
MLFLOW_TRACKING_PASSWORD={}
COMET_API_KEY={}
DD_API_KEY={}
SENTRY_AUTH_TOKEN={}
AWS_SESSION_TOKEN={}
"SecretAccessKey": "{}",
"SessionToken" : "{}"
<SecretAccessKey>{}</SecretAccessKey>
x-amz-security-token:{}
git -c http.extraHeader="Authorization: Basic {}" clone x
machine api.wandb.ai login user password {}
  password {}
ftp://ada:{}@nas/models
rsync --password-file=<(echo {}) a b
sudo -S <<< "{}"
echo "{}" | sudo -S ls
expect: send "{}\r" for password
Password for 'https://ada@hub': {}
Enter token: {}
env[HF_TOKEN]={}
set HF_TOKEN={}
$HF_TOKEN="{}"
HF_TOKEN is {}
export KEY={}
--master-key {}
--jwt-secret={}
--hf_token {}
hf_token : {}
HF-Token: {}
client_secret: '{}'
oauth2.client-secret={}
jupyter: http://host:8888/?token={}
[I] http://127.0.0.1:8888/tree?token={}
grpc-metadata-authorization: Bearer {}
bearer_token="{}"
session_key={}
cookie_secret = b"{}"
encryption_key={}
signing-key: {}
private_key_passphrase={}
keystore.password={}
PGPASSWORD='{}' psql
MYSQL_PWD={}
REDISCLI_AUTH={}
snmp-server community {} ro
wpa_passphrase={}
psk="{}"
pin: {}
""".strip("\n").splitlines()
"""Written after the rules for all of the above, to see what they miss: ten leaked."""
BLIND_STAYS = r"""
accessing token embeddings took 3 ms
password-less sudo is enabled
secret sauce: chunked prefill
key=lambda r: r.ttft
sort(key=itemgetter(1))
primary key violation on runs.id=7
max_new_tokens: 512 min_tokens: 1
use_auth_token is deprecated, use token instead
Fast tokenizer loaded in 0.3s (vocab 151936)
"stop": ["</s>"], "skip_special_tokens": true
per_token_logps.shape=torch.Size([8, 512])
tokens/s: 1234.5, ms/token: 7.1
PASS test_api_key_required[gpu0]
FAILED tests/test_auth.py::test_token - AssertionError
authentication timed out after 30 s
auth provider: oidc issuer=https://idp.example
using credentials from instance metadata
credential helper: osxkeychain
no password supplied for user llm
signature verification passed in 12 ms
cookie file: /tmp/cookies.txt
Session 42 of user root logged in
API key auth: enabled=True keys=2
apiVersion: v1 kind: ConfigMap
  mode: fast
  replicas: "3"
kind: Pod
name: HF_HOME
value: /models
secretName: tls-cert
- secretRef: {name: hub}
tokenReview: {}
automountServiceAccountToken: true
keyFile: /etc/tls/key.pem
certKey=None
pass_rate=0.93 passes=12
compass heading 270
bypass L1: true
keepalive=60 keepalive_time_ms=10000
hotkey ctrl-c
--api-key-file /run/k
--token-budget 4096
--secret-name hub
Basic auth is off
Bearer authentication is on
HTTP 401 for key 'usage'
signed commit 9f3c1b7e2d8a4460b1c5e7f90a2d4c68aabbccdd
uuid: 9f3c1b7e-2d8a-4460-b1c5-e7f90a2d4c68
nccl: cached key 0x7f3a9c
loading shard model-00001-of-00030.safetensors sha256=9f3c1b7e2d8a4460b1c5e7f90a2d4c689f3c1b7e2d8a4460b1c5e7f90a2d4c68
inductor key fqx3yzabcdefghijklmnopqrstuvwxyz234567abcdefghij
Container vllm-7d9f8b6c5-x2k4j started
rank 3 key_states max 12.5
attn_keys: 8 attn_values: 8
token_type_ids=None
tokenizer.pad_token = tokenizer.eos_token
unk_token='<unk>'
key takeaway: use FP8
dmesg: key 7 of keyring .builtin_trusted_keys
""".strip("\n").splitlines()


def plain(number: int) -> str:
    """A value that only its place gives away, another one for each number: a word, letters by chance, hex."""
    word, digits = WORD[number % len(WORD)], str(number)
    shapes = (f"{word}{digits}z", f"k7{digits}" + made([("", LETTERS, 8)]), made([("", HEX, 32)]), made([("a1Z", LETTERS, 37)]))
    return shapes[number // 3 % 4]


LAST = [
    "- value: {}\n  name: WANDB_API_KEY\n",
    "        - value: '{}'\n          name: PGPASSWORD\n        - name: PORT\n",
    '"value": "{}",\n"name": "HF_TOKEN"\n',
    'expect "assword:"\nsend "{}\\r"\nexpect eof\n',
    'expect -re "(?i)passphrase"\nsend -- "{}\\n"\n',
    "child.expect('password:')\nchild.sendline('{}')\n",
    'child.expect("Token:"); child.sendline("{}")',
    'expect "Password:" {{ send "{}\\r" }}',
    " * Debugger PIN: 332-812-{}",
    "pin={}",
    'PIN: "{}"',
    "Your one-time password is {}",
    "curl -sS -H 'Api-Key: {}' http://127.0.0.1:8000/v1/models",
    "oras login -u robot -p {} registry.example",
    "hf auth login --token {}",
    "huggingface-cli login --token {} --add-to-git-credential",
    "ngc config set --apikey {}",
    "kaggle: {{'username': 'ada', 'key': '{}'}}",
    "AWS_SECRET_ACCESS_KEY: {} (from env)",
    "aria2c --http-passwd={} https://x",
    "wget --password={} ftp://x",
    "s3cmd --secret_key={} ls",
    "rclone obscure: pass = {}",
    "os.environ.setdefault('HF_TOKEN', '{}')",
    "os.putenv('HF_TOKEN', '{}')",
    "monkeypatch.setenv('HF_TOKEN', '{}')",
    "Env: [HF_TOKEN={} PATH=/usr/bin]",
    "sshpass -p '{}' ssh node1 nvidia-smi",
    "git remote set-url origin https://oauth2:{}@gitlab.example/x.git",
    "pip install --extra-index-url https://ada:{}@pypi.example/simple vllm",
    "X-Vault-Token: {}",
    "x-goog-api-key: {}",
    "sec-websocket-protocol: bearer.authorization, {}",
    "srun --export=ALL,HF_TOKEN={} python serve.py",
    "#SBATCH --export=HF_TOKEN={}",
    "apptainer run --env HF_TOKEN={} x.sif",
    "mpirun -x HF_TOKEN={} -np 8 python x.py",
    "ray.init(runtime_env={{'env_vars': {{'HF_TOKEN': '{}'}}}})",
    "deepspeed --launcher_args '--export HF_TOKEN={}'",
    "+ export HF_TOKEN={}",
    "++ HF_TOKEN={}",
    'declare -x HF_TOKEN="{}"',
    "HF_TOKEN\t{}",
    "Environment=HF_TOKEN={}",
    "secretKeyRef resolved: HF_TOKEN -> {}",
    "NGC_API_KEY => {}",
    "LLM_API_KEY = '{}' if x else None",
    "api key: {}",
    "API Key    : {}",
    "| hf_token | {} |",
    "hf_token............: {}",
    "token (from ~/.cache/huggingface): {}",
]
"""Written last: what leaked of those before it, and forms of launchers; see docs/reliability.md for how many leaked at first."""
LAST_STAYS = r"""
pin_memory: True, pin_memory_device: cuda:0
cpu_pin: 0-15,32-47
numa pin: cores0to7
spin: 100us then yield
mapping: layer0 -> cuda:0
typing: NDArray
SyntaxError: expected token ')' but got end of file
jinja2.exceptions.TemplateSyntaxError: expected token 'end of statement block', got 'raise'
unexpected keyword: send "ok" twice
- value: 0.9375
value: 12 name: layers
  value: true
value: float32
  name: model.layers.0.self_attn
sent 3 tensors, expects "ready"
irq 45 pinned to cpu 7
""".strip("\n").splitlines()


@cache
def placements() -> list[tuple[str, list[str]]]:
    """Texts, and what of each may not be found after scrubbing."""
    every = [(AROUND[number % 3].format(token), [token]) for number, token in enumerate(map(made, ISSUED.values()))]
    for number, template in enumerate([*FILES, *YAML, *CONNECTION, *SHELL, *LANGUAGES, *HEADERS, *STRACE, *BLIND, *LAST]):
        secret = plain(number)
        every.append((template.format(*(secret,) * template.count("{}")), [secret]))
    for number, template in enumerate(KUBE):
        secret = base64_of("ada:" + plain(number))
        every.append((template.format(secret), [secret]))
    return every + [(text, KEY_PARTS) for text in KEYS]


ARGV = [
    ["docker", "login", "-u", "ada", "-p", "{}"],
    ["docker", "run", "-e", "HF_TOKEN={}", "-p", "8000:8000", "img"],
    ["docker", "run", "--env=WANDB_API_KEY={}", "img"],
    ["helm", "install", "--set", "hub.token={}"],
    ["kubectl", "create", "secret", "generic", "hub", "--from-literal=token={}"],
    ["openssl", "rsa", "-passin", "pass:{}"],
    ["gpg", "--passphrase", "{}"],
    ["unzip", "-P", "{}", "m.zip"],
    ["7z", "x", "-p{}", "m.7z"],
    ["smbclient", "-U", "ada%{}", "//nas/m"],
    ["lftp", "-u", "ada,{}", "sftp://nas"],
    ["ldapsearch", "-w", "{}"],
    ["ipmitool", "-U", "ADMIN", "-P", "{}", "power"],
    ["sqlcmd", "-U", "sa", "-P", "{}"],
    ["mongosh", "-u", "ada", "-p", "{}"],
    ["mongosh", "-u", "ada", "-p{}"],
    ["wandb", "login", "{}"],
    ["curl", "--oauth2-bearer", "{}", "http://x"],
    ["curl", "-H", "api-key:{}", "http://x"],
    ["curl", "-d", '{{"password":"{}"}}', "http://x"],
    ["curl", "-uada:{}", "http://x"],
    ["curl", "--user=ada:{}", "http://x"],
    ["curl", "-F", "token={}", "http://x"],
    ["jupyter", "lab", "--IdentityProvider.token={}"],
    ["jupyter", "lab", "--ServerApp.token", "{}"],
    ["ray", "start", "--redis-password={}"],
    ["rclone", "--s3-secret-access-key", "{}"],
    ["aws", "configure", "set", "aws_secret_access_key", "{}"],
    ["python3", "-c", "from huggingface_hub import login; login(token='{}')"],
    ["python3", "s.py", "token={}"],
    ["python3", "s.py", "--config", '{{"hf_token": "{}", "tp": 8}}'],
    ["python3", "s.py", "--secret", "{}", "--verbose"],
    ["python3", "s.py", "/api_key:{}"],
    ["java", "-Djavax.net.ssl.keyStorePassword={}", "-jar", "x.jar"],
    ["sshpass", "-p{}", "ssh", "host"],
    ["psql", "postgresql://ada:{}@db/llm"],
    ["psql", "host=db user=ada password={}"],
    ["env", "-u", "X", "HF_TOKEN={}", "vllm"],
    ["sudo", "HF_TOKEN={}", "vllm", "serve"],
    ["bash", "-lc", "export HF_TOKEN={}; exec vllm serve m"],
    ["mysqldump", "--password={}", "llm"],
    ["mariadb", "-u", "ada", "-p{}"],
    ["redis-cli", "--pass", "{}", "ping"],
    ["wget", "--header", "X-Auth-Token: {}", "http://x"],
    ["git", "clone", "https://oauth2:{}@git.example/a"],
    ["vllm", "serve", "m", "--served-model-name", "a", "--api-key={}"],
    ["/opt/venv/bin/python3.12", "/opt/venv/bin/vllm", "serve", "m", "--api-key", "{}", "two"],
    ["mc", "alias", "set", "s3", "http://nas:9000", "minio", "{}"],
    ["snmpget", "-v3", "-A", "{}", "host"],
    ["cloudflared", "tunnel", "run", "--token", "{}"],
]
ENVIRON = [
    "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "VLLM_API_KEY", "SGLANG_ADMIN_KEY", "NGC_API_KEY", "NVIDIA_API_KEY", "NCCL_AUTH_TOKEN",
    "VLLM_SECRET", "TRITON_HTTP_BEARER", "HF_HUB_ACCESS", "PYTHON_KEYRING_PASS", "TORCH_HUB_CREDENTIALS", "VLLM_PASS",
    "AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "MASTER_KEY", "LMCACHE_REDIS_PASSWORD", "MOONCAKE_STORE_KEY", "UCX_X_SECRET_KEY",
]  # fmt: skip
"""Variables whose values may not be recorded; the values of `CARRIERS` are, without what they carry."""
CARRIERS = {
    "HF_ENDPOINT": "https://ada:{}@hub.example",
    "VLLM_PLUGINS_ARGS": "--token {} --port 1",
    "LMCACHE_CONFIG": '{{"url": "redis://:{}@h:1"}}',
    "NCCL_ENV_X": "a;password={};b",
    "PYTHONPATH": "/srv:/x?api_key={}",
    "TORCH_LOGS": "Authorization: Bearer {}",
    "SGLANG_ARGS": "--admin-api-key '{}'",
    "VLLM_HEADERS": "x-api-key: {}",
}

STAYS = """
Token indices sequence length is longer than the specified maximum ({n} > 8192)
special_tokens_map.json: 100%|##########| {n}/{n} [00:00<00:00, 1.2MB/s]
missing keys: ['lm_head.weight', 'model.layers.{d}.self_attn.k_proj.weight']
unexpected_keys=[] missing_keys=['q_proj.bias'] strict={d}
KeyError: 'model.layers.{d}.mlp.gate_proj.weight'
key: 'model.layers.{d}.self_attn.k_proj.weight' shape: ({n}, 128)
dict_keys(['last_hidden_state', 'attentions_{d}'])
torch.compile cache key: {h}
cache_key={h} hit={d}
Using cache directory: /srv/.cache/vllm/torch_compile_cache/{h}/rank_{d}_0 for vLLM's torch.compile
snapshot /srv/.cache/huggingface/hub/models--Qwen--Qwen3-{d}B/snapshots/{h40}
image: registry.example/vllm@sha256:{h64}
HEAD is now at {h40} bump
etag: "{h}" last-modified: {n}
request_id=chatcmpl-{h} finished_reason=stop
Received request cmpl-{h}: prompt: 'Hello', params: SamplingParams(n={d}, max_tokens={n})
trace_id={h} span_id={h16}
container_id: {h64}
cri-containerd-{h64}.scope
NCCL INFO comm 0x55d{h12} rank {d} nranks 8 cudaDev {d} busId 1b000 commId 0x{h16} - Init START
GPU-{h8}-{h4}-{h4}-{h4}-{h12}
inet6 fe80::{h4}:{h4}:{h4}:{h4}/64 scope link
MountVolume.SetUp failed for volume "secret-vol-{d}" : secret "hub-{d}" not found
secrets "hub-{d}" is forbidden: User "system:serviceaccount:llm:default" cannot get resource "secrets"
/var/lib/kubelet/pods/{h8}-{h4}-{h4}-{h4}-{h12}/volumes/kubernetes.io~secret/hub
password authentication failed for user "ada{d}"
Permission denied (publickey,password). attempt {d}
Enter passphrase for key '/srv/.ssh/id_ed25519_{d}':
401 Client Error: Unauthorized for url: http://127.0.0.1:{n}/v1/models
Invalid API key provided {d} times
Please pass a token or log in with hf auth login ({d})
use_auth_token=True, token=None, trust_remote_code=True, revision={d}
authentication: disabled, authorization-mode: RBAC, port {n}
auth_type=basic auth: none worker={d}
forward pass took {d}.{n} s, pass 1 of {d}
first pass: {n} ms, second pass: {n} ms
bypass_cache=True passing={n} passed={d}
num_key_value_heads={d}, num_attention_heads={n}, head_dim=128
key_cache.shape=({n}, 16, 8, 128) value_cache.dtype=bf16
--kv-cache-dtype fp8 --max-num-seqs {n} --token-ids {d} {d}
--ssl-keyfile /etc/tls/tls{d}.key --ssl-certfile /etc/tls/tls.crt
public key: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{h} ada@host{d}
ED25519 key fingerprint is SHA256:{h}{d}.
signature: (Tensor x, int n={n}) -> Tensor
kernel signature: *fp16,*fp16,i32,{d}
got signal SIGTERM sig={d} code={n}
Main process exited, code=exited, status={d}/FAILURE
getsockopt(3, SOL_SOCKET, SO_PEERCRED, {{pid={n}, uid=0, gid=0}}, [12]) = 0
shmget(0x{h8}, {n}, IPC_CREAT|0600) = {d}
0x{h8} {n}      root       600        {n}     {d}
Key type dns_resolver registered {d}
Loaded X.509 cert 'Build time autogenerated kernel key: {h40}'
vllm:prompt_tokens_total{{model_name="m{d}"}} {n}.0
vllm:time_per_output_token_seconds_bucket{{le="0.{n}",model_name="m"}} {d}.0
"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "bos_token": null, "n": {n}
"additional_special_tokens": ["<|im_start|>", "<|im_end|>"], "v": {d}
"tokenizer_class": "Qwen2Tokenizer", "model_max_length": {n}
"image_token_id": {n}, "video_token_id": {n}
output_token_throughput={n}.5 mean_tpot_ms={d}.1 total_output_tokens={n}
stop_token_ids=[{n}], include_stop_str_in_output=False
draft_token_num={d} speculative_num_draft_tokens={d}
tokens: [{n}, {n}, {n}]
HF_HUB_ENABLE_HF_TRANSFER={d} TOKENIZERS_PARALLELISM=true
SSH_AUTH_SOCK=/tmp/ssh-aBcDeFgH{d}/agent.{n}
PWD=/srv/app{d} OLDPWD=/root
API_KEY_FILE=/run/secrets/key{d} DB_PASSWORD_FILE=/run/secrets/db
TOKEN_URL=https://auth.example/oauth{d} SECRET_NAME=hub-{d}
PasswordAuthentication no # {d}
StrictHostKeyChecking=no HostKeyAlgorithms=ssh-ed25519 Port={n}
git@git.example:team/repo{d}.git
scp ada@host{d}:/srv/a.log .
GET http://127.0.0.1:{n}/v1/models?model=a&stream=true HTTP/1.1
tcp://10.0.0.{d}:{n} redis://127.0.0.1:{n}/0
s3://bucket/table/key={d}/part-{n}.parquet
pip install hf_transfer=={d}.1.9 sk-learn pypi-attestations
from huggingface_hub import hf_hub_download, hf_raise_for_status as h{d}
npm_config_registry=https://registry.example npm_lifecycle_event=build{d}
data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAA{d}
_ZN2at6native12_GLOBAL__N_1{d}distribution_elementwise_grid_stride_kernelIfLi4E
sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x{d}
triton_poi_fused_add_mul_{d} triton_red_fused__to_copy_mean_{n}
void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<{d}>>>
Basic usage: serve MODEL --port {n}
Bearer of the interface is {d}
systemd[1]: session-{d}.scope: Consumed {n}ms CPU time.
session_id={n} opened for user root by (uid={d})
cookies disabled, csrf protection off, worker {d}
docker run -p {n}:8000 -u 1000:1000 --user 0:0 img
mkdir -p /a/b{d}; ssh -p {n} host; ps -p {n}; lsof -p {n}; strace -p {n} -f
py-spy dump -p {n} --native; perf record -p {n}
curl -u http://127.0.0.1:{n}/health
-----BEGIN CERTIFICATE-----
MIID{h64}
author: Ada Lovelace <ada@example.org> {d}
keyword arguments: {{'input_ids': {n}, 'past_key_values': None}}
past_key_values=DynamicCache(layers={d}) key_states={n}
Loading tokenizer from /models/tokenizer{d}.json with key eos
passkey retrieval accuracy: {d}.{n}
sorted by key 'ttft_{d}' ascending
the secret of good throughput is batching, said {d} people
password is required but was not given ({d})
secret is mounted at /run/secrets/hub{d}
token expired {n} s ago; refresh token in {d} s
token count: {n} token budget: {n} tokens left: {d}
next_token_ids=tensor([{n}, {n}])
logit_bias={{{n}: {d}}} logprobs={d}
OAuth token endpoint http://127.0.0.1:{n}/token
keys in flight: {d}, keys evicted: {n}
primary key (id), foreign key (run_{d})
passphrase: (none) {d}
X-Request-Id: {h8}-{h4}-{h4}-{h4}-{h12}
WWW-Authenticate: Bearer realm="hub{d}"
Authorization: required for /v{d}
secretKeyRef: {{name: hub-{d}, key: token}}
valueFrom: secretKeyRef name=hub key=hf-token-{d}
imagePullSecrets: [{{name: regcred-{d}}}]
serviceAccountName: default automountServiceAccountToken: false # {d}
projected volume kube-api-access-{h4}{d}
--token-endpoint /v{d} --auth-mode none --password-file /run/p
credentials: include mode cors {d}
credHelpers: {{"registry.example": "ecr-login{d}"}}
Digest: sha256:{h64}
Status: Downloaded newer image for vllm/vllm-openai:v0.{d}.0
ncclUniqueId {h16}{h16}
LTAI is a prefix; API-FIRST DESIGN {d}; SK hynix {n}
sha256~ is the prefix of a kind of token ({d})
pul-request, ico-file, pat.tern.{d}
pk=({n},) keyspace=db0 keys={n},expires={d},avg_ttl={n}
requirepass is not set (worker {d})
masterauth not configured {d}
password hash algorithm: bcrypt cost={d}
""".strip().splitlines()


def numbers() -> dict[str, str]:
    """What the templates of look-alikes are filled with."""
    found = {"n": str(chance.randrange(1000, 60000)), "d": str(chance.randrange(1, 9))}
    return found | {f"h{length or ''}": made([("", HEX, length or 32)]) for length in (0, 4, 8, 12, 16, 40, 64)}


@cache
def look_alikes() -> list[str]:
    """Texts that are to stay as they are."""
    return [*(template.format(**numbers()) for template in STAYS for _ in range(3)), *BLIND_STAYS, *LAST_STAYS]


def written_later(name: str) -> list[str]:
    """Templates of a corpus that was written without a look at the rules; docs/reliability.md has what came of it."""
    return [
        re.sub(r"(?<!\\)\\n", "\n", line).replace("\\\\", "\\")
        for line in (THIRD / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    ]


@cache
def third_placements() -> list[tuple[str, list[str]]]:
    """Each with two values: a word with a digit, and letters by chance."""
    values = [(f"{WORD[at % 3]}{at}z", made([("", HEX if at % 2 else LETTERS, 31), ("7", "x", 0)])) for at in range(400)]
    return [
        (text.format(*(one,) * 3), [one]) for text, both in zip(written_later("placements"), values, strict=False) for one in both
    ]


@cache
def third_look_alikes() -> list[str]:
    return list(dict.fromkeys(text.format(**numbers()) for text in written_later("look_alikes") for _ in range(2)))


@cache
def marked(corpus: str) -> list[tuple[str, list[str]]]:
    """Texts of a later corpus, and what is secret in each: `<h32>` are signs by chance, « » stand around secrets."""
    classes = {"a": LOWER, "l": LOWER, "A": UPPER, "b": LETTERS, "h": HEX, "d": string.digits, "c": LETTERS + "+/"}
    words, own = [*WORD, "Zeppelin_77", "tr0ub4dor.and3", "correct-horse-9", "8fJq2LmNpR4t"], random.Random(41)

    def fill(found: re.Match[str]) -> str:
        kind, count = found[1], found[2]
        if kind == "w":
            return own.choice(words)
        lengths = (8, 4, 4, 4, 12) if kind == "u" else (int(count),)
        return "-".join("".join(own.choices(HEX if kind == "u" else classes[kind], k=length)) for length in lengths)

    texts = [re.sub(r"<([wu]|[alAbhdc](?=\d))(\d*)>", fill, text) for text in written_later(corpus)]
    return [(re.sub("[«»]", "", text), re.findall("«(.*?)»", text, re.DOTALL)) for text in texts]


def through_channels(corpus: str, clean: Callable[[str], str]) -> list[tuple[str, str, list[str]]]:
    """The same of a corpus in which lines may be an `argv` or an `environ` in JSON: text, what is left of it, secrets."""
    found = []
    for text, secrets in marked(corpus):
        kind, _, rest = text.partition(" ")
        if kind == "argv" and rest[:1] == "[":
            left = "\n".join(scrub_argv(json.loads(rest)))
        elif kind == "environ" and rest[:1] == "{":
            left = "\n".join(f"{name}={value}" for name, value in scrub_environ(json.loads(rest)).items())
        else:
            left = clean(text)
        found.append((text, left, secrets))
    return found

"""Where a launch runs, as far as the evidence shows it: what decides which commands and remedies fit.

Marks of systems, accelerators and orchestrators, and the commands that find what is not known, stand in kit/knowledge/tools.toml.
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from kit.analyse.verdict.evidence import Evidence
from kit.analyse.verdict.failures import cause
from kit.analyse.verdict.refused_arguments import program
from kit.analyse.verdict.scene import Scene
from kit.analyse.verdict.settings import ENVIRONMENT, VERSIONS, Settings, settings_of
from kit.clock import NS, show_time
from kit.intake.beginnings import may_hold
from kit.parse.script import run_by_python
from kit.tool_table import Tool, filled, table
from kit.untrusted import whole_number

MOST_OF_A_CODE = 20
"""Records of one code that are searched for marks: the first of a kind say where it runs, a thousand say no more."""
MOST_PROGRAMS = 3
AROUND_S = 600
"""Seconds of the kernel's log before and after the last line of a launch that is over."""
_PLAIN = re.compile(r"[\w./:@+~-]+")
"""What stands in a command without quotes."""
_LOOKS = re.compile(
    r"(?P<before>^|; |\bdo |\$\(|&& |\|\| |=)"
    r"(?P<look>(?:timeout (?:-\w+ \S+ )*\d+ )?(?:ps|ss|head|cat|py-spy|pgrep|lslocks|gdb|strace|ncclras|curl) )"
)
"""Where a command begins that looks at the launch's own processes, sockets and files."""
_FOLDERS = re.compile(r"\bdu -sk [^>;]*[^>; ]")
_INIT = re.compile(r"systemd|/sbin/init|^init\b")
_OF_THE_HOST = re.compile(
    r"(?i)cuda|\bhip|[nr]ccl|device|driver|\bgpu|\bxid|out of memory|allocat|killed|signal|\bbus\b|\bi/o\b|time[ds]? ?out|"
    r"connect|socket|pipe|\beof|system error|assert"
)
"""Words of errors of which the kernel may know more than who prints them."""
_RESTARTED = re.compile(r"BackOff|Back-off|Restart Count:\s+[1-9]|will be restarted")
_ROW_OF_PODS = re.compile(r"\S+ \d+/\d+ ")


@dataclass(frozen=True)
class Surroundings:
    """Traits of the place (`linux`, `nvidia`, `over`, …: captures.toml lists them) and names by placeholder."""

    traits: frozenset[str]
    accelerator: str | None
    system: str
    names: dict[str, str]
    inside: str = ""
    """What runs a command in the launch's container, where the evidence names that and its pids are those inside."""
    roles: tuple[str, ...] = ()
    """What it is for, where it is no plain server: a sentence for each role."""

    def there(self, command: str) -> str:
        """A command as it is typed outside of the launch's container.

        Examples
        --------
        >>> pod = Surroundings(frozenset(), None, "linux", {}, "kubectl exec pod/llm-0 --")
        >>> pod.there("p=$(pgrep -of vllm); head /proc/$p/stat > a.txt")
        'p=$(kubectl exec pod/llm-0 -- pgrep -of vllm); kubectl exec pod/llm-0 -- head /proc/$p/stat > a.txt'
        >>> pod.there("du -sk ~/.cache > du.txt"), pod.there("kubectl logs pod/llm-0")
        ("kubectl exec pod/llm-0 -- sh -c 'du -sk ~/.cache' > du.txt", 'kubectl logs pod/llm-0')
        """
        if not self.inside:
            return command
        command = command.replace(" -o strace.txt", " -o /dev/stdout > strace.txt")
        command = _LOOKS.sub(lambda found: f"{found['before']}{self.inside} {found['look']}", command)
        return _FOLDERS.sub(lambda found: f"{self.inside} sh -c {shlex.quote(found[0])}", command)

    def fits(self, wanted: Iterable[str]) -> bool:
        """Whether all conditions hold: `a|b` one of them, `!a` not."""
        return all(any((word.lstrip("!") in self.traits) != word.startswith("!") for word in text.split("|")) for text in wanted)

    def row(self, tools: list[Tool]) -> Tool | None:
        """Which of a step's tools runs here: one of this system, else the first (the step's conditions say where it does)."""
        fitting = [
            tool
            for tool in tools
            if tool.accelerator in (None, self.accelerator) and (not tool.servers or self.traits & set(tool.servers))
        ]
        return next((tool for tool in fitting if tool.system == self.system), fitting[0] if fitting else None)

    def filled(self, text: str) -> str:
        """A text of the tables with its placeholders filled in."""
        return filled(text, self.names)


def surroundings(scene: Scene, klass: str, state: str) -> Surroundings:
    """Where a launch runs of which class and state are known."""
    evidence = scene.evidence
    lives = scene.processes.alive or scene.log.last("load_timeout")  # who gave a load up lives on
    over = bool(scene.fact("exited")) or state in ("failed", "ended") and not lives
    settings, texts, known = settings_of(evidence), _texts(evidence), table(evidence.run.knowledge)
    accelerator = accelerator_of(evidence, texts)
    system = _told(known.systems, texts) or "linux"
    sources = {str(row.get("source")) for row in evidence.events if row.get("source")}
    told = [str(row["text"]) for row in evidence.events]
    # A row of `kubectl get pods` says how a pod is, not why: the events and the description are still to come.
    seen = {str(row.get("source")) for row in evidence.events if not _ROW_OF_PODS.match(row["text"])}
    orchestrators = {name for name, marks in _possible(known.orchestrators, texts).items() if any(map(marks.search, texts))}
    # Whatever the program: where it lists models as OpenAI's interface does, it can be asked for a token.
    lists = any(row.get("purpose") == "models" and '"data"' in (row.get("body") or "") for row in evidence.probes)
    server = settings.server or ("openai" if lists else "")
    port = _port(scene) if any(server in tool.servers for tool in known.tools.values()) else None
    opens = any(mark.phase in ("warmup", "ready", "serving") for mark in evidence.log.marks)
    possible = _possible({role.name: role.marks for role in known.roles}, texts)
    roles = [role for role in known.roles if role.name in possible and any(map(role.marks.search, texts))]
    roles = [role for role in roles if not (role.portless and opens)]
    names = _names(scene, settings, over)
    holding = {
        "behind": bool(names["behind"]),
        "gpu": accelerator not in (None, "cpu"),
        "over": over,
        "port": port is not None,
        "generates": all(role.generates for role in roles),
        "native": server in known.native,
        "trainer": server in known.trainers,
        "restarted": bool(scene.fact("restarts")) or any(map(_RESTARTED.search, told)),
        "no_ras": _older_than_ras(str(settings.of(VERSIONS).get("NCCL") or "")),
        "one_rank": scene.processes.world_size == 1 or server in known.native,
        "several_nodes": _several_nodes(scene, settings),
        "own_error": _own_error(scene),
        "dated": over and evidence.log.last_time is not None,
        "program": program(evidence.log) is not None,
    }
    traits = {klass, state, system, accelerator or "any_gpu", server, *orchestrators, *(sources & {*known.orchestrators})}
    traits |= {f"{name}_seen" for name in seen} | {name for name, holds in holding.items() if holds}
    served = known.launches.get(server, known.launches["any"])
    launch = served if server in known.launches else _programs(texts) or served
    named = {"launch": launch, "served": served, "port": port, **names}
    traits |= {role.name for role in roles}
    names = known.finders | {key: value for key, value in named.items() if value}
    inside = _inside(scene, named) if system == "linux" and not over else ""
    there = {key: filled(text, names) for key, text in names.items()}
    return Surroundings(frozenset(traits - {""}), accelerator, system, there, inside, tuple(role.says for role in roles))


def _older_than_ras(version: str) -> bool:
    """Whether a version of NCCL is known and has no RAS subsystem, which came with 2.24 (its release notes)."""
    found = re.match(r"(\d{1,4})\.(\d{1,4})", version)
    return found is not None and (int(found[1]), int(found[2])) < (2, 24)


def _own_error(scene: Scene) -> bool:
    """Whether a program failed by an error that it names, of nothing that the kernel has a part in."""
    began = cause(scene.log)
    own = began is not None and began.code in ("exception", "program_missing", "module_missing", "usage_error")
    return own and scene.fact("signal") is None and not _OF_THE_HOST.search(began.text)


def _inside(scene: Scene, named: dict[str, str | None]) -> str:
    """What runs a command in the launch's container; empty where the pids that are known are the host's."""
    table = scene.processes.by_pid
    listed = [row for row in scene.evidence.processes if row.get("cmdline")]
    if listed and (1 not in table or _INIT.search(table[1].title)):
        return ""
    if named["pod"]:
        return f"kubectl exec {named['pod']} --"
    return f"docker exec {named['container']}" if named["container"] else ""


def _namespace(evidence: Evidence) -> str | None:
    """Namespace of the launch's pod, as a description or a command names it."""
    told = [re.search(r"(?:^Namespace:|\s-n|--namespace)[ =]+([a-z0-9-]+)", str(row["text"])) for row in evidence.events]
    typed = [re.search(r"\bkubectl\b.*?\s(?:-n|--namespace)[ =]([a-z0-9-]+)", str(row["text"])) for row in evidence.commands]
    return next((found[1] for found in [*told, *typed] if found), None)


def accelerator_of(evidence: Evidence, texts: Iterable[str] = ()) -> str | None:
    """`nvidia`, `amd`, `ascend`, … as in tools.toml; None where nothing tells. The first source that tells it decides.

    Examples
    --------
    >>> import kit
    >>> from kit.analyse.verdict.evidence import gather
    >>> accelerator_of(gather(kit.open_run(kit.sample_path("sg01-capture-hang"))))
    'nvidia'
    """
    marks = table(evidence.run.knowledge).accelerators
    told = (name for source in _sources(evidence) if (name := _told(marks, source)))
    # CUDA's and NCCL's words stand in the logs of other makes, too: nvidia where no other make shows.
    others = {name: pattern for name, pattern in marks.items() if name != "nvidia"}
    return next(told, None) or _told(others, texts) or _told({"nvidia": marks["nvidia"]}, texts)


def _told(marks: dict[str, re.Pattern[str]], texts: Iterable[str]) -> str | None:
    votes: Counter[str] = Counter()
    counts = Counter(texts)  # a descriptor is in each sample
    marks = _possible(marks, counts)
    for text, times in counts.items():
        votes.update({name: times for name, pattern in marks.items() if pattern.search(text)})
    return votes.most_common(1)[0][0] if votes else None


def _possible(marks: dict[str, re.Pattern[str]], texts: Iterable[str]) -> dict[str, re.Pattern[str]]:
    """The marks that some of the texts may hold: most are of other systems, and are looked for in no text by itself."""
    together = "\n".join(texts)
    return {name: pattern for name, pattern in marks.items() if may_hold(pattern, together)}


def _sources(evidence: Evidence) -> Iterable[list[str]]:
    """Texts that name a device, the surest first."""
    kinds = {row.kind: row.accelerator for row in table().tools.values() if row.accelerator}
    shown = {capture.file: kinds[capture.kind] for capture in evidence.run.captures if capture.kind in kinds}
    yield [str(row["name"]) for row in evidence.gpus if row.get("name")]
    yield [_DEVICE[name] for row in evidence.gpus if (name := shown.get(str(row.get("capture")))) in _DEVICE]
    yield [str(row.get("target")) for row in evidence.fds]
    yield [str(row.get("key")) for row in evidence.host if row.get("source") == "environ"]
    yield [str(row.get("function")) for row in evidence.stacks]


_DEVICE = {"nvidia": "/dev/nvidia", "amd": "/dev/kfd", "ascend": "/dev/davinci", "gaudi": "/dev/accel/"}


def _texts(evidence: Evidence) -> list[str]:
    """What commands, variables, the host and the logs say."""
    seen: Counter[str] = Counter()
    texts = [str(row["text"]) for row in evidence.commands]
    texts += list({str(row["cmdline"]) for row in evidence.processes if row.get("cmdline")})
    texts += [f"{row.get('key')}={row['value']}" for row in evidence.host if row["source"] in ("environ", "uname")]
    for mark in evidence.log.marks:
        seen[mark.code] += 1
        if seen[mark.code] <= MOST_OF_A_CODE:
            texts.append(mark.text)
    return texts + [row["text"] for row in evidence.log.tail]


def _programs(texts: Iterable[str]) -> str:
    """Programs that Python was told to run, as a pattern for a process list: a server that no table knows is found so."""
    found = dict.fromkeys(name for text in texts if (name := run_by_python(text)))
    return "|".join(itertools.islice(found, MOST_PROGRAMS))


def _port(scene: Scene) -> str | None:
    port = scene.fact("port")
    return str(port) if port else None


def _several_nodes(scene: Scene, settings: Settings) -> bool:
    sizes, hosts = scene.processes.sizes, {row.get("host_name") for row in scene.evidence.processes}
    nodes = [sizes.get("nnodes"), settings.options.get("nnodes"), settings.of(ENVIRONMENT).get("SLURM_NNODES")]
    return len(hosts - {None}) > 1 or sizes.get("node_rank", 0) > 0 or any((whole_number(count) or 0) > 1 for count in nodes)


def _names(scene: Scene, settings: Settings, over: bool) -> dict[str, str | None]:
    """Names that the evidence has, by placeholder."""
    evidence, options = scene.evidence, settings.options
    processes = scene.processes.workers or list(scene.processes.by_pid.values())
    pids = [str(process.pid) for process in sorted(processes, key=lambda process: process.pid) if not process.dead]
    stopped = [
        str(process.pid) for process in scene.processes.by_pid.values() if process.states and process.states[-1] in ("T", "t")
    ]
    late = scene.fact("lagging_ranks") or ()
    given = [options.get(name) for name in ("served_model_name", "model", "model_path", "model_id")]
    folder = options.get("download_dir") or settings.of(ENVIRONMENT).get("HF_HOME")
    ended, offset = evidence.log.last_time, evidence.run.offset_s
    pod = _one(f"pod/{name.removeprefix('pod/')}" for name in _objects(evidence, "kubernetes"))
    return {
        "program": program(evidence.log),
        "pid": pids[0] if pids else None,
        "pids": " ".join(pids[:64]),
        "stopped": " ".join(stopped),
        "behind": " ".join(str(process.pid) for process in processes if process.rank in late and not process.dead) or None,
        "fd": None if scene.fact("blocked_fd") is None else str(scene.fact("blocked_fd")),
        "lock": _one([scene.fact("lock_path")]),
        "model": _one(given),
        "folders": _one([folder]),
        "hub": _one([settings.of(ENVIRONMENT).get("HF_ENDPOINT"), *_hubs(evidence)]),
        "container": _one(_objects(evidence, "docker")) or _search(r"docker run\b.*?--name[= ](\S+)", evidence),
        "pod": f"-n {space} {pod}" if pod and (space := _namespace(evidence)) else pod,
        "job": _one([settings.of(ENVIRONMENT).get("SLURM_JOB_ID"), *_objects(evidence, "slurm")]),
        "since": show_time(ended - AROUND_S * NS, offset) if over and ended else None,
        "until": show_time(ended + AROUND_S * NS, offset) if over and ended else None,
    }


def _one(values: Iterable[object]) -> str | None:
    """The first that can stand in a command as it is."""
    return next((str(value) for value in values if value and _PLAIN.fullmatch(str(value))), None)


def _objects(evidence: Evidence, source: str) -> Collection[str]:
    """What the events of an orchestrator are about; of Kubernetes' objects the pods."""
    names = [str(row["object"]) for row in evidence.events if row.get("source") == source and row.get("object")]
    return [name for name in names if source != "kubernetes" or "/" not in name or name.startswith("pod/")]


def _hubs(evidence: Evidence) -> Iterable[str]:
    """Addresses of the model hub that the log names."""
    told = (urlsplit(str(mark.fields.get("url", ""))) for mark in evidence.log.of("hub_retry", "hub_unreached"))
    return (f"{url.scheme}://{url.netloc}" for url in told if url.netloc)


def _search(pattern: str, evidence: Evidence) -> str | None:
    hits = (re.search(pattern, str(row["text"]), re.DOTALL) for row in evidence.commands)
    return next((_one([hit[1]]) for hit in hits if hit), None)

"""Options of programs that hold a secret, and the words of a command that are one.

The text of this module goes in front of the sampler, as that of `kit.redact` does: see there.
"""

import re

from kit.secret_names import REFERENCE, secret_name

_PROGRAMS = """
mysql mysqldump mysqladmin mariadb mariadb-dump: -p*
sshpass: -p -p*
7z 7za: -p*
zip unzip: -P -P*
ldapsearch ldapadd ldapmodify ldapwhoami: -w
ipmitool sqlcmd bcp: -P -P*
mongosh mongo: -p -p*
redis-cli: -a
ssh-keygen: -N -P
openssl: enc/-k
snmpget snmpwalk snmpset: -A -X -c
redfishtool racadm: -p
useradd usermod: -p
htpasswd: -b/=last -bc/=last -cb/=last -nb/=last -Bb/=last -bB/=last -nbB/=last
rabbitmqctl: change_password/=last add_user/=last
gh: secret/-b secret/--body
ab: -A:
hey: -a:
smbclient: -U%
lftp: -u,
curl: -u: -U: -b=
docker podman nerdctl skopeo buildah crane oras helm az oc: login/-p
twine: upload/-p
wandb vault: =login
ngrok: =add-authtoken =authtoken
http https xh: -a:
influx: -t
mc: set/=last
aws: configure/=name put-parameter/--value
"""
"""Options of programs that hold a secret: `-p` in the next word, `-p*` in the same, `-u:` behind the sign; with a word that
must be there. `=login`: the next word behind it that is no option, `=last`: the last, `=name`: the word
behind the name of a secret."""
_OPTIONS = {}
for _line in _PROGRAMS.strip().splitlines():
    for _program in _line.partition(":")[0].split():
        _OPTIONS[_program] = [option.rpartition("/")[::2] for option in _line.partition(": ")[2].split()]
COMMANDS = "|".join(sorted(map(re.escape, set(_OPTIONS) - {"http", "https"}), key=len, reverse=True))
"""Those that a line of a log names for no other reason."""
COMMAND = re.compile(r"(?<![\w.])(?<![^|]-)(?:" + COMMANDS + r")(?:\(\d{1,9}\))?(?=\s)[^|;&\r\n]{0,1000}")


def hidden_words(words):
    """Which words of a command hold a secret by the rules of its programs, and how much of the front of each is kept.

    A program may stand behind another: `sudo`, `env`, `docker exec`, `python -m`.
    """
    programs = [(at, re.sub(r".*/|\(\d+\)\Z", "", word)) for at, word in enumerate(words)]
    found = {(at + place, kept) for at, name in programs if name in _OPTIONS for place, kept in _hidden(name, words[at:])}
    return sorted((place, kept) for place, kept in found if not REFERENCE.match(words[place][kept:]))


def _hidden(program, words):
    found = []
    for needed, option in _OPTIONS[program]:
        if needed and needed not in words:
            continue
        if option == "=last":
            found += [(len(words) - 1, 0)] if len(words) > words.index(needed) + (4 if needed == "set" else 2) else []
            continue
        for place, word in enumerate(words[1:], 1):
            before = words[place - 1]
            if option == "=name":
                hit, kept = place > 1 and secret_name(before) and before[:1] != "-", 0
            elif option[0] == "=":
                behind = [one for one in words[1:place] if one[:1] != "-"]
                hit, kept = behind[-1:] == [option[1:]] and word[:1] != "-", 0
            elif option[:2] == "--":
                hit, kept = before == option, 0
            elif option[2:] == "*":
                hit, kept = word.startswith(option[:2]) and len(word) > 2 and word[1] != "-", 2
            else:
                attached = option[2:] and word.startswith(option[:2]) and len(word) > 2
                hit, kept = before == option[:2] or bool(attached), 0
                if option[2:]:
                    name, sign, secret = word.partition(option[2])
                    hit, kept = hit and secret != "" and not secret.isdecimal() and not secret.startswith("//"), len(name) + 1
            found += [(place, kept)] if hit else []
    return found

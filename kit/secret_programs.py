"""Options of programs that hold a secret, and the words of a command that are one.

The text of this module goes in front of the sampler, as that of `kit.redact` does: see there.
"""

import re

from kit.secret_names import secret_name

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
htpasswd: -b/=last
rabbitmqctl: change_password/=last add_user/=last
gh: secret/-b secret/--body
ab: -A:
hey: -a:
smbclient: -U%
lftp: -u,
curl: -u: -U: -b=
docker podman nerdctl skopeo buildah crane oras helm az oc: login/-p
twine: upload/-p
wandb vault: login/=login
mc: set/=last
aws: configure/=name
"""
"""Options of programs that hold a secret: `-p` in the next word, `-p*` in the same, `-u:` behind the sign; with a word that
must be there. `=login`: the word behind it, `=last`: the last, `=name`: the word behind the name of a secret."""
_OPTIONS = {}
for _line in _PROGRAMS.strip().splitlines():
    for _program in _line.partition(":")[0].split():
        _OPTIONS[_program] = [option.rpartition("/")[::2] for option in _line.partition(": ")[2].split()]
COMMANDS = "|".join(sorted(map(re.escape, _OPTIONS), key=len, reverse=True))
COMMAND = re.compile(r"(?<![\w.-])(?:" + COMMANDS + r")(?=\s)[^|;&\r\n]{0,1000}")


def hidden_words(words):
    """Which words of a command hold a secret by the rules of its program, and how much of the front of each is kept."""
    found = []
    for needed, option in _OPTIONS.get(re.sub(r".*/", "", words[0]), ()) if words else ():
        if needed and needed not in words:
            continue
        if option == "=last":
            found += [(len(words) - 1, 0)] if len(words) > words.index(needed) + (4 if needed == "set" else 2) else []
            continue
        for place, word in enumerate(words[1:], 1):
            before = words[place - 1]
            if option == "=login":
                hit, kept = before == "login" and word[:1] != "-", 0
            elif option == "=name":
                hit, kept = place > 1 and secret_name(before) and before[:1] != "-", 0
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
    return sorted(set(found))

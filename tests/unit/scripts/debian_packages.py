"""Which packages a program comes from, and which are installed for what."""

import os
import re
import shutil
import subprocess


def lists_of(root):
    """The arrays of deploy/packages.sh."""
    script = '. "$1" && for list in ${!PACKAGES_*}; do declare -n of=$list; echo "$list ${of[*]}"; done'
    out = subprocess.run(["bash", "-c", script, "bash", os.path.join(root, "deploy/packages.sh")], check=True, capture_output=True, text=True)
    return {words[0]: words[1:] for words in (line.split() for line in out.stdout.splitlines())}


class Installed:
    """Debian's packages on this machine."""

    def __init__(self):
        fields = "${Package}\t${db:Status-Status}\t${Essential}\t${Priority}\t${Provides}\t${Pre-Depends}, ${Depends}\n"
        out = subprocess.run(["dpkg-query", "-W", "-f", fields], check=True, capture_output=True, text=True).stdout
        self.needs, self.providers, self.base = {}, {}, {"apt"}
        for package, status, essential, priority, provides, needs in (line.split("\t") for line in out.splitlines()):
            if status != "installed":
                continue
            self.needs[package] = needs
            for name in re.findall(r"([\w.+-]+)(?: \([^)]*\))?,?", provides):
                self.providers.setdefault(name, set()).add(package)
            if essential == "yes" or priority == "required":
                self.base.add(package)

    def with_needs(self, packages):
        """They and what apt installs with them."""
        found, left = set(), list(packages)
        while left:
            package = left.pop()
            if package in found:
                continue
            found.add(package)
            for group in self.needs.get(package, "").split(","):
                names = [re.sub(r"[:(\s].*", "", a.strip()) for a in group.split("|") if a.strip()]
                left += next(([n] if n in self.needs else sorted(self.providers[n]) for n in names
                              if n in self.needs or n in self.providers), [])
        return found

    def owners(self, paths):
        """Of each file the packages that it is of, and that each is of that it is a link to."""
        chains = {}
        for path in paths:
            chains[path] = [path]
            while os.path.islink(chains[path][-1]) and len(chains[path]) < 8:
                at = chains[path][-1]
                chains[path].append(os.path.normpath(os.path.join(os.path.dirname(at), os.readlink(at))))
        # Packages may have it in /bin, which is a link to /usr/bin.
        forms = {p: {re.sub(r"^/usr(/s?bin/)", r"\1", p), re.sub(r"^(/s?bin/)", r"/usr\1", p)} for c in chains.values() for p in c}
        out = subprocess.run(["dpkg-query", "-S", *sorted({f for names in forms.values() for f in names})], capture_output=True,
                             text=True, check=False).stdout
        has = {}
        for packages, file in (line.rsplit(": ", 1) for line in out.splitlines() if not line.startswith("diversion")):
            has.setdefault(file, set()).update(p.strip().split(":")[0] for p in packages.split(","))
        return {path: {o for p in chain for f in forms[p] for o in has.get(f, ())} for path, chain in chains.items()}


def find(program):
    """Where packages have it; not what pip or a person has put beside."""
    if program.startswith("/"):
        return program if os.path.exists(program) else None
    return shutil.which(program, path="/usr/bin:/bin:/usr/sbin:/sbin")

#!/usr/bin/env python3
"""Checks the licence of every locked dependency against the `allow` list of deny.toml, offline.

    python3 .ci/licenses.py

Fails if a dependency has no licence or one that is not allowed, or if an entry of the list is not
needed. Reads the SPDX expressions of `cargo metadata`, in which older crates write `/` for `OR`.
Unlike cargo-deny, it does not read licence files.
"""

import json
import pathlib
import re
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent


class Expression:
    """A licence expression as a list of alternatives, each a set of licences that apply together."""

    def __init__(self, text):
        self.tokens = re.findall(r"[()]|[^\s()]+", text.replace("/", " OR "))
        self.alternatives = self.any_of()
        if self.tokens:
            raise ValueError(f"unexpected {self.tokens[0]}")

    def any_of(self):
        found = self.all_of()
        while self.accept("OR"):
            found += self.all_of()
        return found

    def all_of(self):
        found = self.one()
        while self.accept("AND"):
            right = self.one()
            found = [one | other for one in found for other in right]
        return found

    def one(self):
        token = self.tokens.pop(0)
        if token == "(":
            found = self.any_of()
            if not self.accept(")"):
                raise ValueError("a bracket is not closed")
            return found
        if self.accept("WITH"):
            token = f"{token} WITH {self.tokens.pop(0)}"
        return [{token}]

    def accept(self, word):
        if self.tokens and self.tokens[0].upper() == word:
            self.tokens.pop(0)
            return True
        return False


def main():
    allowed = set(tomllib.loads((ROOT / "deny.toml").read_text())["licenses"]["allow"])
    # Downloads the packages of other platforms, which no build here has needed.
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--all-features"]
    packages = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)["packages"]
    failures = []
    used = set()
    for package in packages:
        name = f"{package['name']} {package['version']}"
        try:
            alternatives = Expression(package["license"] or "").alternatives
        except (ValueError, IndexError) as error:
            failures.append(f"{name}: licence {package['license']!r} cannot be read: {error}")
            continue
        accepted = [one for one in alternatives if one <= allowed]
        if not accepted:
            failures.append(f"{name}: licence {package['license']!r} is not allowed by deny.toml")
        used.update(*accepted)
    failures += [f"deny.toml: {licence} is allowed, but no dependency needs it" for licence in sorted(allowed - used)]
    print("\n".join(failures) or f"{len(packages)} packages, all licences are allowed")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()

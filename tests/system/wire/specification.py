"""proto/PROTOCOL.md as data: the numbers of its tables and the bytes of its examples are read out of the page itself, so a
table that is not true fails a test.

    TYPES["PUSH"].number, CODES["SHAPE"], LIMITS["WIRE_NAME_MAX"], LEAST_ROLE["SET"]
"""

import collections
import os
import re

SOURCE = os.environ.get("PSD_SOURCE_DIR", os.path.join(os.path.dirname(__file__), "../../.."))

with open(os.path.join(SOURCE, "proto/PROTOCOL.md"), encoding="utf-8") as page:
    TEXT = page.read()

Type = collections.namedtuple("Type", "number senders answer has_payload")


def section(number):
    return re.search(r"^## %d\. .*?(?=^## |\Z)" % number, TEXT, re.S | re.M).group()


def rows(text):
    """The cells of each row of the tables in a text."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]


def number(text):
    """262,144 or 2^48 or 16 MiB."""
    digits = re.match(r"[\d,]+", text).group().replace(",", "")
    power = re.match(r"(\d+)\^(\d+)", text)
    return int(power.group(1)) ** int(power.group(2)) if power else int(digits) * (1 << 20 if "MiB" in text else 1)


def example(after):
    """The bytes that are printed in hexadecimal behind a sentence."""
    lines = re.search(re.escape(after) + r".*?\n\n((?: {4}(?:[0-9a-f]{2} ?)+\n)+)", TEXT, re.S).group(1)
    return bytes.fromhex(lines.replace("\n", " "))


TYPES = {r[1]: Type(int(r[0]), r[2], r[3], bool(r[4])) for r in rows(section(4)) if len(r) == 5 and r[0].isdigit()}
NAMES = {t.number: name for name, t in TYPES.items()}
CODES = {name: int(n) for n, name in re.findall(r"\b(\d+) ([A-Z_]+)\b", "\n".join(
    line for line in section(7).splitlines() if line.startswith("|")))}
LIMITS = {}
for row in rows(section(3)):
    if len(row) == 3 and row[0][:4] in ("FRAM", "WIRE", "AREN", "SHAR"):
        values = re.split(r"; |, (?=\d+$)|, (?=\d+,)", row[1])
        LIMITS.update(zip(row[0].split(", "), map(number, values * (row[0].count(",") + 1 if len(values) == 1 else 1))))
LEAST_ROLE = {}
for row in rows(section(14)):
    if row[0] in ("read", "train", "admin"):
        LEAST_ROLE.update((what, row[0]) for what in row[1].split(", "))
VERSION = int(re.search(r"\| version \| (\d+) \|", TEXT).group(1))

_errors = re.sub(r"\s+", " ", section(4))
# What an ERROR about the request answers, while the connection goes on.
GOES_ON = re.search(r"ends that request, and the connection goes on: ([A-Z, ]+)\.", _errors).group(1).split(", ")
GOES_ON_BAD_VALUE = re.search(r"except that a ([A-Z, ]+) or ([A-Z]+) with a bad value", _errors)
GOES_ON_BAD_VALUE = GOES_ON_BAD_VALUE.group(1).split(", ") + [GOES_ON_BAD_VALUE.group(2)]

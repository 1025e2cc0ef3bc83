#!/usr/bin/env python3
"""The reference of the API: each exported function has a manual page and a place in the page for browsers, each page is
of an exported function, and each comment that they are made of is whole. Prints TAP."""
import copy
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE = os.environ["PSD_SOURCE_DIR"]
BUILD = os.environ["PSD_BUILD_DIR"]
sys.path.insert(0, os.path.join(SOURCE, "client", "reference"))

import check  # noqa: E402
import comment  # noqa: E402
import header  # noqa: E402

PAGES = os.path.join(BUILD, "client", "reference")
number = 0
failures = 0


def ok(found, sentence):
    """found: the errors, []: none."""
    global number, failures
    number += 1
    failures += bool(found)
    print("%s %d - %s" % ("not ok" if found else "ok", number, sentence))
    for line in found[:20]:
        print("# " + line)


def skip(sentence, why):
    global number
    number += 1
    print("ok %d - %s # SKIP %s" % (number, sentence, why))


def differences(one, other):
    return ["%s: not in the second" % name for name in sorted(one - other)] + [
        "%s: not in the first" % name for name in sorted(other - one)]


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def paths():
    folders = [os.path.join(SOURCE, side, "include", "psclient") for side in ("client", "common")]
    found = [os.path.join(folder, name) for folder in folders for name in sorted(os.listdir(folder))]
    return [path for path in found if path.endswith(".h")]


headers = [header.read(path) for path in paths()]
groups = [(one, group) for one in headers for group in one.groups()]
functions = {item.name for _, group in groups for item in group.functions()}


def exported():
    library = os.path.join(BUILD, "client", "libpsclient.so")
    done = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True)
    return {name for name in re.findall(r" (\w+)(?:@.*)?$", done.stdout, re.M) if name.startswith("ps_")}


# ---- Comments ----


def complaints_of(one, group):
    """The errors of one group alone, whatever the others have."""
    checker = check.Checker(headers)
    checker.group(one, group)
    return checker.found


def changed(group, change):
    other = copy.deepcopy(group)
    change(other)
    return other


def unnoticed(change, concerns):
    """Groups in which a change of the comment is no complaint."""
    return ["%s: %s" % (one.name, group.items[0].name) for one, group in groups
            if concerns(one, group) and not complaints_of(one, changed(group, change))]


def without(name):
    def change(group):
        group.comment.order.remove(name)
        del group.comment.sections[name]
    return change


def has(name):
    """The section stands there because the first comment of the file does not have it."""
    return lambda one, group: (group.functions() and name in group.comment.sections and
                               (name in ("Since", "Errors") or name not in one.head.sections))


def some_parameter(group):
    group.comment.sections["Parameters"].entries.pop()


def foreign_parameter(group):
    group.comment.sections["Parameters"].entries.append(("nobody", "has it"))


def unknown_code(group):
    group.comment.sections["Errors"].entries.append(("PS_ERR_UNHEARD_OF", "never"))


def own_parameters(one, group):
    """The last entry is of a parameter that the file's first comment does not describe."""
    section = group.comment.sections.get("Parameters")
    known = one.head.sections.get("Parameters")
    return section and section.entries and (known is None or section.entries[-1][0] not in known.keys())


def no_comment(group):
    group.comment = None


def comments_are_whole():
    ok(check.complaints(headers), "each function, type and macro has a comment of the fixed form")
    for name in ("Since", "Errors", "Returns"):
        ok(unnoticed(without(name), has(name)), "a comment without %s is noticed, wherever it is" % name)
    ok(unnoticed(some_parameter, own_parameters), "a parameter that no comment describes is noticed")
    ok(unnoticed(foreign_parameter, lambda one, group: "Parameters" in group.comment.sections),
       "a description of a parameter that is not there is noticed")
    ok(unnoticed(unknown_code, lambda one, group: "Errors" in group.comment.sections),
       "an error that does not exist is noticed")
    ok(unnoticed(no_comment, lambda one, group: True), "a declaration without comment is noticed")
    ok(half_filled(), "a line that ends in the middle of a sentence is noticed")


def half_filled():
    """As after an editor that fills one line and not those behind it."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "ps_client.h")
        text = read(next(one.path for one in headers if one.name == "ps_client.h"))
        broken = text.replace("Operations that are not done", "Operations that are\n * not done", 1)
        with open(path, "w", encoding="utf-8") as file:
            file.write(broken)
        found = check.complaints([one for one in headers if one.name != "ps_client.h"] + [header.read(path)])
    return [] if broken != text and any("not laid out" in line for line in found) else ["it is not"]


def form_is_stable():
    lines = ["What it does, a - b. " + "Words that fill a line. " * 12, "", "- an item", "    code   as it is", "",
             "Errors:", "  PS_ERR_IO  " + "words " * 40, "Since: 0.1"]
    once = comment.marked(comment.body(comment.parse(lines), comment.WIDTH - 3))
    again = comment.marked(comment.body(comment.parse(comment.unmarked(once)), comment.WIDTH - 3))
    ok(differences(set(once), set(again)) + [line for line in once if len(line) > comment.WIDTH],
       "what is laid out once is as it is when it is laid out again")


# ---- Pages ----


def made():
    """The manual pages that are built and installed: a build folder may have others, of functions that have gone."""
    with open(os.path.join(BUILD, "meson-info", "intro-targets.json"), encoding="utf-8") as file:
        targets = json.load(file)
    files = next(target["filename"] for target in targets if target["name"] == "api_manual")
    return [os.path.basename(path) for path in files]


def pages_are_those_of_functions():
    manual = {name[:-2] for name in made() if name.endswith(".3")}
    ok(differences(exported(), functions), "the library exports the functions that the headers declare")
    ok(differences(exported(), manual), "each exported function has a manual page, and each page is of one")
    ok([name for name in sorted(manual) if not names_it(name)], "each page, and each link to one, names its function")
    ok(differences({one.name[:-2] for one in headers}, {name[:-2] for name in made() if name.endswith(".7")}),
       "each header has a page in section 7, and each of these is of one")
    ok([name for name in sorted(manual) if not (".so " in page(name) or whole(page(name)))],
       "each page has all of its sections")


def page(name):
    return read(os.path.join(PAGES, name + ".3"))


def names_it(name):
    text = page(name)
    link = re.fullmatch(r"\.so man3/(\w+)\.3\n", text)
    text = page(link.group(1)) if link else text
    return re.search(r"^\.SH NAME\n.*\b%s\b.* \\- " % name, text, re.M) is not None


def whole(text):
    titles = ("NAME", "SYNOPSIS", "DESCRIPTION", "THREADS", "HISTORY", "SEE ALSO")
    return all(".SH %s\n" % title in text for title in titles)


def pages_are_well_formed():
    sentence = "man formats each page without a warning"
    pages = [name for name in sorted(made()) if not read(os.path.join(PAGES, name)).startswith(".so ")]
    if shutil.which("groff"):
        command = ["groff", "-ww", "-man", "-Kutf8", "-Tutf8", "-z"]
    elif shutil.which("man"):
        command = ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z"]
    else:
        skip(sentence, "neither groff nor man is here")
        return
    found = []
    for name in pages:
        done = subprocess.run(command + [os.path.join(PAGES, name)], capture_output=True, text=True, check=False)
        found += [name + ": " + line for line in done.stderr.splitlines()[:2]] + ([name] if done.returncode else [])
    ok(found, sentence)


def browsers_page_is_whole():
    text = read(os.path.join(PAGES, "psclient.html"))
    ids = re.findall(r'\bid="([^"]*)"', text)
    ok(sorted(functions - set(ids)), "each function has its place in the page for browsers")
    ok(sorted({name for name in ids if ids.count(name) > 1}), "no two places of it have one name")
    ok(sorted(set(re.findall(r'href="#([^"]*)"', text)) - set(ids)), "and each link in it leads to one")
    ok(re.findall(r'(?:src|href)="[^#][^"]*"|@import|url\(', text), "it needs nothing beside itself")


comments_are_whole()
form_is_stable()
pages_are_those_of_functions()
pages_are_well_formed()
browsers_page_is_whole()
print("1..%d" % number)
sys.exit(1 if failures else 0)

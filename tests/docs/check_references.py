#!/usr/bin/env python3
"""Checks that what the documents point to is there: links and their anchors, files named in
backticks, scripts and presets named in shell snippets; and the pages and their anchors that sources
name. Arguments: the project's root."""

import functools
import glob
import json
import os
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
rooms = {p.name for p in root.iterdir() if p.is_dir()} - {"build"}
presets = {p["name"] for p in json.loads((root / "CMakePresets.json").read_text())["configurePresets"]}
fenced = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
checked = 0
wrong = []


def slug(heading):
    """The anchor that a heading gets: lower case, punctuation dropped, dashes for spaces."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def check(document, what, good):
    global checked
    checked += 1
    if not good:
        wrong.append(f"{document.relative_to(root)}: {what}")


@functools.cache
def anchors(page):
    return {slug(h) for h in re.findall(r"^#+ (.+)$", fenced.sub("", page.read_text()), re.M)}


def check_link(document, link, target, anchor):
    check(document, f"link to {link}", target.exists())
    if anchor and target.is_file():
        check(document, f"anchor of {link}", anchor in anchors(target))


def check_links(document, text):
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        check_link(document, link, document.parent / path if path else document, anchor)


def check_source(source):
    """Comments name pages from the root: docs/lab/softmax-cuda.md#not-reached."""
    for page, anchor in re.findall(r"\b(docs/[\w/.-]+\.md)(?:#([\w-]+))?", source.read_text()):
        check_link(source, f"{page}#{anchor}", root / page, anchor)


def expand(name):
    """a.{hpp,cpp} -> a.hpp, a.cpp"""
    braces = re.search(r"\{([^}]*)\}", name)
    if not braces:
        return [name]
    return [name[: braces.start()] + part + name[braces.end() :] for part in braces[1].split(",")]


def check_files(document, text):
    for span in re.findall(r"`([^`\n]+)`", text):
        name = span.split()[0]
        if "/" not in name or name.split("/")[0] not in rooms or "<" in name:
            continue
        for path in expand(name):
            check(document, f"file {path}", glob.glob(str(root / path)))


def check_shell(document, snippet):
    for line in snippet.splitlines():
        command = line.split("#")[0].split()
        if command and re.match(r"(scripts|\.ci)/", command[0]):
            check(document, f"command {command[0]}", os.access(root / command[0], os.X_OK))
        for preset in re.findall(r"--preset[ =](\S+)", line) + re.findall(r"build/([\w-]+)", line):
            check(document, f"preset {preset}", preset in presets)


documents = [
    page
    for pages in ("*.md", "docs/**/*.md", "benchmarks/*.md", "examples/**/*.md", ".github/*.md")
    for page in root.glob(pages)
]
for document in documents:
    text = document.read_text()
    prose = fenced.sub("", text)
    check_links(document, prose)
    check_files(document, prose)
    for language, snippet in fenced.findall(text):
        if language == "sh":
            check_shell(document, snippet)

kinds = {".cu", ".cuh", ".cpp", ".hpp", ".h", ".c", ".py", ".cmake"}
for folder in sorted(r for r in rooms if not r.startswith((".", "build"))):
    for source in (root / folder).rglob("*"):
        if source.is_file() and (source.suffix in kinds or source.name == "CMakeLists.txt"):
            check_source(source)

print(f"{len(documents)} documents, {checked} references, {len(wrong)} wrong")
print("\n".join(wrong))
sys.exit(bool(wrong) or checked == 0)

"""Compares Python's `re` with the engine that wrote the cases: [{"pattern", "texts": [{"text", "matches"}]}] in the file of argument 1."""

import json
import re
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    cases = json.load(file)
for case in cases:
    pattern = re.compile(case["pattern"])
    for each in case["texts"]:
        # Python's `$` also matches before a line break at the end, and no portable anchor does not.
        if each["text"].endswith("\n"):
            continue
        if bool(pattern.search(each["text"])) != each["matches"]:
            print(f"{case['pattern']} differs on {each['text']!r}: not {each['matches']}")

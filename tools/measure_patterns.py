"""Measures all regular expressions of the kit on texts made of their own parts, and writes which files hold but linear ones.

`python -m tools.measure_patterns`: some twenty seconds. The tests measure again only what is not as it was then.
"""

from __future__ import annotations

import sys

from tests.test_patterns import MEASURED, by_file, digest, worse_than_linear


def main() -> int:
    lines, wrong = [], []
    for name, used in sorted(by_file().items()):
        found = worse_than_linear(used)
        wrong += found
        lines += [] if found else [f"{name} {digest(used)}\n"]
    MEASURED.write_text("".join(lines), encoding="utf-8")
    print("\n".join(wrong) or f"the patterns of {len(lines)} files take time in proportion to the length of the text")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

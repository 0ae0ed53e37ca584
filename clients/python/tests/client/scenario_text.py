"""A file of scenarios, read line by line; `scenarios/README.md` says what the lines mean."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass
class Outcome:
    """What came of a step, as words."""

    word: str
    fields: dict[str, str]
    key: str | None = None
    """The secret of a grant, for later steps."""

    def __str__(self) -> str:
        return " ".join([self.word, *(f"{name}={value!r}" for name, value in sorted(self.fields.items()))])


@dataclass
class Expected:
    word: str | None
    """None: any but a refusal, for questions, whose answer has no word."""
    fields: dict[str, str]

    def matches(self, actual: Outcome) -> bool:
        word = not actual.word.startswith("refused") if self.word is None else self.word == actual.word
        return word and all(actual.fields.get(name) in wanted.split("|") for name, wanted in self.fields.items())

    def __str__(self) -> str:
        return " ".join([self.word or "", *(f"{name}={value!r}" for name, value in self.fields.items())])


@dataclass
class Step:
    line: int
    text: str
    at: int
    actor: str
    hears: bool
    words: list[str]
    """Without a name, the verb first."""
    named: dict[str, list[str]]
    expected: Expected | None


@dataclass
class Scenario:
    topic: str
    line: int
    claim: str
    only: list[str] | None = None
    why: str = ""
    limits: list[tuple[str, int]] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    @property
    def restarts(self) -> bool:
        return any(step.actor == "server" for step in self.steps)


def read(file: Path) -> list[Scenario]:
    scenarios: list[Scenario] = []
    in_claim = False
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("#"):
            if not in_claim:
                scenarios.append(Scenario(file.stem, number, line[1:].strip().rstrip(".")))
            in_claim = True
            continue
        in_claim = False
        if not line.strip():
            continue
        if line[0].isspace():
            scenarios[-1].steps.append(_step(line, number, scenarios[-1].steps))
        else:
            _directive(scenarios[-1], line)
    return scenarios


def duration(text: str) -> int | None:
    matched = re.fullmatch(r"(\d+)(ms|s|m|h|d)", text)
    return None if matched is None else int(matched[1]) * _UNITS[matched[2]]


def duration_text(millis: int) -> str:
    return f"{millis}ms" if millis % 1000 else f"{millis // 1000}s"


def _words(line: str) -> list[str]:
    """Single quotes keep a value with blanks together and vanish."""
    return [word.replace("'", "") for word in re.findall(r"(?:[^\s']|'[^']*')+", line)]


def _step(line: str, number: int, before: list[Step]) -> Step:
    words = _words(line)
    at = duration(words[0])
    if at is None:
        at = before[-1].at if before else 0
    else:
        words.pop(0)
    arrow = next((place for place, word in enumerate(words) if word in ("->", "<-")), None)
    expected = None if arrow is None else _expected(words[arrow + 1 :])
    said = words if arrow is None else words[:arrow]
    named: dict[str, list[str]] = {}
    plain = []
    for word in said[1:]:
        name, equals, value = word.partition("=")
        if equals and re.fullmatch(r"[A-Za-z0-9._-]+", name):
            named.setdefault(name, []).append(value)
        else:
            plain.append(word)
    hears = arrow is not None and words[arrow] == "<-"
    return Step(number, line.strip(), at, said[0], hears, plain, named, expected)


def _expected(words: list[str]) -> Expected:
    plain = []
    while words and "=" not in words[0]:
        plain.append(words.pop(0))
    fields = {}
    for word in words:
        name, _, value = word.partition("=")
        length = duration(value)
        fields[name] = value if length is None else duration_text(length)
    return Expected(" ".join(plain) or None, fields)


def _directive(scenario: Scenario, line: str) -> None:
    kind, _, rest = line.partition(":")
    if kind == "only":
        faces, _, why = rest.partition("--")
        scenario.only, scenario.why = faces.split(), why.strip()
    elif kind == "limits":
        for word in rest.split():
            name, _, value = word.partition("=")
            length = duration(value)
            scenario.limits.append((name, int(value) if length is None else length))
    else:
        raise ValueError(f"{scenario.topic}: what is `{line}`?")

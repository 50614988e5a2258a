"""Durations of JUnit XML: what a test suite took, test by test. Failed and skipped ones say nothing of time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tithe.data.points import Point, Refused, moment, spelled_number

_THOUSANDS = re.compile(r"[1-9]\d{0,2}(,\d{3})+\.\d+")


class JUnit:
    """A file of `<testcase>`s. Entities and document types are refused: nobody who measures needs them."""

    name = "junit"

    def recognises(self, document: Any, text: str) -> bool:
        return document is None and bool(re.search(r"<testsuites?[\s>]", text[:4096]))

    def points(self, document: Any, text: str, where: str) -> Iterator[Point | Refused]:  # noqa: ARG002
        from xml.etree import ElementTree

        if "<!DOCTYPE" in text or "<!ENTITY" in text:
            yield Refused(where, "has a document type, which is not read")
            return
        try:
            root = ElementTree.fromstring(text)  # noqa: S314 - without entities there is nothing to blow up
        except ElementTree.ParseError as error:
            yield Refused(where, f"is not whole XML (line {error.position[0]})")
            return
        stack: list[tuple[ElementTree.Element, str, float | None]] = [(root, "", None)]
        while stack:
            element, host, at = stack.pop()
            host = element.get("hostname") or host
            at = moment(element.get("timestamp")) or at
            for child in reversed(list(element)):
                if child.tag in ("testsuite", "testsuites"):
                    stack.append((child, host, at))
                elif child.tag == "testcase":
                    yield from self._case(child, host, at, where)

    def _case(self, case: Any, host: str, at: float | None, where: str) -> Iterator[Point | Refused]:
        name = ".".join(filter(None, [case.get("classname"), case.get("name")]))
        if any(child.tag in ("failure", "error", "skipped") for child in case):
            return
        time = case.get("time")
        if time is None:
            yield Refused(f"{where}: {name}", "says no time")
            return
        if _THOUSANDS.fullmatch(time):
            time = time.replace(",", "")
        try:
            seconds = spelled_number(time)
        except ValueError:
            yield Refused(f"{where}: {name}", "has a time that is no number")  # 0,123 can be read in two ways
            return
        yield Point(name, seconds, host=host, at=at, processes=1)

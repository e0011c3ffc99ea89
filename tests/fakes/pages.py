"""Exporter pages by URL; a value that is an error is raised."""

from __future__ import annotations


class FakePages:
    def __init__(self, pages: dict[str, str | Exception]) -> None:
        self.pages = pages
        self.asked: list[str] = []

    def get(self, url: str) -> str:
        self.asked.append(url)
        page = self.pages[url]
        if isinstance(page, Exception):
            raise page
        return page

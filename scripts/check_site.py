"""check_site.py FOLDER: checks a site. Each link between pages has a target, and no page loads from the network."""

import pathlib
import sys
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

# a browser loads these by itself; a link for readers may lead to the network
LOADS = {("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("link", "href"), ("object", "data")}


class Page(HTMLParser):
    def __init__(self, path: pathlib.Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[tuple[str, str, str]] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.ids.add(value)
            if name in ("href", "src", "data") and value:
                self.links.append((tag, name, value))


def problems(folder: pathlib.Path) -> list[str]:
    pages = {path.resolve(): Page(path) for path in folder.rglob("*.html")}
    found = []
    for path, page in pages.items():
        where = path.relative_to(folder.resolve())
        for tag, name, value in page.links:
            url = urlsplit(value)
            if url.scheme in ("http", "https") or url.netloc:
                if (tag, name) in LOADS:
                    found.append(f"{where}: <{tag} {name}> loads {value} from the network")
                continue
            if url.scheme:
                continue
            target = (path.parent / unquote(url.path)).resolve() if url.path else path
            if not target.exists():
                found.append(f"{where}: {value}: there is no such file")
            elif url.fragment and target in pages and unquote(url.fragment) not in pages[target].ids:
                found.append(f"{where}: {value}: there is no such heading")
    for style in folder.rglob("*.css"):
        text = style.read_text(errors="replace")
        found += [
            f"{style.relative_to(folder)}: loads from the network"
            for word in ("url(http", "url(//", "@import")
            if word in text
        ]
    if not pages:
        found.append(f"{folder}: there are no pages")
    return sorted(set(found))


if __name__ == "__main__":
    wrong = problems(pathlib.Path(sys.argv[1]))
    print("\n".join(wrong) or "all links lead somewhere; nothing is loaded from the network")
    sys.exit(bool(wrong))

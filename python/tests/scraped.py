"""What a scrape of a running server gives, as numbers."""

import re
import urllib.error
import urllib.request

LINE = re.compile(r"(?P<name>\w+)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
LABEL = re.compile(r'(\w+)="([^"]*)"')


def fetched(address, path):
    """The status and the text of a page."""
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


class Scrape:
    """One page of metrics."""

    def __init__(self, address):
        status, self.text = fetched(address, "/metrics")
        assert status == 200, self.text
        self.kinds, self.rows = {}, {}
        for line in self.text.splitlines():
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split(" ")
                self.kinds[f"{name}_total" if kind == "counter" else name] = kind
            elif not line.startswith("#"):
                found = LINE.fullmatch(line)
                labels = tuple(sorted(LABEL.findall(found["labels"] or "")))
                assert (found["name"], labels) not in self.rows, line
                self.rows[found["name"], labels] = float(found["value"])
        assert self.text.endswith("# EOF\n")

    def value(self, name, **labels):
        """The value with exactly these labels."""
        return self.rows[name, tuple(sorted(labels.items()))]

    def total(self, name, **labels):
        """The sum of all values that have these labels."""
        wanted = set(labels.items())
        return sum(value for (of, has), value in self.rows.items() if of == name and wanted <= set(has))

    def metrics(self):
        """By the name of each metric, the names of its labels."""
        found = {}
        for name, labels in self.rows:
            of = re.sub(r"_(bucket|count|sum)$", "", name)
            of = of if self.kinds.get(of) == "histogram" else name
            found.setdefault(of, set()).update(label for label, _ in labels if label != "le")
        return found

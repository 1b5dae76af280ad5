"""The text of `turbo report` and its page: what both show has the same name and the same figure."""
import re

import timeline_file as tf

UNITS = {"": 1, "%": 1, "ns": 1, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9, "k": 1e3, "M": 1e6, "B": 1, "kB": 1e3, "MB": 1e6,
         "GB": 1e9, "TB": 1e12, "GiB": 2**30, "MiB": 2**20}
FIGURE = re.compile(r"(?<!\S)(?:([\d.,]+)(?: (%|[num]?s|µs|[kMGT]?B|[MG]iB|[kM])(?:/s)?)?|[-–])(?![^\s])")
TABLES = {"ranks": "#totals table", "time": "#time table", "steps": "#steps table", "kernels": "#kernels table",
          "copies": "#copies table", "host": "#host table"}


def figures(text):
    """Each as (number or None for a dash, whether it is a percentage)."""
    out = []
    for match in FIGURE.finditer(text):
        number, unit = match.groups()
        out.append((None if number is None else float(number.replace(",", "")) * UNITS[unit or ""], unit == "%"))
    return out


def same(a, b):
    """The text has three digits, or whole percents from 10 on; the page a decimal more."""
    if a[0] is None or b[0] is None:
        return (a[0] or 0) == (b[0] or 0)  # the text has a dash for nothing
    return a[1] == b[1] and abs(a[0] - b[0]) <= ((0.06 if a[0] < 9.95 else 0.56) if a[1] else 0.006 * abs(a[0]))


def sections(text):
    """By the first word of its heading, the lines of each part of the text."""
    out = {}
    for part in text.split("\n\n"):
        lines = part.strip("\n").split("\n")
        out[lines[0].split()[0].rstrip(",;")] = lines[1:]
    return out


class Page:
    """The tables of the page: rows by name, cells by heading."""

    def __init__(self, check):
        self.check = check
        tables = check.js("""((tables) => Object.fromEntries(Object.entries(tables).map(([name, selector]) => {
            const table = document.querySelector(selector);
            const cells = (row) => [...row.cells].map((cell) => cell.textContent.replaceAll('\\u00a0', ' ').trim());
            return [name, table && {head: cells(table.tHead.rows[0]), rows: [...table.tBodies[0].rows].filter((r) => !r.hidden).map(cells)}];
        })))(%s)""" % repr(TABLES))
        self.rows = {name: [dict(zip(t["head"], row)) for row in t["rows"]] if t else [] for name, t in tables.items()}
        self.compared = 0

    def row(self, table, column, name):
        found = [row for row in self.rows[table] if row[column].lower() == name.lower()]
        self.check.that(f"{table}: one row '{name}'", len(found) == 1, self.rows[table])
        return found[0]

    def compare(self, what, row, columns, text):
        got = [figures(row[column]) for column in columns]
        for column, mine, its in zip(columns, got, text):
            self.check.that(f"{what}, {column}", len(mine) == 1 and same(its, mine[0]), (row, text))
            self.compared += 1


def ranks(page, lines):
    for line in lines:
        who, own = f"rank {line[:5].strip()}", figures(line[50:])
        page.compare(who, page.row("ranks", "Rank", who), ("Busy", "Compute"), own)
        for column, figure in zip(("Communication alone", "Copies alone", "Idle"), own[2:]):
            if column in page.rows["ranks"][0]:
                page.compare(who, page.row("ranks", "Rank", who), (column,), [figure])


def where(page, lines):
    for line in lines:
        name, own = line[2:38].strip().replace(" us)", " µs)"), figures(line[38:])
        row = page.row("time", "What", name)
        if name == "not recorded":
            page.compare(name, row, ("Time",), own)
            continue
        page.compare(name, row, ("Share", "Time"), own)
        if " x " in line:
            page.compare(name, row, ("Count", "Mean"), own[2:])
    page.check.equal("causes", len(page.rows["time"]), len(lines))


def steps(page, lines):
    for line in lines[1:]:
        if "straggler" in line:
            said = page.check.texts(".straggler")[0]
            page.check.that("straggler", said.split(" (")[0] in line and said.split(": ")[1].rstrip(".") in line, (said, line))
        else:
            who = line[2:16].strip() or page.rows["steps"][0]["Rank"]
            page.compare(f"steps of {who}", page.row("steps", "Rank", who), ("Steps", "Median", "P99", "Min", "Max", "Slow"), figures(line[16:70]))


def kernels(page, lines):
    for line, row in zip([line for line in lines[1:] if "more (--top" not in line], page.rows["kernels"]):
        page.compare(line[52:], row, ("Share", "Time", "Count", "P50", "P99", "Max"), figures(line[:51]))


def copies(page, lines):
    whole = None
    for line in lines[1:]:
        name = line[2:32].strip()
        if name == "all of them pageable":
            page.check.that(name, "all pageable" in whole["Direction"], whole)
            continue
        rows = [row for row in page.rows["copies"] if row["Direction"].replace(" all pageable", "") == name]
        whole = rows.pop(0)
        page.rows["copies"].remove(whole)  # parts of every direction have the same name
        page.compare(name, whole, ("Count", "Bytes", "Time", "Rate", "< 64 KiB"), figures(line[32:]))


def host(page, lines):
    for line in lines[1:]:
        kind, name = line[2:12].strip(), line[53:].strip()
        if len(page.rows["host"]) < 12 or any(row["What"] == f"{name} {kind}" for row in page.rows["host"]):
            page.compare(name, page.row("host", "What", f"{name} {kind}"), ("Count", "Time", "Mean", "Max"), figures(line[12:51]))


def agree(check, text):
    """All that the text says in tables; how many figures were compared."""
    page, parts = Page(check), sections(text)
    for name, compare in {"RANK": ranks, "WHERE": where, "STEPS": steps, "KERNELS": kernels, "COPIES": copies, "HOST": host}.items():
        if name in parts:
            compare(page, parts[name])
    title = check.texts("#verdict")[0]
    check.equal("verdict", title.replace("µs", "us"), " ".join(text.split("\n\n")[0].split("\n")[:-1]))
    return page.compared


def gap_and_pause(path):
    """A job of one rank with a gap of the recording within a step, a pause, and copies too short for a rate."""
    timeline = tf.Timeline(rank=0, ranks=1)
    stream, other, at = timeline.lane(tf.STREAM, 0, 1, 7), timeline.lane(tf.STREAM, 0, 1, 20), 0
    for step in range(40):
        timeline.add(tf.COPY, "Memcpy HtoD (Pageable -> Device)", stream, at, 900_000, (1, 1, 3), 0, 8 << 20)
        timeline.add(tf.COPY, "Memcpy DtoH (Device -> Pinned)", stream, at + 900_000, 1500, (2, 3, 2), 0, 4)
        for i in range(10):
            timeline.add(tf.KERNEL, f"gemm_{i % 3}", stream, at + 1_000_000 + i * 700_000, 650_000 + 1000 * step, (1, 1, 1, 32, 1, 1))
        timeline.add(tf.KERNEL, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", other, at + 7_500_000, 1_300_000, (24, 1, 1, 544, 1, 1))
        if step == 20:
            timeline.add(tf.GAP, "another tool", 0, at + 9_000_000, 70_000_000)
            at += 70_000_000
        at += 10_000_000 + (1_500_000_000 if step == 30 else 0)
    timeline.write(path)

"""The page of `turbo report --html`, opened in headless Chromium: it draws what the report says, asks for nothing,
and says nothing on the console. --keep DIR leaves the pages and screenshots there."""
import json
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import browser  # noqa: E402
import report_agree  # noqa: E402
import report_sample  # noqa: E402
from report_page import BUILD, Check, audit, colour_shares, contrast, write_page  # noqa: E402

SIZES = ((1200, False), (1200, True), (390, False), (390, True))


def check_lane(check, lane, bin_index, bins=report_sample.BINS):
    """The pixels of a bin against the report, when it is drawn by itself."""
    gpu = check.report["ranks"][lane]["gpus"][0]
    series = gpu["series"]
    check.js("(() => { const p = document.querySelector('.plots'); p.focus(); })()")
    check.page.key("Home")
    check.page.frames()
    width = check.js("document.querySelector('.plots canvas').clientWidth")
    # Bins that share three pixels are drawn as their mean.
    group = max(1, -(-3 * bins // width))
    first = bin_index // group * group
    mean = lambda key: sum(series[key][first:first + group]) / group
    want = {"compute": mean("compute") - mean("overlap"), "overlapped": mean("overlap"), "exposed": mean("communication"), "memory": mean("memory")}
    want["idle"] = 1 - sum(want.values()) - mean("unseen")
    got = colour_shares(check, lane, (first + group / 2) / bins)
    height = check.js(f"document.querySelectorAll('.plots canvas')[{lane}].height")
    for key, share in want.items():
        check.that(f"pixels of {key} in bin {first}", abs(got[key] - share) < 0.02 + 4 / height, f"got {got}, want {want}")


def everything_drawn(chromium, folder, name, report):
    lanes = len(report["ranks"])
    for width, dark in SIZES if lanes <= 8 else SIZES[:2]:
        with Check(chromium, folder, name, report, width, dark) as check:
            check.equal("lanes", check.count(".plots canvas"), lanes)
            check.equal("no sideways scrolling", check.js("document.documentElement.scrollWidth"), width)
            check.equal("tables wider than their place", wide_tables(check) if width == 1200 else [], [])
            check.equal("page colour", check.js("getComputedStyle(document.body).backgroundColor"),
                        "rgb(17, 19, 21)" if dark else "rgb(247, 247, 245)")
            check.equal("verdict", check.texts("#verdict"), [report["verdict"]])
            for bin_index in (7, 333, 620):
                check_lane(check, 0, bin_index)
            with_steps = [r for r in report["ranks"] if r["gpus"][0]["steps"]]
            drawn = check.js("[...document.querySelectorAll('.line-chart .series')].map((n) => Number(n.dataset.steps))")
            check.equal("step lines", drawn, [r["gpus"][0]["steps"]["count"] for r in with_steps][:len(drawn) if lanes > 8 else lanes])
            check.that("step lines", len(drawn) == (1 if lanes > 8 else len(with_steps)), drawn)
            kernels = report["kernels"]["top"]
            shown = check.js("[...document.querySelectorAll('#kernels tbody .expand')].map((b) => b.title)")
            check.equal("kernels", shown[:3], [k["name"] for k in kernels[:3]])
            check.that("findings", check.count(".card") == len(report["findings"]), check.count(".card"))
            check.equal("nameless or twofold", audit(check), [])
            check.equal("rows of ranks", check.count("#totals tbody tr"), min(16, lanes))
            check.picture(os.path.join(folder, f"{name}-{width}-{'dark' if dark else 'light'}.png"))


def exact_values(chromium, folder):
    """Tooltip, zoom and tables say what the report says."""
    report = report_sample.sample(2)
    with Check(chromium, folder, "two", report) as check:
        box = check.js("(() => { const b = document.querySelectorAll('.plots canvas')[1].getBoundingClientRect();"
                       "return {x: b.x, y: b.y, w: b.width, h: b.height}; })()")
        check.js("scrollTo(0, document.querySelector('.plots').getBoundingClientRect().top - 200)")
        check.page.frames()
        top = check.js("document.querySelectorAll('.plots canvas')[1].getBoundingClientRect().top")
        group = max(1, -(-3000 // int(box["w"])))
        first = 500 // group * group
        x, y = box["x"] + (first + 0.5) / 1000 * box["w"], top + box["h"] / 2
        check.page.mouse("mouseMoved", x, y)
        check.page.frames()
        series = report["ranks"][1]["gpus"][0]["series"]
        want = f"{sum(series['compute'][i] - series['overlap'][i] for i in range(first, first + group)) * series['bin_ns'] / 1e6:.4f}"
        said = check.texts("#tooltip")[0]
        check.that("tooltip of rank 1", said.startswith("rank 1 ") and want in said, (want, said))
        # a drag over the second quarter zooms into it
        for kind, share in (("mousePressed", 0.25), ("mouseMoved", 0.4), ("mouseMoved", 0.5), ("mouseReleased", 0.5)):
            check.page.mouse(kind, box["x"] + share * box["w"], y, button="left", buttons=0 if kind == "mouseReleased" else 1, clickCount=1)
        check.page.frames()
        check.that("zoomed by a drag", check.texts("#range")[0].startswith(("15.0", "14.9")), check.texts("#range"))
        check.page.key("+", "+")
        check.page.frames()
        check.that("zoomed by a key", "9.00" in check.texts("#range")[0] or "8.9" in check.texts("#range")[0], check.texts("#range"))
        before = check.texts("#range")
        check.page.key("ArrowRight")
        check.page.frames()
        check.that("moved by a key", check.texts("#range") != before, before)
        check.page.key("ArrowDown", shift=True)
        check.page.frames()
        check.that("read out", "rank 1" in check.js("document.querySelector('.readout').value"), check.js("document.querySelector('.readout').value"))
        check.page.key("Home")
        check.page.frames()
        check.that("whole time again", check.texts("#range")[0].startswith("0.00"), check.texts("#range"))
        at = report["ranks"][0]["gpus"][0]["steps"]["start"]
        step = 120
        box = check.js("(() => { const b = document.querySelector('.strip canvas'); b.scrollIntoView({behavior: 'instant', block: 'center'});"
                       "const r = b.getBoundingClientRect(); return {x: r.x, y: r.y, w: r.width}; })()")
        for kind in ("mousePressed", "mouseReleased"):
            check.page.mouse(kind, box["x"] + (step + 0.5) / 240 * box["w"], box["y"] + 5, button="left", buttons=1, clickCount=1)
        check.page.frames()
        shown = [float(t.split()[0]) for t in check.texts("#range")[0].split(" – ")]
        check.that("a click on a step shows it", shown[0] * 1e9 < at[step] < at[step + 1] < shown[1] * 1e9, (shown, at[step:step + 2]))
        tables(check, report)


def tables(check, report):
    """Sorting, filtering, unfolding, and the choice of a rank."""
    kernels = sorted(report["kernels"]["top"], key=lambda k: -k["count"])
    check.js("[...document.querySelectorAll('#kernels thead button')].find((b) => b.textContent === 'Count').click()")
    check.equal("sorted by count", check.texts("#kernels tbody .expand code")[0], kernels[0]["short_name"])
    check.equal("said to be", check.js("document.querySelectorAll('#kernels th[aria-sort=descending]').length"), 1)
    check.js("(() => { const i = document.querySelector('#kernels .filter'); i.value = 'flash'; i.dispatchEvent(new Event('input')); })()")
    check.equal("filtered", check.count("#kernels tbody .expand"), 1)
    check.js("document.querySelector('#kernels .expand').click()")
    whole = next(k["name"] for k in kernels if "flash" in k["name"])
    check.equal("whole name", check.texts("#kernels .full"), [whole])
    check.js("(() => { const s = document.getElementById('who'); s.value = '1'; s.dispatchEvent(new Event('change')); })()")
    mine = report["ranks"][1]["kernels"]["top"][0]["sum_ns"] / 1e9
    check.that("kernels of rank 1", check.texts("#kernels tbody td")[0].startswith(f"{mine:.4g}"[:3]), (mine, check.texts("#kernels tbody td")[0]))
    copies = check.texts("#copies tbody tr")
    check.that("pageable copies", any("pageable" in row and "6.15" in row for row in copies), copies)
    busy = check.texts("#totals tbody tr")[1]
    time_ = report["ranks"][1]["gpus"][0]["time"]
    check.that("busy", f"{100 * time_['busy']:.1f}" in busy and f"{100 * time_['overlap']:.1f}" in busy, (busy, time_))


def hostile_names(chromium, folder):
    report = report_sample.sample(3, hostile=True)
    for dark in (False, True):
        with Check(chromium, folder, "hostile", report, dark=dark) as check:
            check.equal("title kept", check.js("document.title").startswith("turbo report"), True)
            check.equal("elements from names", [check.count(s) for s in ("script", "img", "main script")], [2, 0, 0])
            shown = check.texts("#kernels tbody .expand code")
            for name in report_sample.HOSTILE[:-1]:
                check.that("name shown", name in shown, name)
            check.equal("verdict", check.texts("#verdict"), [report_sample.HOSTILE[0]])
            check.equal("no sideways scrolling", check.js("document.documentElement.scrollWidth"), 1280)
    # Were a name to get out, the policy would still not run it.
    check = Check(chromium, folder, "policy", report)
    check.js("(() => { const s = document.createElement('script'); s.textContent = 'document.title = \"broken\"'; document.body.append(s); })()")
    check.that("no other script runs", check.js("document.title").startswith("turbo report"))
    blocked = check.page.said()
    check.that("refused by the policy", len(blocked) == 1 and "Content Security Policy" in json.dumps(blocked), blocked)
    check.page.close()


def next_to_nothing(chromium, folder):
    for name, report in (("empty", report_sample.empty()), ("without-gpu", report_sample.without_gpu())):
        for width, dark in SIZES:
            with Check(chromium, folder, name, report, width, dark) as check:
                check.equal("says so", check.texts("#verdict"), ["Nothing was recorded."])
                check.equal("no charts", check.count("canvas, svg"), 0)
                check.equal("no sideways scrolling", check.js("document.documentElement.scrollWidth"), width)
    with Check(chromium, folder, "single", report_sample.single()) as check:
        check.that("one lane, all compute", colour_shares(check, 0, 0.5)["compute"] > 0.97, colour_shares(check, 0, 0.5))
        check.equal("one kernel", check.texts("#kernels tbody .expand code"), ["k"])
    bare = {"format": "turbo-report", "version": 1, "ranks": [{"gpus": [{}]}, {}]}
    with Check(chromium, folder, "bare", bare) as check:
        check.equal("lanes", check.count(".plots canvas"), 1)
    with_version = dict(report_sample.empty(), version=2)
    page = os.path.join(folder, "version.html")
    write_page(page, with_version)
    other = browser.Page(chromium, page)
    said = other.evaluate("document.getElementById('verdict').textContent")
    if "turbo-report 1" not in said:
        raise AssertionError(f"another version: {said}")
    other.close()


def media(chromium, folder):
    """Theme by hand, no motion, and paper."""
    report = report_sample.sample(8)
    with Check(chromium, folder, "eight", report, dark=True, **{"prefers-reduced-motion": "reduce"}) as check:
        check.equal("no motion", check.js("getComputedStyle(document.documentElement).scrollBehavior"), "auto")
        before = colour_shares(check, 0, 0.3)["compute"]
        check.js("document.getElementById('theme').click()")
        check.equal("light by hand", check.js("getComputedStyle(document.body).backgroundColor"), "rgb(247, 247, 245)")
        check.that("lanes redrawn", abs(colour_shares(check, 0, 0.3)["compute"] - before) < 0.02, before)
        check.js("document.getElementById('theme').click()")
        check.equal("dark by hand", check.js("document.documentElement.dataset.theme"), "dark")
        pdf = check.page.pdf(os.path.join(folder, "eight.pdf"))
        check.that("printed", pdf.startswith(b"%PDF") and len(pdf) > 50000, len(pdf))
        check.equal("dark again", check.js("document.documentElement.dataset.theme"), "dark")
        contrast(check)
    with Check(chromium, folder, "eight", report) as check:
        check.equal("the choice is kept", check.js("document.documentElement.dataset.theme"), "dark")
        check.js("localStorage.clear()")


def long_run(chromium, folder):
    """Twenty thousand steps, of ranks that began at different times."""
    report = report_sample.sample(9, steps=20000, straggler=False)
    for rank in report["ranks"][::2]:
        steps = rank["gpus"][0]["steps"]
        steps["start"] = steps["start"][7000:]
        steps["count"] -= 7000
    with Check(chromium, folder, "long", report) as check:
        most = max(r["gpus"][0]["steps"]["count"] for r in report["ranks"])
        check.equal("steps", check.js("Number(document.querySelector('.line-chart .series').dataset.steps)"), most)
        off = check.js("[...document.querySelectorAll('#steps tbody tr')].map((r) => r.cells[8].textContent)")
        check.that("the same steps are compared", all(abs(float(o.split()[0].replace("−", "-").rstrip("%\xa0"))) < 0.5 for o in off), off)
        drawn = check.js("""(() => {
            const strip = document.querySelector('.strip canvas');
            const copy = new OffscreenCanvas(strip.width, strip.height).getContext('2d', {willReadFrequently: true});
            copy.drawImage(strip, 0, 0);
            const row = strip.height / 9;
            return [[0.1, 0], [0.1, 1], [0.5, 0], [0.9, 8]].map(([x, n]) => copy.getImageData(x * strip.width, (n + 0.4) * row, 1, 1).data[3]);
        })()""")
        check.equal("rows begin where their recording does", [alpha > 128 for alpha in drawn], [False, True, True, True])
        check.picture(os.path.join(folder, "long.png"))


def from_timelines(chromium, folder):
    """The command's own page of a made-up job on eight ranks, rank 2 the slow one."""
    maker, turbo = (os.path.join(BUILD, name) for name in ("tests/unit/make_trace", "turbo"))
    with tempfile.TemporaryDirectory() as traces:
        run = lambda *args: subprocess.run(args, check=True, capture_output=True, text=True, timeout=60).stdout
        run(maker, "--ranks", "8", "--records", "60000", "--straggler", "2", "--launches", traces)
        page = os.path.join(folder, "command.html")
        run(turbo, "report", traces, "--html", page)
        report = json.loads(run(turbo, "report", traces, "--json"))
        with Check(chromium, folder, "command", None, made=True) as check:
            check.equal("verdict", check.texts("#verdict"), [report["verdict"]])
            check.equal("findings", check.texts(".card h3"), [f["title"] for f in report["findings"]])
            check.equal("lanes", check.count(".plots canvas"), 8)
            for rank in report["ranks"]:
                row = check.texts("#totals tbody tr")[rank["rank"]]
                check.that("busy", f"{100 * rank['gpus'][0]['time']['busy']:.1f}" in row, row)
            shown = check.js("[...document.querySelectorAll('#kernels tbody .expand')].map((b) => b.title)")
            check.equal("kernels", shown, [k["name"] for k in report["kernels"]["top"]][:20])
            slow = check.js("""(() => {
                const strip = document.querySelector('.strip canvas');
                const copy = new OffscreenCanvas(strip.width, strip.height).getContext('2d', {willReadFrequently: true});
                copy.drawImage(strip, 0, 0);
                return [...Array(8).keys()].map((n) => {
                    const {data} = copy.getImageData(0, Math.round((n + 0.4) * strip.height / 8), strip.width, 1);
                    let red = 0;
                    for (let i = 0; i < data.length; i += 4)
                        red += data[i] - data[i + 2] > 60;
                    return red / strip.width;
                });
            })()""")
            check.that("rank 2 holds the others up", slow[2] > 0.8 and max(slow[:2] + slow[3:]) < 0.2, slow)
            check.picture(os.path.join(folder, "command.png"))


def texts_agree(chromium, folder):
    maker, turbo = (os.path.join(BUILD, name) for name in ("tests/unit/make_trace", "turbo"))
    with tempfile.TemporaryDirectory() as traces:
        several, one = os.path.join(traces, "job"), os.path.join(traces, "gap.timeline")
        subprocess.run([maker, "--ranks", "2", "--records", "20000", "--launches", several], check=True, capture_output=True, timeout=60)
        report_agree.gap_and_pause(one)
        for name, trace, least in (("two-ranks", several, 80), ("gap", one, 40)):
            page = os.path.join(folder, name + ".html")
            subprocess.run([turbo, "report", trace, "--html", page], check=True, timeout=60)
            text = subprocess.run([turbo, "report", trace], check=True, capture_output=True, text=True, timeout=60).stdout
            with Check(chromium, folder, name, None, width=1200, made=True) as check:
                compared = report_agree.agree(check, text)
                check.that("figures compared", compared >= least, compared)
                check.equal("tables wider than their place", wide_tables(check), [])
                check.picture(os.path.join(folder, name + ".png"))
    with Check(chromium, folder, "gap", None, made=True) as check:
        check.equal("no time where the recording has a gap", check.count("#steps .unseen-step"), 1)
        check.equal("hatching is explained", [t for t in check.texts(".legend .key") if "Not recorded" in t], ["Not recorded"])


def wide_tables(check):
    return check.js("[...document.querySelectorAll('.scroll')].filter((s) => s.scrollWidth > s.clientWidth + 1).map((s) => s.getAttribute('aria-label'))")


def speed(chromium, folder):
    """64 ranks: the page is there, and a zoom is drawn, before anyone waits."""
    report = report_sample.sample(64, steps=900)
    with Check(chromium, folder, "sixty-four", report) as check:
        loaded = check.js("performance.getEntriesByType('navigation')[0].loadEventEnd")
        check.js("document.querySelector('.plots').focus({preventScroll: true})")
        start = time.monotonic()
        for _ in range(10):
            check.page.key("+", "+")
            check.page.frames()
        frame = (time.monotonic() - start) / 10
        print(f"64 ranks: loaded in {loaded / 1000:.1f} s, a zoom takes {1000 * frame:.0f} ms")
        check.that("loads", loaded < 20000, loaded)
        check.that("zooms", frame < 2, frame)


def main():
    chromium = browser.find()
    if not chromium:
        print("no Chromium here")
        return 77
    if not os.path.exists(os.path.join(BUILD, "gen", "report_page.html")):
        print("the page is not built")
        return 1
    keep = sys.argv[2] if sys.argv[1:2] == ["--keep"] else None
    Check.pictures = bool(keep)
    with tempfile.TemporaryDirectory() as temporary:
        folder = keep or temporary
        os.makedirs(folder, exist_ok=True)
        tab = browser.Browser(chromium)
        try:
            everything_drawn(tab, folder, "one", report_sample.sample(1))
            everything_drawn(tab, folder, "eight", report_sample.sample(8))
            everything_drawn(tab, folder, "sixty-four", report_sample.sample(64, steps=900))
            exact_values(tab, folder)
            hostile_names(tab, folder)
            next_to_nothing(tab, folder)
            media(tab, folder)
            long_run(tab, folder)
            from_timelines(tab, folder)
            texts_agree(tab, folder)
            speed(tab, folder)
        finally:
            tab.close()
    print("the page draws what its report says")
    return 0


if __name__ == "__main__":
    sys.exit(main())

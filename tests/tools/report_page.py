"""One page of `turbo report --html` in headless Chromium: what tests of it ask."""
import json
import os

import browser

BUILD = os.environ.get("BUILD", "build")
CATEGORIES = ("compute", "overlapped", "exposed", "memory")
written = set()  # pages of this run


def write_page(path, report):
    """As report_html.c does."""
    with open(os.path.join(BUILD, "gen", "report_page.html"), encoding="utf-8") as page:
        text = page.read()
    data = json.dumps(report, ensure_ascii=False).replace("<", "\\u003c")
    with open(path, "w", encoding="utf-8") as out:
        out.write(text.replace("@REPORT@", data, 1))


class Check:
    """One page at one size."""

    pictures = False  # are kept

    def __init__(self, chromium, folder, name, report, width=1280, dark=False, made=False, **more):
        self.path = os.path.join(folder, name + ".html")
        self.name = f"{name} {width} {'dark' if dark else 'light'}"
        if not made and self.path not in written:
            write_page(self.path, report)
            written.add(self.path)
        self.report = report
        self.page = browser.Page(chromium, self.path, width=width, dark=dark, **more)
        self.width = width
        self.equal("ready", self.js("document.documentElement.dataset.ready"), "true")
        self.page.frames()

    def __enter__(self):
        return self

    def __exit__(self, *failed):
        if not failed[0]:
            self.equal("console", self.page.said(), [])
            self.equal("requests", self.page.requests(), ["file://" + os.path.abspath(self.path)])
        self.page.close()

    def js(self, expression):
        return self.page.evaluate(expression)

    def that(self, what, holds, seen=""):
        if not holds:
            raise AssertionError(f"{self.name}: {what}: {seen}")

    def equal(self, what, got, want):
        self.that(what, got == want, f"got {got!r}, want {want!r}")

    def texts(self, selector):
        # numbers and their units are held together
        return self.js(f"[...document.querySelectorAll({json.dumps(selector)})].map((n) => n.textContent.replaceAll('\\u00a0', ' '))")

    def picture(self, path):
        if self.pictures:
            self.page.screenshot(path)

    def count(self, selector):
        return self.js(f"document.querySelectorAll({json.dumps(selector)}).length")


def colour_shares(check, lane, x):
    """Of column `x` (0 to 1) of a lane: how much of its height has the colour of each category."""
    return check.js(f"""(() => {{
        const canvas = document.querySelectorAll('.plots canvas')[{lane}];
        const probe = document.getElementById('probe');
        const rgb = (key) => (probe.style.color = `var(--${{key}})`, getComputedStyle(probe).color.match(/\\d+/g).slice(0, 3).map(Number));
        const copy = new OffscreenCanvas(1, canvas.height).getContext('2d', {{willReadFrequently: true}});
        copy.drawImage(canvas, -Math.floor({x} * canvas.width), 0);
        const {{data}} = copy.getImageData(0, 0, 1, canvas.height);
        const near = (i, c) => c.every((v, k) => Math.abs(v - data[4 * i + k]) < 12) && data[4 * i + 3] > 200;
        return Object.fromEntries({json.dumps(CATEGORIES + ("idle",))}.map((key) => {{
            const want = rgb(key);
            let n = 0;
            for (let i = 0; i < canvas.height; i++)
                n += near(i, want);
            return [key, n / canvas.height];
        }}));
    }})()""")


def audit(check):
    """What those who do not see the page would miss, and ids that are not unique."""
    return check.js("""(() => {
        const bad = [];
        const name = (n) => (n.getAttribute('aria-label') || n.textContent || n.closest('label')?.textContent || '').trim();
        for (const n of document.querySelectorAll('button, select, input, a'))
            name(n) || bad.push(n.outerHTML.slice(0, 80));
        for (const n of document.querySelectorAll('canvas, svg'))
            n.closest('[aria-hidden=true]') || (n.getAttribute('role') === 'img' && n.getAttribute('aria-label')) || bad.push(n.outerHTML.slice(0, 80));
        for (const n of document.querySelectorAll('[aria-labelledby]'))
            document.getElementById(n.getAttribute('aria-labelledby')) || bad.push(n.outerHTML.slice(0, 80));
        const ids = [...document.querySelectorAll('[id]')].map((n) => n.id);
        bad.push(...ids.filter((id, i) => ids.indexOf(id) !== i));
        let level = 1;
        for (const n of document.querySelectorAll('h1, h2, h3')) {
            Number(n.tagName[1]) > level + 1 && bad.push(`heading ${n.textContent} skips a level`);
            level = Number(n.tagName[1]);
        }
        for (const n of document.querySelectorAll('table')) {
            n.caption || bad.push('a table without a caption');
            const wide = n.parentElement;
            wide.scrollWidth > wide.clientWidth + 1 && wide.tabIndex !== 0 && bad.push(`not to be scrolled by keyboard: ${n.caption?.textContent}`);
        }
        return bad;
    })()""")


def contrast(check):
    """Text against its panel in both themes: at least 4.5, as WCAG asks; marks against theirs: 3."""
    for theme in ("light", "dark"):
        ratios = check.js(f"""(() => {{
            document.documentElement.dataset.theme = '{theme}';
            const probe = document.getElementById('probe');
            const light = (name) => {{
                probe.style.color = `var(--${{name}})`;
                const [r, g, b] = getComputedStyle(probe).color.match(/\\d+/g).map((v) => v / 255)
                    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
                return 0.2126 * r + 0.7152 * g + 0.0722 * b;
            }};
            const ratio = (a, b) => {{ const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); }};
            return Object.fromEntries([...['text', 'muted', 'accent', 'problem', 'warning', 'note', 'good'].flatMap((n) =>
                [[`${{n}} on panel`, ratio(n, 'panel') / 4.5], [`${{n}} on page`, ratio(n, 'page') / 4.5]]),
                ...['compute', 'overlapped', 'exposed', 'memory', 'other', 'plain', 'slow', 'fast', 'gap'].map((n) => [`${{n}} on panel`, ratio(n, 'panel') / 3])]);
        }})()""")
        poor = {name: round(ratio, 2) for name, ratio in ratios.items() if ratio < 1}
        check.equal(f"contrast in {theme}", poor, {})

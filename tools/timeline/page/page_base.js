// Elements, numbers and times as the page writes them. Text from the report reaches the document as text
// nodes and attributes only, never as markup.

const SVG_NS = 'http://www.w3.org/2000/svg';

// el('td.num', {title: 'x'}, 'text', child…): attributes whose value is null, undefined or false are left out.
function el(spec, attributes, ...children) {
	const [tag, ...classes] = spec.split('.');
	const node = document.createElement(tag || 'div');
	if (classes.length)
		node.className = classes.join(' ');
	return fill(node, attributes, children);
}

function svg(tag, attributes, ...children) {
	return fill(document.createElementNS(SVG_NS, tag), attributes, children);
}

function fill(node, attributes, children) {
	for (const [name, value] of Object.entries(attributes || {})) {
		if (typeof value === 'function')
			node.addEventListener(name, value);
		else if (value !== null && value !== undefined && value !== false)
			node.setAttribute(name, value === true ? '' : value);
	}
	node.append(...children.flat(2).filter((c) => c !== null && c !== undefined && c !== false));
	return node;
}

const byId = (id) => document.getElementById(id);

// An option with its value is not broken across lines, nor a number and its unit; microseconds are written as elsewhere on
// the page.
const WHOLE = /(--[a-z][a-z-]*(?: [0-9A-Z.][^\s,;)]*)?|[A-Za-z_]{2,}=[^\s,;()]+)/;
const UNIT = /(\d) (?=(?:ns|[uµm]?s|min|h|%|[kMGTP]?B(?:\/s)?|[KMGT]iB|[kMG])(?![\w%]))/g;
function prose(text) {
	return String(text ?? '').split(WHOLE).map((part, i) => (i % 2 && part.length < 40 ? el('span.whole', null, part)
		: part.replace(UNIT, '$1\u00a0').replace(/\u00a0us\b/g, '\u00a0µs')));
}

// ---- numbers ------------------------------------------------------------------------

const NONE = '–';
const fixedFormats = new Map();

// 1234567.891 → "1,234,567.89"
function fixed(value, digits = 0) {
	if (!Number.isFinite(value))
		return NONE;
	if (!fixedFormats.has(digits)) {
		fixedFormats.set(digits, new Intl.NumberFormat('en-US', {
			minimumFractionDigits: digits, maximumFractionDigits: digits,
		}));
	}
	return fixedFormats.get(digits).format(value);
}

// Three significant digits or more: 0.123, 1.23, 12.3, 123, 1,234.
function significant(value) {
	const size = Math.abs(value);
	return fixed(value, size >= 99.95 || value === 0 ? 0 : size >= 9.995 ? 1 : size >= 0.9995 ? 2 : 3);
}

function scaled(value, units, base) {
	if (!Number.isFinite(value))
		return NONE;
	let i = 0;
	while (Math.abs(value) >= base * 0.9995 && i + 1 < units.length) {
		value /= base;
		i++;
	}
	return `${i ? significant(value) : fixed(value)}\u00a0${units[i]}`;
}

// What was moved is counted in powers of 1000, as rates are; what is held in powers of 1024, as memory is sold.
const bytesText = (n) => scaled(n, ['B', 'kB', 'MB', 'GB', 'TB', 'PB'], 1000);
const memoryText = (n) => scaled(n, ['B', 'KiB', 'MiB', 'GiB', 'TiB'], 1024);
const countText = (n) => fixed(n);
const percentText = (part, whole, digits = 1) => (whole > 0 && Number.isFinite(part) ? `${fixed((100 * part) / whole, digits)}\u00a0%` : NONE);
const rateText = (bytesASecond) => (bytesASecond > 0 ? `${bytesText(bytesASecond)}/s` : NONE);

// A duration, short: 812 ns, 12.3 µs, 3.21 ms, 61.4 s, 12 min 05 s
function timeText(ns) {
	if (!Number.isFinite(ns))
		return NONE;
	if (Math.abs(ns) >= 600e9) {
		const seconds = Math.round(Math.abs(ns) / 1e9);
		const minutes = Math.floor(seconds / 60);
		const rest = String(seconds % 60).padStart(2, '0');
		const sign = ns < 0 ? '−' : '';
		return minutes < 120 ? `${sign}${minutes} min ${rest} s`
			: `${sign}${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, '0')} min`;
	}
	return scaled(ns, ['ns', 'µs', 'ms', 's'], 1000);
}

// A duration to the nanosecond, in the unit that suits it, or suits the largest of several.
function exactTime(ns, largest = ns) {
	if (!Number.isFinite(ns))
		return NONE;
	const size = Math.abs(largest);
	const [unit, scale, digits] = size >= 1e9 ? ['s', 1e9, 9] : size >= 1e6 ? ['ms', 1e6, 6]
		: size >= 1e3 ? ['µs', 1e3, 3] : ['ns', 1, 0];
	const text = fixed(ns / scale, digits);
	return `${digits && largest === ns ? text.replace(/(\.\d*?)0+$/, '$1').replace(/\.$/, '') : text}\u00a0${unit}`;
}

// A point on a scale that goes up to `largest`, with as many digits as `step` needs to be told apart.
function pointText(ns, step, largest) {
	const [unit, scale] = largest >= 1e9 ? ['s', 1e9] : largest >= 1e6 ? ['ms', 1e6] : largest >= 1e3 ? ['µs', 1e3] : ['ns', 1];
	const digits = Math.max(0, Math.min(9, -Math.floor(Math.log10(step / scale) + 1e-9)));
	return `${fixed(ns / scale, digits)}\u00a0${unit}`;
}

// Seconds, as --window takes them, with as many digits as `span` needs.
function secondsText(ns, span) {
	const digits = Math.max(0, Math.min(9, 3 - Math.floor(Math.log10(span / 1e9))));
	return String(Number((ns / 1e9).toFixed(digits)));
}

// Round steps for an axis: about `wanted` of them from `from` to `to`.
function ticks(from, to, wanted) {
	const span = to - from;
	if (!(span > 0))
		return {step: 1, at: [from]};
	const raw = span / Math.max(1, wanted);
	const power = 10 ** Math.floor(Math.log10(raw));
	const step = power * [1, 2, 5, 10].find((m) => m * power >= raw * 0.999);
	const at = [];
	for (let i = Math.ceil(from / step - 1e-9); i * step <= to + step * 1e-9; i++)
		at.push(i * step || 0);
	return {step, at};
}

function median(values) {
	const sorted = [...values].sort((a, b) => a - b);
	const half = sorted.length >> 1;
	return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

// Nearest rank, as the report's own percentiles.
function quantile(sorted, q) {
	return sorted.length ? sorted[Math.min(sorted.length - 1, Math.max(0, Math.ceil(q * sorted.length) - 1))] : NaN;
}

// A long name with its middle left out; the ends of C++ names tell them apart.
function shortened(text, limit) {
	const points = Array.from(text);
	if (points.length <= limit)
		return text;
	const head = Math.ceil((limit - 1) * 0.62);
	return `${points.slice(0, head).join('')}…${points.slice(points.length - (limit - 1 - head)).join('')}`;
}

// ---- colours ------------------------------------------------------------------------

// Canvases need colours resolved: var(--name) as the current theme has it.
function colour(name) {
	const probe = byId('probe');
	probe.style.color = `var(--${name})`;
	return getComputedStyle(probe).color;
}

// Draws again when the theme, the width or the paper changes.
const redraws = [];
function onRedraw(draw) {
	redraws.push(draw);
}
function redraw() {
	for (const draw of redraws)
		draw();
}

// A canvas as wide as CSS makes it, sharp on the screen and on paper; its context draws in CSS pixels.
function canvasContext(canvas, height) {
	const width = Math.max(1, canvas.clientWidth || canvas.parentElement.clientWidth);
	const ratio = Math.max(2, window.devicePixelRatio || 1);
	canvas.width = Math.round(width * ratio);
	canvas.height = Math.round(height * ratio);
	canvas.style.height = `${height}px`;
	const context = canvas.getContext('2d');
	context.scale(ratio, ratio);
	return {context, width, height};
}

// ---- the tooltip --------------------------------------------------------------------

const tooltip = {
	// rows: [swatch class or null, label, value, second value]
	show(x, y, title, rows) {
		const box = byId('tooltip');
		box.replaceChildren(el('strong', null, title), el('table', null, el('tbody', null, rows.map(
			([swatch, label, value, more]) => el('tr', null,
				el('th', {scope: 'row'}, swatch && el(`span.swatch.${swatch}`), label),
				el('td', null, value), el('td', null, more || ''))))));
		box.hidden = false;
		const gap = 14;
		const {width, height} = box.getBoundingClientRect();
		const left = x + gap + width > document.documentElement.clientWidth ? x - gap - width : x + gap;
		const top = y + gap + height > window.innerHeight ? y - gap - height : y + gap;
		box.style.left = `${Math.max(4, left)}px`;
		box.style.top = `${Math.max(4, top)}px`;
	},
	hide() {
		byId('tooltip').hidden = true;
	},
};

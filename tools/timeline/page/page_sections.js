// What the page says first: verdict, findings, figures, the totals of each rank, kernels, memory.

const LEVELS = {problem: 'Problem', warning: 'Warning', note: 'Note'};
// More come at a press of a button; on narrow screens half of these.
const CARDS_AT_FIRST = 6;

function showFindings(model) {
	const box = byId('findings');
	if (!model.findings.length) {
		box.replaceChildren(el('p.none', null, model.lanes.length ? 'Nothing stands out: none of the known causes of lost time was found.'
			: 'Nothing was recorded, so there is nothing to advise.'));
		return;
	}
	const cards = model.findings.map((finding, i) => {
		const level = LEVELS[finding.severity] ? finding.severity : 'note';
		const rank = model.ranks[finding.rank];
		return el(`li.card${i < CARDS_AT_FIRST / 2 ? '' : i < CARDS_AT_FIRST ? '.narrow-later' : '.later'}`, {'data-level': level, 'data-id': finding.id},
			el('p.level', null, el('b', null, LEVELS[level]), rank && ` · worst: ${rankLabel(rank)}`,
				finding.cost > 0 && ` · up to ${percentText(finding.cost, 1)} of the time`),
			el('h3', null, prose(finding.title)),
			el('p.evidence', null, prose(finding.evidence)),
			finding.fix && el('p.fix', null, el('b', null, 'Fix: '), prose(finding.fix)),
			finding.option && optionLine(finding.option));
	});
	const cardList = el('ul.cards', null, cards);
	const more = el(`button.more${cards.length > CARDS_AT_FIRST ? '' : '.narrow-only'}`, {type: 'button', hidden: cards.length <= CARDS_AT_FIRST / 2, click: () => {
		cardList.classList.add('all');
		more.hidden = true;
	}}, `Show all ${cards.length} findings`);
	box.replaceChildren(cardList, more);
}

// "TURBO_COPY=on stages them …": the setting, to be copied, and what it does.
function optionLine(text) {
	const [, setting, rest] = /^(TURBO_[A-Z_]+=\S+)\s*(.*)$/s.exec(text) || [null, null, text];
	return el('p.option', null, setting && [el('code', null, setting), copyButton(setting)], rest && el('span', null, prose(rest)));
}

function copyButton(text) {
	const button = el('button.copy', {type: 'button', 'aria-label': `Copy ${text}`, click: async () => {
		try {
			await navigator.clipboard.writeText(text);
			button.textContent = 'Copied';
		} catch {
			getSelection().selectAllChildren(button.previousSibling);
			button.textContent = 'Selected';
		}
		setTimeout(() => (button.textContent = 'Copy'), 1500);
	}}, 'Copy');
	return button;
}

// Of all lanes chosen together; percentages are of the time that was seen.
function showSummary(lanes) {
	const sum = sumTotals(lanes);
	const kernels = sumOf(lanes, (lane) => lane.gpu.kernels?.count);
	const graphs = sumOf(lanes, (lane) => lane.gpu.graphs);
	const steps = stepFigures(lanes);
	const several = lanes.filter((lane) => lane.gpu.steps).length > 1;
	const facts = [
		['GPU busy', percentText(sum.window - sum.idle, sum.window), `${timeText(sum.window - sum.idle)} of ${timeText(sum.window)}`],
		['Compute', percentText(sum.compute + sum.overlapped, sum.window), 'with or without communication'],
		['Communication alone', percentText(sum.exposed, sum.window), sum.communication > 0
			? `overlap ${percentText(sum.overlapped, sum.communication)}` : 'no communication'],
		['Copies alone', percentText(sum.memory, sum.window), 'while no kernel runs'],
		['Idle', percentText(sum.idle, sum.window), timeText(sum.idle)],
		['Median step', timeText(steps.median), steps.median > 0 ? `${several ? 'of the rank in the middle; P99 up to' : 'P99'} ${timeText(steps.p99)}` : 'no steps were recognised'],
		['Kernels', countText(kernels), graphs > 0 ? `and ${countText(graphs)} graphs, recorded whole` : sum.window > 0 ? `${significant((kernels / sum.window) * 1e9)} a second` : ''],
	];
	byId('summary').replaceChildren(...facts.map(([name, value, note]) => el('div', null,
		el('dt', null, name), el('dd', null, value, el('small', null, note)))));
}

// A stacked bar a lane; also the figures behind the lanes, as text.
function showTotals(model) {
	const bar = (lane) => el('span.stack', {'aria-hidden': 'true'}, CATEGORIES.map(({key, name}) => {
		const share = lane.total[key] / Math.max(1, lane.total.window);
		const part = el(`span.${key}`, {title: `${name}: ${exactTime(lane.total[key])}, ${percentText(lane.total[key], lane.total.window)}`});
		part.style.width = `${Math.max(0, 100 * share)}%`;
		return part;
	}));
	const rows = model.lanes.map((lane) => ({lane, order: lane.index, ...lane.total, busy: lane.total.window - lane.total.idle,
		computing: lane.total.compute + lane.total.overlapped, hidden: lane.total.communication > 0 ? lane.total.overlapped / lane.total.communication : NaN}));
	const column = (key, name, more, minor) => ({key, name, title: more, minor, text: (r) => percentText(r[key], r.window), exact: (r) => exactTime(r[key])});
	const [, overlapped, exposed, memory, other, idle] = CATEGORIES;
	const some = (category) => rows.some((r) => r[category.key] > 0) && column(category.key,
		category.name.replace('Kernels that copy or wait', 'Kernels\u00a0that copy\u00a0or\u00a0wait'), category.more, category !== exposed);
	byId('totals').replaceChildren(dataTable({
		caption: 'Where the time of each rank went', rows, sort: 'order', ascending: true, limit: 16, columns: [
			{key: 'order', name: 'Rank', head: true, cell: (r) => el('span', {title: r.lane.detail}, r.lane.label)},
			{key: 'stack', value: 'busy', name: 'Share of its time', left: true, minor: true, wide: true, cell: (r) => bar(r.lane)},
			{key: 'window', name: 'Recorded', title: 'from first to last operation, without what was not recorded', text: (r) => timeText(r.window), exact: (r) => exactTime(r.window)},
			column('busy', 'Busy', 'anything runs'), column('computing', 'Compute', 'with or without communication'),
			some(overlapped), some(exposed), rows.some((r) => r.communication > 0) && {key: 'hidden', minor: true, name: 'Overlap', title: 'share of communication during which something computes',
				text: (r) => percentText(r.overlapped, r.communication), exact: (r) => `${exactTime(r.overlapped)} of ${exactTime(r.communication)}`},
			some(memory), some(other), column('idle', 'Idle', idle.more),
		].filter(Boolean),
	}));
}

const KERNEL_COLOURS = {compute: 'compute', communication: 'communication', memory: 'memory', other: 'other'};

// `source`: the report's kernels, or one rank's; busy time is what shares are of.
function showKernels(source, busy) {
	const kernels = list(source?.top).map((k) => ({name: String(k.name), short: String(k.label || shortened(k.short_name || k.name, 72)),
		category: KERNEL_COLOURS[k.category] || 'other', kind: k.category, count: num(k.count), sum: num(k.sum_ns),
		mean: num(k.mean_ns), p50: num(k.p50_ns), p99: num(k.p99_ns), least: num(k.min_ns), most: num(k.max_ns),
		share: Number.isFinite(k.share) ? k.share : busy > 0 ? num(k.sum_ns) / busy : NaN}));
	const time = (key, name, more) => ({key, name, text: (k) => timeText(k[key]), exact: (k) => exactTime(Math.round(k[key])), ...more});
	const rest = source?.rest;
	byId('kernels').replaceChildren(dataTable({
		caption: 'Kernels by the time they take', rows: kernels, sort: 'sum', limit: 20, filter: (k) => k.name,
		empty: 'No kernel was recorded.', columns: [
			{key: 'short', name: 'Kernel', head: true, cell: (k) => el('button.expand', {type: 'button', 'aria-expanded': 'false', title: k.name},
				el(`span.swatch.${k.category}`, {title: k.kind}), el('code', null, k.short))},
			time('sum', 'Time', {bar: (k) => k.category}),
			{key: 'share', name: 'Share', title: 'share of the time that the GPU was busy', text: (k) => percentText(k.share, 1)},
			{key: 'count', name: 'Count', text: (k) => countText(k.count)}, time('mean', 'Mean', {minor: true}), time('p50', 'P50', {minor: true}),
			time('p99', 'P99', {minor: true}), time('most', 'Max', {minor: true}),
		],
		detail: (k) => [el('code.full', null, k.name), el('p.note', null, `${k.kind || 'kernel'} · ${countText(k.count)} times · `
			+ `${exactTime(k.sum)} in all · from ${exactTime(k.least)} to ${exactTime(k.most)}`)],
	}), num(rest?.count) > 0 ? el('p.note', null, `${countText(rest.count)} launches of ${countText(num(source.names) - kernels.length)} `
		+ `more kernels took ${timeText(num(rest.sum_ns))}.`) : '');
}

function showMemory(model) {
	const lanes = model.lanes.filter((lane) => lane.memory);
	const imbalance = model.report.memory_imbalance;
	if (!lanes.length) {
		byId('memory').replaceChildren(el('p.none', null, 'Device memory was not sampled.'));
		return;
	}
	const rows = lanes.map((lane) => ({lane, order: lane.index, ...lane.memory, share: lane.memory.peak / lane.memory.total}));
	byId('memory').replaceChildren(lanes.length > 1 && imbalance > 1.005 ? el('p.note', null, `The largest peak is ${fixed(imbalance, 2)} times the mean peak.`) : '',
		dataTable({
			caption: 'Device memory in use', rows, limit: 16, ...(rows.length > 16 ? {sort: 'peak'} : {sort: 'order', ascending: true}), columns: [
				{key: 'order', name: 'Rank', head: true, cell: (r) => el('span', {title: r.lane.detail}, r.lane.label)},
				{key: 'line', value: 'share', name: 'Over time; the frame is the whole device', left: true, minor: true, wide: true, cell: (r) => memoryLine(model, r.lane)},
				{key: 'peak', name: 'Peak', text: (r) => memoryText(r.peak), exact: (r) => `${countText(r.peak)} bytes`},
				rows.some((r) => r.own > 0) && {key: 'own', name: 'Of this process', title: 'its peak', minor: true, text: (r) => memoryText(r.own), exact: (r) => `${countText(r.own)} bytes`},
				{key: 'share', name: 'Of the device', text: (r) => percentText(r.peak, r.total)},
				{key: 'last', name: 'At the end', minor: true, text: (r) => memoryText(r.last), exact: (r) => `${countText(r.last)} bytes`},
				{key: 'total', name: 'Device', minor: true, text: (r) => memoryText(r.total)},
			].filter(Boolean),
		}));
}

function memoryLine(model, lane) {
	const width = 320, height = 28;
	const {samples, total, peak} = lane.memory;
	const whole = model.end - model.start;
	const x = (t) => (((t - model.start) / whole) * width).toFixed(1);
	const y = (b) => (height - 1 - (b / Math.max(total, peak, 1)) * (height - 2)).toFixed(1);
	const path = samples.map(([t, b], i) => (i ? `H${x(t)}V${y(b)}` : `M${x(t)} ${y(b)}`)).join('');
	const chart = svg('svg', {class: 'memory-line', viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', role: 'img',
		'aria-label': `${lane.label}: at most ${memoryText(peak)} of ${memoryText(total)}`},
	samples.length > 1 ? [svg('path', {class: 'area', d: `${path}V${height - 1}H${x(samples[0][0])}Z`}), svg('path', {class: 'series', d: path})]
		: samples.map(([t, b]) => svg('path', {class: 'series', d: `M${x(t)} ${y(b)}h3`})));
	chart.addEventListener('pointermove', (event) => {
		const {left, width: wide} = chart.getBoundingClientRect();
		const time = model.start + ((event.clientX - left) / wide) * whole;
		const at = samples.filter(([t]) => t <= time).pop() || samples[0];
		if (at)
			tooltip.show(event.clientX, event.clientY, `${lane.label} · ${pointText(at[0], 1e8, model.end)}`, [[null, 'In use', memoryText(at[1]), percentText(at[1], total)]]);
	});
	chart.addEventListener('pointerleave', () => tooltip.hide());
	return chart;
}

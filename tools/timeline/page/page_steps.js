// Steps: their times as lines, and a table of who is slower.

// Up to so many lanes have a line each; more are drawn as the range between fastest and slowest.
const STEP_LINES = 8;

class Steps {
	constructor(model, view) {
		this.model = model;
		this.view = view;
		this.lanes = model.lanes.filter((lane) => lane.steps.length);
		this.first = Math.min(...this.lanes.map((lane) => lane.steps[0].column));
		this.count = this.lanes.length ? Math.max(...this.lanes.map((lane) => lane.steps[lane.steps.length - 1].column)) - this.first + 1 : 0;
		// By column: the step of each lane, if it has one there, and the times of those that have.
		this.grid = this.lanes.map((lane) => {
			const row = new Array(this.count);
			for (const step of lane.steps)
				row[step.column - this.first] = step;
			return row;
		});
		// Those that span a gap of the recording have no time.
		this.times = Array.from({length: this.count}, (_, i) => this.grid.flatMap((row) => (row[i] && !row[i].unseen ? [row[i].time] : [])));
		this.unseen = this.times.flatMap((times, i) => (times.length ? [] : [i]));
		this.medians = this.times.map((times) => (times.length ? median(times) : NaN));
		this.slowest = this.times.map((times) => Math.max(...times));
		this.all = this.times.flat().sort((a, b) => a - b);
		this.figures = stepFigures(this.lanes);
		this.build();
		onRedraw(() => this.draw());
	}

	build() {
		const box = byId('steps');
		if (!this.count) {
			box.replaceChildren(el('p.none', null, prose('No steps were recognised: nothing that computes comes back at regular intervals in most of the time. '
				+ 'A part may have some: --window START..END.')));
			return;
		}
		const anchors = [...new Map(this.lanes.map(({gpu: {steps}}) => [steps.anchor, steps.anchor_label || steps.anchor])).entries()].filter(([name]) => name);
		const unseen = sumOf(this.lanes, (lane) => lane.gpu.steps.unseen);
		this.chart = svg('svg', {role: 'img', class: 'line-chart'});
		box.replaceChildren(
			el('p.note', null, 'Inferred: a step begins with each ', anchors.slice(0, 2).map(([name, label], i) => [i ? ' or ' : '',
				el('code', {title: name}, shortened(label, 72))]), anchors.length > 2 ? ' and others.' : '.', ' A click on a step shows it in the lanes above.',
				unseen > 0 && ` ${countText(unseen)} ${unseen === 1 ? 'step spans' : 'steps span'} a gap of the recording (hatched) and ${unseen === 1 ? 'has' : 'have'} no time.`),
			this.stragglerNote(),
			this.legend(), this.chart);
		if (this.lanes.length > 1) {
			const host = el('div');
			box.append(host);
			new Strip(host, this);
		}
		this.chart.addEventListener('click', (event) => this.goTo(this.columnAt(event)));
		this.chart.addEventListener('pointermove', (event) => this.hoverChart(event));
		this.chart.addEventListener('pointerleave', () => {
			tooltip.hide();
			this.mark?.setAttribute('visibility', 'hidden');
		});
		box.append(this.table());
	}

	stragglerNote() {
		const {straggler} = this.model.report;
		const rank = straggler && this.model.ranks[straggler.rank];
		return rank ? el('p.straggler', null, el('b', null, `${rankLabel(rank)} is the straggler`),
			` (${rank.host || 'unknown host'}): ${percentText(num(straggler.excess), 1)} longer than the median without waiting for others.`) : '';
	}

	legend() {
		if (this.lanes.length < 2)
			return '';
		return el('div.legend.still', null, this.lanes.length <= STEP_LINES
			? this.lanes.map((lane, n) => el('span', null, el(`span.swatch.series-${n}`), lane.label))
			: [el('span', null, el('span.swatch.series-0'), 'median of the ranks'), el('span', null, el('span.swatch.band'), 'fastest to slowest')]);
	}

	table() {
		const wait = (lane) => 1 - lane.total.exposed / Math.max(1, lane.total.window);
		const rows = this.lanes.map((lane, n) => {
			const {steps} = lane.gpu;
			return {lane, order: n, count: num(steps.count), median: num(steps.median_ns), p99: num(steps.p99_ns), least: num(steps.min_ns),
				most: num(steps.max_ns), slow: num(steps.slow), unseen: num(steps.unseen), work: num(steps.median_ns) * wait(lane)};
		});
		const usual = quantile(rows.map((row) => row.work).sort((a, b) => a - b), 0.5);
		rows.forEach((row) => (row.off = row.work / usual - 1));
		const many = this.lanes.length > 1;
		const time = (key, name, more) => ({key, name, text: (r) => timeText(r[key]), exact: (r) => exactTime(Math.round(r[key])), ...more});
		return dataTable({
			caption: 'Step times by rank', rows, limit: 16, ...(rows.length > 16 ? {sort: 'off'} : {sort: 'order', ascending: true}), columns: [
				{key: 'order', name: 'Rank', head: true, cell: (r) => el('span', {title: r.lane.detail}, r.lane.label)},
				{key: 'count', name: 'Steps', text: (r) => countText(r.count)},
				time('median', 'Median'), time('p99', 'P99'), time('least', 'Min', {minor: true}), time('most', 'Max', {minor: true}),
				{key: 'slow', name: 'Slow', title: 'more than 1.5 times the median', minor: true, text: (r) => countText(r.slow)},
				rows.some((r) => r.unseen) && {key: 'unseen', name: 'In a gap', title: 'span a gap of the recording, and are not among the times', minor: true, text: (r) => countText(r.unseen)},
				many && time('work', 'Without waiting', {bar: 'plain', minor: true, title: 'the median step less the share of time that is communication alone'}),
				many && {key: 'off', name: 'Against median', title: 'without waiting, against the median of the ranks', text: (r) => signedPercent(r.off)},
			].filter(Boolean),
		});
	}

	draw() {
		if (!this.count)
			return;
		const width = Math.max(200, this.chart.clientWidth || this.chart.parentElement.clientWidth);
		const height = 160;
		const left = 62, right = width - 16, top = 12, bottom = height - 22;
		const [most, cut] = this.scale();
		const axis = ticks(0, most, 4);
		const x = (i) => left + (this.count === 1 ? 0.5 : i / (this.count - 1)) * (right - left);
		const y = (t) => bottom - (Math.min(t, most) / most) * (bottom - top);
		const line = (points) => thinned(points, 2 * width).map(([i, t], n) => `${n ? 'L' : 'M'}${x(i).toFixed(1)} ${y(t).toFixed(1)}`).join('');
		// Broken where steps have no time.
		const broken = (points) => runs(points).map(line).join('');
		const nodes = axis.at.flatMap((t) => [
			svg('line', {class: 'grid', x1: left, x2: right, y1: y(t), y2: y(t)}),
			svg('text', {x: left - 8, y: y(t) + 4, 'text-anchor': 'end'}, pointText(t, axis.step, most))]);
		for (const i of ticks(1, this.count, width / 90).at.filter(Number.isInteger))
			nodes.push(svg('text', {x: x(i - 1), y: height - 6, 'text-anchor': x(i - 1) > right - 8 ? 'end' : 'middle'}, countText(i)));
		nodes.push(...this.hatched(x, top, bottom));
		if (cut)
			nodes.push(...this.above(x, top, most));
		nodes.push(...(this.lanes.length <= STEP_LINES ? this.lines(x, y, broken) : this.band(line, broken)));
		this.mark = svg('line', {class: 'mark', y1: top, y2: bottom, visibility: 'hidden'});
		this.chart.setAttribute('viewBox', `0 0 ${width} ${height}`);
		this.chart.setAttribute('height', height);
		this.chart.setAttribute('aria-label', `Step times of ${this.lanes.length} ranks: ${this.count} steps, `
			+ `median ${timeText(this.figures.median)}, P99 ${timeText(this.figures.p99)}`);
		this.chart.replaceChildren(...nodes, this.mark);
		this.column = (px) => Math.max(0, Math.min(this.count - 1, Math.round(((px - left) / (right - left)) * (this.count - 1))));
		this.columnX = x;
	}

	// The greatest time on the axis, and whether some are above: a few steps that are many times the usual one would
	// leave the others no room.
	scale() {
		const most = this.all.length ? this.all[this.all.length - 1] : 1;
		const usual = quantile(this.all, 0.95) * 2;
		return most > 2 * usual ? [usual, true] : [most * 1.05, false];
	}

	// Columns without a time.
	hatched(x, top, bottom) {
		const half = this.count > 1 ? Math.max(1, (x(1) - x(0)) / 2) : 8;
		return this.unseen.filter((i) => this.grid.some((row) => row[i]))
			.map((i) => svg('path', {class: 'unseen-step', d: hatchLines(x(i) - half, x(i) + half, top, bottom)}));
	}

	// Steps above the axis: a tick at its top, and how long the longest takes.
	above(x, top, most) {
		const over = this.slowest.flatMap((t, i) => (t > most ? [i] : []));
		const longest = over.reduce((a, b) => (this.slowest[b] > this.slowest[a] ? b : a));
		const right = x(longest) > x(this.count - 1) - 120;
		return [...over.map((i) => svg('path', {class: 'above', d: `M${x(i) - 4} ${top + 2}l4 -6l4 6z`})),
			svg('text', {x: x(longest) + (right ? -8 : 8), y: top + 4, 'text-anchor': right ? 'end' : 'start'}, timeText(this.slowest[longest]))];
	}

	lines(x, y, line) {
		return this.lanes.flatMap((lane, n) => {
			const points = lane.steps.filter((s) => !s.unseen).map((s) => [s.column - this.first, s.time]);
			const dots = points.length < 60 ? points.map(([i, t]) => svg('circle', {class: `dot series-${n}`, cx: x(i), cy: y(t), r: 2})) : [];
			return [svg('path', {class: `series series-${n}`, 'data-lane': lane.short, 'data-steps': points.length, d: line(points)}), ...dots];
		});
	}

	band(line, broken) {
		const columns = this.times.map((times, i) => [i, times]).filter(([, times]) => times.length);
		const upper = columns.map(([i]) => [i, this.slowest[i]]);
		const lower = columns.map(([i, times]) => [i, Math.min(...times)]).reverse();
		return [svg('path', {class: 'band', d: `${line(upper)}${line(lower).replace('M', 'L')}Z`}),
			svg('path', {class: 'series series-0', 'data-lane': 'median', 'data-steps': columns.length, d: broken(columns.map(([i]) => [i, this.medians[i]]))})];
	}

	hoverChart(event) {
		const i = this.columnAt(event);
		const here = this.lanes.map((lane, n) => ({lane, n, step: this.grid[n][i]})).filter(({step}) => step);
		if (!here.length)
			return tooltip.hide();
		const row = (swatch, name, time) => [swatch, name, exactTime(time), this.against(time, i)];
		let rows = here.map(({lane, n, step}) => (step.unseen ? [`series-${n}`, lane.label, 'in a gap', ''] : row(`series-${n}`, lane.label, step.time)));
		if (this.lanes.length > STEP_LINES) {
			const sorted = here.filter(({step}) => !step.unseen).sort((a, b) => b.step.time - a.step.time);
			if (!sorted.length)
				return tooltip.hide();
			rows = [row(null, 'Median', this.medians[i]), ...sorted.slice(0, 3).map(({lane, step}) => row(null, `Slow: ${lane.label}`, step.time)),
				row(null, `Fastest: ${sorted[sorted.length - 1].lane.label}`, sorted[sorted.length - 1].step.time)];
		}
		this.mark.setAttribute('visibility', 'visible');
		this.mark.setAttribute('x1', this.columnX(i));
		this.mark.setAttribute('x2', this.columnX(i));
		tooltip.show(event.clientX, event.clientY, `Step ${countText(i + 1)} · at ${pointText(here[0].step.start, 1e6, this.model.end)}`, rows);
	}

	columnAt(event) {
		return this.column(event.clientX - this.chart.getBoundingClientRect().left);
	}

	// Shows a step in the lanes, with a little of its neighbours.
	goTo(i) {
		const steps = this.grid.map((row) => row[i]).filter(Boolean);
		if (!steps.length)
			return;
		const from = Math.min(...steps.map((s) => s.start));
		const to = Math.max(...steps.map((s) => s.end));
		this.view.set(from - (to - from) * 0.25, to + (to - from) * 0.25);
		byId('activity').scrollIntoView();
	}

	against(time, i) {
		return this.times[i].length > 1 ? signedPercent(time / this.medians[i] - 1) : '';
	}
}

// Lines from the lower left to the upper right, cut off at the sides.
function hatchLines(left, right, top, bottom) {
	let lines = '';
	for (let x = left - (bottom - top); x < right; x += 8) {
		const from = Math.max(left, x), to = Math.min(right, x + bottom - top);
		if (to > from)
			lines += `M${from.toFixed(1)} ${(bottom - (from - x)).toFixed(1)}L${to.toFixed(1)} ${(bottom - (to - x)).toFixed(1)}`;
	}
	return lines;
}

// Points whose columns follow each other.
function runs(points) {
	const out = [];
	points.forEach((point, n) => {
		if (!n || point[0] !== points[n - 1][0] + 1)
			out.push([]);
		out[out.length - 1].push(point);
	});
	return out;
}

// Of many points, the lowest and the highest of each of `limit` / 2 groups.
function thinned(points, limit) {
	if (points.length <= limit)
		return points;
	const group = Math.ceil((2 * points.length) / limit);
	const out = [];
	for (let i = 0; i < points.length; i += group) {
		const part = points.slice(i, i + group);
		const low = part.reduce((a, b) => (b[1] < a[1] ? b : a));
		const high = part.reduce((a, b) => (b[1] > a[1] ? b : a));
		out.push(...(low === high ? [low] : low[0] < high[0] === part[0][0] <= part[part.length - 1][0] ? [low, high] : [high, low]));
	}
	return out;
}

const signedPercent = (share) => (Number.isFinite(share)
	? `${share < 0 ? '−' : '+'}${fixed(Math.abs(100 * share), Math.abs(share) >= 0.0995 ? 0 : 1)}\u00a0%` : NONE);

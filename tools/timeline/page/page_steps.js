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
		this.times = Array.from({length: this.count}, (_, i) => this.grid.flatMap((row) => (row[i] ? [row[i].time] : [])));
		this.medians = this.times.map((times) => median(times));
		this.slowest = this.times.map((times) => Math.max(...times));
		this.all = this.times.flat().sort((a, b) => a - b);
		this.build();
		onRedraw(() => this.draw());
	}

	build() {
		const box = byId('steps');
		if (!this.count) {
			box.replaceChildren(el('p.none', null, 'No kernel repeats so regularly that steps could be told apart.'));
			return;
		}
		const anchors = [...new Set(this.lanes.map((lane) => lane.gpu.steps.anchor).filter(Boolean))];
		this.chart = svg('svg', {role: 'img', class: 'line-chart'});
		box.replaceChildren(
			el('p.note', null, 'Inferred: a step begins with each ', anchors.slice(0, 2).map((name, i) => [i ? ' or ' : '',
				el('code', {title: name}, shortened(name, 60))]), anchors.length > 2 ? ' and others.' : '.', ' A click on a step shows it in the lanes above.'),
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
		return rank ? el('p.straggler', null, el('b', null, `The straggler is ${rankLabel(rank)}`),
			` on ${rank.host || 'an unknown host'}: without waiting for others it needs ${percentText(num(straggler.excess), 1)} `
			+ 'longer for a step than the median rank.') : '';
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
			const times = lane.steps.map((s) => s.time).sort((a, b) => a - b);
			const mean = times.reduce((a, b) => a + b, 0) / times.length;
			return {lane, order: n, count: times.length, median: quantile(times, 0.5), p99: quantile(times, 0.99), least: times[0],
				most: times[times.length - 1], slow: num(lane.gpu.steps.slow), work: mean * wait(lane)};
		});
		const usual = median(rows.map((row) => row.work));
		rows.forEach((row) => (row.off = row.work / usual - 1));
		const many = this.lanes.length > 1;
		const time = (key, name, more) => ({key, name, text: (r) => timeText(r[key]), exact: (r) => exactTime(Math.round(r[key])), ...more});
		return dataTable({
			caption: 'Step times by rank', rows, limit: 16, ...(rows.length > 16 ? {sort: 'off'} : {sort: 'order', ascending: true}), columns: [
				{key: 'order', name: 'Rank', head: true, cell: (r) => el('span', {title: r.lane.detail}, r.lane.label)},
				{key: 'count', name: 'Steps', text: (r) => countText(r.count)},
				time('median', 'Median'), time('p99', 'p99'), time('least', 'Shortest', {minor: true}), time('most', 'Longest', {minor: true}),
				{key: 'slow', name: 'Slow', title: 'more than 1.5 times the median', minor: true, text: (r) => countText(r.slow)},
				many && time('work', 'Without waiting', {bar: 'plain', minor: true, title: 'the mean step less its exposed communication'}),
				many && {key: 'off', name: 'Against median', title: 'without waiting, against the median of the ranks', text: (r) => signedPercent(r.off)},
			].filter(Boolean),
		});
	}

	draw() {
		if (!this.count)
			return;
		const width = Math.max(200, this.chart.clientWidth || this.chart.parentElement.clientWidth);
		const height = 160;
		const left = 62, right = width - 16, top = 8, bottom = height - 22;
		const most = this.all[this.all.length - 1] * 1.05;
		const axis = ticks(0, most, 4);
		const x = (i) => left + (this.count === 1 ? 0.5 : i / (this.count - 1)) * (right - left);
		const y = (t) => bottom - (t / most) * (bottom - top);
		const line = (points) => thinned(points, 2 * width).map(([i, t], n) => `${n ? 'L' : 'M'}${x(i).toFixed(1)} ${y(t).toFixed(1)}`).join('');
		const nodes = axis.at.flatMap((t) => [
			svg('line', {class: 'grid', x1: left, x2: right, y1: y(t), y2: y(t)}),
			svg('text', {x: left - 8, y: y(t) + 4, 'text-anchor': 'end'}, pointText(t, axis.step, most))]);
		for (const i of ticks(1, this.count, width / 90).at.filter(Number.isInteger))
			nodes.push(svg('text', {x: x(i - 1), y: height - 6, 'text-anchor': x(i - 1) > right - 8 ? 'end' : 'middle'}, countText(i)));
		nodes.push(...(this.lanes.length <= STEP_LINES ? this.lines(x, y, line) : this.band(line)));
		this.mark = svg('line', {class: 'mark', y1: top, y2: bottom, visibility: 'hidden'});
		this.chart.setAttribute('viewBox', `0 0 ${width} ${height}`);
		this.chart.setAttribute('height', height);
		this.chart.setAttribute('aria-label', `Step times of ${this.lanes.length} ranks: ${this.count} steps, `
			+ `median ${timeText(quantile(this.all, 0.5))}, p99 ${timeText(quantile(this.all, 0.99))}`);
		this.chart.replaceChildren(...nodes, this.mark);
		this.column = (px) => Math.max(0, Math.min(this.count - 1, Math.round(((px - left) / (right - left)) * (this.count - 1))));
		this.columnX = x;
	}

	lines(x, y, line) {
		return this.lanes.flatMap((lane, n) => {
			const points = lane.steps.map((s) => [s.column - this.first, s.time]);
			const dots = points.length < 60 ? points.map(([i, t]) => svg('circle', {class: `dot series-${n}`, cx: x(i), cy: y(t), r: 2})) : [];
			return [svg('path', {class: `series series-${n}`, 'data-lane': lane.short, 'data-steps': points.length, d: line(points)}), ...dots];
		});
	}

	band(line) {
		const columns = this.times.map((times, i) => [i, times]).filter(([, times]) => times.length);
		const upper = columns.map(([i]) => [i, this.slowest[i]]);
		const lower = columns.map(([i, times]) => [i, Math.min(...times)]).reverse();
		return [svg('path', {class: 'band', d: `${line(upper)}${line(lower).replace('M', 'L')}Z`}),
			svg('path', {class: 'series series-0', 'data-lane': 'median', 'data-steps': columns.length, d: line(columns.map(([i]) => [i, this.medians[i]]))})];
	}

	hoverChart(event) {
		const i = this.columnAt(event);
		const here = this.lanes.map((lane, n) => ({lane, n, step: this.grid[n][i]})).filter(({step}) => step);
		if (!here.length)
			return tooltip.hide();
		const row = (swatch, name, time) => [swatch, name, exactTime(time), this.against(time, i)];
		let rows = here.map(({lane, n, step}) => row(`series-${n}`, lane.label, step.time));
		if (this.lanes.length > STEP_LINES) {
			const sorted = here.sort((a, b) => b.step.time - a.step.time);
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

// Ranks against each other, step by step: a heat strip, a row a lane and a column a step.
//
// Ranks that meet in collectives take the same time for a step: the slow one works, the others wait for it in
// exposed communication. So the time without that is compared, where there is any.

const STRIP_WAYS = {
	work: {name: 'Without waiting', more: 'step times less their exposed communication'},
	time: {name: 'Step time', more: 'whole step times'},
};

class Strip {
	// `steps`: its lanes, and the grid of their steps by column.
	constructor(box, steps) {
		this.steps = steps;
		this.lanes = steps.lanes;
		const total = sumTotals(this.lanes);
		this.way = total.exposed > 0.01 * total.window ? 'work' : 'time';
		this.canvas = el('canvas', {role: 'img'});
		this.scale = el('div.scale');
		this.names = el('div.strip-names', {'aria-hidden': 'true'}, this.lanes.map((lane) => el('span', {title: lane.detail}, lane.short)));
		const ways = Object.entries(STRIP_WAYS).map(([key, {name, more}]) => el('button', {
			type: 'button', title: more, 'aria-pressed': String(key === this.way), click: (event) => this.choose(key, event.currentTarget),
		}, name));
		box.append(el('div.title', null, el('h3', null, 'Each rank against the median of the ranks'),
			this.way === 'work' && el('div.ways', {role: 'group', 'aria-label': 'What is compared'}, ways)),
		el('div.strip', null, this.names, this.canvas), this.scale);
		this.canvas.addEventListener('click', (event) => this.steps.goTo(this.cellAt(event).first));
		this.canvas.addEventListener('pointermove', (event) => this.hover(event));
		this.canvas.addEventListener('pointerleave', () => tooltip.hide());
		onRedraw(() => this.draw());
	}

	choose(way, button) {
		this.way = way;
		for (const other of button.parentElement.children)
			other.setAttribute('aria-pressed', String(other === button));
		this.cells = null;
		this.draw();
	}

	rowHeight() {
		return this.lanes.length <= 8 ? 20 : this.lanes.length <= 16 ? 16 : 12;
	}

	// Mean over steps `first` to `end` of lane n; NaN where it has none of them.
	value(n, first, end) {
		const lane = this.lanes[n];
		let sum = 0, count = 0;
		for (let i = first; i < end; i++) {
			const step = this.steps.grid[n][i];
			if (!step || step.unseen)
				continue;
			sum += step.time - (this.way === 'work' ? exposedUntil(lane, step.end) - exposedUntil(lane, step.start) : 0);
			count++;
		}
		return count ? sum / count : NaN;
	}

	// Steps that share a pixel, or that the report's bins cannot tell apart, are one cell: their mean.
	measure(width) {
		const {count, all} = this.steps;
		const bin = Math.max(...this.lanes.map((lane) => lane.bins.width));
		const fine = this.way === 'work' ? Math.ceil((2 * bin) / Math.max(1, quantile(all, 0.5))) : 1;
		this.group = Math.max(1, Math.min(count, Math.max(fine, Math.ceil((2 * count) / width))));
		this.cells = [];
		for (let first = 0; first < count; first += this.group) {
			const end = Math.min(count, first + this.group);
			const values = this.lanes.map((_, n) => this.value(n, first, end));
			const known = values.filter(Number.isFinite);
			this.cells.push({first, end, values, middle: known.length ? median(known) : NaN});
		}
		// How far off a rank is drawn in full colour: all but one cell in fifty are less.
		const off = this.cells.flatMap(({values, middle}) => values.map((v) => Math.abs(v / middle - 1)).filter(Number.isFinite));
		this.limit = Math.max(0.02, quantile(off.sort((a, b) => a - b), 0.98) || 0);
		this.width = width;
	}

	draw() {
		const row = this.rowHeight();
		const {context, width} = canvasContext(this.canvas, row * this.lanes.length);
		if (!this.cells || this.width !== width)
			this.measure(width);
		const [slow, fast, even] = [colour('slow'), colour('fast'), colour('even')].map(rgb);
		const hatch = hatchPattern(context, colour('gap'));
		const column = width / this.steps.count;
		for (const {first, end, values, middle} of this.cells) {
			const wide = (end - first) * column;
			values.forEach((value, n) => {
				const share = Math.max(-1, Math.min(1, (value / middle - 1) / this.limit));
				const unseen = this.steps.grid[n].slice(first, end).some((step) => step?.unseen);
				if (!Number.isFinite(share) && !unseen)
					return;
				context.fillStyle = !Number.isFinite(share) ? hatch : mixed(even, share > 0 ? slow : fast, Math.abs(share));
				context.fillRect(first * column, n * row, wide > 5 ? wide - 1 : wide + 0.3, row - 1);
			});
		}
		for (const name of this.names.children)
			name.style.height = name.style.lineHeight = `${row}px`;
		this.names.classList.toggle('sparse', row < 14);
		this.canvas.setAttribute('aria-label', `${STRIP_WAYS[this.way].more} of ${this.lanes.length} ranks against their median, `
			+ `${this.steps.count} steps; the table below says who is slower`);
		this.scale.replaceChildren(el('span', null, this.group > 1 ? `a column is ${this.group} steps` : ''),
			el('span', null, `${signedPercent(-this.limit)} faster`), el('span.ramp'), el('span', null, `${signedPercent(this.limit)} slower`));
	}

	cellAt(event) {
		const {left, top, width} = this.canvas.getBoundingClientRect();
		const i = Math.floor((((event.clientX - left) / width) * this.steps.count) / this.group);
		return {n: Math.floor((event.clientY - top) / this.rowHeight()), ...this.cells[Math.max(0, Math.min(this.cells.length - 1, i))]};
	}

	hover(event) {
		const {n, first, end, values, middle} = this.cellAt(event);
		if (!(values[n] > 0))
			return tooltip.hide();
		const name = end - first > 1 ? `steps ${countText(first + 1)} to ${countText(end)}, mean` : `step ${countText(first + 1)}`;
		tooltip.show(event.clientX, event.clientY, `${this.lanes[n].label} · ${name}`, [
			[null, STRIP_WAYS[this.way].name, exactTime(Math.round(values[n])), signedPercent(values[n] / middle - 1)],
			[null, 'Median of the ranks', exactTime(Math.round(middle)), ''],
		]);
	}
}

const rgb = (text) => text.match(/[\d.]+/g).slice(0, 3).map(Number);
const mixed = (a, b, share) => `rgb(${a.map((v, i) => Math.round(v + (b[i] - v) * share)).join(' ')})`;

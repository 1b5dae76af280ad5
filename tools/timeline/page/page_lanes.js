// The GPU of each rank over time: one lane a rank, stacked by what it did.

class Lanes {
	constructor(model, view) {
		this.model = model;
		this.view = view;
		this.categories = CATEGORIES.filter(({key}) => key === 'compute' || key === 'idle' || model.lanes.some((lane) => lane.total[key] > 0));
		this.shown = new Set(this.categories.map((c) => c.key));
		this.visible = new Set();
		this.cursor = null; // {time, lane}: under the mouse, or where the keyboard is
		const count = model.lanes.length;
		this.height = count === 1 ? 132 : count <= 4 ? 68 : count <= 8 ? 44 : count <= 16 ? 30 : 18;
		this.build();
		view.onChange(() => this.draw());
		onRedraw(() => this.draw(true));
	}

	build() {
		this.overview = el('canvas', {'aria-hidden': 'true'});
		this.brush = el('div.brush');
		this.axis = el('canvas.axis', {'aria-hidden': 'true'});
		this.line = el('div.cursor', {hidden: true});
		this.selection = el('div.selection', {hidden: true});
		this.readout = el('output.readout', {'aria-live': 'polite'});
		this.lanes = this.model.lanes.map((data, index) => ({
			data,
			index,
			canvas: el('canvas', {role: 'img'}),
			share: el('span.share'),
			fresh: false,
		}));
		this.plots = el('div.plots', {
			tabindex: 0, role: 'group', 'aria-label': 'GPU activity over time, a lane a rank',
			'aria-describedby': 'lanes-help', 'aria-keyshortcuts': 'ArrowLeft ArrowRight + - Home',
		}, this.lanes.map((lane) => el(`div.lane${this.height < 24 ? '.thin' : ''}`, null,
			el('span.name', {title: lane.data.detail}, el('b', null, el('span.word', null, lane.data.known ? 'rank ' : 'pid '), lane.data.short),
				this.height >= 40 && el('small', null, lane.data.place)),
			el('div.plot', null, lane.canvas), lane.share)), this.line, this.selection);
		byId('lanes').replaceChildren(this.controls(), el('div.overview', null, this.overview, this.brush),
			el('div.lane', null, el('span.name'), el('div.plot', null, this.axis), el('span.share.head', null, 'busy')),
			this.plots, this.readout);
		for (const lane of this.lanes)
			lane.canvas.style.height = `${this.height}px`;
		this.watch();
		this.gestures();
	}

	controls() {
		const button = (label, text, act) => el('button', {type: 'button', title: text, 'aria-label': text, click: act}, label);
		return el('div.controls', null,
			el('div.legend', {role: 'group', 'aria-label': 'Categories shown'}, this.categories.map((category) => el('button', {
				type: 'button', 'aria-pressed': 'true', title: `${category.more}; click to hide or show`,
				click: (event) => this.toggle(category.key, event.currentTarget),
			}, el(`span.swatch.${category.key}`), category.name)), this.keys()),
			el('div.buttons', null, this.stretch(button), button('+', 'Zoom in', () => this.view.zoom(0.5)),
				button('−', 'Zoom out', () => this.view.zoom(2)), button('←', 'Earlier', () => this.view.pan(-0.5)),
				button('→', 'Later', () => this.view.pan(0.5)), button('All', 'Show the whole time', () => this.view.reset())));
	}

	// What else is drawn in the lanes.
	keys() {
		const {lanes} = this.model;
		const key = (swatch, text, title) => el('span.key', {title}, el(`span.swatch.${swatch}`), text);
		return [lanes.some((lane) => lane.gaps.length || num(lane.gpu.time?.unseen_ns) > 0)
				&& key('unseen', 'Not recorded', 'gaps of the recording, and its pauses (TURBO_TIMELINE=sampled); neither busy nor idle'),
			lanes.some((lane) => lane.steps.length > 1) && key('begins', 'A step begins', 'drawn when steps are far enough apart')];
	}

	// The longest part without a pause or a gap, where that is not everything.
	stretch(button) {
		const {start, end} = this.model.lanes.reduce((a, b) => (b.stretch.end - b.stretch.start > a.stretch.end - a.stretch.start ? b : a)).stretch;
		return end > start && end - start < 0.98 * this.view.whole
			&& button('Longest stretch', 'Show the longest part without a pause or a gap of the recording', () => this.view.set(start, end));
	}

	toggle(key, button) {
		const on = !this.shown.delete(key);
		if (on)
			this.shown.add(key);
		button.setAttribute('aria-pressed', String(on));
		this.draw(true);
	}

	// Lanes outside the window are drawn when they come into sight; on paper, all are.
	watch() {
		const observer = new IntersectionObserver((entries) => {
			for (const entry of entries) {
				const lane = this.lanes.find((l) => l.canvas === entry.target);
				this.visible[entry.isIntersecting ? 'add' : 'delete'](lane);
				if (entry.isIntersecting && !lane.fresh)
					this.drawLane(lane);
			}
		}, {rootMargin: '200px'});
		this.lanes.forEach((lane) => observer.observe(lane.canvas));
	}

	box() {
		return this.axis;
	}

	gestures() {
		const box = () => this.box();
		attachWheel(this.view, this.plots, box);
		attachDrag(this.view, this.plots, box, (from, to) => this.select(from, to));
		attachKeys(this.view, this.plots, () => this.cursor?.time, (event) => this.key(event));
		this.plots.addEventListener('pointermove', (event) => this.hover(event));
		this.plots.addEventListener('pointerleave', () => {
			tooltip.hide();
			this.point(null);
		});
		this.plots.addEventListener('blur', () => tooltip.hide());
		const strip = this.overview.parentElement;
		const jump = (event) => {
			const {left, width} = strip.getBoundingClientRect();
			const middle = this.view.start + ((event.clientX - left) / width) * this.view.whole;
			this.view.pan((middle - (this.view.from + this.view.to) / 2) / this.view.span);
		};
		strip.addEventListener('pointerdown', (event) => {
			strip.setPointerCapture(event.pointerId);
			jump(event);
		});
		strip.addEventListener('pointermove', (event) => event.buttons & 1 && jump(event));
	}

	select(from, to) {
		this.selection.hidden = from === null;
		if (from === null)
			return;
		const {x, scale} = this.place();
		this.selection.style.left = `${x + (Math.min(from, to) - this.view.from) * scale}px`;
		this.selection.style.width = `${Math.abs(to - from) * scale}px`;
	}

	place() {
		const plot = this.axis.getBoundingClientRect();
		return {x: plot.left - this.plots.getBoundingClientRect().left, scale: plot.width / this.view.span};
	}

	// Shift+arrows move a cursor from bin to bin and rank to rank, for those without a mouse.
	key(event) {
		if (event.key === 'Escape') {
			tooltip.hide();
			this.point(null);
			return true;
		}
		if (!event.shiftKey || !event.key.startsWith('Arrow'))
			return false;
		const last = this.lanes.length - 1;
		const at = this.cursor || {lane: 0, time: (this.view.from + this.view.to) / 2};
		const step = Math.max(this.model.lanes[at.lane].bins.width, this.view.span / 200);
		const time = at.time + (event.key === 'ArrowLeft' ? -step : event.key === 'ArrowRight' ? step : 0);
		const lane = at.lane + (event.key === 'ArrowUp' ? -1 : event.key === 'ArrowDown' ? 1 : 0);
		this.point({time: Math.min(this.view.to, Math.max(this.view.from, time)), lane: Math.min(last, Math.max(0, lane))});
		const box = this.lanes[this.cursor.lane].canvas.getBoundingClientRect();
		this.explain(box.left + (this.cursor.time - this.view.from) * (box.width / this.view.span), box.top + box.height / 2);
		return true;
	}

	hover(event) {
		if (!this.selection.hidden || event.pointerType === 'touch')
			return tooltip.hide();
		const lane = this.lanes.find((l) => {
			const {top, bottom} = l.canvas.getBoundingClientRect();
			return event.clientY >= top - 1 && event.clientY <= bottom + 1;
		});
		const time = timeAt(this.view, this.box(), event.clientX);
		if (!lane || time < this.view.from || time > this.view.to) {
			tooltip.hide();
			return this.point(null);
		}
		this.point({time, lane: lane.index});
		this.explain(event.clientX, event.clientY);
	}

	point(cursor) {
		this.cursor = cursor;
		this.line.hidden = !cursor;
		if (cursor) {
			const {x, scale} = this.place();
			this.line.style.left = `${x + (cursor.time - this.view.from) * scale}px`;
		}
	}

	// What the cell under the cursor holds.
	explain(x, y) {
		const data = this.model.lanes[this.cursor.lane];
		const {bins} = data;
		const wide = binsACell(bins, this.box().clientWidth / this.view.span);
		const first = Math.floor((this.cursor.time - bins.start) / bins.width / wide) * wide;
		const from = Math.max(bins.start, bins.start + first * bins.width);
		const to = Math.min(bins.start + bins.count * bins.width, bins.start + (first + wide) * bins.width);
		const sum = binsBetween(bins, from, to);
		const rows = this.categories.map((c) => [c.key, c.name, exactTime(Math.round(sum[c.key]), to - from), percentText(sum[c.key], to - from)]);
		if (to - from - sum.seen > (to - from) * 1e-3)
			rows.push([null, 'Not recorded', exactTime(Math.round(to - from - sum.seen), to - from), percentText(to - from - sum.seen, to - from)]);
		const step = data.steps.findIndex((s) => s.start <= this.cursor.time && this.cursor.time < s.end);
		if (step >= 0)
			rows.push([null, `Step ${data.steps[step].column + 1}`, timeText(data.steps[step].end - data.steps[step].start), data.steps[step].unseen ? 'in a gap' : '']);
		const gap = data.gaps.find((g) => g.start <= to && g.end >= from);
		if (gap)
			rows.push([null, `Gap: ${gap.reason}`, timeText(gap.end - gap.start), '']);
		const title = `${data.label} · ${pointText(from, (to - from) / 10, this.view.end)} + ${timeText(to - from)}`;
		tooltip.show(x, y, title, rows);
		if (document.activeElement === this.plots)
			this.readout.value = `${title}: ${rows.map((r) => `${r[1]} ${r[2]} ${r[3] || ''}`).join(', ')}`;
	}

	// ---- drawing ----

	draw(all = false) {
		this.paint = Object.fromEntries(CATEGORIES.map((c) => [c.key, colour(c.key)]));
		Object.assign(this.paint, {grid: colour('grid'), text: colour('muted'), gap: colour('gap'), hatch: hatchPattern(this.axis.getContext('2d'), colour('gap'))});
		drawAxis(this.axis, this.view, this.paint);
		this.drawOverview();
		for (const lane of this.lanes) {
			lane.fresh = false;
			if (all || this.visible.has(lane))
				this.drawLane(lane);
			const sum = binsBetween(lane.data.bins, this.view.from, this.view.to);
			lane.share.textContent = percentText(busyOf(sum), sum.seen);
		}
		const {from, to, span, end} = this.view;
		byId('range').replaceChildren(`${pointText(from, span / 1000, end)} – ${pointText(to, span / 1000, end)} (${timeText(span)})`,
			this.view.zoomed ? el('code.whole', {title: 'for turbo report: a finer look at this part'}, `--window ${secondsText(from, span)}..${secondsText(to, span)}`) : '');
		if (this.cursor)
			this.point(this.cursor);
	}

	drawOverview() {
		const {context, width, height} = canvasContext(this.overview, 26);
		this.mean = this.mean || meanBins(this.model.lanes, this.view, 1000);
		drawStack(context, width, height, this.mean, {from: this.view.start, to: this.view.end, span: this.view.whole},
			this.shown, this.paint);
		this.brush.style.left = `${(100 * (this.view.from - this.view.start)) / this.view.whole}%`;
		this.brush.style.width = `${(100 * this.view.span) / this.view.whole}%`;
	}

	drawLane(lane) {
		const {context, width, height} = canvasContext(lane.canvas, this.height);
		const {data} = lane;
		const scale = width / this.view.span;
		drawStack(context, width, height, data.bins, this.view, this.shown, this.paint);
		// What is too short to be hatched.
		context.fillStyle = this.paint.gap;
		for (const gap of data.gaps) {
			if ((gap.end - gap.start) * scale < CELL_PIXELS)
				context.fillRect((gap.start - this.view.from) * scale - 0.75, 0, 1.5, height);
		}
		this.marks(context, data.steps, scale, height);
		lane.canvas.setAttribute('aria-label', `${data.label}: ${CATEGORIES.map((c) => `${c.name.toLowerCase()} `
			+ percentText(data.total[c.key], data.total.window)).join(', ')}`);
		lane.fresh = true;
	}

	// Beginnings of steps, when they are far enough apart to be told apart.
	marks(context, steps, scale, height) {
		if (steps.length < 2 || height < 24 || median(steps.map((s) => s.end - s.start)) * scale < 7)
			return;
		context.strokeStyle = this.paint.text;
		context.globalAlpha = 0.55;
		context.setLineDash([2, 2]);
		context.lineWidth = 1;
		context.beginPath();
		for (const step of steps) {
			const x = (step.start - this.view.from) * scale;
			context.moveTo(x, 0);
			context.lineTo(x, height);
		}
		context.stroke();
		context.setLineDash([]);
		context.globalAlpha = 1;
	}
}

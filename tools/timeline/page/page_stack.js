// What a GPU did, bin by bin: the categories, sums over a range, and the stacked area of a lane.

// From the bottom of a lane; the keys are those of a rank's bins and totals, and colours' names. The names are those of
// the text output; nameCategories() gives the first one its own.
const CATEGORIES = [
	{key: 'compute', name: 'Compute', more: 'kernels other than communication, while none of communication runs'},
	{key: 'overlapped', name: 'Compute and communication', more: 'both at once: communication that compute hides'},
	{key: 'exposed', name: 'Communication alone', more: 'communication while nothing computes'},
	{key: 'memory', name: 'Copies alone', more: 'copies and memsets while neither runs'},
	{key: 'other', name: 'Kernels that copy or wait, alone', more: 'while none of these runs'},
	{key: 'idle', name: 'Idle', more: 'nothing runs'},
];

function nameCategories(lanes) {
	CATEGORIES[0].name = lanes.some((lane) => lane.total.communication > 0) ? 'Compute alone' : 'Compute';
}

// Sum of each category of `bins` between two times, bins counted by the share that is inside.
function binsBetween(bins, from, to) {
	const sum = {seen: 0};
	const first = Math.max(0, Math.floor((from - bins.start) / bins.width));
	const last = Math.min(bins.count - 1, Math.ceil((to - bins.start) / bins.width) - 1);
	for (const {key} of CATEGORIES)
		sum[key] = 0;
	for (let i = first; i <= last; i++) {
		const begin = bins.start + i * bins.width;
		const share = Math.max(0, Math.min(1, (Math.min(to, begin + bins.width) - Math.max(from, begin)) / bins.width));
		for (const {key} of CATEGORIES)
			sum[key] += share * bins[key][i];
	}
	for (const {key} of CATEGORIES)
		sum.seen += sum[key];
	return sum;
}

const busyOf = (sum) => sum.seen - sum.idle;

// Bins that are drawn as one: cells are at least so wide, or what alternates faster than the eye follows is a blur.
const CELL_PIXELS = 3;
const binsACell = (bins, pixelsANanosecond) => Math.max(1, Math.ceil(CELL_PIXELS / (bins.width * pixelsANanosecond) - 1e-6));

// The stack of `bins` into a context of that size. `shown`: keys that are drawn.
function drawStack(context, width, height, bins, view, shown, paint) {
	const scale = width / view.span;
	const group = binsACell(bins, scale);
	const first = Math.max(0, Math.floor((view.from - bins.start) / bins.width / group) * group);
	const last = Math.min(bins.count, Math.ceil((view.to - bins.start) / bins.width) + group);
	const keys = CATEGORIES.map((c) => c.key).filter((key) => key !== 'idle' && shown.has(key));
	const cells = []; // x, end, seen share, then cumulated shares of `keys`
	context.fillStyle = paint.hatch;
	for (let i = first; i < last; i += group) {
		const end = Math.min(bins.count, i + group);
		const whole = (end - i) * bins.width;
		const cell = [(bins.start + i * bins.width - view.from) * scale, (bins.start + end * bins.width - view.from) * scale, 0];
		let sum = 0;
		for (const key of keys) {
			for (let j = i; j < end; j++)
				sum += bins[key][j];
			cell.push(Math.min(1, sum / whole));
		}
		for (const {key} of CATEGORIES) {
			for (let j = i; j < end; j++)
				cell[2] += bins[key][j] / whole;
		}
		let unseen = 0;
		for (let j = i; j < end; j++)
			unseen += bins.unseen[j] / whole;
		if (unseen > 0)
			context.fillRect(cell[0], height * (1 - cell[2] - unseen), cell[1] - cell[0], height * unseen);
		cells.push(cell);
	}
	const area = (level) => {
		context.beginPath();
		let open = false;
		for (const cell of cells) {
			const y = height * (1 - (level < 0 ? Math.min(1, cell[2]) : cell[3 + level]));
			if (!open)
				context.moveTo(cell[0], height);
			context.lineTo(cell[0], y);
			context.lineTo(cell[1], y);
			open = true;
		}
		if (open)
			context.lineTo(cells[cells.length - 1][1], height);
		context.closePath();
		context.fill();
	};
	if (shown.has('idle')) {
		context.fillStyle = paint.idle;
		area(-1);
	}
	for (let level = keys.length - 1; level >= 0; level--) {
		context.fillStyle = paint[keys[level]];
		area(level);
	}
}

// What was not recorded, hatched; also in print and when a canvas is scaled.
function hatchPattern(context, paint) {
	const tile = document.createElement('canvas');
	tile.width = tile.height = 12;
	const pen = tile.getContext('2d');
	pen.strokeStyle = paint;
	pen.lineWidth = 2.5;
	pen.beginPath();
	for (const x of [-12, 0, 12]) {
		pen.moveTo(x - 2, 14);
		pen.lineTo(x + 14, -2);
	}
	pen.stroke();
	const pattern = context.createPattern(tile, 'repeat');
	pattern.setTransform(new DOMMatrix([0.5, 0, 0, 0.5, 0, 0]));
	return pattern;
}

// The mean of all lanes, in `count` bins over the whole time of `view`.
function meanBins(lanes, view, count) {
	const mean = {start: view.start, width: view.whole / count, count};
	mean.unseen = new Float64Array(count);
	for (const {key} of CATEGORIES)
		mean[key] = new Float64Array(count);
	for (const {bins} of lanes) {
		for (let i = 0; i < count; i++) {
			const sum = binsBetween(bins, view.start + i * mean.width, view.start + (i + 1) * mean.width);
			for (const {key} of CATEGORIES)
				mean[key][i] += sum[key] / lanes.length;
		}
	}
	return mean;
}

// An axis of time for `view`: ticks above, labels under them.
function drawAxis(canvas, view, paint) {
	const {context, width, height} = canvasContext(canvas, 22);
	const {step, at} = ticks(view.from, view.to, width / 96);
	context.font = `11px ${getComputedStyle(document.body).fontFamily}`;
	context.fillStyle = paint.text;
	context.strokeStyle = paint.grid;
	context.beginPath();
	for (const time of at) {
		const x = ((time - view.from) / view.span) * width;
		context.moveTo(x, height - 5);
		context.lineTo(x, height);
		const text = pointText(time, step, view.end);
		const half = context.measureText(text).width / 2;
		context.fillText(text, Math.max(0, Math.min(width - 2 * half, x - half)), height - 9);
	}
	context.stroke();
}

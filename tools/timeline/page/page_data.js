// The report (README.md of the folder above) as the page draws it: a lane for each GPU of each rank, and sums over
// lanes. What is missing or null counts as nothing.

const num = (value) => (Number.isFinite(value) ? value : 0);
const list = (value) => (Array.isArray(value) ? value : []);

function makeModel(report) {
	const window = report.window || {};
	const start = num(window.start);
	const ranks = list(report.ranks);
	const lanes = ranks.flatMap((rank, i) => list(rank.gpus).map((gpu) => makeLane(rank, i, gpu)));
	const twice = new Set(ranks.filter((a) => a.rank >= 0 && ranks.filter((b) => b.rank === a.rank).length > 1));
	lanes.forEach((lane, index) => {
		lane.index = index;
		nameLane(lane, twice.has(lane.rank));
	});
	alignSteps(lanes);
	return {
		report, ranks, lanes, start,
		end: Math.max(start + 1, num(window.end), ...lanes.map((lane) => lane.bins.start + lane.bins.width * lane.bins.count)),
		findings: list(report.findings),
	};
}

function nameLane(lane, ambiguous) {
	const {rank, gpu} = lane;
	const known = rank.rank >= 0;
	const several = list(rank.gpus).length > 1;
	lane.short = (known ? `${rank.rank}` : `${rank.pid}`) + (several ? `.${gpu.device}` : '');
	lane.label = (known ? `rank ${rank.rank}` : `pid ${rank.pid}`) + (several ? `, GPU ${gpu.device}` : '')
		+ (known && ambiguous ? `, pid ${rank.pid}` : '');
	lane.known = known;
	lane.place = `${rank.host || '?'} · GPU ${gpu.device}`;
	lane.device = gpu.name || `GPU ${gpu.device}`;
	lane.detail = `${rank.host || 'unknown host'} · pid ${rank.pid} · GPU ${gpu.device} ${gpu.name || ''}`.trim();
}

function makeLane(rank, rankIndex, gpu) {
	const time = gpu.time || {};
	const seen = Math.max(0, num(time.window_ns) - num(time.unseen_ns));
	return {
		rank, rankIndex, gpu,
		total: {
			window: seen,
			compute: Math.max(0, num(time.compute_ns) - num(time.overlap_ns)),
			overlapped: num(time.overlap_ns),
			exposed: num(time.exposed_communication_ns),
			memory: num(time.exposed_memory_ns),
			other: num(time.exposed_other_ns),
			idle: num(time.idle_ns),
			communication: num(time.communication_ns),
		},
		bins: makeBins(gpu),
		gaps: list(rank.gaps?.longest).map((gap) => ({start: num(gap.start), end: num(gap.start) + num(gap.duration),
			reason: String(gap.reason ?? '')})),
		steps: makeSteps(gpu.steps),
		memory: makeMemory(gpu),
	};
}

// Nanoseconds a bin in each category. A bin's time outside the window of its GPU belongs to none.
function makeBins(gpu) {
	const series = gpu.series || {};
	const count = Math.max(0, ...['compute', 'communication', 'memory', 'other', 'unseen'].map((key) => list(series[key]).length));
	const width = Math.max(1e-3, num(series.bin_ns));
	const bins = {start: num(series.start), width, count};
	for (const {key} of CATEGORIES)
		bins[key] = new Float64Array(count);
	const share = (key, i) => Math.min(1, Math.max(0, num(series[key]?.[i])));
	for (let i = 0; i < count; i++) {
		const begin = bins.start + i * width;
		const inside = Math.max(0, Math.min(begin + width, num(gpu.last)) - Math.max(begin, num(gpu.first)));
		const overlapped = Math.min(share('overlap', i), share('compute', i));
		bins.compute[i] = (share('compute', i) - overlapped) * width;
		bins.overlapped[i] = overlapped * width;
		bins.exposed[i] = share('communication', i) * width;
		bins.memory[i] = share('memory', i) * width;
		bins.other[i] = share('other', i) * width;
		const busy = bins.compute[i] + bins.overlapped[i] + bins.exposed[i] + bins.memory[i] + bins.other[i];
		bins.idle[i] = Math.max(0, inside - share('unseen', i) * width - busy);
	}
	return bins;
}

function makeSteps(steps) {
	const at = list(steps?.start).map(num);
	return at.slice(0, -1).map((from, i) => ({column: i, start: from, end: at[i + 1], time: at[i + 1] - from}));
}

// Recordings begin and end at different times: steps that began at about the same time get the same column.
function alignSteps(lanes) {
	const longest = lanes.reduce((a, b) => (b.steps.length > (a?.steps.length || 0) ? b : a), null);
	for (const {steps} of lanes) {
		if (!steps.length)
			continue;
		let nearest = 0;
		for (const {column, start} of longest.steps) {
			if (Math.abs(start - steps[0].start) < Math.abs(longest.steps[nearest].start - steps[0].start))
				nearest = column;
		}
		steps.forEach((step, i) => (step.column = nearest + i));
	}
}

// Exposed communication of a lane from the beginning of its bins to a time; the time between two bins is shared out.
function exposedUntil(lane, time) {
	const {bins} = lane;
	if (!lane.exposedSums) {
		lane.exposedSums = new Float64Array(bins.count + 1);
		for (let i = 0; i < bins.count; i++)
			lane.exposedSums[i + 1] = lane.exposedSums[i] + bins.exposed[i];
	}
	const at = Math.min(bins.count, Math.max(0, (time - bins.start) / bins.width));
	const i = Math.min(bins.count - 1, Math.floor(at));
	return bins.count ? lane.exposedSums[i] + (at - i) * bins.exposed[i] : 0;
}

// The counter of device memory, as [time, bytes] where it was sampled.
function makeMemory(gpu) {
	const counter = list(gpu.counters).find((c) => /memory/i.test(c.name));
	if (!counter || !(num(counter.samples) > 0))
		return null;
	const series = gpu.series || {};
	const samples = list(counter.value).flatMap((value, i) => (Number.isFinite(value)
		? [[num(series.start) + (i + 0.5) * num(series.bin_ns), value]] : []));
	return {samples, total: num(gpu.memory_bytes), peak: num(counter.peak), last: num(counter.last)};
}

// ---- sums over lanes ----------------------------------------------------------------

const sumOf = (items, value) => items.reduce((sum, item) => sum + num(value(item)), 0);

function sumTotals(lanes) {
	return Object.fromEntries(['window', 'communication', ...CATEGORIES.map((c) => c.key)].map((key) => [key,
		sumOf(lanes, (lane) => lane.total[key])]));
}

const DIRECTIONS = {H2D: 'Host to device', D2H: 'Device to host', D2D: 'On the device', P2P: 'Between devices', other: 'Other'};

// A row for each direction and kind of host memory that occurred.
function copyRows(lanes) {
	const rows = [];
	for (const [key, direction] of Object.entries(DIRECTIONS)) {
		const all = lanes.map((lane) => lane.gpu.copies?.[key] || {});
		const sum = Object.fromEntries(['count', 'bytes', 'ns', 'pageable_count', 'pageable_bytes', 'pageable_ns', 'small_count',
			'staged_count', 'staged_bytes', 'staged_ns'].map((name) => [name, sumOf(all, (copy) => copy[name])]));
		const host = key === 'H2D' || key === 'D2H';
		const add = (kind, count, bytes, ns, more) => count > 0
			&& rows.push({direction, kind, count, bytes, ns, rate: ns > 0 ? bytes / ns : NaN, order: rows.length, ...more});
		add(host ? 'pinned' : '', sum.count - sum.pageable_count, sum.bytes - sum.pageable_bytes, sum.ns - sum.pageable_ns,
			{title: host ? 'The driver copied straight from or to host memory.' : ''});
		add('pageable', sum.pageable_count, sum.pageable_bytes, sum.pageable_ns,
			{bad: true, title: 'The driver had to stage these.'});
		add('staged by libturbo', sum.staged_count, sum.staged_bytes, sum.staged_ns,
			{title: 'As the program saw them, the host\'s work included; on the device they are among the pinned.'});
	}
	return rows;
}

const IDLE_CLASSES = {
	pause: ['Pauses', 'a second and more, a few times only: start-up, a checkpoint, an idle server'],
	input: ['Waiting for input', 'the next operation copies from the host'],
	sync: ['After a synchronisation', 'the host had waited for the device, or read a result, just before'],
	allocation: ['Allocating', 'the driver was allocating or freeing device memory'],
	short: ['Late launches', 'gaps below 30 µs'],
	host: ['Host', 'longer gaps: nothing had been launched'],
};

function idleRows(lanes) {
	return Object.entries(IDLE_CLASSES).map(([key, [name, title]], order) => ({
		name, title, order, count: sumOf(lanes, (l) => l.gpu.idle?.[key]?.count), ns: sumOf(lanes, (l) => l.gpu.idle?.[key]?.ns),
	})).filter((row) => row.count > 0);
}

function gapRows(lanes) {
	const rows = [];
	for (const lane of lanes) {
		list(lane.gpu.gaps).forEach((bucket, i) => {
			rows[i] = rows[i] || {order: i, below: bucket.below_ns, count: 0, ns: 0};
			rows[i].count += num(bucket.count);
			rows[i].ns += num(bucket.ns);
		});
	}
	const edge = (row) => timeText(row?.below).replace(/\.0+(?=\s)/, '');
	return rows.map((row, i) => ({...row, name: row.below > 0 ? (i ? `${edge(rows[i - 1])} – ${edge(row)}` : `below ${edge(row)}`)
		: `${edge(rows[i - 1])} and longer`})).filter((row) => row.count > 0);
}

// Tallies of the host, of several ranks: added by kind and name.
const TALLIES = {calls: 'CUDA call', syncs: 'synchronisation', events: 'libturbo', overheads: 'CUPTI'};
function tallyRows(ranks) {
	const rows = new Map();
	for (const [key, kind] of Object.entries(TALLIES)) {
		for (const tally of ranks.flatMap((rank) => list(rank[key]))) {
			const id = `${kind}\n${tally.name}`;
			const row = rows.get(id) || {kind, name: String(tally.name), count: 0, failed: 0, ns: 0, most: 0};
			row.count += num(tally.count);
			row.failed += num(tally.failed);
			row.ns += num(tally.ns);
			row.most = Math.max(row.most, num(tally.max_ns));
			rows.set(id, row);
		}
	}
	return [...rows.values()].filter((row) => row.count > 0);
}

function collectiveRows(ranks) {
	const rows = new Map();
	for (const item of ranks.flatMap((rank) => list(rank.collectives))) {
		const row = rows.get(item.function) || {name: String(item.function), count: 0, failed: 0, bytes: 0, small: 0, ranks: 0,
			kernels: 0, ns: 0, weighted: 0};
		row.count += num(item.count);
		row.failed += num(item.failed);
		row.bytes += num(item.bytes);
		row.small += num(item.small_count);
		row.ranks = Math.max(row.ranks, num(item.ranks));
		row.kernels += num(item.kernel_count);
		row.ns += num(item.kernel_ns);
		row.weighted += num(item.busbw) * num(item.kernel_ns);
		rows.set(item.function, row);
	}
	return [...rows.values()].map((row) => ({...row, busbw: row.ns > 0 && row.weighted > 0 ? row.weighted / row.ns : NaN}));
}

const LOSSES = {
	overwritten: 'older records were overwritten by newer ones; TURBO_TIMELINE_MB makes the ring larger',
	cupti_lost: 'records were dropped by CUPTI',
	zero_time: 'records had no start or end, and are left out',
	backwards: 'records ended before they started, and are left out',
	unknown: 'records were of an unknown kind',
	events_lost: 'of libturbo\'s own events did not fit their queue',
	no_buffer: 'buffers were asked for in vain by CUPTI',
	bad_buffer: 'buffers could not be read to their end',
	table_full: 'records have a substitute for their name, because a table was full',
	dropped: 'records could not be written to the file',
};

// One row a rank and cause.
function lossRows(model) {
	return model.ranks.flatMap((rank, order) => {
		const label = rankLabel(rank);
		const rows = Object.entries(LOSSES).map(([key, text]) => ({order, label, count: num(rank.lost?.[key]), text}));
		rows.push({order, label, count: num(rank.damaged), text: 'records or chunks of the file made no sense, and are left out'});
		return rows.filter((row) => row.count > 0);
	});
}

const rankLabel = (rank) => (rank.rank >= 0 ? `rank ${rank.rank}` : `pid ${rank.pid}`);

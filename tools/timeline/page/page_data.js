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
	nameCategories(lanes);
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
		stretch: {start: num(gpu.stretch?.start), end: num(gpu.stretch?.end)},
		steps: makeSteps(gpu.steps),
		memory: makeMemory(gpu),
	};
}

// Nanoseconds a bin in each category, of the finest series there is. A bin's time outside the window of its GPU
// belongs to none.
function makeBins(gpu) {
	const series = gpu.fine || gpu.series || {};
	const count = Math.max(0, ...['compute', 'communication', 'memory', 'other', 'unseen'].map((key) => list(series[key]).length));
	const width = Math.max(1e-3, num(series.bin_ns));
	const bins = {start: num(series.start), width, count};
	bins.unseen = new Float64Array(count);
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
		bins.unseen[i] = Math.min(inside, share('unseen', i) * width);
		bins.idle[i] = Math.max(0, inside - bins.unseen[i] - busy);
	}
	return bins;
}

// A step that spans a gap of the recording is drawn as such; its time is none of the report's.
function makeSteps(steps) {
	const at = list(steps?.start).map(num);
	const unseen = new Set(list(steps?.unseen_at));
	return at.slice(0, -1).map((from, i) => ({column: i, start: from, end: at[i + 1], unseen: unseen.has(i),
		time: unseen.has(i) ? NaN : at[i + 1] - from}));
}

// The rank in the middle, and the slowest steps of all.
function stepFigures(lanes) {
	const own = lanes.map((lane) => lane.gpu.steps).filter(Boolean);
	const middle = own.map((s) => num(s.median_ns)).filter((ns) => ns > 0).sort((a, b) => a - b);
	return {median: quantile(middle, 0.5), p99: Math.max(...own.map((s) => num(s.p99_ns)))};
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
	const counters = list(gpu.counters);
	const counter = counters.find((c) => c.name === 'device memory used') || counters.find((c) => /memory/i.test(c.name));
	if (!counter || !(num(counter.samples) > 0))
		return null;
	const series = gpu.series || {};
	const samples = list(counter.value).flatMap((value, i) => (Number.isFinite(value)
		? [[num(series.start) + (i + 0.5) * num(series.bin_ns), value]] : []));
	return {samples, total: num(gpu.memory_bytes), peak: num(gpu.memory_peak) || num(counter.peak), last: num(counter.last),
		own: gpu.memory_process_peak > 0 ? gpu.memory_process_peak : NaN};
}

// ---- sums over lanes ----------------------------------------------------------------

const sumOf = (items, value) => items.reduce((sum, item) => sum + num(value(item)), 0);

function sumTotals(lanes) {
	return Object.fromEntries(['window', 'communication', ...CATEGORIES.map((c) => c.key)].map((key) => [key,
		sumOf(lanes, (lane) => lane.total[key])]));
}

const DIRECTIONS = {H2D: 'from the host to the device', D2H: 'from the device to the host', D2D: 'on the device', P2P: 'between devices', other: 'arrays, host to host, unknown'};

// In GB/s, as the report's gbps: none where the copies are too few or too short to tell.
const rateOf = (bytes, ns, count) => (ns >= 20000 && Math.floor(ns / 4000) >= count ? bytes / ns : NaN);

// A row for each direction, then what it is made of, as the text output has them.
function copyRows(lanes) {
	const rows = [];
	const add = (name, count, bytes, ns, more) => count > 0 && rows.push({name, count, bytes, ns, rate: rateOf(bytes, ns, count), ...more});
	for (const [key, title] of Object.entries(DIRECTIONS)) {
		const all = lanes.map((lane) => lane.gpu.copies?.[key] || {});
		const sum = Object.fromEntries(['count', 'bytes', 'ns', 'pageable_count', 'pageable_bytes', 'pageable_ns', 'small_count',
			'staged_count', 'staged_bytes', 'staged_ns'].map((name) => [name, sumOf(all, (copy) => copy[name])]));
		const whole = sum.pageable_count === sum.count;
		const only = all.length === 1 && 'gbps' in all[0] ? {rate: Number.isFinite(all[0].gbps) ? all[0].gbps : NaN} : {};
		add(key, sum.count, sum.bytes, sum.ns, {title, small: sum.small_count, ...only, pageable: whole && sum.count > 0});
		if (!whole && sum.pageable_count > 0) {
			add('of these pinned', sum.count - sum.pageable_count, sum.bytes - sum.pageable_bytes, sum.ns - sum.pageable_ns,
				{part: true, title: 'the driver copied straight from or to host memory'});
			add('of these pageable', sum.pageable_count, sum.pageable_bytes, sum.pageable_ns,
				{part: true, bad: true, title: 'the driver had to stage these'});
		}
		add(sum.count > 0 ? 'staged by libturbo (calls)' : `${key} staged (calls)`, sum.staged_count, sum.staged_bytes, sum.staged_ns,
			{part: sum.count > 0, title: 'as the program saw them, the host\'s work included; on the device they are among the pinned'});
	}
	const memsets = (key) => sumOf(lanes, (lane) => lane.gpu.memsets?.[key]);
	add('memset', memsets('count'), memsets('bytes'), memsets('ns'), {});
	return rows;
}

function unseenStaged(lanes) {
	const sum = (key) => sumOf(lanes, (lane) => sumOf(Object.values(lane.gpu.copies || {}), (copy) => copy[key]));
	return {count: sum('staged_unseen_count'), bytes: sum('staged_unseen_bytes')};
}

const IDLE_CLASSES = {
	pause: ['Paused (1 s and more, now and then)', 'start-up, a checkpoint, an idle server'],
	input: ['Idle before a copy from the host', 'the next operation copies from the host'],
	sync: ['Idle after a synchronisation', 'the host had waited for the device, or read a result, just before'],
	allocation: ['Idle while the driver allocates', 'or frees device memory'],
	short: ['Idle between operations (< 30 µs)', 'the next launch was late'],
	host: ['Idle, nothing launched', 'longer: the host had launched nothing'],
};

// Where the time goes: what ran, then why nothing did, then what is not known. Shares are of what was recorded.
function timeRows(lanes) {
	const total = sumTotals(lanes);
	const rows = CATEGORIES.filter(({key}) => key !== 'idle').map(({key, name, more}) => ({key, name, title: more, ns: total[key]}));
	for (const [key, [name, title]] of Object.entries(IDLE_CLASSES)) {
		const count = sumOf(lanes, (l) => l.gpu.idle?.[key]?.count);
		const ns = sumOf(lanes, (l) => l.gpu.idle?.[key]?.ns);
		rows.push({key: 'plain', name, title, ns, count, mean: ns / count});
	}
	for (const row of rows)
		row.share = row.ns / total.window;
	rows.push({key: 'unseen', name: 'Not recorded', title: 'gaps of the recording; shares are of the rest', ns: sumOf(lanes, (lane) => lane.gpu.time?.unseen_ns)});
	return rows.filter((row) => row.ns > 0).map((row, order) => ({...row, order}));
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
	const edge = (row) => timeText(row.below).replace(/\.0+(?=\s)/, '');
	return rows.map((row) => ({...row, name: row.below > 0 ? `< ${edge(row)}` : 'longer'})).filter((row) => row.count > 0);
}

// Tallies of the host, of several ranks: added by kind and name.
const TALLIES = {syncs: 'wait', events: 'libturbo', calls: 'call', overheads: 'CUPTI'};
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
	return [...rows.values()].filter((row) => row.count > 0).map((row) => ({...row, mean: row.ns / row.count}));
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

// In the words of the text output; # is how many.
const LOSSES = {
	overwritten: '# older records were overwritten: raise TURBO_TIMELINE_MB to keep more',
	cupti_lost: 'CUPTI lost # records',
	zero_time: '# records came without a time and are left out',
	backwards: '# records ended before they started and are left out',
	unknown: '# records were of a kind that libturbo does not know',
	events_lost: '# of libturbo\'s own events did not fit their queue',
	no_buffer: '# times there was no buffer for CUPTI: records are missing',
	bad_buffer: '# of CUPTI\'s buffers could not be read to their end',
	table_full: '# records have lost their name or stream: a table was full',
	dropped: '# records could not be written to the file',
};

// One row a rank and cause.
function lossRows(model) {
	return model.ranks.flatMap((rank, order) => {
		const row = (count, text) => ({order, label: rankLabel(rank), count, text: text.replace('#', countText(count))});
		const rows = Object.entries(LOSSES).map(([key, text]) => row(num(rank.lost?.[key]), text));
		rows.push(row(num(rank.damaged), '# records or chunks made no sense and are left out'));
		return rows.filter(({count}) => count > 0);
	});
}

const rankLabel = (rank) => (rank.rank >= 0 ? `rank ${rank.rank}` : `pid ${rank.pid}`);

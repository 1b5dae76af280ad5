// Copies, the causes of idle time, collectives, what the host did, gaps, losses and the facts of the recording.

function showCopies(lanes) {
	byId('copies').replaceChildren(dataTable({
		caption: 'Copies by direction and kind of host memory', rows: copyRows(lanes), sort: 'order', ascending: true,
		empty: 'No copy was recorded.', columns: [
			{key: 'order', name: 'Direction', head: true, cell: (c) => el('span.wrap', {title: c.title}, c.direction, ' ',
				c.kind && el(`span.tag${c.bad ? '.bad' : ''}`, null, c.kind))},
			{key: 'rate', name: 'Rate', title: 'bytes by the time that the copies took', text: (c) => rateText(c.rate * 1e9)},
			{key: 'bytes', name: 'Size', minor: true, text: (c) => bytesText(c.bytes), exact: (c) => `${countText(c.bytes)} bytes`},
			{key: 'count', name: 'Count', text: (c) => countText(c.count)},
			{key: 'ns', name: 'Time', text: (c) => timeText(c.ns), exact: (c) => exactTime(c.ns), bar: 'memory'},
		],
	}));
}

function showIdle(lanes) {
	const idle = sumOf(lanes, (lane) => lane.total.idle);
	const columns = (name, head) => [
		{key: 'order', name, head: true, cell: head},
		{key: 'ns', name: 'Time', text: (r) => timeText(r.ns), exact: (r) => exactTime(r.ns), bar: 'plain'},
		{key: 'share', name: 'Of idle', minor: true, text: (r) => percentText(r.ns, idle)},
		{key: 'count', name: 'Count', text: (r) => countText(r.count)},
	];
	const withShare = (rows) => rows.map((row) => ({...row, share: idle > 0 ? row.ns / idle : NaN}));
	byId('idle').replaceChildren(
		dataTable({caption: 'Idle time by cause', rows: withShare(idleRows(lanes)), sort: 'ns', empty: 'The GPU was never idle.',
			columns: columns('Cause', (r) => el('span', {title: r.title}, r.name, el('small', null, r.title)))}),
		dataTable({caption: 'Idle time by length of the gap', rows: withShare(gapRows(lanes)), sort: 'order', ascending: true,
			empty: 'There was no gap.', columns: columns('Length', (r) => r.name)}));
}

function showCollectives(ranks) {
	const rows = collectiveRows(ranks);
	byId('collectives-section').hidden = !rows.length;
	byId('collectives').replaceChildren(dataTable({
		caption: 'Collectives of NCCL', rows, sort: 'ns', columns: [
			{key: 'name', name: 'Function', head: true, cell: (r) => [el('code', null, r.name), ' ', r.ranks > 1 && el('span.tag', null, `${countText(r.ranks)} ranks`)]},
			{key: 'ns', name: 'Kernel time', title: 'waiting for other ranks included', text: (r) => timeText(r.ns), exact: (r) => exactTime(r.ns), bar: 'communication'},
			{key: 'count', name: 'Calls', text: (r) => countText(r.count)},
			{key: 'bytes', name: 'Size', text: (r) => bytesText(r.bytes), exact: (r) => `${countText(r.bytes)} bytes`},
			{key: 'small', name: 'Small', minor: true, title: 'calls of less than 64 KiB', text: (r) => countText(r.small)},
			{key: 'busbw', name: 'Bus rate', title: 'bus bandwidth, as nccl-tests defines it', text: (r) => rateText(r.busbw * 1e9)},
			rows.some((r) => r.failed) && {key: 'failed', name: 'Failed', text: (r) => countText(r.failed)},
		].filter(Boolean),
	}));
}

function showHost(ranks) {
	const rows = tallyRows(ranks);
	const sum = (key) => sumOf(ranks, (rank) => rank.allocations?.[key]);
	const facts = [
		sum('count') > 0 && `${countText(sum('count'))} allocations by the driver took ${timeText(sum('ns'))} (${bytesText(sum('bytes'))}), `
			+ `${countText(sum('late_count'))} of them in the second half; ${countText(sum('free_count'))} frees took ${timeText(sum('free_ns'))}.`,
		sum('out_of_memory') > 0 && `Out of device memory: ${countText(sum('out_of_memory'))} times.`,
		ranks.some((rank) => !rank.launches) && rows.length > 0 && 'Launches were not recorded (TURBO_TIMELINE=launch does).',
	].filter(Boolean);
	byId('host-section').hidden = !rows.length && !facts.length;
	byId('host').replaceChildren(el('ul.plain', null, facts.map((text) => el('li', null, text))), rows.length ? dataTable({
		caption: 'What the host did', rows, sort: 'ns', limit: 12, filter: (r) => `${r.name} ${r.kind}`, columns: [
			{key: 'name', name: 'Name', head: true, cell: (r) => [el('code', null, shortened(r.name, 60)), ' ', el('span.tag', null, r.kind)]},
			{key: 'ns', name: 'Time', text: (r) => (r.ns > 0 ? timeText(r.ns) : NONE), exact: (r) => exactTime(r.ns), bar: 'plain'},
			{key: 'count', name: 'Count', text: (r) => countText(r.count)},
			{key: 'most', name: 'Longest', minor: true, text: (r) => (r.most > 0 ? timeText(r.most) : NONE), exact: (r) => exactTime(r.most)},
			rows.some((r) => r.failed) && {key: 'failed', name: 'Failed', text: (r) => countText(r.failed)},
		].filter(Boolean),
	}) : '');
}

function showStreams(lanes) {
	const rows = lanes.flatMap((lane) => list(lane.gpu.streams).map((s) => ({lane, order: lane.index, name: num(s.stream), context: num(s.context),
		count: num(s.count), busy: num(s.busy_ns), host: num(s.host_wait_ns), kernel: num(s.kernel_wait_ns), other: num(s.other_ns)})));
	const time = (key, name, title) => ({key, name, title, text: (r) => timeText(r[key]), exact: (r) => exactTime(r[key])});
	byId('streams').replaceChildren(dataTable({
		caption: 'The busiest streams, and what their gaps were', rows, sort: 'busy', limit: 8, empty: 'No stream was used.', columns: [
			{key: 'order', name: 'Rank', head: true, text: (r) => r.lane.label},
			{key: 'name', name: 'Stream', text: (r) => `${r.name}`, exact: (r) => `context ${r.context}`},
			{...time('busy', 'Busy'), bar: 'compute'}, {key: 'count', name: 'Operations', minor: true, text: (r) => countText(r.count)},
			time('host', 'Host wait', 'gaps in which the next operation had not been launched yet'),
			{...time('kernel', 'Kernel wait', 'short gaps, as Holistic Trace Analysis counts them'), minor: true},
			{...time('other', 'Other wait', 'the remaining gaps'), minor: true},
		],
	}));
}

function showLosses(model) {
	const gaps = model.ranks.flatMap((rank, order) => list(rank.gaps?.longest).map((gap) => ({label: rankLabel(rank), order,
		start: num(gap.start), ns: num(gap.duration), reason: String(gap.reason ?? '')})));
	const left = sumOf(model.ranks, (rank) => rank.gaps?.count) - gaps.length;
	const losses = lossRows(model);
	const sampled = model.ranks.filter((rank) => rank.mode === 'sampled');
	byId('losses').replaceChildren(
		sampled.length ? el('p.note', null, `TURBO_TIMELINE=sampled saw ${percentText(sumOf(sampled, (r) => r.sampled_share), sampled.length)} of the time; `
			+ 'counts and sums are of that part.') : '',
		losses.length ? dataTable({caption: 'Records that are missing', rows: losses, sort: 'count', limit: 12, columns: [
			{key: 'order', name: 'Rank', head: true, text: (r) => r.label},
			{key: 'count', name: 'Records', text: (r) => countText(r.count)},
			{key: 'text', name: 'What happened', left: true, text: (r) => r.text},
		]}) : el('p.good', null, model.ranks.length ? 'No record was lost.' : 'There is no recording.'),
		gaps.length ? dataTable({caption: 'Times that were not recorded', rows: gaps, sort: 'start', ascending: true, limit: 12, columns: [
			{key: 'order', name: 'Rank', head: true, text: (r) => r.label},
			{key: 'start', name: 'From', text: (r) => pointText(r.start, 1e6, model.end)},
			{key: 'ns', name: 'For', text: (r) => timeText(r.ns), exact: (r) => exactTime(r.ns)},
			{key: 'reason', name: 'Why', left: true, text: (r) => r.reason},
		]}) : model.ranks.length ? el('p.good', null, 'The recording has no gap.') : '',
		left > 0 ? el('p.note', null, `${countText(left)} shorter gaps are not listed.`) : '');
}

function showFacts(model) {
	const {report, ranks} = model;
	const distinct = (values) => [...new Set(values.filter((v) => v !== null && v !== undefined && v !== ''))];
	const some = (values) => {
		const all = distinct(values);
		return all.length > 4 ? `${all.slice(0, 4).join(', ')} and ${all.length - 4} more` : all.join(', ') || NONE;
	};
	const began = new Date(num(report.origin_ns) / 1e6);
	const facts = [
		['Command', some(ranks.map((r) => r.command))],
		['Hosts', some(ranks.map((r) => r.host))],
		['GPUs', some(model.lanes.map((l) => l.device))],
		['First record', num(report.origin_ns) > 0 ? began.toISOString().replace('T', ' ').replace('Z', ' UTC') : NONE],
		['Time', `${timeText(model.lanes.length ? model.end - model.start : 0)}${report.window?.asked ? ', as asked for' : ''}`],
		['Mode', some(ranks.map((r) => (r.on_demand ? `${r.mode}, on demand by turbo record` : r.mode)))],
		['Records', countText(sumOf(ranks, (r) => r.records))],
		['CUPTI', some(ranks.map((r) => cuptiText(num(r.cupti_version))))],
		['Driver', some(ranks.map((r) => driverText(num(r.driver_version))))],
		['libturbo', some(ranks.map((r) => r.libturbo))],
	];
	const rows = ranks.map((rank, order) => ({rank, order}));
	byId('facts').replaceChildren(el('dl.facts', null, facts.map(([name, value]) => el('div', null, el('dt', null, name), el('dd', null, value)))),
		dataTable({caption: 'Files', rows, sort: 'order', ascending: true, limit: 16, empty: 'No file was read.', columns: [
			{key: 'order', name: 'Rank', head: true, text: ({rank}) => rankLabel(rank)},
			{key: 'host', name: 'Host and process', left: true, text: ({rank}) => `${rank.host || '?'} · ${rank.pid}`},
			{key: 'records', name: 'Records', text: ({rank}) => countText(num(rank.records))},
			{key: 'state', name: 'End', left: true, text: ({rank}) => (rank.live ? 'still recording' : rank.end === null ? 'killed, or ended early' : 'in good order')},
			{key: 'path', name: 'File', left: true, minor: true, cell: ({rank}) => el('code', {title: rank.path}, shortened(String(rank.path ?? ''), 70))},
		]}));
}

// cuptiGetVersion's number: 130001 is 13.0 with its first update; below 100000, a number of the interface.
const cuptiText = (version) => (version >= 100000 ? `${Math.floor(version / 10000)}.${Math.floor(version / 100) % 100}.${version % 100}`
	: version > 0 ? `interface ${version}` : '');

// cuDriverGetVersion's number, 13000: the CUDA version that the driver supports.
const driverText = (version) => (version > 0 ? `CUDA ${Math.floor(version / 1000)}.${Math.floor((version % 1000) / 10)}` : '');

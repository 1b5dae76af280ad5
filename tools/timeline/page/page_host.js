// Copies, where the time goes, collectives, what the host did, gaps, losses and the facts of the recording.

function showCopies(lanes) {
	const rows = copyRows(lanes);
	const {count, bytes} = unseenStaged(lanes);
	byId('copies').replaceChildren(dataTable({
		caption: 'Copies by direction', rows, empty: 'No copy was recorded.', columns: [
			{key: 'name', name: 'Direction', head: true, cell: (c) => el(`span${c.part ? '.part' : ''}${c.bad ? '.bad' : ''}`, {title: c.title}, c.name,
				c.pageable && [' ', el('span.tag.bad', null, 'all pageable')])},
			{key: 'count', name: 'Count', text: (c) => countText(c.count)},
			{key: 'bytes', name: 'Bytes', text: (c) => bytesText(c.bytes), exact: (c) => `${countText(c.bytes)} bytes`},
			{key: 'ns', name: 'Time', text: (c) => timeText(c.ns), exact: (c) => exactTime(c.ns)},
			{key: 'rate', name: 'Rate', title: 'bytes by the time that the copies took; – where these are too few or too short to tell', text: (c) => rateText(c.rate * 1e9)},
			{key: 'small', name: '< 64 KiB', title: 'copies of less', minor: true, text: (c) => (c.small > 0 ? countText(c.small) : NONE)},
		],
	}), count > 0 ? el('p.note', null, `${countText(count)} more copies (${bytesText(bytes)}) were staged by libturbo in gaps of the recording, where what the `
		+ 'device copied was not recorded.') : '');
}

function showTime(lanes) {
	byId('time').replaceChildren(
		dataTable({caption: 'Shares are of what was recorded', rows: timeRows(lanes), sort: 'order', ascending: true, empty: 'Nothing was recorded.', columns: [
			{key: 'order', name: 'What', head: true, cell: (r) => el('span', {title: r.title}, el(`span.swatch.${r.key === 'plain' ? 'idle' : r.key}`), r.name)},
			{key: 'share', name: 'Share', text: (r) => percentText(r.share, 1)},
			{key: 'ns', name: 'Time', text: (r) => timeText(r.ns), exact: (r) => exactTime(r.ns), bar: (r) => r.key},
			{key: 'count', name: 'Count', text: (r) => (r.count > 0 ? countText(r.count) : '')},
			{key: 'mean', name: 'Mean', minor: true, text: (r) => (r.count > 0 ? timeText(r.mean) : '')},
		]}),
		dataTable({caption: 'Idle gaps by length', rows: gapRows(lanes), sort: 'order', ascending: true, empty: 'There was no gap.', columns: [
			{key: 'order', name: 'Length', head: true, text: (r) => r.name},
			{key: 'ns', name: 'Time', text: (r) => timeText(r.ns), exact: (r) => exactTime(r.ns), bar: 'plain'},
			{key: 'count', name: 'Count', text: (r) => countText(r.count)},
		]}));
}

function showCollectives(ranks) {
	const rows = collectiveRows(ranks);
	byId('collectives-section').hidden = !rows.length;
	byId('collectives').replaceChildren(dataTable({
		caption: 'Collectives of NCCL', rows, sort: 'ns', columns: [
			{key: 'name', name: 'Function', head: true, cell: (r) => [el('code', null, r.name), ' ', r.ranks > 1 && el('span.tag', null, `${countText(r.ranks)} ranks`)]},
			{key: 'ns', name: 'On GPU', title: 'time of its kernels, waiting for other ranks included', text: (r) => timeText(r.ns), exact: (r) => exactTime(r.ns), bar: 'communication'},
			{key: 'count', name: 'Calls', text: (r) => countText(r.count)},
			{key: 'bytes', name: 'Bytes', text: (r) => bytesText(r.bytes), exact: (r) => `${countText(r.bytes)} bytes`},
			{key: 'small', name: '< 64 KiB', minor: true, title: 'calls with less', text: (r) => (r.small > 0 ? countText(r.small) : NONE)},
			{key: 'busbw', name: 'Bus', title: 'bus bandwidth, as nccl-tests defines it; it counts waiting for other ranks as transfer', text: (r) => rateText(r.busbw * 1e9)},
			rows.some((r) => r.failed) && {key: 'failed', name: 'Failed', text: (r) => countText(r.failed)},
		].filter(Boolean),
	}));
}

// What advice about input and allocations is of: the start-up makes no rule.
function steadyFacts(ranks) {
	const gpus = ranks.flatMap((rank) => list(rank.gpus)).filter((gpu) => gpu.steady?.ns > 0);
	const sum = (value) => sumOf(gpus, (gpu) => value(gpu.steady));
	const inputs = sum((s) => s.input?.count), allocations = sum((s) => s.allocations?.count);
	if (!gpus.length || !(inputs + allocations))
		return [];
	const steps = Math.max(...gpus.map((gpu) => num(gpu.steady.steps)));
	const said = [inputs > 0 && `the GPU was idle before ${countText(inputs)} ${inputs === 1 ? 'copy' : 'copies'} from the host for ${timeText(sum((s) => s.input?.ns))}`,
		allocations > 0 && `${countText(allocations)} ${allocations === 1 ? 'allocation' : 'allocations'} by the driver took ${timeText(sum((s) => s.allocations?.ns))}`].filter(Boolean);
	return [`Once it ran (from ${timeText(Math.min(...gpus.map((gpu) => num(gpu.steady.start))))} on${steps ? `, ${countText(steps)} steps` : ''}), ${said.join('; ')}.`];
}

function showHost(ranks) {
	const rows = tallyRows(ranks);
	const sum = (key) => sumOf(ranks, (rank) => rank.allocations?.[key]);
	const facts = [
		sum('count') > 0 && `${countText(sum('count'))} allocations by the driver took ${timeText(sum('ns'))} (${bytesText(sum('bytes'))}), `
			+ `${countText(sum('late_count'))} of them in the second half; ${countText(sum('free_count'))} frees took ${timeText(sum('free_ns'))}.`,
		sum('out_of_memory') > 0 && `Out of device memory: ${countText(sum('out_of_memory'))} times.`,
		...steadyFacts(ranks),
		ranks.some((rank) => !rank.launches) && rows.length > 0 && 'Launches were not recorded (TURBO_TIMELINE=launch does).',
	].filter(Boolean);
	byId('host-section').hidden = !rows.length && !facts.length;
	byId('host').replaceChildren(el('ul.plain', null, facts.map((text) => el('li', null, text))), rows.length ? dataTable({
		caption: 'What the host did', rows, sort: 'ns', limit: 12, filter: (r) => `${r.name} ${r.kind}`, columns: [
			{key: 'name', name: 'What', head: true, cell: (r) => [el('code', {title: r.name}, shortened(r.name, 60)), ' ', el('span.tag', null, r.kind)]},
			{key: 'ns', name: 'Time', text: (r) => (r.ns > 0 ? timeText(r.ns) : NONE), exact: (r) => exactTime(r.ns), bar: 'plain'},
			{key: 'count', name: 'Count', text: (r) => countText(r.count)},
			{key: 'mean', name: 'Mean', minor: true, text: (r) => (r.ns > 0 ? timeText(r.mean) : NONE)},
			{key: 'most', name: 'Max', minor: true, text: (r) => (r.most > 0 ? timeText(r.most) : NONE), exact: (r) => exactTime(r.most)},
			rows.some((r) => r.failed) && {key: 'failed', name: 'Failed', text: (r) => countText(r.failed)},
		].filter(Boolean),
	}) : '');
}

function showStreams(lanes) {
	const rows = lanes.flatMap((lane) => list(lane.gpu.streams).map((s) => ({lane, order: lane.index, name: num(s.stream), context: num(s.context),
		count: num(s.count), busy: num(s.busy_ns), host: lane.rank.launches ? num(s.host_wait_ns) : NaN, kernel: num(s.kernel_wait_ns), other: num(s.other_ns)})));
	const time = (key, name, title) => ({key, name, title, text: (r) => timeText(r[key]), exact: (r) => exactTime(r[key])});
	byId('streams').replaceChildren(dataTable({
		caption: 'The busiest streams, and what their gaps were', rows, sort: 'busy', limit: 8, empty: 'No stream was used.', columns: [
			{key: 'order', name: 'Rank', head: true, text: (r) => r.lane.label},
			{key: 'name', name: 'Stream', text: (r) => `${r.name}`, exact: (r) => `context ${r.context}`},
			{...time('busy', 'Busy'), bar: 'compute'}, {key: 'count', name: 'Count', title: 'operations', minor: true, text: (r) => countText(r.count)},
			time('host', 'Waiting for a launch', 'gaps in which the next operation had not been launched yet; known where launches were recorded'),
			{...time('kernel', 'Between kernels', 'short gaps between launched kernels, as Holistic Trace Analysis counts them'), minor: true},
			{...time('other', 'Other', 'the remaining gaps'), minor: true},
		],
	}));
}

function showLosses(model) {
	const gaps = model.ranks.flatMap((rank, order) => list(rank.gaps?.longest).map((gap) => ({label: rankLabel(rank), order,
		start: num(gap.start), ns: num(gap.duration), reason: String(gap.reason ?? '')})));
	const left = sumOf(model.ranks, (rank) => rank.gaps?.count) - gaps.length;
	const losses = lossRows(model);
	const sampled = model.ranks.filter((rank) => rank.mode === 'sampled');
	const after = Math.max(0, ...model.ranks.map((rank) => num(rank.gaps?.after_last_ns)));
	const killed = model.ranks.filter((rank) => rank.end === null && !rank.live);
	const said = (some, text) => el('p.note', null, model.ranks.length < 2 ? `${text[0].toUpperCase()}${text.slice(1)}`
		: `${some.length > 1 ? `${some.length} ranks` : rankLabel(some[0])}: ${text}`);
	byId('losses').replaceChildren(
		sampled.length ? said(sampled, `sampled: ${percentText(Math.min(...sampled.map((r) => num(r.sampled_share))), 1)} of the time was recorded; `
			+ 'counts and sums are of that part.') : '',
		after > 0 ? said(model.ranks.filter((rank) => rank.gaps?.after_last_ns > 0), `nothing was recorded after the last operation, for up to ${timeText(after)}: `
			+ 'no figure above is about it.') : '',
		killed.length ? said(killed, 'the recording has no end: the process was killed, its last second may be missing.') : '',
		losses.length ? dataTable({caption: 'Records that are missing', rows: losses, sort: 'count', limit: 12, columns: [
			{key: 'order', name: 'Rank', head: true, text: (r) => r.label},
			{key: 'count', name: 'What is missing', left: true, cell: (r) => prose(r.text)},
		]}) : el('p.good', null, model.ranks.length ? 'No record was lost.' : 'There is no recording.'),
		gaps.length ? dataTable({caption: 'Times that were not recorded', rows: gaps, sort: 'start', ascending: true, limit: 12, columns: [
			{key: 'order', name: 'Rank', head: true, text: (r) => r.label},
			{key: 'start', name: 'From', text: (r) => pointText(r.start, (model.end - model.start) / 1000, model.end)},
			{key: 'ns', name: 'For', text: (r) => timeText(r.ns), exact: (r) => exactTime(r.ns)},
			{key: 'reason', name: 'Why', left: true, text: (r) => r.reason},
		]}) : model.ranks.length && !after ? el('p.good', null, 'The recording has no gap.') : '',
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
		ranks.some((r) => r.options) && ['Options of libturbo', prose(some(ranks.map((r) => r.options)))],
	].filter(Boolean);
	const rows = ranks.map((rank, order) => ({rank, order}));
	byId('facts').replaceChildren(el('dl.facts', null, facts.map(([name, value]) => el('div', null, el('dt', null, name), el('dd', null, value)))),
		dataTable({caption: 'Files', rows, sort: 'order', ascending: true, limit: 16, empty: 'No file was read.', columns: [
			{key: 'order', name: 'Rank', head: true, text: ({rank}) => rankLabel(rank)},
			{key: 'host', name: 'Host and process', left: true, text: ({rank}) => `${rank.host || '?'} · ${rank.pid}`},
			{key: 'records', name: 'Records', text: ({rank}) => countText(num(rank.records))},
			{key: 'state', name: 'End', left: true, text: ({rank}) => (rank.live ? 'still recording' : rank.end === null ? 'killed' : 'in good order')},
			{key: 'path', name: 'File', left: true, minor: true, cell: ({rank}) => el('code', {title: rank.path}, shortened(String(rank.path ?? ''), 70))},
		]}));
}

// cuptiGetVersion's number: 130001 is 13.0 with its first update; below 100000, a number of the interface.
const cuptiText = (version) => (version >= 100000 ? `${Math.floor(version / 10000)}.${Math.floor(version / 100) % 100}.${version % 100}`
	: version > 0 ? `interface ${version}` : '');

// cuDriverGetVersion's number, 13000: the CUDA version that the driver supports.
const driverText = (version) => (version > 0 ? `CUDA ${Math.floor(version / 1000)}.${Math.floor((version % 1000) / 10)}` : '');

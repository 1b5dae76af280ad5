// Reads the report out of the document and shows it; whatever fails is said on the page.

function chooser(model, show) {
	const select = byId('who');
	select.replaceChildren(el('option', {value: ''}, `all ${model.ranks.length} ranks`),
		...model.ranks.map((rank, i) => el('option', {value: i}, `${rankLabel(rank)} (${rank.host || 'unknown host'})`)));
	byId('chooser').hidden = model.ranks.length < 2;
	const apply = () => {
		const rank = model.ranks[select.value === '' ? -1 : Number(select.value)];
		show(rank ? [rank] : model.ranks, rank ? model.lanes.filter((lane) => lane.rank === rank) : model.lanes,
			rank ? rank.kernels : model.report.kernels);
	};
	select.addEventListener('change', () => {
		apply();
		markScrolling();
	});
	apply();
}

// 'auto' follows the system; the choice is kept where the browser allows it to a file.
function themes() {
	const names = ['auto', 'light', 'dark'];
	const button = byId('theme');
	const remember = (name) => {
		try {
			localStorage.setItem('turbo-theme', name);
		} catch {
			// no storage for this page: the choice lasts as long as it
		}
	};
	const stored = () => {
		try {
			return localStorage.getItem('turbo-theme');
		} catch {
			return null;
		}
	};
	const apply = (name) => {
		document.documentElement.dataset.theme = name;
		button.textContent = `Theme: ${name}`;
		redraw();
	};
	button.addEventListener('click', () => {
		const next = names[(names.indexOf(document.documentElement.dataset.theme) + 1) % names.length];
		remember(next);
		apply(next);
	});
	matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
	// Paper is white.
	let before = null;
	addEventListener('beforeprint', () => {
		before = document.documentElement.dataset.theme;
		apply('light');
	});
	addEventListener('afterprint', () => before && apply(before));
	apply(names.includes(stored()) ? stored() : 'auto');
}

function showAll(report) {
	const model = makeModel(report);
	byId('verdict').replaceChildren(...prose(report.verdict || (model.lanes.length ? 'What the GPU did' : 'Nothing was recorded.')));
	const hosts = new Set(model.ranks.map((rank) => rank.host)).size;
	byId('about').textContent = [model.ranks[0]?.command, `${model.ranks.length} ${model.ranks.length === 1 ? 'process' : 'processes'}`,
		`${model.lanes.length} × ${model.lanes[0]?.device || 'GPU'}`, `${hosts} ${hosts === 1 ? 'host' : 'hosts'}`,
		model.lanes.length && timeText(model.end - model.start)].filter(Boolean).join(' · ');
	document.title = `turbo report${model.ranks[0]?.command ? ` – ${shortened(model.ranks[0].command, 60)}` : ''}`;
	document.body.classList.toggle('empty', !model.lanes.length);
	showFindings(model);
	if (model.lanes.length) {
		const finest = Math.min(...model.lanes.map((lane) => lane.bins.width)) * 20;
		const view = new View(model.start, model.end, finest);
		new Lanes(model, view);
		new Steps(model, view);
		showSummary(model.lanes);
		showTotals(model);
		chooser(model, (ranks, lanes, kernels) => {
			showKernels(kernels, sumOf(lanes, (lane) => lane.gpu.time?.busy_ns));
			showCopies(lanes);
			showTime(lanes);
			showCollectives(ranks);
			showHost(ranks);
			showStreams(lanes);
		});
		showMemory(model);
	}
	showLosses(model);
	showFacts(model);
}

function start() {
	try {
		const report = JSON.parse(byId('report').textContent);
		if (report.format !== 'turbo-report' || report.version !== 1)
			throw new Error(`this page shows turbo-report 1, not ${report.format} ${report.version}`);
		showAll(report);
	} catch (error) {
		byId('verdict').textContent = `The report cannot be shown: ${error.message}`;
		document.body.classList.add('empty');
		throw error;
	} finally {
		themes();
	}
	let width = innerWidth;
	addEventListener('resize', () => {
		if (innerWidth !== width)
			redraw();
		width = innerWidth;
	});
	addEventListener('keydown', (event) => event.key === 'Escape' && tooltip.hide());
	addEventListener('scroll', () => tooltip.hide(), {passive: true});
	document.documentElement.dataset.ready = 'true';
}

start();

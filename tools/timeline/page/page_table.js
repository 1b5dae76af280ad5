// Tables: sorted by a click or Enter on a heading, cut to the first rows until asked for all, filtered by text.

// options: caption, rows, columns, sort (key; none: rows stay in their order), ascending, limit, filter (row → text that is searched),
// detail (row → nodes shown under it when its first cell is pressed).
// column: key (of this column alone), value (what is sorted by and drawn; the key when left out), name, text(row) or cell(row), exact(row) (tooltip), bar (a swatch class or
// row → class; drawn as a share of the column's greatest), head (row heading), left (text), wide, minor (left out on
// narrow screens).
function dataTable(options) {
	const {columns} = options;
	const state = {key: options.sort, ascending: Boolean(options.ascending), all: false, text: ''};
	const body = el('tbody');
	const valueOf = (column, row) => row[column.value || column.key];
	const greatest = Object.fromEntries(columns.filter((c) => c.bar).map((c) => [c.key,
		Math.max(...options.rows.map((row) => valueOf(c, row) || 0))]));
	const more = el('button.more', {type: 'button', click: () => {
		state.all = !state.all;
		render();
	}});
	const headings = columns.map((column) => {
		if (!options.sort)
			return el(`th${classesOf(column)}`, {scope: 'col', title: column.title || null}, column.name);
		const button = el('button', {type: 'button', title: column.title || null, click: () => {
			state.ascending = state.key === column.key ? !state.ascending : Boolean(column.head);
			state.key = column.key;
			render();
		}}, column.name, el('span.arrow', {'aria-hidden': 'true'}));
		return el(`th${classesOf(column)}`, {scope: 'col'}, button);
	});

	function cellOf(column, row) {
		const content = column.cell ? column.cell(row) : column.text(row);
		const attributes = {title: column.exact ? column.exact(row) : null};
		if (column.head)
			return el(`th${classesOf(column)}`, {scope: 'row', ...attributes}, content);
		const cell = el(`td${classesOf(column)}`, attributes);
		if (column.bar) {
			const fillBar = el(`span.bar.${typeof column.bar === 'function' ? column.bar(row) : column.bar}`);
			fillBar.style.width = `${greatest[column.key] > 0 ? Math.max(0, (100 * (valueOf(column, row) || 0)) / greatest[column.key]) : 0}%`;
			cell.append(el('span.barred', null, el('span.track', {'aria-hidden': 'true'}, fillBar), el('span', null, content)));
		} else {
			cell.append(...[content].flat().filter(Boolean));
		}
		return cell;
	}

	function rowNodes(row) {
		const line = el('tr', null, columns.map((column) => cellOf(column, row)));
		if (!options.detail)
			return [line];
		const under = el('tr.detail', {hidden: true}, el('td', {colspan: columns.length}));
		const button = line.querySelector('.expand');
		button?.addEventListener('click', () => {
			under.hidden = !under.hidden;
			button.setAttribute('aria-expanded', String(!under.hidden));
			if (!under.hidden && !under.firstChild.childNodes.length)
				under.firstChild.append(...options.detail(row));
		});
		return [line, under];
	}

	function render() {
		const {key, ascending} = state;
		const sorted = columns.find((column) => column.key === key);
		const wanted = state.text.toLowerCase();
		const rows = options.rows.filter((row) => !wanted || options.filter(row).toLowerCase().includes(wanted));
		if (sorted)
			rows.sort((a, b) => compare(valueOf(sorted, a), valueOf(sorted, b)) * (ascending ? 1 : -1));
		const limit = state.all ? rows.length : Math.min(rows.length, options.limit || rows.length);
		body.replaceChildren(...rows.slice(0, limit).flatMap(rowNodes));
		if (!rows.length)
			body.append(el('tr', null, el('td.none', {colspan: columns.length}, wanted ? 'Nothing matches.' : options.empty || 'None.')));
		more.hidden = rows.length <= (options.limit || rows.length);
		more.textContent = state.all ? `Show the first ${options.limit}` : `Show all ${countText(rows.length)}`;
		headings.forEach((heading, i) => {
			if (sorted)
				heading.setAttribute('aria-sort', columns[i] === sorted ? (ascending ? 'ascending' : 'descending') : 'none');
		});
	}

	render();
	return el('div.data', null,
		options.filter && options.rows.length > 5 && el('input.filter', {
			type: 'search', placeholder: 'Filter by name', 'aria-label': `Filter: ${options.caption}`,
			input: (event) => {
				state.text = event.target.value;
				render();
			},
		}),
		el('div.scroll', {role: 'group', 'aria-label': options.caption},
			el('table', null, el('caption', null, options.caption), el('thead', null, el('tr', null, headings)), body)), more);
}

// A table that is wider than its place is scrolled with the arrow keys, so it has to take the focus.
function markScrolling() {
	for (const box of document.querySelectorAll('.scroll')) {
		if (box.scrollWidth > box.clientWidth + 1)
			box.setAttribute('tabindex', '0');
		else
			box.removeAttribute('tabindex');
	}
}
onRedraw(markScrolling);

const classesOf = (column) => `${column.minor ? '.minor' : ''}${column.wide ? '.wide' : ''}${column.left || column.head ? '.left' : ''}${column.bar ? '.has-bar' : ''}`;

function compare(a, b) {
	if (typeof a === 'string' || typeof b === 'string')
		return String(a ?? '').localeCompare(String(b ?? ''), 'en', {numeric: true});
	return (Number.isFinite(a) ? a : -Infinity) - (Number.isFinite(b) ? b : -Infinity);
}

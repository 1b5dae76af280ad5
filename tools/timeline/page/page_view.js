// The range of time that is shown, and the gestures that change it. Times are nanoseconds after the
// report's origin.

class View {
	constructor(start, end, finest) {
		this.start = start;
		this.end = Math.max(start + 1, end);
		this.finest = Math.max(1, Math.min(finest, this.whole)); // shortest range
		this.from = this.start;
		this.to = this.end;
		this.listeners = [];
		this.pending = false;
	}

	get span() {
		return this.to - this.from;
	}

	get whole() {
		return this.end - this.start;
	}

	get zoomed() {
		return this.span < this.whole * 0.9999;
	}

	onChange(listener) {
		this.listeners.push(listener);
	}

	// The nearest range to this one that is neither too short nor outside.
	set(from, to) {
		const span = Math.min(this.whole, Math.max(this.finest, to - from));
		const begin = Math.min(this.end - span, Math.max(this.start, (from + to - span) / 2));
		if (begin === this.from && begin + span === this.to)
			return;
		this.from = begin;
		this.to = begin + span;
		this.changed();
	}

	// Once a frame, however many events came.
	changed() {
		if (this.pending)
			return;
		this.pending = true;
		requestAnimationFrame(() => {
			this.pending = false;
			for (const listener of this.listeners)
				listener();
		});
	}

	zoom(factor, around = (this.from + this.to) / 2) {
		const span = Math.min(this.whole, Math.max(this.finest, this.span * factor));
		const share = (around - this.from) / this.span;
		this.set(around - span * share, around + span * (1 - share));
	}

	// By a share of what is shown.
	pan(share) {
		const by = Math.min(this.end - this.to, Math.max(this.start - this.from, this.span * share));
		this.set(this.from + by, this.to + by);
	}

	reset() {
		this.set(this.start, this.end);
	}
}

// Time at `clientX` over `box`, an element whose width shows the view.
function timeAt(view, box, clientX) {
	const {left, width} = box.getBoundingClientRect();
	return view.from + ((clientX - left) / Math.max(1, width)) * view.span;
}

// Wheel with Ctrl (pinching, too) zooms, sideways or with Shift it moves; plain scrolling stays the page's.
function attachWheel(view, area, box) {
	area.addEventListener('wheel', (event) => {
		const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY) ? event.deltaX : event.shiftKey ? event.deltaY : 0;
		if (event.ctrlKey || event.metaKey) {
			event.preventDefault();
			const lines = event.deltaMode === 1 ? event.deltaY * 16 : event.deltaY;
			view.zoom(Math.exp(Math.max(-100, Math.min(100, lines)) * 0.006), timeAt(view, box(), event.clientX));
		} else if (sideways && view.zoomed) {
			event.preventDefault();
			view.pan((event.deltaMode === 1 ? sideways * 16 : sideways) / 800);
		}
	}, {passive: false});
}

// Dragging selects a range and zooms into it; with Shift, the middle button or a finger it moves. Two fingers
// pinch. `select(from, to)` draws the selection, select(null) takes it away.
function attachDrag(view, area, box, select) {
	const pointers = new Map(); // by id: where it is now
	let start = null;

	area.addEventListener('pointerdown', (event) => {
		if (event.button > 1 || event.target.closest('button, input, a'))
			return;
		pointers.set(event.pointerId, event.clientX);
		area.setPointerCapture(event.pointerId);
		const move = event.pointerType === 'touch' || event.shiftKey || event.button === 1;
		start = {x: event.clientX, time: timeAt(view, box(), event.clientX), move};
		if (event.button === 1)
			event.preventDefault();
	});
	area.addEventListener('pointermove', (event) => {
		if (!pointers.has(event.pointerId) || !start)
			return;
		const before = pointers.get(event.pointerId);
		if (pointers.size === 2) {
			const [a, b] = [...pointers.values()];
			pointers.set(event.pointerId, event.clientX);
			const [c, d] = [...pointers.values()];
			if (Math.abs(d - c) > 8)
				view.zoom(Math.abs(b - a) / Math.abs(d - c), timeAt(view, box(), (c + d) / 2));
			return;
		}
		pointers.set(event.pointerId, event.clientX);
		if (start.move)
			view.pan((before - event.clientX) / Math.max(1, box().getBoundingClientRect().width));
		else
			select(start.time, timeAt(view, box(), event.clientX));
	});
	const finish = (event) => {
		if (!pointers.delete(event.pointerId) || !start)
			return;
		if (!start.move && event.type === 'pointerup' && Math.abs(event.clientX - start.x) > 4) {
			const end = timeAt(view, box(), event.clientX);
			view.set(Math.min(start.time, end), Math.max(start.time, end));
		}
		select(null);
		if (!pointers.size)
			start = null;
	};
	area.addEventListener('pointerup', finish);
	area.addEventListener('pointercancel', finish);
	area.addEventListener('dblclick', (event) => {
		if (!event.target.closest('button'))
			view.reset();
	});
}

// ← → move, + − zoom, Home or 0 show all; the rest is the caller's: other(event) says whether it took it.
function attachKeys(view, area, around, other) {
	area.addEventListener('keydown', (event) => {
		if (event.ctrlKey || event.metaKey || event.altKey || event.target !== area)
			return;
		if (!other(event)) {
			switch (event.key) {
			case 'ArrowLeft': view.pan(-0.2); break;
			case 'ArrowRight': view.pan(0.2); break;
			case '+': case '=': case 'w': view.zoom(0.6, around()); break;
			case '-': case '_': case 's': view.zoom(1 / 0.6, around()); break;
			case 'a': view.pan(-0.2); break;
			case 'd': view.pan(0.2); break;
			case 'Home': case '0': view.reset(); break;
			default: return;
			}
		}
		event.preventDefault();
	});
}

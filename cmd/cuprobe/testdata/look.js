// Evaluates to what a test of a report's page must know about it. The page must be as high as the
// window, so that each of its points can be asked for what is painted there.
(() => {
	const seen = { wide: [], dim: [], small: [], cut: [], plots: [], texts: 0 };
	const name = (el) => el.tagName + "." + el.getAttribute("class") + " " + el.textContent.trim().slice(0, 40);
	const scroller = (el) => {
		for (; el; el = el.parentElement) {
			if (/auto|scroll/.test(getComputedStyle(el).overflowX)) return el;
		}
		return null;
	};
	const inside = (a, b) => a.left >= b.left - 1 && a.right <= b.right + 1 && a.top >= b.top - 1 && a.bottom <= b.bottom + 1;

	// No element is wider than the window, unless something around it scrolls.
	for (const el of document.body.querySelectorAll("*")) {
		const r = el.getBoundingClientRect();
		if (r.width > 0 && (r.right > innerWidth + 0.5 || r.left < -0.5) && !scroller(el.parentElement)) seen.wide.push(name(el));
	}
	seen.pageWidth = document.documentElement.scrollWidth;
	seen.windowWidth = innerWidth;
	seen.pageHeight = document.documentElement.scrollHeight;

	// The contrast of each text with what is below it, by WCAG 2.
	const rgb = (s) => (s.match(/[\d.]+/g) || []).map(Number);
	const luminance = (c) => {
		const [r, g, b] = c.map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	const paint = (el) => {
		const s = getComputedStyle(el);
		const c = rgb(el instanceof SVGElement ? (el.ownerSVGElement && el.tagName !== "text" ? s.fill : "") : s.backgroundColor);
		return c.length === 3 || (c.length === 4 && c[3] === 1) ? c.slice(0, 3) : null;
	};
	const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let node = walk.nextNode(); node; node = walk.nextNode()) {
		const el = node.parentElement;
		if (!node.data.trim() || /^(script|style|title|desc)$/i.test(el.tagName)) continue;
		const range = document.createRange();
		range.selectNodeContents(node);
		const r = range.getClientRects()[0];
		const around = scroller(el);
		if (!r || r.width === 0 || (around && !inside(r, around.getBoundingClientRect()))) continue; // not painted
		const below = document.elementsFromPoint(r.left + r.width / 2, r.top + r.height / 2).map(paint).find((c) => c) || rgb(getComputedStyle(document.body).backgroundColor);
		const style = getComputedStyle(el);
		const [a, b] = [luminance(rgb(el instanceof SVGElement ? style.fill : style.color).slice(0, 3)), luminance(below)];
		const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		seen.texts++;
		if (!(contrast >= 4.5)) seen.dim.push(name(el) + ": " + contrast.toFixed(2));
	}

	// Plots have a size, and their labels can be read, are complete, and do not overlap.
	for (const svg of document.querySelectorAll("svg[role=img]")) {
		const box = svg.getBoundingClientRect();
		const labels = [...svg.querySelectorAll("text")].map((el) => [el, el.getBoundingClientRect()]);
		const lines = [...svg.querySelectorAll("polyline, rect")].filter((el) => el.getBBox().width > 0);
		seen.plots.push({
			width: box.width, height: box.height, lines: lines.length, labels: labels.length,
			named: svg.getAttribute("aria-labelledby").split(" ").every((id) => document.getElementById(id)?.textContent),
		});
		labels.forEach(([el, r], i) => {
			const scale = box.width / svg.viewBox.baseVal.width;
			if (parseFloat(getComputedStyle(el).fontSize) * scale < 9) seen.small.push(name(el));
			if (!inside(r, box)) seen.cut.push(name(el) + " leaves the plot");
			for (const [other, s] of labels.slice(i + 1)) {
				if (r.left < s.right - 1 && s.left < r.right - 1 && r.top + 3 < s.bottom - 3 && s.top + 3 < r.bottom - 3) {
					seen.cut.push(name(el) + " overlaps " + name(other));
				}
			}
		});
	}
	seen.background = getComputedStyle(document.body).backgroundColor;
	seen.lang = document.documentElement.lang;
	seen.headers = [...document.querySelectorAll("table")].every((t) => t.querySelector("thead th[scope=col]"));
	seen.host = JSON.parse(document.getElementById("cuprobe").textContent).host;
	seen.hacked = String(window.hacked);
	seen.scripts = document.scripts.length;
	return seen;
})()

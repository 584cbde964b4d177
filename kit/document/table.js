/* Tables of the kit sort by a click on a head, filter by a word, and show their first rows until asked for all. */
(() => {
  const FIRST = 15, FILTERED = 16;
  const make = (tag, about, text) => Object.assign(document.createElement(tag), about, text === undefined ? {} : { textContent: text });
  const raw = (cell) => cell?.dataset.v ?? cell?.textContent.trim() ?? "";
  const compare = (a, b) => {
    if (a === "" || b === "") return (a === "") - (b === "");
    const [x, y] = [Number(a), Number(b)];
    return Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b, "en", { numeric: true }) : x - y;
  };

  function live(table) {
    const body = table.tBodies[0], rows = [...body.rows], box = table.parentElement;
    const heads = table.tHead ? [...table.tHead.rows[0].cells] : [];
    table.dataset.live = "yes";
    let word = "", all = rows.length <= FIRST + 5;
    const bar = make("div", { className: "kit-tools" });
    bar.style.cssText = "display:flex;gap:.6em;margin:.4em 0 0";
    const more = make("button", { type: "button" }), said = make("span", { role: "status" });
    const show = () => {
      const fitting = [...body.rows].filter((row) => row.textContent.toLowerCase().includes(word));
      const kept = new Set(all || word ? fitting : fitting.slice(0, FIRST));
      for (const row of body.rows) row.hidden = !kept.has(row);
      said.textContent = word ? `${fitting.length.toLocaleString("en")} of ${rows.length.toLocaleString("en")} rows` : "";
      more.hidden = rows.length <= FIRST + 5 || Boolean(word);
      more.textContent = all ? "first rows only" : `all ${rows.length.toLocaleString("en")} rows`;
      more.setAttribute("aria-expanded", String(all));
    };
    heads.forEach((head, n) => {
      const name = head.textContent;
      if (!name || rows.length < 2) return;
      const button = make("button", { type: "button", className: "kit-sort", title: `sort by ${name}` }, name);
      button.style.cssText = "font:inherit;font-weight:600;color:inherit;border:0;background:none;padding:0;cursor:pointer";
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((one) => {
          one.removeAttribute("aria-sort");
          one.querySelector("i")?.remove();
        });
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        head.append(make("i", { ariaHidden: "true" }, down ? " ▼" : " ▲"));
        const sorted = rows.map((row) => [raw(row.cells[n]), row]).sort(([a], [b]) => (a === "" || b === "" ? compare(a, b) : (down ? -1 : 1) * compare(a, b)));
        body.append(...sorted.map(([, row]) => row));
        show();
      });
      head.replaceChildren(button);
    });
    if (rows.length >= FILTERED && heads.length) {
      const label = `filter ${table.caption ? table.caption.textContent : "rows"}`;
      const field = make("input", { type: "search", placeholder: "filter rows", ariaLabel: label });
      field.addEventListener("input", () => {
        word = field.value.trim().toLowerCase();
        show();
      });
      bar.append(field, said);
    }
    more.addEventListener("click", () => {
      all = !all;
      show();
    });
    bar.append(more);
    show();
    if (bar.childElementCount > 1 || !more.hidden) box.before(bar);
  }

  const start = () => document.querySelectorAll("table.kit-table:not([data-live])").forEach(live);
  start();
  setTimeout(start, 0);
})();

/* The report's own script: buttons that copy, and places that lead to their line in the explorer. */
(() => {
  for (const box of document.querySelectorAll(".command")) {
    const code = box.querySelector("code"), button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.setAttribute("aria-label", `Copy the command ${code.textContent.slice(0, 60)}`);
    button.addEventListener("click", async () => {
      let said = "Copied";
      try {
        await navigator.clipboard.writeText(code.textContent);
      } catch {
        getSelection().selectAllChildren(code);
        said = document.execCommand("copy") ? "Copied" : "Press Ctrl+C";
      }
      button.textContent = said;
      setTimeout(() => (button.textContent = "Copy"), 2000);
    });
    box.append(button);
  }
  document.addEventListener("click", (event) => {
    const place = event.target.closest("a.place");
    const panel = place && document.querySelector(".stallkit-explorer .sk")?.explorer?.panels[0];
    if (!panel) return;
    const { file, line, t } = place.dataset;
    const inLog = line && panel.log?.files.includes(file) && panel.list.goTo(Number(line), file);
    if (!inLog && t !== undefined) panel.goToTime(Number(t));
    const list = inLog && document.querySelector(".stallkit-explorer .sk-list");
    if (list) {
      event.preventDefault();
      list.scrollIntoView({ block: "center" });
    }
  });
  const reveal = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let one = target; one; one = one.parentElement) if (one.tagName === "DETAILS") one.open = true;
  };
  addEventListener("hashchange", reveal);
  reveal();
})();

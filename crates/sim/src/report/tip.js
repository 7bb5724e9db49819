// Shows the titles of things at once instead of after the browser's pause.
(() => {
  const tip = document.getElementById("tip");
  document.addEventListener("pointermove", (e) => {
    const el = e.target instanceof Element ? e.target.closest("[data-tip],[title],svg path") : null;
    if (el && !el.dataset.tip) {
      const title = el.querySelector(":scope > title");
      el.dataset.tip = title ? title.textContent : el.getAttribute("title") || "";
      if (title) title.remove();
      el.removeAttribute("title");
    }
    const text = el ? el.dataset.tip : "";
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    const box = tip.getBoundingClientRect();
    const x = Math.min(e.clientX + 14, innerWidth - box.width - 8);
    const below = e.clientY + 18 + box.height < innerHeight;
    tip.style.left = Math.max(8, x) + "px";
    tip.style.top = (below ? e.clientY + 18 : e.clientY - box.height - 10) + "px";
  });
  document.addEventListener("pointerleave", () => { tip.hidden = true; });
  document.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });
})();

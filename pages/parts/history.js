(() => {
  const push = history.pushState, replace = history.replaceState;
  let acted = false;
  for (const kind of ["pointerdown", "keydown", "click", "input"]) addEventListener(kind, () => { acted = true; }, true);
  addEventListener("popstate", () => { acted = false; }, true);
  history.pushState = (...entry) => {
    (acted ? push : replace).apply(history, entry);
    acted = false;
  };
})();

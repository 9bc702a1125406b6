// Answers a press in the browser. Stop is acknowledged at once, because the server may be busy: the next change of the button
// by the server replaces the acknowledgement; without one, Stop can be pressed again after fifteen seconds. Start brings the
// run that it has started into view, with room for its curves: on a narrow screen it is far from the button.
(() => {
  const until = (watched, what, is_done) => {
    const done = () => {
      watch.disconnect();
      clearTimeout(patience);
    };
    const watch = new MutationObserver(() => is_done() && done());
    watch.observe(watched, { childList: true, characterData: true, subtree: true, attributes: true, attributeFilter: what });
    const patience = setTimeout(() => is_done(true) && done(), 15000);
  };
  const acknowledge = (button) => {
    button.dataset.acknowledged = "Stopping …";
    button.setAttribute("aria-busy", "true");
    until(button, ["disabled"], () => {
      delete button.dataset.acknowledged;
      button.removeAttribute("aria-busy");
      return true;
    });
  };
  const show = () => until(document.querySelector("[data-testid=stMain]"), [], (isLate) => {
    const card = document.querySelector(".st-key-card-status:has(.st-key-stop)");
    if (!card) return isLate;
    const { top } = card.getBoundingClientRect(), isCalm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (top < 0 || top > innerHeight / 2) card.scrollIntoView({ behavior: isCalm ? "auto" : "smooth" });
    return true;
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("button");
    if (!button || button.disabled) return;
    const is = (...keys) => button.matches(keys.map((key) => `.st-key-${key} button`).join());
    if (is("stop", "stop-set", "runs-stop", "tune-stop", "audit-stop") && !button.dataset.acknowledged) acknowledge(button);
    if (is("start", "retry")) show();
  }, true);
})();

// Options that cannot be taken with what is chosen say so in their words: they are grey, and a pointer passes them by.
new MutationObserver(() => {
  for (const option of document.querySelectorAll("[role=option]")) {
    const isOff = option.textContent.includes("(not here: ");
    if (isOff && option.ariaDisabled !== "true") option.ariaDisabled = "true";
    if (!isOff && option.ariaDisabled === "true") option.ariaDisabled = null;
  }
}).observe(document.documentElement, {childList: true, subtree: true, characterData: true});

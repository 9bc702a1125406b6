// Contrast of text inside pictures (WCAG 1.4.3), which axe-core leaves out: a sentence for each text that is too pale.
() => {
  const found = new Set(), drawn = [];
  const collect = root => root.querySelectorAll('*').forEach(node => {
    if (node.matches('text, tspan')) drawn.push(node);
    if (node.shadowRoot) collect(node.shadowRoot);
  });
  collect(document);
  const above = function* (node) { for (let at = node; at; at = at.parentElement || at.getRootNode().host) yield at; };
  const channels = text => {
    const parts = (text.match(/rgba?\(([^)]+)\)/)?.[1] ?? '').split(/[ ,/]+/).filter(Boolean).map(Number);
    return parts.length < 3 ? null : [...parts.slice(0, 3), parts[3] ?? 1];
  };
  const over = (top, under) => [0, 1, 2].map(i => top[i] * top[3] + under[i] * (1 - top[3])).concat(1);
  const ground = node => [...above(node)].map(at => channels(getComputedStyle(at).backgroundColor)).filter(colour => colour?.[3] > 0)
    .reverse().reduce((under, top) => over(top, under), [255, 255, 255, 1]);
  const luminance = colour => {
    const linear = colour.slice(0, 3).map(value => value / 255)
      .map(value => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  for (const node of drawn) {
    const style = getComputedStyle(node), colour = channels(style.fill), isBold = Number(style.fontWeight) >= 700;
    const opacity = [...above(node)].reduce((share, at) => share * Number(getComputedStyle(at).opacity), 1);
    if (!colour || !node.textContent.trim() || !node.checkVisibility() || opacity < 0.05) continue;
    const behind = ground(node.ownerSVGElement.parentElement);
    const [high, low] = [luminance(over([...colour.slice(0, 3), colour[3] * opacity], behind)), luminance(behind)].sort((a, b) => b - a);
    const ratio = (high + 0.05) / (low + 0.05), size = parseFloat(style.fontSize);
    if (ratio < (size >= 24 || (isBold && size >= 18.66) ? 3 : 4.5)) found.add(`contrast ${ratio.toFixed(2)} of the drawn “${node.textContent.trim().slice(0, 40)}”`);
  }
  return [...found];
}

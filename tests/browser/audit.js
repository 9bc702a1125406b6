// What a look at the drawn page can tell of its accessibility (WCAG 2.2, by hand): a sentence for everything amiss.
() => {
  const found = new Set();
  const all = [];
  const collect = root => {
    for (const node of root.querySelectorAll('*')) {
      all.push(node);
      if (node.shadowRoot) collect(node.shadowRoot);
    }
  };
  collect(document);
  const parent = node => node.parentElement || (node.getRootNode().host ?? null);
  const above = function* (node) { for (let at = node; at; at = parent(at)) yield at; };
  const style = node => getComputedStyle(node);
  const opacity = node => [...above(node)].reduce((share, at) => share * Number(style(at).opacity), 1);
  const isSeen = node => {
    const box = node.getBoundingClientRect();
    return box.width > 1 && box.height > 1 && style(node).visibility !== 'hidden' && opacity(node) > 0.05;
  };
  const say = (what, node) => {
    const text = (node.getAttribute('aria-label') || node.textContent || '').trim().slice(0, 40);
    found.add(`${what}: ${node.tagName.toLowerCase()} "${text}"`);
  };

  // 1.4.3: text stands out from what is behind it; a parent counts as behind only where it is.
  const channels = text => {
    const parts = (text.match(/rgba?\(([^)]+)\)/)?.[1] ?? '').split(/[ ,/]+/).filter(Boolean).map(Number);
    return parts.length < 3 ? null : [...parts.slice(0, 3), parts[3] ?? 1];
  };
  const over = (top, under) => [0, 1, 2].map(i => top[i] * top[3] + under[i] * (1 - top[3])).concat(1);
  const ground = node => {
    const own = node.getBoundingClientRect(), x = own.x + own.width / 2, y = own.y + own.height / 2;
    const layers = [];
    for (const at of above(node)) {
      const box = at.getBoundingClientRect();
      const isBehind = x >= box.left && x <= box.right && y >= box.top && y <= box.bottom;
      const colour = channels(style(at).backgroundColor);
      if (colour?.[3] > 0 && (isBehind || at.matches('html, body, .stApp'))) layers.push(colour);
    }
    return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255, 1]);
  };
  const luminance = colour => {
    const linear = colour.slice(0, 3).map(value => value / 255)
      .map(value => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const contrast = (one, other) => {
    const [high, low] = [luminance(one), luminance(other)].sort((a, b) => b - a);
    return (high + 0.05) / (low + 0.05);
  };
  const isOff = node => [...above(node)].some(at => at.disabled || at.getAttribute('aria-disabled') === 'true');
  for (const node of all) {
    const hasText = [...node.childNodes].some(child => child.nodeType === 3 && child.textContent.trim());
    if (!hasText || node.matches('script, style, noscript, title') || !isSeen(node) || isOff(node)) continue;
    const isDrawn = node instanceof SVGElement;
    const colour = channels(isDrawn ? style(node).fill : style(node).color);
    if (!colour) continue;
    const behind = ground(isDrawn ? node.ownerSVGElement.parentElement : node);
    const ratio = contrast(over([...colour.slice(0, 3), colour[3] * opacity(node)], behind), behind);
    const size = parseFloat(style(node).fontSize), isBold = Number(style(node).fontWeight) >= 700;
    if (ratio < (size >= 24 || (isBold && size >= 18.66) ? 3 : 4.5)) say(`contrast ${ratio.toFixed(2)}`, node);
  }

  // 4.1.2, 1.1.1: whatever can be used or is a picture has a name.
  const name = node => {
    const named = (node.getAttribute('aria-labelledby') ?? '').split(/\s+/).filter(Boolean)
      .map(id => node.getRootNode().getElementById?.(id)?.textContent ?? '').join(' ');
    const labels = [...(node.labels ?? [])].map(label => label.textContent).join(' ');
    const own = node.matches('input, select, textarea') ? '' : node.textContent;
    return [named, node.getAttribute('aria-label'), labels, own, node.getAttribute('title'), node.getAttribute('alt')]
      .some(text => text?.trim());
  };
  const ROLES = ['button', 'link', 'slider', 'tab', 'combobox', 'checkbox', 'radio', 'textbox', 'progressbar', 'img', 'dialog'];
  const USED = 'a[href], button, input:not([type=hidden]), select, textarea, summary';
  for (const node of all) {
    const isHidden = [...above(node)].some(at => at.getAttribute('aria-hidden') === 'true');
    if (isHidden && isSeen(node) && node.matches('a[href], button:not([disabled])') && node.tabIndex >= 0)
      say('can be focused, though hidden', node);
    if (isHidden || !isSeen(node)) continue;
    if ((node.matches(USED) || node.matches('img') || ROLES.includes(node.getAttribute('role'))) && !name(node)) say('no name', node);
    if (Number(node.getAttribute('tabindex')) > 0) say('comes before its turn', node);
    const box = node.getBoundingClientRect();
    if (node.matches('button, [role=tab]') && Math.min(box.width, box.height) < 23.5) say('smaller than 24 px', node);  // 2.5.8
  }

  // 1.3.1, 2.4.2, 3.1.1: headings in order, tables with heads, a title, a language, one main part.
  let last = 0;
  for (const node of all.filter(node => /^H[1-6]$/.test(node.tagName) && isSeen(node))) {
    const level = Number(node.tagName[1]);
    if (level > last + 1 || (level === 1 && last)) say('heading out of order', node);
    last = level;
  }
  for (const node of document.querySelectorAll('table')) if (!node.querySelector('th')) say('no head', node);
  if (!last || !document.title || !document.documentElement.lang || !document.querySelector('main, [role=main]'))
    found.add('no heading, title, language or main part');
  return [...found];
}

"""What a page is checked for, as JavaScript: things without a name, too small to press, too pale to read."""

NAMELESS = """all => all.filter(one => !(one.labels?.length || one.getAttribute('aria-label') ||
    one.getAttribute('aria-labelledby') || one.textContent.trim())).map(one => one.outerHTML)"""
SMALL = """all => all.filter(one => one.offsetParent && Math.min(one.offsetHeight, one.offsetWidth) < 40)
    .map(one => one.outerHTML)"""
CONTRAST = """([ground, parts]) => {
  const light = colour => {
    const [r, g, b] = colour.match(/[\\d.]+/g).map(Number).map(v => v / 255)
      .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  const card = light(getComputedStyle(document.querySelector(ground)).backgroundColor);
  return parts.map(one => ratio(light(getComputedStyle(document.querySelector(one)).color), card));
}"""

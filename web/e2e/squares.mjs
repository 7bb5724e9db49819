// Where squares of the map are, for those who click them.

/** Finds the middle of the first square of a colour on the map, in the window's coordinates. */
export async function square(p, label) {
  return p.evaluate((text) => {
    const item = [...document.querySelectorAll('.legend li')].find((li) => li.textContent.includes(text));
    if (!item) return null;
    const [r, g, b] = getComputedStyle(item.querySelector('i')).backgroundColor.match(/\d+/g).map(Number);
    const canvas = document.querySelector('.map-area canvas');
    const { width, height } = canvas;
    const { data } = canvas.getContext('2d').getImageData(0, 0, width, height);
    const is = (x, y) => {
      const i = (y * width + x) * 4;
      return data[i] === r && data[i + 1] === g && data[i + 2] === b;
    };
    for (let y = 4; y < height - 8; y++) {
      for (let x = 4; x < width - 8; x++) {
        if (is(x, y) && is(x + 3, y + 3)) {
          const box = canvas.getBoundingClientRect();
          const ratio = width / box.width;
          return { x: box.left + (x + 3) / ratio, y: box.top + (y + 3) / ratio };
        }
      }
    }
    return null;
  }, label);
}

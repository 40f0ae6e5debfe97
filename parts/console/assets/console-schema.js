// Zooms the diagram, with buttons and Ctrl and the wheel, and moves it while the mouse button is held.
const canvas = document.querySelector(".canvas");
const diagram = canvas?.querySelector("svg");
const MOVED = 4;

if (diagram) {
  const [, , width, height] = diagram.getAttribute("viewBox").split(" ").map(Number);
  let scale = 1;

  /** Scales the diagram. The point at `x`, `y` of the frame stays where it is. */
  const zoomTo = (wanted, x = canvas.clientWidth / 2, y = canvas.clientHeight / 2) => {
    const before = scale;
    scale = Math.min(3, Math.max(0.15, wanted));
    diagram.setAttribute("width", width * scale);
    diagram.setAttribute("height", height * scale);
    canvas.scrollLeft = ((canvas.scrollLeft + x) * scale) / before - x;
    canvas.scrollTop = ((canvas.scrollTop + y) * scale) / before - y;
  };
  const fit = () => zoomTo(Math.min(1, canvas.clientWidth / width, canvas.clientHeight / height));

  const buttons = document.querySelector(".zoom");
  buttons.hidden = false;
  buttons.addEventListener("click", ({ target }) => {
    const { zoom } = target.dataset;
    if (zoom) zoom === "fit" ? fit() : zoomTo(scale * Number(zoom));
  });
  canvas.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const { left, top } = canvas.getBoundingClientRect();
      zoomTo(scale * (event.deltaY < 0 ? 1.1 : 0.9), event.clientX - left, event.clientY - top);
    },
    { passive: false },
  );

  let held = null;
  let hasMoved = false;
  canvas.addEventListener("pointerdown", ({ button, pointerType, clientX, clientY }) => {
    hasMoved = false;
    if (button === 0 && pointerType === "mouse") held = { x: canvas.scrollLeft + clientX, y: canvas.scrollTop + clientY, clientX, clientY };
  });
  window.addEventListener("pointermove", ({ clientX, clientY }) => {
    if (held === null) return;
    hasMoved ||= Math.hypot(clientX - held.clientX, clientY - held.clientY) > MOVED;
    if (hasMoved) canvas.scrollTo(held.x - clientX, held.y - clientY);
  });
  window.addEventListener("pointerup", () => {
    held = null;
  });
  // Moving the diagram opens no table.
  canvas.addEventListener("click", (event) => hasMoved && event.preventDefault(), true);
  canvas.addEventListener("dragstart", (event) => event.preventDefault());
  fit();
}

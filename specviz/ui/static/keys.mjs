// Keyboard of the race view: space plays, arrows step, Home and End jump. Pure but for reading the event.

export const OWN_KEYS = "input, textarea, select, [contenteditable=true], [role=textbox], [role=listbox], [role=tab], [role=slider]:not(.sv-plot)";

/** Acts on keys pressed inside the view, or anywhere while nothing on the page has the focus. */
export function handleKey(event, root, actions) {
  const { target, key } = event;
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  const inside = root.contains(target);
  if (!inside && target !== document.body) return;
  if (!inside && !isOnScreen(root)) return;
  if (inside && target.closest(OWN_KEYS)) return;
  if (key === " " && target.closest("button")) return;
  if (["Home", "End"].includes(key) && target.closest(".sv-text")) return;
  const act = {
    " ": actions.toggle,
    ArrowLeft: () => actions.step(-1),
    ArrowRight: () => actions.step(1),
    Home: actions.first,
    End: actions.last,
  }[key];
  if (!act) return;
  event.preventDefault();
  act();
}

function isOnScreen(root) {
  const { top, bottom, height } = root.getBoundingClientRect();
  return height > 0 && bottom > 0 && top < innerHeight;
}

// Style sheets of the components, each loaded once.

/** Resolves when all of them are there (or cannot be). */
export const loadStyles = (...names) => Promise.all(names.map(loadStyle));

function loadStyle(name) {
  const href = new URL(name, import.meta.url).href;
  if (document.querySelector(`link[href="${CSS.escape(href)}"]`)) return null;
  const link = Object.assign(document.createElement("link"), { rel: "stylesheet", href });
  const loaded = new Promise((resolve) => {
    link.onload = link.onerror = resolve;
  });
  document.head.append(link);
  return loaded;
}

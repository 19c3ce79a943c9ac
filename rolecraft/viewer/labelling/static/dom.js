// Making elements. Text goes in as text nodes and nowhere as markup, so whatever a trace says is
// shown and never run. The page's policy (Trusted Types) has the browser refuse anything else.

/** An element. `props`: `on…` are listeners, `data` its dataset, `class`; others are attributes. */
export function el(tag, props = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || (value === false && !name.startsWith("aria-"))) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "data") Object.assign(made.dataset, value);
    else if (name === "class") made.className = value;
    else if (name === "value") made.value = value;
    else made.setAttribute(name, value === true && !name.startsWith("aria-") ? "" : String(value));
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

export function fill(parent, ...children) {
  parent.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return parent;
}

/** Our own prose, with `names` in code. */
export function words(text) {
  return text.split("`").map((part, at) => (at % 2 ? el("code", {}, part) : part));
}

export function count(number, thing, things = `${thing}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? thing : things}`;
}

/** A line above the page about something that went wrong; it stays until it is closed. */
export function alertUser(text, ...actions) {
  const line = el("div", { class: "alert" }, el("span", {}, text), ...actions);
  line.append(el("button", { type: "button", class: "quiet", onclick: () => line.remove() }, "Close"));
  const alerts = document.getElementById("alerts");
  for (const other of alerts.children) if (other.firstChild.textContent === text) return other;
  alerts.append(line);
  return line;
}

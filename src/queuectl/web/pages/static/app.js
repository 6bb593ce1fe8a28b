// What makes pages live: local times, keys, buttons that ask the API, and news of the server.
"use strict";

const base = document.body.dataset.base;
const api = document.body.dataset.api;
const main = document.getElementById("main");
const $ = (name, ...children) => {
  const made = document.createElement(name);
  made.append(...children);
  return made;
};

// -- times ----------------------------------------------------------------------------------

const pad = (number) => String(number).padStart(2, "0");
const day = (at) => `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
const clock = (at) => `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;

function ago(ms) {
  const seconds = Math.abs(ms) / 1000;
  const steps = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const [size, unit] = steps.find(([size]) => seconds >= size) ?? [1, "s"];
  const text = `${Math.floor(seconds / size)} ${unit}`;
  return ms < 0 ? `in ${text}` : `${text} ago`;
}

function localise(root) {
  const now = new Date();
  for (const time of root.querySelectorAll("time")) {
    const at = new Date(time.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    const whole = `${day(at)} ${clock(at)}`;
    if (time.classList.contains("rel")) {
      time.title = whole;
      time.textContent = ago(now - at);
    } else {
      time.textContent = day(at) === day(now) ? clock(at) : whole;
      time.title = `${whole} (${time.dateTime})`;
    }
  }
}

// -- what is said ------------------------------------------------------------------------------

// With an action, what is said can be undone; the audit log has it for ten minutes.
function toast(text, kind = "good", action = null) {
  const made = $("p", text);
  made.className = `toast ${kind}`;
  if (action) {
    const button = $("button", "Undo");
    button.type = "button";
    button.addEventListener("click", () => { made.remove(); undo(action); });
    made.append(" ", button);
  }
  document.getElementById("toasts").append(made);
  setTimeout(() => made.remove(), action ? 30000 : kind === "bad" ? 10000 : 4000);
}

// What is said on the page that comes next.
const LATER = "queuectl-said";

function sayThere(text) {
  try {
    sessionStorage.setItem(LATER, text);
  } catch {
    // Then it goes without saying.
  }
}

function sayHere() {
  try {
    const text = sessionStorage.getItem(LATER);
    sessionStorage.removeItem(LATER);
    if (text) toast(text);
  } catch {
    // A browser that keeps nothing has nothing to say.
  }
}

// Asks in a dialog, and says whether the answer was yes. What `about` writes into it comes later.
function ask(text, yes, no, about) {
  const dialog = $("dialog");
  const form = $("form");
  form.method = "dialog";
  const title = $("h2", text);
  const detail = $("div");
  detail.setAttribute("role", "status");
  const good = $("button", yes);
  good.value = "yes";
  good.className = "main";
  const bad = $("button", no);
  bad.value = "no";
  const actions = $("div", good, bad);
  actions.className = "actions";
  form.append(title, detail, actions);
  dialog.append(form);
  dialog.setAttribute("aria-label", text);
  document.body.append(dialog);
  dialog.showModal();
  if (about) {
    good.disabled = true;
    about(detail, good, title);
  }
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
  });
}

// -- asking the API ----------------------------------------------------------------------------

async function send(method, path, body) {
  // What is tried anew makes old what was wrong before.
  if (method !== "GET") for (const old of document.querySelectorAll(".toast.bad")) old.remove();
  const options = { method, headers: {} };
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers["Content-Type"] = "application/json";
  }
  const reply = await fetch(api + path, options);
  if (reply.ok) return reply;
  let problem = { detail: `${reply.status} ${reply.statusText}` };
  try {
    problem = await reply.json();
  } catch {
    // It wasn't one of our own errors.
  }
  throw Object.assign(new Error(problem.detail), { field: problem.field, status: reply.status });
}

// Changes many jobs, or says what would be; hears of each as it comes. Returns how many there were.
async function change(body, heard = () => {}, path = "/bulk/changes") {
  const reply = await send("POST", path, body);
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  const count = { good: 0, bad: 0, why: new Map(), problem: null, action: reply.headers.get("Queuectl-Action") };
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    const lines = (rest + (value ?? "")).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      const said = JSON.parse(line);
      if (said.problem) count.problem = said.problem.detail;
      else if (said.error) {
        count.bad += 1;
        const why = said.error.replaceAll(said.id, "…");
        count.why.set(why, (count.why.get(why) ?? 0) + 1);
      }
      else count.good += 1;
    }
    heard(count);
    if (done) return count;
  }
}

const number = (many) => many.toLocaleString("en");
const jobs = (many) => `${number(many)} ${many === 1 ? "job" : "jobs"}`;
const VERBS = {
  retry: ["Retry", "back in line", "Leave"],
  cancel: ["Cancel", "cancelled", "Keep"],
  hold: ["Hold", "held", "Leave"],
  release: ["Release", "released", "Leave"],
  remove: ["Delete", "deleted", "Keep"],
};

// Says why some can't be changed, the most frequent reasons first.
function reasons(why) {
  const most = [...why].sort((one, other) => other[1] - one[1]).slice(0, 5);
  return $("ul", ...most.map(([text, many]) => $("li", `${jobs(many)}: ${text}`)));
}

// Says which other jobs are cancelled as well, as they wait for those that are meant.
async function takenAlong(detail, path) {
  const along = await (await send("GET", path)).json();
  if (!along.jobs) return;
  const some = along.ids.slice(0, 5).join(", ");
  const more = along.ids.length > 5 ? ", …" : "";
  const least = along.whole ? "" : "At least ";
  const [others, wait] = along.jobs === 1 ? ["other job", "waits for that, and is"] : ["other jobs", "wait for that, and are"];
  detail.append($("p", `${least}${number(along.jobs)} ${others} ${wait} cancelled as well: ${some}${more}.`));
}

async function bulk(what, which, { only, along, note } = {}) {
  const [verb, done, no] = VERBS[what];
  const sure = await ask(`${verb} jobs`, `${verb} jobs`, `${no} them`, async (detail, good, title) => {
    detail.textContent = "Counting …";
    try {
      const count = await change({ do: what, dry_run: true, ...which }, (now) => {
        detail.textContent = `Counting … ${number(now.good)}`;
      });
      if (count.problem) throw new Error(count.problem);
      title.textContent = `${verb} ${jobs(count.good)}?`;
      detail.replaceChildren($("p", `This hits ${jobs(count.good)}.`));
      if (what === "remove") detail.append($("p", "That can't be undone."));
      if (only) detail.append($("p", `Of those that fit, only jobs that are ${only} are meant.`));
      if (note && count.good) detail.append($("p", note));
      if (along && count.good) await takenAlong(detail, along);
      if (count.bad) {
        detail.append($("p", `${jobs(count.bad)} can't be ${done}, and stay as they are:`), reasons(count.why));
      }
      good.textContent = `${verb} ${jobs(count.good)}`;
      good.disabled = count.good === 0;
      if (!good.disabled) good.focus();
    } catch (error) {
      detail.textContent = error.message;
    }
  });
  if (!sure) return;
  const pending = $("p", `${verb} …`);
  pending.className = "toast";
  document.getElementById("toasts").append(pending);
  try {
    const count = await change({ do: what, ...which }, (now) => {
      pending.textContent = `${verb} … ${number(now.good)}`;
    });
    if (count.problem) throw new Error(count.problem);
    const left = count.bad ? `, ${number(count.bad)} ${count.bad === 1 ? "was" : "were"} not` : "";
    toast(`${jobs(count.good)} ${done}${left}.`, "good", count.action);
  } catch (error) {
    toast(error.message, "bad");
  } finally {
    pending.remove();
    untick();
    renew(true);
  }
}

// Takes back what an action did, if need be after a look at what that would be.
async function undo(action, look = false) {
  const path = `/actions/${encodeURIComponent(action)}/undo`;
  const about = async (detail, good, title) => {
    try {
      const count = await change({ dry_run: true }, undefined, path);
      if (count.problem) throw new Error(count.problem);
      title.textContent = `Undo that for ${jobs(count.good)}?`;
      good.textContent = `Bring back ${jobs(count.good)}`;
      good.disabled = count.good === 0;
      if (count.bad) {
        detail.replaceChildren($("p", `${jobs(count.bad)} can't be, and stay as they are:`), reasons(count.why));
      }
    } catch (error) {
      detail.textContent = error.message;
    }
  };
  if (look && !(await ask("Undo that?", "Bring back jobs", "Leave them", about))) return;
  try {
    const count = await change({}, undefined, path);
    if (count.problem) throw new Error(count.problem);
    if (count.good) toast(`${jobs(count.good)} brought back.`);
    for (const [why, many] of count.why) toast(`${jobs(many)}: ${why}`, "bad");
  } catch (error) {
    toast(error.message, "bad");
  } finally {
    renew(true);
  }
}

async function act(button) {
  const { do: method, path, sure, yes, no, done, body, go, tells } = button.dataset;
  if (sure && !(await ask(sure, yes, no))) return;
  button.disabled = true;
  // What we take away ourselves isn't looked at any more.
  over = Boolean(go);
  if (over) await looking;
  try {
    const reply = await send(method, path, body ? JSON.parse(body) : undefined);
    if (go) {
      if (done) sayThere(done);
      location.assign(base + go);
      return;
    }
    if (tells !== undefined) {
      const said = await reply.json();
      toast(said.error ?? `HTTP ${said.status} ${said.reason}`, said.delivered ? "good" : "bad");
    } else if (done) toast(done, "good", reply.headers.get("Queuectl-Action"));
    for (const form of button.closest("[data-row]")?.querySelectorAll("form") ?? []) form.reset();
    renew(true);
  } catch (error) {
    over = false;
    toast(error.message, "bad");
  } finally {
    button.disabled = false;
  }
}

// Browsers keep the clipboard from pages that came without TLS, but for what is selected there.
async function copied(element) {
  try {
    await navigator.clipboard.writeText(element.textContent);
    return true;
  } catch {
    getSelection().selectAllChildren(element);
    return document.execCommand("copy");
  }
}

// Shows a secret, which nobody can ask for a second time, until somebody has taken it.
function show(title, secret) {
  const code = $("code", secret);
  const copy = $("button", "Copy");
  copy.type = "button";
  copy.addEventListener("click", async () => { copy.textContent = (await copied(code)) ? "Copied" : "Copy it by hand"; });
  const close = $("button", "I have it");
  close.className = "main";
  const actions = $("div", close, copy);
  actions.className = "actions";
  const form = $("form", $("h2", title), $("p", code), $("p", "It is shown only now."), actions);
  form.method = "dialog";
  const dialog = $("dialog", form);
  dialog.setAttribute("aria-label", title);
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve();
    });
  });
}

async function set(form) {
  try {
    await send("PUT", form.dataset.api, { value: form.elements.value.value });
    sayThere(form.dataset.done);
    location.reload();
  } catch (error) {
    toast(error.message, "bad");
  }
}

const boxes = () => [...main.querySelectorAll("td.pick input")];
const chosen = () => boxes().filter((box) => box.checked).map((box) => box.value);

function count() {
  const which = document.getElementById("bulk-which");
  if (!which) return;
  which.options[0].textContent = `those chosen (${chosen().length})`;
  document.getElementById("frozen").hidden = !chosen().length;
}

function untick() {
  for (const box of main.querySelectorAll(".pick input")) box.checked = false;
  count();
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if (button.dataset.do) act(button);
  else if (button.dataset.undo) undo(button.dataset.undo, true);
  else if (button.dataset.group) {
    const { group, ids, filter, along, note } = button.dataset;
    bulk(group, ids ? { ids: JSON.parse(ids) } : { filter: JSON.parse(filter) }, { along, note });
  }
  else if (button.dataset.bulk) {
    const bar = document.getElementById("bulk");
    if (document.getElementById("bulk-which").value === "all") {
      bulk(button.dataset.bulk, { filter: JSON.parse(bar.dataset.filter) }, { only: button.dataset.only });
    } else if (chosen().length) bulk(button.dataset.bulk, { ids: chosen() });
    else toast("Choose some jobs first, or say that all that fit are meant.", "bad");
  } else if (button.id === "untick") {
    untick();
    renew(true);
  } else if (button.id === "theme") nextTheme(button);
  else if (button.id === "help") help();
});

document.addEventListener("submit", (event) => {
  if (event.target.dataset.api) {
    event.preventDefault();
    set(event.target);
  }
});

document.addEventListener("change", (event) => {
  if (event.target.id === "all") for (const box of boxes()) box.checked = event.target.checked;
  if (event.target.closest(".pick")) count();
});

// -- colours -------------------------------------------------------------------------------------

const THEMES = ["automatic", "light", "dark"];

function nextTheme(button) {
  const root = document.documentElement;
  const next = THEMES[(THEMES.indexOf(root.dataset.theme ?? "automatic") + 1) % THEMES.length];
  if (next === "automatic") delete root.dataset.theme;
  else root.dataset.theme = next;
  try {
    if (next === "automatic") localStorage.removeItem("queuectl-theme");
    else localStorage.setItem("queuectl-theme", next);
  } catch {
    // Then it holds for this page only.
  }
  label(button);
}

function label(button) {
  const chosen = document.documentElement.dataset.theme ?? "automatic";
  button.textContent = { automatic: "◐", light: "☀", dark: "☾" }[chosen];
  button.setAttribute("aria-label", `Colours: ${chosen}`);
  button.title = `Colours: ${chosen}`;
}

// -- keys ----------------------------------------------------------------------------------------

const KEYS = [
  ["/", "search; on the page of a job, find in its output"],
  ["Enter, Shift Enter", "in that field: the next and the previous that was found"],
  ["Esc", "leave a field, or a dialog"],
  ["j  k", "next and previous row"],
  ["Enter", "open the row"],
  ["x", "choose the row"],
  ["g then o j d g q s w n a", "go to overview, jobs, dead letters, groups, queues, schedules, webhooks, nodes, audit log"],
  ["g then e c", "go to settings, access"],
  ["← →", "on a chart: what was when"],
  ["t", "change the colours"],
  ["?", "this help"],
];
const PLACES = {
  o: "/", j: "/jobs", d: "/dead", g: "/groups", q: "/queues", s: "/schedules", w: "/webhooks", n: "/nodes", a: "/events",
  e: "/settings", c: "/access",
};
let going = false;

function help() {
  const list = $("dl");
  for (const [keys, what] of KEYS) list.append($("dt", $("kbd", keys)), $("dd", what));
  const close = $("button", "Close");
  const form = $("form", $("h2", "Keys"), list, close);
  form.method = "dialog";
  const dialog = $("dialog", form);
  dialog.setAttribute("aria-label", "Keys");
  document.body.append(dialog);
  dialog.addEventListener("close", () => dialog.remove());
  dialog.showModal();
}

const rows = () => [...main.querySelectorAll("[data-row]")];

const opening = (row) => row.querySelector("[data-open]") ?? row.querySelector("a, button");

function move(by) {
  const all = rows();
  if (!all.length) return;
  const at = all.findIndex((row) => row.classList.contains("at"));
  const next = all[Math.min(Math.max(at + by, 0), all.length - 1)];
  for (const row of all) row.classList.toggle("at", row === next);
  opening(next)?.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const inField = event.target.closest("input:not([type=checkbox]), textarea, select");
  if (event.key === "Escape" && inField) return inField.blur();
  if (inField) return;
  const current = main.querySelector("[data-row].at");
  if (going) {
    going = false;
    if (PLACES[event.key]) location.assign(base + PLACES[event.key]);
    return;
  }
  const deeds = {
    "/": () => {
      const search = document.getElementById("search") ?? document.getElementById("find");
      if (search) search.focus();
      else location.assign(`${base}/jobs#search`);
    },
    j: () => move(1),
    k: () => move(-1),
    x: () => current?.querySelector("input[type=checkbox]")?.click(),
    g: () => { going = true; setTimeout(() => { going = false; }, 1500); },
    t: () => document.getElementById("theme").click(),
    "?": help,
    Enter: () => {
      if (current && !event.target.closest("a, button")) opening(current)?.click();
      else return false;
    },
  };
  const deed = deeds[event.key];
  if (deed && deed() !== false && event.key !== "Enter") event.preventDefault();
});

// -- charts: what was when ---------------------------------------------------------------------------

function point(chart, at) {
  const spots = [...chart.querySelectorAll(".spot")];
  const now = Math.min(Math.max(at, 0), spots.length - 1);
  spots.forEach((spot, number) => spot.classList.toggle("on", number === now));
  const cells = [...(chart.querySelectorAll("tbody tr")[now]?.cells ?? [])];
  const names = [...chart.querySelectorAll("thead th")].map((one) => one.textContent);
  const said = cells.map((cell, number) => (number ? `${names[number]} ${cell.textContent}` : cell.textContent.trim()));
  chart.querySelector(".reading").textContent = said.join(" · ");
  chart.dataset.at = now;
}

document.addEventListener("pointermove", (event) => {
  const drawn = event.target.closest?.(".chart svg");
  if (!drawn) return;
  const { left, width } = drawn.getBoundingClientRect();
  const chart = drawn.closest(".chart");
  const many = chart.querySelectorAll(".spot").length;
  point(chart, Math.floor(((event.clientX - left) / width) * many));
});

document.addEventListener("keydown", (event) => {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!step || !event.target.matches?.(".plot")) return;
  event.preventDefault();
  const chart = event.target.closest(".chart");
  const last = chart.querySelectorAll(".spot").length - 1;
  point(chart, "at" in chart.dataset ? Number(chart.dataset.at) + step : last);
});

// -- what is new -----------------------------------------------------------------------------------

let every = 2000; // milliseconds; the server says more if many look
let known = ""; // what we were shown last
let stale = 0;
let asking = false;
let over = false; // whether what the page is about is gone

// Has the live parts of the page drawn anew by the server.
async function renew(now = false) {
  // Once more after that: what we are shown may be a second old.
  stale = 2;
  if (now) await look("fresh");
}

let looking = Promise.resolve();

async function look(part = "main") {
  if (asking || over || !stale || document.hidden) return;
  asking = true;
  stale -= 1;
  looking = renewed(part);
  await looking;
}

async function renewed(part) {
  try {
    const headers = { "X-Part": part, "If-None-Match": known };
    const reply = await fetch(location.pathname + location.search, { headers });
    if (reply.status === 401) return location.reload();
    if (reply.status === 404) return over || gone();
    pulse(true);
    known = reply.headers.get("ETag") ?? known;
    if (reply.ok) put(new DOMParser().parseFromString(await reply.text(), "text/html"));
  } catch {
    pulse(false);
  } finally {
    asking = false;
  }
}

function gone() {
  over = true;
  const said = $("p", "This was deleted meanwhile. What is shown is how it was.");
  said.className = "note bad";
  said.id = "gone";
  said.setAttribute("role", "alert");
  main.prepend(said);
  for (const button of main.querySelectorAll("button, .actions a")) button.remove();
}

const FIELDS = "input:not([type=checkbox]), textarea, select";
const isChanged = (field) => (field.options ? ![...field.selectedOptions].every((one) => one.defaultSelected) : field.value !== field.defaultValue);

// Of a drawing that stands as it did only what has changed is put anew; says whether it does.
function patched(piece, made) {
  const { frame } = piece.dataset;
  const [old, fresh] = [piece, made].map((one) => [...one.querySelectorAll("[data-part]")]);
  if (!frame || frame !== made.dataset.frame || old.length !== fresh.length) return false;
  old.forEach((one, at) => {
    if (one.isEqualNode(fresh[at])) return;
    const focused = one.contains(document.activeElement);
    one.replaceWith(fresh[at]);
    if (focused) fresh[at].querySelector("a")?.focus({ preventScroll: true });
  });
  return true;
}

// What somebody writes just now is left alone.
function put(fresh) {
  const current = main.querySelector("[data-row].at")?.dataset.row;
  const focused = document.activeElement;
  for (const piece of main.querySelectorAll("[data-live]")) {
    const other = fresh.getElementById(piece.id);
    const busy = piece.contains(focused) && focused.matches(FIELDS) || [...piece.querySelectorAll(FIELDS)].some(isChanged);
    if (!other || busy || piece.querySelector("td.pick input:checked")) {
      known = "";
      continue;
    }
    const made = document.importNode(other, true);
    localise(made);
    if (patched(piece, made)) continue;
    if (made.dataset.frame) piece.dataset.frame = made.dataset.frame;
    const same = piece.contains(focused) ? [...piece.querySelectorAll("a, button")].indexOf(focused) : -1;
    const scrolled = [...piece.querySelectorAll(".scroll")].map((one) => one.scrollLeft);
    const open = [...piece.querySelectorAll("details[open][id]")].map((one) => one.id);
    const plot = piece.contains(focused) && focused.matches(".plot") ? [...piece.querySelectorAll(".plot")].indexOf(focused) : -1;
    const points = [...piece.querySelectorAll(".chart")].map((one) => one.dataset.at);
    piece.replaceChildren(...made.childNodes);
    for (const id of open) document.getElementById(id)?.setAttribute("open", "");
    piece.querySelectorAll(".chart").forEach((one, at) => points[at] !== undefined && point(one, Number(points[at])));
    piece.querySelectorAll(".plot")[plot]?.focus({ preventScroll: true });
    piece.querySelectorAll(".scroll").forEach((one, at) => { one.scrollLeft = scrolled[at] ?? 0; });
    if (same >= 0) piece.querySelectorAll("a, button")[same]?.focus({ preventScroll: true });
  }
  if (current) {
    for (const row of rows()) row.classList.toggle("at", row.dataset.row === current);
  }
  document.dispatchEvent(new CustomEvent("renewed"));
}

const LOST_AFTER = 4000; // milliseconds: a server that is restarted is back by then
let losing = 0;

function pulse(good) {
  const sign = document.getElementById("pulse");
  if (!sign) return;
  const lost = document.getElementById("lost");
  if (good) {
    clearTimeout(losing);
    losing = 0;
    if (lost.textContent) toast("The connection is back.");
    lost.textContent = "";
  } else if (!losing) {
    losing = setTimeout(() => {
      lost.textContent = "The connection is lost. What is shown may be old; we try again by ourselves.";
    }, LOST_AFTER);
  }
  sign.classList.toggle("on", good);
  const text = good ? "live" : "connection lost";
  if (sign.firstElementChild.textContent !== text) sign.firstElementChild.textContent = text;
  sign.title = good ? "Live" : "Connection lost";
}

function listen() {
  if (!("live" in document.body.dataset)) {
    // Who is let in for some queues only isn't told of what happens in others.
    setInterval(() => renew(), 10000);
    return pulse(true);
  }
  let news = null;
  const open = () => {
    if (news || document.hidden) return;
    news = new EventSource(`${api}/live`);
    news.addEventListener("open", () => pulse(true));
    news.addEventListener("error", () => {
      pulse(false);
      // Where too many listen, a browser gives up: then we ask as those who can't listen do.
      if (news?.readyState === EventSource.CLOSED) {
        news = null;
        renew();
        setTimeout(open, 10000);
      }
    });
    news.addEventListener("pace", (said) => { every = 1000 * JSON.parse(said.data).seconds; });
    for (const name of ["status", "event", "reset"]) news.addEventListener(name, () => renew());
  };
  const close = () => {
    news?.close();
    news = null;
  };
  open();
  // A browser has few connections for all pages of a host: those that nobody looks at keep none.
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);
  addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
}

localise(document);
sayHere();
document.getElementById("here")?.scrollIntoView({ block: "nearest", inline: "center" });
setInterval(() => localise(document), 10000);
if (main.querySelector("[data-live]")) {
  listen();
  const go = () => {
    look();
    setTimeout(go, every);
  };
  setTimeout(go, every);
} else pulse(true);
label(document.getElementById("theme"));
if (location.hash === "#search") document.getElementById("search")?.focus();

// Follows what a job writes. All of it is text: what it means as colours is said by classes.
"use strict";
{
  const place = document.getElementById("output");
  const screen = document.getElementById("terminal");
  const stick = document.getElementById("stick");
  const find = document.getElementById("find");
  const found = document.getElementById("found");
  const MOST = 2_000_000; // letters that are shown; of more, the last
  const MOST_NODES = 10_000; // and pieces of one style, which may be a letter each
  const LONGEST = 10_000; // letters of a piece
  const COLOURS = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
  const ORDER = /\x1b(?:\[([0-?]*)[ -\/]*([@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])/g;

  // One of the two streams of one run.
  class Stream {
    constructor(pre) {
      this.pre = pre;
      this.style = new Set();
      this.rest = "";
    }

    write(text) {
      text = this.rest + text;
      // The beginning of an order whose end hasn't come yet waits for it.
      const open = text.lastIndexOf("\x1b");
      const cut = open >= 0 && !new RegExp(ORDER.source).test(text.slice(open)) && text.length - open < 100;
      this.rest = cut ? text.slice(open) : "";
      if (cut) text = text.slice(0, open);
      let from = 0;
      for (const order of text.matchAll(ORDER)) {
        this.put(text.slice(from, order.index));
        from = order.index + order[0].length;
        if (order[2] === "m") this.dress(order[1]);
      }
      this.put(text.slice(from));
    }

    put(text) {
      // Each run of returns is looked at once, however long it is.
      text = text.replace(/(?<!\r)\r+\n/g, "\n");
      if (!text) return;
      shown += text.length;
      const style = [...this.style].join(" ");
      const last = this.pre.lastChild;
      if (last?.className === style && last.firstChild.length < LONGEST) {
        last.firstChild.appendData(text);
        return;
      }
      const span = document.createElement("span");
      span.className = style;
      span.textContent = text;
      this.pre.append(span);
      nodes += 1;
      if (nodes > 2 * MOST_NODES) trim();
    }

    dress(codes) {
      const all = (codes || "0").split(";").map(Number);
      for (let at = 0; at < all.length; at += 1) {
        const code = all[at];
        const drop = (kind) => { for (const one of this.style) if (one.startsWith(kind)) this.style.delete(one); };
        if (code === 0) this.style.clear();
        else if (code === 1) this.style.add("bold");
        else if (code === 2) this.style.add("dim");
        else if (code === 3) this.style.add("italic");
        else if (code === 4) this.style.add("underline");
        else if (code === 22) { this.style.delete("bold"); this.style.delete("dim"); }
        else if (code === 23) this.style.delete("italic");
        else if (code === 24) this.style.delete("underline");
        else if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) {
          drop("fg-");
          this.style.add(`fg-${COLOURS[code % 10]}`);
        } else if (code === 39) drop("fg-");
        else if (code === 38 || code === 48) at += all[at + 1] === 5 ? 2 : all[at + 1] === 2 ? 4 : 0;
      }
    }
  }

  let shown = 0;
  let nodes = 0;
  let attempt = 0;
  let streams = {};
  let fresh = true;

  function note(text, kind = "said") {
    const line = document.createElement("p");
    line.className = `mark ${kind}`;
    line.textContent = text;
    screen.append(line);
    nodes += 1;
    shown += text.length;
    streams = {};
  }

  function begin(number) {
    if (fresh) screen.replaceChildren();
    fresh = false;
    if (number !== attempt) {
      attempt = number;
      note(`Attempt ${number}`);
    }
  }

  function stream(name) {
    if (screen.lastElementChild !== streams[name]?.pre) {
      const pre = document.createElement("pre");
      pre.className = name;
      screen.append(pre);
      nodes += 1;
      const made = new Stream(pre);
      made.style = streams[name]?.style ?? made.style;
      made.rest = streams[name]?.rest ?? "";
      streams[name] = made;
    }
    return streams[name];
  }

  function trim() {
    const isLong = () => shown > MOST || nodes > MOST_NODES;
    while (isLong() && screen.firstElementChild !== screen.lastElementChild) {
      const first = screen.firstElementChild;
      shown -= first.textContent.length;
      nodes -= 1 + first.childElementCount;
      first.remove();
    }
    const only = screen.firstElementChild;
    while (isLong() && only && only.childNodes.length > 1) {
      shown -= only.firstChild.textContent.length;
      nodes -= 1;
      only.firstChild.remove();
    }
  }

  let due = false;
  function settle() {
    if (due) return;
    due = true;
    requestAnimationFrame(() => {
      due = false;
      trim();
      if (stick.checked) screen.scrollTop = screen.scrollHeight;
      if (find.value) seek();
    });
  }

  const decoder = (text) => new TextDecoder().decode(Uint8Array.from(atob(text), (one) => one.charCodeAt(0)));

  let source = null;
  let last = "";

  function follow() {
    if (source || place.dataset.ended || document.hidden) return;
    const path = `/jobs/${encodeURIComponent(place.dataset.job)}/follow`;
    source = new EventSource(document.body.dataset.api + path + (last ? `?since=${last}` : ""));
    const heard = (name, run) => source.addEventListener(name, (event) => {
      last = event.lastEventId || last;
      run(JSON.parse(event.data));
      settle();
    });
    heard("output", (said) => {
      begin(said.attempt);
      stream(said.stream).write(said.text ?? decoder(said.base64));
    });
    heard("gap", (said) => { begin(said.attempt); note(`${said.bytes} bytes of ${said.stream} are left out`); });
    heard("note", (said) => { if (!fresh) note(said.text); });
    heard("trouble", (said) => { source.close(); note(said.detail, "bad"); });
    heard("end", (said) => {
      source.close();
      if (fresh) { screen.replaceChildren(); fresh = false; note("Nothing was written."); }
      place.dataset.ended = said.state ?? "gone";
      place.classList.remove("live");
    });
    source.addEventListener("open", () => place.classList.add("live"));
  }

  function rest() {
    source?.close();
    source = null;
    place.classList.remove("live");
  }

  // -- finding ---------------------------------------------------------------------------------

  let hits = [];
  let at = -1;

  function seek() {
    const wanted = find.value.toLowerCase();
    hits = [];
    if (wanted) {
      const walker = document.createTreeWalker(screen, NodeFilter.SHOW_TEXT);
      while (walker.nextNode() && hits.length < 5000) {
        const text = walker.currentNode.data.toLowerCase();
        for (let from = text.indexOf(wanted); from >= 0; from = text.indexOf(wanted, from + wanted.length)) {
          const range = new Range();
          range.setStart(walker.currentNode, from);
          range.setEnd(walker.currentNode, from + wanted.length);
          hits.push(range);
        }
      }
    }
    if (globalThis.CSS?.highlights) CSS.highlights.set("found", new Highlight(...hits));
    found.textContent = wanted ? `${hits.length} found` : "";
  }

  find.addEventListener("input", () => { at = -1; seek(); });
  find.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !hits.length) return;
    event.preventDefault();
    stick.checked = false;
    at = (at + (event.shiftKey ? hits.length - 1 : 1)) % hits.length;
    hits[at].startContainer.parentElement.scrollIntoView({ block: "nearest" });
    if (globalThis.CSS?.highlights) CSS.highlights.set("here", new Highlight(hits[at]));
    found.textContent = `${at + 1} of ${hits.length}`;
  });
  screen.addEventListener("wheel", () => {
    stick.checked = screen.scrollTop + screen.clientHeight >= screen.scrollHeight - 40;
  }, { passive: true });
  stick.addEventListener("change", settle);

  follow();
  // As the stream of news: what nobody looks at goes on from here when somebody does again.
  document.addEventListener("visibilitychange", () => (document.hidden ? rest() : follow()));
  addEventListener("pagehide", rest);
}

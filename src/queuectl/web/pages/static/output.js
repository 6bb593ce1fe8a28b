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
  const LINE = 400; // letters of a line that can be overwritten
  const COLOURS = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
  const ORDER = /\x1b(?:\[([0-?]*)[ -\/]*([@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])/g;

  function piece(run) {
    const made = document.createElement("span");
    made.className = run.style;
    made.textContent = run.text;
    return made;
  }

  function cutRuns(runs, from, to = Infinity) {
    const found = [];
    let at = 0;
    for (const { text, style } of runs) {
      const part = text.slice(Math.max(from - at, 0), Math.max(to - at, 0));
      if (part) found.push({ text: part, style });
      at += text.length;
    }
    return found;
  }

  // One of the two streams of one run. The line that isn't ended yet can be overwritten, as progress
  // bars do: it is kept as runs of letters of one style, at the end of what is shown.
  class Stream {
    constructor(pre) {
      this.pre = pre;
      this.tail = document.createElement("span");
      pre.append(this.tail);
      this.style = new Set();
      this.rest = "";
      this.line = [];
      this.width = 0;
      this.column = 0;
    }

    write(text) {
      text = this.rest + text;
      // The beginning of an order whose end hasn't come yet waits for it.
      const open = text.lastIndexOf("\x1b");
      const cut = open >= 0 && !new RegExp(ORDER.source).test(text.slice(open)) && text.length - open < 100;
      this.rest = cut ? text.slice(open) : "";
      if (cut) text = text.slice(0, open);
      // So does a return: what follows says whether it ends the line or has it overwritten.
      const returned = /(?<!\r)\r+$/.exec(text);
      if (returned && !cut) {
        this.rest = "\r";
        text = text.slice(0, returned.index);
      }
      let from = 0;
      for (const order of text.matchAll(ORDER)) {
        this.put(text.slice(from, order.index));
        from = order.index + order[0].length;
        if (order[2] === "m") this.dress(order[1]);
        else if (order[2] === "K") this.erase(order[1]);
      }
      this.put(text.slice(from));
      this.draw();
    }

    draw() {
      nodes += this.line.length - this.tail.childElementCount;
      this.tail.replaceChildren(...this.line.map(piece));
    }

    put(text) {
      // Each run of returns is looked at once, however long it is.
      const lines = text.replace(/(?<!\r)\r+\n/g, "\n").split("\n");
      lines.forEach((line, number) => {
        if (number) this.end();
        for (const part of line.split(/(?<!\r)(\r+)/)) {
          if (part.startsWith("\r")) this.column = 0;
          else if (part) this.lay(part);
        }
      });
    }

    // Lays text over the line, from where it goes on.
    lay(text) {
      const run = { text, style: [...this.style].join(" ") };
      const end = this.column + text.length;
      if (this.column === this.width) this.line.push(run);
      else this.line = [...cutRuns(this.line, 0, this.column), run, ...cutRuns(this.line, end)];
      this.column = end;
      this.width = Math.max(this.width, end);
      if (end > LINE) this.flush();
    }

    erase(how) {
      if (how !== "" && how !== "0" && how !== "2") return;
      this.line = cutRuns(this.line, 0, how === "2" ? 0 : this.column);
      this.width = this.line.reduce((sum, run) => sum + run.text.length, 0);
      this.column = Math.min(this.column, this.width);
    }

    end() {
      this.line.push({ text: "\n", style: "" });
      this.flush();
    }

    // What is before the tail isn't changed any more.
    flush() {
      for (const run of this.line) {
        shown += run.text.length;
        const last = this.tail.previousSibling;
        if (last?.className === run.style && last.firstChild.length < LONGEST) {
          last.firstChild.appendData(run.text);
        } else {
          this.tail.before(piece(run));
          nodes += 1;
          if (nodes > 2 * MOST_NODES) trim();
        }
      }
      this.line = [];
      this.width = 0;
      this.column = 0;
    }

    // What comes next goes elsewhere.
    leave() {
      this.flush();
      this.draw();
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
  const seen = new Set(); // the streams of which there is something

  function note(text, kind = "said") {
    for (const one of Object.values(streams)) one.leave();
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
      for (const one of Object.values(streams)) one.leave();
      const pre = document.createElement("pre");
      pre.className = name;
      screen.append(pre);
      nodes += 2;
      seen.add(name);
      place.classList.toggle("mixed", seen.size > 1);
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
  let next = 1; // the attempt that comes if it is retried
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
      source = null;
      if (fresh) { screen.replaceChildren(); fresh = false; note("Nothing was written."); }
      next = said.attempt;
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
        if (walker.currentNode.parentElement.closest("pre")?.checkVisibility?.() === false) continue;
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
  for (const choice of place.querySelectorAll("input[name=stream]")) {
    choice.addEventListener("change", () => {
      screen.dataset.only = choice.value;
      settle();
    });
  }

  follow();
  // One that was over, and goes on: somebody has retried it.
  document.addEventListener("renewed", () => {
    const now = document.querySelector("#head [data-runs]");
    if (!place.dataset.ended || !now) return;
    const isOver = now.dataset.state === place.dataset.ended && Number(now.dataset.runs) < next;
    if (isOver) return;
    delete place.dataset.ended;
    follow();
  });
  // As the stream of news: what nobody looks at goes on from here when somebody does again.
  document.addEventListener("visibilitychange", () => (document.hidden ? rest() : follow()));
  addEventListener("pagehide", rest);
}

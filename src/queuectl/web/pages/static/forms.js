// Forms: what they send to the API, and what is wrong, beside the field that it is about.
"use strict";
{
  class Wrong extends Error {
    constructor(text, field) {
      super(text);
      this.field = field;
    }
  }

  // Lines as an object; a name may have a = in it where what follows is a number.
  function pairs(field, last, read) {
    const found = {};
    for (const line of field.value.split("\n").filter((one) => one.trim())) {
      const at = last ? line.lastIndexOf("=") : line.indexOf("=");
      if (at < 1) throw new Wrong(`A line is NAME=VALUE, not ${line}.`, field.name);
      found[line.slice(0, at).trim()] = read(line.slice(at + 1));
    }
    return found;
  }

  const number = (text) => (text.trim() === "" || Number.isNaN(Number(text)) ? text : Number(text));
  const READ = {
    text: (field) => field.value,
    number: (field) => number(field.value),
    words: (field) => field.value.split(",").map((one) => one.trim()).filter(Boolean),
    lines: (field) => field.value.split("\n"),
    pairs: (field) => pairs(field, false, (text) => text),
    numbers: (field) => {
      const before = pairs({ name: field.name, value: field.defaultValue }, true, () => null);
      return { ...before, ...pairs(field, true, number) };
    },
  };
  const was = (field) => {
    if (field.tagName === "SELECT") return [...field.options].find((one) => one.defaultSelected)?.value ?? "";
    return field.defaultValue;
  };

  function put(said, name, value) {
    const [first, rest] = name.split(".");
    if (rest === undefined) said[name] = value;
    else said[first] = { ...said[first], [rest]: value };
  }

  // What is sent: of something that is there, what has changed; of something new, what isn't empty.
  function body(form) {
    const said = {};
    const inPath = [...form.dataset.path.matchAll(/{(\w+)}/g)].map((found) => found[1]);
    for (const field of form.elements) {
      const { kind, empty } = field.dataset;
      if (!kind || inPath.includes(field.name)) continue;
      if (kind === "checks") {
        said[field.name] ??= [];
        if (field.checked) said[field.name].push(field.value);
        continue;
      }
      const changed = field.value !== was(field);
      if (field.required && !field.value.trim()) throw new Wrong("This is needed.", field.name);
      if (form.dataset.asks === "PATCH" || form.dataset.inside ? !changed : field.value === "") continue;
      if (field.value.trim() === "" && empty) put(said, field.name, JSON.parse(empty));
      else put(said, field.name, READ[kind](field));
    }
    return form.dataset.inside ? { [form.dataset.inside]: said } : said;
  }

  // Paths have the names of fields in them.
  const filled = (form, path) => path.replace(/{(\w+)}/g, (_, name) => {
    const field = form.elements[name];
    if (!field.value.trim()) throw new Wrong("This is needed.", name);
    return encodeURIComponent(field.value.trim());
  });

  function clear(form) {
    for (const place of form.querySelectorAll(".wrong")) place.textContent = "";
    for (const field of form.querySelectorAll("[aria-invalid]")) field.removeAttribute("aria-invalid");
    form.querySelector(".refused").hidden = true;
  }

  function refuse(form, error) {
    const names = [error.field, `job.${error.field}`];
    const field = [...form.querySelectorAll("[name], [data-name]")]
      .find((one) => names.includes(one.dataset.name ?? one.name));
    if (!error.field || !field) {
      const place = form.querySelector(".refused");
      place.textContent = error.message;
      place.hidden = false;
      return;
    }
    const shown = field.closest("fieldset") ?? field;
    shown.setAttribute("aria-invalid", "true");
    document.getElementById(`${shown.id}-wrong`).textContent = error.message;
    const closed = shown.closest("details");
    if (closed) closed.open = true;
    (shown === field ? field : shown.querySelector("input")).focus();
  }

  async function submit(form) {
    const button = form.querySelector("button.main");
    clear(form);
    button.disabled = true;
    try {
      const path = filled(form, form.dataset.path);
      const reply = await send(form.dataset.asks, path, body(form));
      const told = reply.status === 204 ? null : await reply.json();
      const { done, go } = form.dataset;
      if (go) {
        const made = told?.job ?? told;
        const known = [...document.querySelectorAll(".leaves li")].map((one) => one.textContent);
        const fresh = (told?.left_out ?? []).filter((one) => !known.includes(one));
        sayThere([done, ...fresh.map((one) => `Left out: ${one}`)].join(" "));
        location.assign(base + (go === "job" ? `/jobs/${encodeURIComponent(made.id)}` : filled(form, go)));
        return;
      }
      form.reset();
      await show(`The token ${told.token.name}`, told.secret);
      renew(true);
    } catch (error) {
      refuse(form, error);
    }
    button.disabled = false;
  }

  document.addEventListener("submit", (event) => {
    if (!event.target.dataset.asks) return;
    event.preventDefault();
    submit(event.target);
  });

  // -- the rule of a schedule, in words, before it is saved ----------------------------------------

  for (const form of document.querySelectorAll("form[data-preview]")) {
    const place = form.querySelector(".preview");
    const { rule, tz } = form.elements;
    let asked = 0;
    const show = async () => {
      asked += 1;
      const mine = asked;
      place.hidden = !rule.value.trim();
      if (place.hidden) return;
      const query = new URLSearchParams({ rule: rule.value, ...(tz.value.trim() ? { tz: tz.value } : {}) });
      try {
        const told = await (await send("GET", `/rule?${query}`)).json();
        if (mine !== asked) return;
        const times = $("ol", ...told.next.map((at) => {
          const time = $("time", at);
          time.dateTime = at;
          return $("li", time);
        }));
        times.className = "plain";
        place.replaceChildren($("p", `${told.in_words}, ${told.tz}. The next times, by your clock:`), times);
        localise(place);
      } catch (error) {
        if (mine === asked) place.replaceChildren($("p", error.message));
      }
    };
    let due = 0;
    const soon = () => {
      clearTimeout(due);
      due = setTimeout(show, 300);
    };
    rule.addEventListener("input", soon);
    tz.addEventListener("input", soon);
    show();
  }

  // -- a queue that nobody uses may be a slip ---------------------------------------------------------

  for (const field of document.querySelectorAll("form[data-asks] input[list=queues]")) {
    const place = document.getElementById(`${field.id}-wrong`);
    const known = [...document.getElementById("queues").options].map((one) => one.value);
    const look = async () => {
      const { value } = field;
      let text = "";
      if (value && !known.includes(value)) {
        text = await send("GET", `/queues/${encodeURIComponent(value)}`).then(() => "", (error) => error.message);
      }
      if (field.value === value) place.textContent = text;
    };
    let due = 0;
    // While it is typed, not as it is left: what moves then isn't where one clicks.
    field.addEventListener("input", () => {
      clearTimeout(due);
      due = setTimeout(look, 300);
    });
  }
}

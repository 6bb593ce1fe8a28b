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
      if (kind === "flag") {
        if (field.checked) said[field.name] = true;
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

  // Fields of boxes are known by the box around them.
  const shown = (field) => field.closest("fieldset") ?? field;
  const placeOf = (field) => document.getElementById(`${shown(field).id}-wrong`);

  function clear(field) {
    shown(field).removeAttribute("aria-invalid");
    placeOf(field).textContent = "";
  }

  const FIELD = "[data-kind]";

  function clearAll(form) {
    form.querySelectorAll(FIELD).forEach(clear);
    form.querySelector(".refused").hidden = true;
  }

  const labelled = (form, name) => {
    const field = form.querySelector(`[name="${name}"], [name="job.${name}"]`);
    return field?.labels[0]?.textContent.trim();
  };
  // Refusals name fields as programs know them.
  const inWords = (form, text) => text.replace(/\b[a-z]+(_[a-z]+)+\b/g, (name) => {
    const label = labelled(form, name);
    return label ? `“${label}”` : name;
  });

  function refuse(form, error) {
    const names = [error.field, `job.${error.field}`];
    const field = [...form.querySelectorAll(FIELD)].find((one) => names.includes(one.name));
    const text = inWords(form, error.message);
    if (!error.field || !field) {
      const place = form.querySelector(".refused");
      place.textContent = text;
      place.hidden = false;
      place.focus();
      return;
    }
    shown(field).setAttribute("aria-invalid", "true");
    placeOf(field).textContent = text;
    const closed = field.closest("details");
    if (closed) closed.open = true;
    field.focus();
  }

  // -- a queue that nobody uses may be a slip ---------------------------------------------------------

  const QUEUE = "input[list=queues]";
  const known = () => [...document.getElementById("queues").options].map((one) => one.value);

  // Says what is odd about the name of a queue, if something is.
  async function odd(field) {
    const { value } = field;
    if (!value || value === field.defaultValue || known().includes(value)) return "";
    const looked = send("GET", `/queues/${encodeURIComponent(value)}`);
    return looked.then(() => "", (error) => (error.status === 404 ? error.message : ""));
  }

  // However fast a form is sent, it isn't before that was asked.
  async function areMeant(form) {
    for (const field of form.querySelectorAll(QUEUE)) {
      const text = await odd(field);
      if (!text) continue;
      const about = (detail, good) => {
        detail.textContent = text;
        good.disabled = false;
        good.focus();
      };
      if (await ask(`Make a new queue ${field.value}?`, "Make it", "Change the name", about)) continue;
      placeOf(field).textContent = text;
      field.focus();
      return false;
    }
    return true;
  }

  async function submit(form) {
    const button = form.querySelector("button.main");
    clearAll(form);
    button.disabled = true;
    try {
      const path = filled(form, form.dataset.path);
      const said = body(form);
      if (await areMeant(form)) await told(form, await send(form.dataset.asks, path, said));
    } catch (error) {
      refuse(form, error);
    }
    button.disabled = false;
  }

  async function told(form, reply) {
    const said = reply.status === 204 ? null : await reply.json();
    const { done, go } = form.dataset;
    if (go) {
      const made = said?.job ?? said;
      const known = [...document.querySelectorAll(".leaves li")].map((one) => one.textContent);
      const fresh = (said?.left_out ?? []).filter((one) => !known.includes(one));
      sayThere([done, ...fresh.map((one) => `Left out: ${one}`)].join(" "));
      location.assign(base + (go === "job" ? `/jobs/${encodeURIComponent(made.id)}` : filled(form, go)));
      return;
    }
    form.reset();
    if (!said.secret) toast(done);
    else await show(said.token ? `The token ${said.token.name}` : `The secret of ${said.webhook.name}`, said.secret);
    renew(true);
  }

  document.addEventListener("submit", (event) => {
    if (!event.target.dataset.asks) return;
    event.preventDefault();
    submit(event.target);
  });

  // Looks once nothing more is typed.
  const pause = () => {
    let due = 0;
    return (look) => {
      clearTimeout(due);
      due = setTimeout(look, 300);
    };
  };

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
        for (const field of [rule, tz]) clear(field);
        const times = $("ol", ...told.next.map((at) => {
          const time = $("time", at);
          time.dateTime = at;
          return $("li", time);
        }));
        times.className = "plain";
        place.replaceChildren($("p", `${told.in_words}, ${told.tz}. The next times, by your clock:`), times);
        localise(place);
      } catch (error) {
        if (mine !== asked) return;
        place.hidden = true;
        const field = error.field === "tz" ? tz : rule;
        clear(field);
        placeOf(field).textContent = error.message;
      }
    };
    const soon = pause();
    for (const field of [rule, tz]) field.addEventListener("input", () => soon(show));
    show();
  }

  const soon = pause();
  document.addEventListener("input", (event) => {
    const field = event.target;
    if (!field.form?.dataset.asks || !field.dataset.kind) return;
    clear(field);
    field.form.querySelector(".refused").hidden = true;
    // While it is typed, not as it is left: what moves then isn't where one clicks.
    if (field.matches(QUEUE)) {
      const { value } = field;
      soon(async () => {
        const text = await odd(field);
        if (field.value === value) placeOf(field).textContent = text;
      });
    }
  });
}

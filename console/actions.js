// What an operator can do: a table. Each action says what will happen before it is done, asks for a reason, and carries what the
// operator saw, so that the server refuses it if that is no longer so.

import { Refused, get, pool as poolPath, post, put } from "./api.js";
import { h, say, show } from "./dom.js";
import { command, partOf, sentences, stateOf, units } from "./parts.js";
import { length, moment } from "./time.js";

const note = (required) => ({ name: "note", label: required ? "Reason" : "Reason (may be left out)", required });
const thing = ({ pool, resource }) => (resource ? `${resource.name} of ${pool.pool}` : pool.pool);
const whole = ({ pool, resource }) => (resource ? `“${resource.name}” of “${pool.pool}”` : `“${pool.pool}”`);

/** What the server says when the state is not what was seen. */
const TOO_LATE = new Set(["moved_on", "pool_changed", "unknown_pool", "unknown_resource"]);

const MINUTE = 60_000;
const minutes = (text) => (Number(text) > 0 ? Math.round(Number(text) * MINUTE) : undefined);
const reason = (hint) => ({ name: "reason", label: "Reason", required: true, hint });
const lasts = (hint) => ({ name: "lasts", label: "For how many minutes (may be left out)", type: "number", min: "1", max: "527040", hint });
const RETURNS = lasts("Afterwards it returns to service by itself.");

function setCondition({ pool, resource }, condition, minutesLong) {
  const seen = stateOf((resource ?? pool).condition);
  const query = { resource: resource?.name, state_was: seen, lasts_ms: minutes(minutesLong) };
  return put(`${poolPath(pool.pool)}/condition`, condition, query);
}

function untilReturned({ lasts }) {
  return minutes(lasts) ? `for ${length(minutes(lasts))}, unless it is returned before` : "until it is returned";
}

/** What a hold has, in words: all of it, if it is a set. */
function had(hold) {
  const own = hold.resources?.length ? hold.resources.join(", ") : units(hold.units);
  return [`${own} of “${hold.pool}”`, ...(hold.also ?? []).map((part) => `${partOf(part)} of “${part.pool}”`)].join(" and ");
}

function holdersGoOn({ pool, resource, heldBy }) {
  if (resource) return heldBy ? `${heldBy.holder} keeps it until it lets go. ` : "";
  return pool.holds > 0 ? `${pool.holds === 1 ? "The hold there is goes" : `The ${pool.holds} holds there are go`} on. ` : "";
}

function waitersWait({ pool, resource }) {
  if (resource || !pool.waiters) return "";
  return ` ${pool.waiters === 1 ? "The one who waits keeps waiting" : `The ${pool.waiters.toLocaleString()} who wait keep waiting`}.`;
}

/**
 * `offered` tells whether an action makes sense for what is there; `what` is what will happen, in sentences; `done` is said
 * afterwards. `fields` are asked for besides.
 */
export const ACTIONS = {
  force_release: {
    label: "Release by force",
    danger: true,
    offered: ({ hold }) => Boolean(hold),
    title: ({ hold }) => `Release “${hold.pool}” by force?`,
    what: ({ hold, next }) => [
      `${hold.holder} loses ${had(hold)} (token ${hold.token}) at once. It is not asked.`,
      next ? `${next.holder}, the next in the queue, may get it.` : "Nobody waits for it.",
      "If the holder is still at work, only a check of the token by what it writes to keeps it from doing harm.",
    ],
    fields: [reason("It is kept in the history, and told to the holder.")],
    run: ({ hold }, { reason }) =>
      post("/force-release", { pool: hold.pool, holder: hold.holder, token: hold.token, reason }),
    done: ({ hold }) => `Hold ${hold.token} of ${hold.holder} was released by force.`,
  },
  drain: {
    label: "Drain",
    offered: (seen) => !seen.pool.removing && stateOf((seen.resource ?? seen.pool).condition) !== "drained",
    title: (seen) => `Drain ${whole(seen)}?`,
    what: (seen, given) => [`${holdersGoOn(seen)}Nothing new is granted of ${whole(seen)} ${untilReturned(given)}.${waitersWait(seen)}`],
    fields: [note(false), RETURNS],
    run: (seen, { note, lasts }) => setCondition(seen, note ? { state: "drained", note } : { state: "drained" }, lasts),
    done: (seen) => `${thing(seen)} is drained.`,
  },
  quarantine: {
    label: "Quarantine",
    offered: (seen) => !seen.pool.removing && stateOf((seen.resource ?? seen.pool).condition) !== "quarantined",
    title: (seen) => `Quarantine ${whole(seen)}?`,
    what: (seen, given) => [
      `It is marked as suspected to be broken. ${holdersGoOn(seen)}Nothing new is granted of ${whole(seen)} ${untilReturned(given)}.${waitersWait(seen)}`,
    ],
    fields: [note(true), RETURNS],
    run: (seen, { note, lasts }) => setCondition(seen, { state: "quarantined", note }, lasts),
    done: (seen) => `${thing(seen)} is quarantined.`,
  },
  return: {
    label: "Return to service",
    offered: (seen) => !seen.pool.removing && stateOf((seen.resource ?? seen.pool).condition) !== "in_service",
    title: (seen) => `Return ${whole(seen)} to service?`,
    what: ({ pool }) => [
      pool.waiters ? "It is handed out again, at once to those who wait." : "It is handed out again to whoever asks.",
    ],
    fields: [],
    run: (seen) => setCondition(seen, { state: "in_service" }),
    done: (seen) => `${thing(seen)} is back in service.`,
  },
  resize: {
    label: "Resize",
    offered: ({ pool, resource }) => !pool.named && !pool.removing && !resource,
    title: ({ pool }) => `Resize “${pool.pool}”?`,
    what: ({ pool }, { units: wanted }) => {
      const size = Number(wanted);
      if (!Number.isInteger(size) || wanted === "") return [`“${pool.pool}” has ${units(pool.size)}, of which ${pool.used} are held.`];
      const sentences = [`“${pool.pool}” will have ${units(size)} instead of ${pool.size}.`];
      if (size < pool.used) sentences.push(`${pool.used} are held. Nobody loses theirs, and nothing is granted until fewer than ${size} are held.`);
      else if (size > pool.size && pool.waiters) sentences.push("Those who wait and fit are served at once.");
      if (!pool.declared) sentences.push("From then on it is a declared pool, and stays when nobody uses it.");
      return sentences;
    },
    fields: [{ name: "units", label: "Units", type: "number", required: true, from: ({ pool }) => String(pool.size) }],
    run: async ({ pool }, { units: wanted }) => {
      const { spec } = await get(poolPath(pool.pool));
      return put(poolPath(pool.pool), { ...spec, units: Number(wanted) }, { size_was: pool.size });
    },
    done: ({ pool }, { units: wanted }) => `${pool.pool} has ${wanted} units.`,
  },
  steal: {
    label: "Give to another",
    danger: true,
    offered: ({ hold, pool }) => Boolean(hold) && hold.lifetime !== "window" && !pool.removing,
    title: ({ hold }) => `Give what ${hold.holder} has of “${hold.pool}” to another?`,
    what: ({ hold }, { to, lasts }) => [
      `${hold.holder} loses ${had(hold)} (token ${hold.token}) at once. It is not asked.`,
      `${to || "The other"} has it from the same moment on, with a new token, for ${length(minutes(lasts) ?? MINUTE)} unless it is renewed. Whoever waits is passed over.`,
      "If the holder is still at work, only a check of the token by what it writes to keeps it from doing harm.",
    ],
    fields: [
      { name: "to", label: "Who gets it", required: true },
      { name: "lasts", label: "For how many minutes", type: "number", required: true, min: "1", max: "527040", from: () => "10" },
      reason("It is kept in the history, and told to the holder."),
    ],
    run: ({ hold }, { to, lasts, reason }) =>
      post("/steal", { pool: hold.pool, holder: hold.holder, token: hold.token, to, ttl_ms: minutes(lasts), reason }),
    done: ({ hold }, { to }) => `${to} has ${hold.pool} instead of ${hold.holder}.`,
    after: (_, { to }, grant) => [
      h("p", null, `It has token ${grant.token}. Only who has this key can renew it or release it. It is shown this once: pass it to ${to}.`),
      command(grant.key),
    ],
  },
  move: {
    label: "Move",
    // A set has the same place in all of its queues.
    offered: ({ waiter, others }) => Boolean(waiter) && others.length > 0 && !waiter.also?.length,
    title: ({ waiter, pool }) => `Move ${waiter.holder} in the queue of “${pool.pool}”?`,
    what: ({ waiter, others }, { before }) => {
      const other = others.find((it) => String(it.waiter) === before);
      if (!other) return [`${waiter.holder} will be the next to be served, before everybody who waits.`];
      return [`${waiter.holder} will be served directly before ${other.holder} (waiter ${other.waiter}), with its priority, ${other.priority ?? 0}.`];
    },
    fields: [
      {
        name: "before",
        label: "Before whom",
        options: ({ others }) => [["", "everybody"], ...others.map((it) => [String(it.waiter), `${it.holder} (waiter ${it.waiter})`])],
      },
      reason("It is kept in the history."),
    ],
    run: ({ pool, waiter }, { before, reason }) =>
      post("/move-waiter", { pool: pool.pool, waiter: waiter.waiter, holder: waiter.holder, ...(before && { before: Number(before) }), reason }),
    done: ({ waiter }) => `${waiter.holder} was moved.`,
  },
  reserve: {
    label: "Reserve",
    offered: ({ pool, resource }) => Boolean(resource) && !resource.leaving && !pool.removing,
    title: (seen) => `Reserve ${whole(seen)}?`,
    what: (seen, { holder, lasts }) => {
      const { reserved } = seen.resource;
      const end = minutes(lasts) ? `, for ${length(minutes(lasts))} at most` : "";
      return [
        `${holdersGoOn(seen)}Then only a request of ${holder || "the holder you name"} gets ${whole(seen)}, and that ends the reservation${end}.`,
        ...(reserved ? [`It is reserved for ${reserved.holder} now, who loses that.`] : []),
      ];
    },
    fields: [
      { name: "holder", label: "For whom", required: true },
      lasts("If nobody has come by then, it is for everybody again."),
      reason("Others see it while they wait."),
    ],
    run: ({ pool, resource }, { holder, lasts, reason }) =>
      post("/reserve", { pool: pool.pool, resource: resource.name, holder, lasts_ms: minutes(lasts), instead_of: resource.reserved?.holder, reason }),
    done: (seen, { holder }) => `${thing(seen)} is reserved for ${holder}.`,
  },
  unreserve: {
    label: "End the reservation",
    offered: ({ resource }) => Boolean(resource?.reserved),
    title: (seen) => `End the reservation of ${whole(seen)}?`,
    what: (seen) => [`It is no longer kept for ${seen.resource.reserved.holder}. ${seen.pool.waiters ? "Those who wait for it may get it at once." : "Whoever asks may get it."}`],
    fields: [reason("It is kept in the history.")],
    run: ({ pool, resource }, { reason }) =>
      post("/unreserve", { pool: pool.pool, resource: resource.name, holder: resource.reserved.holder, reason }),
    done: (seen) => `${thing(seen)} is no longer reserved.`,
  },
};

function about(seen) {
  if (seen.waiter) return `${seen.waiter.holder}, waiter ${seen.waiter.waiter} of ${seen.pool.pool}`;
  return seen.hold ? `${seen.hold.pool}, ${seen.hold.holder}, token ${seen.hold.token}` : thing(seen);
}

/** What is done more rarely: a button that offers a choice. Each of `choices` is what is seen and the names of actions. */
export function more(label, choices) {
  const there = choices.flatMap(([seen, names]) => buttons(seen, names));
  if (!there.length) return null;
  const open = () => {
    const dialog = document.getElementById("dialog");
    show(dialog);
    show(
      dialog,
      h(
        "form",
        { method: "dialog" },
        h("h2", null, label),
        h("div", { class: "choices" }, choices.flatMap(([seen, names]) => buttons(seen, names))),
        h("div", { class: "buttons" }, h("button", { class: "plain" }, "Cancel")),
      ),
    );
    dialog.setAttribute("aria-label", label);
    dialog.showModal();
    dialog.querySelector("button").focus();
  };
  return h("button", { type: "button", class: "small plain", "data-more": "", "aria-label": `More: ${label}`, onclick: open }, "More");
}

/** Buttons for what can be done here. */
export function buttons(seen, names, { small = false } = {}) {
  return names
    .filter((name) => ACTIONS[name].offered(seen))
    .map((name) => {
      const action = ACTIONS[name];
      return h(
        "button",
        {
          type: "button",
          class: `${small ? "small " : ""}${action.danger ? "danger" : ""}`,
          "data-action": name,
          "aria-label": `${action.label}: ${about(seen)}`,
          onclick: () => confirm(name, seen),
        },
        action.label,
      );
    });
}

/** Says what will happen, and does it if that is wanted. */
export function confirm(name, seen) {
  const action = ACTIONS[name];
  const dialog = document.getElementById("dialog");
  const given = Object.fromEntries(action.fields.map((field) => [field.name, field.from?.(seen) ?? ""]));
  let state = { busy: false, error: null, answer: null };
  const seenAt = Date.now();
  const draw = () => show(dialog, form());
  const act = async (event) => {
    event.preventDefault();
    if (state.busy) return;
    state = { ...state, busy: true, error: null };
    draw();
    try {
      const answer = await action.run(seen, given);
      if (action.after) {
        state = { busy: false, error: null, answer };
        draw();
      } else dialog.close();
      say(action.done(seen, given), { shown: true });
    } catch (error) {
      state = { busy: false, error, answer: null };
      draw();
    }
  };
  const outcome = () =>
    h(
      "div",
      { class: "outcome" },
      h("h2", null, action.done(seen, given)),
      action.after(seen, given, state.answer),
      h("div", { class: "buttons" }, h("button", { type: "button", class: "solid", onclick: () => dialog.close() }, "Close")),
    );
  const form = () =>
    state.answer ? outcome() :
    h(
      "form",
      { method: "dialog", onsubmit: act },
      h("h2", null, action.title(seen)),
      action.what(seen, given).map((text) => h("p", null, text)),
      action.fields.map((field) => input(field, seen, given, draw)),
      state.error && refused(state.error),
      h("p", { class: "muted" }, `As it stood at ${moment(seenAt)}. If it has changed since, nothing is done.`),
      h(
        "div",
        { class: "buttons" },
        h("button", { type: "button", class: "plain", onclick: () => dialog.close() }, state.error ? "Close" : "Cancel"),
        // What was decided on is no more: there is nothing to repeat.
        !TOO_LATE.has(state.error?.refusal?.code) &&
          h("button", { type: "submit", class: action.danger ? "danger solid" : "solid", disabled: state.busy }, state.busy ? "…" : action.label),
      ),
    );
  show(dialog);
  draw();
  dialog.setAttribute("aria-label", action.title(seen));
  if (!dialog.open) dialog.showModal();
  (dialog.querySelector("input, select") ?? dialog.querySelector("button[type=submit]")).focus();
}

function input(field, seen, given, draw) {
  const change = (event) => {
    given[field.name] = event.target.value;
    draw();
  };
  if (field.options) {
    const option = ([value, words]) => h("option", { value, selected: value === given[field.name] }, words);
    const options = field.options(seen).map(option);
    return h("label", { class: "field" }, h("span", null, field.label), h("select", { name: field.name, onchange: change }, options));
  }
  return h(
    "label",
    { class: "field" },
    h("span", null, field.label),
    h("input", {
      name: field.name,
      type: field.type ?? "text",
      required: field.required,
      min: field.type === "number" ? (field.min ?? "0") : null,
      max: field.type === "number" ? (field.max ?? "2147483647") : null,
      maxlength: field.type === "number" ? null : "1000",
      autocomplete: "off",
      value: given[field.name],
      oninput: change,
    }),
    field.hint && h("small", null, field.hint),
  );
}

function refused(error) {
  if (!(error instanceof Refused)) {
    const words = "The server did not answer, so it is not known whether this was done. Look again before you repeat it.";
    return h("p", { class: "refusal", role: "alert" }, words);
  }
  const { code, message, advice } = error.refusal;
  const lead = TOO_LATE.has(code) ? "Too late: nothing was done. " : "Nothing was done. ";
  return h("p", { class: "refusal", role: "alert", "data-code": code }, h("b", null, lead), sentences(message, advice));
}

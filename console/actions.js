// What an operator can do: a table. Each action says what will happen before it is done, asks for a reason, and carries what the
// operator saw, so that the server refuses it if that is no longer so.

import { Refused, get, pool as poolPath, post, put } from "./api.js";
import { h, say, show } from "./dom.js";
import { capital, stateOf, units } from "./parts.js";
import { moment } from "./time.js";

const note = (required) => ({ name: "note", label: required ? "Reason" : "Reason (may be left out)", required });
const thing = ({ pool, resource }) => (resource ? `${resource.name} of ${pool.pool}` : pool.pool);
const whole = ({ pool, resource }) => (resource ? `“${resource.name}” of “${pool.pool}”` : `“${pool.pool}”`);

/** What the server says when the state is not what was seen. */
const TOO_LATE = new Set(["moved_on", "pool_changed", "unknown_pool", "unknown_resource"]);

function setCondition({ pool, resource }, condition) {
  const seen = stateOf((resource ?? pool).condition);
  return put(`${poolPath(pool.pool)}/condition`, condition, { resource: resource?.name, state_was: seen });
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
      `${hold.holder} loses ${hold.resources?.length ? hold.resources.join(", ") : units(hold.units)} of “${hold.pool}” (token ${hold.token}) at once. It is not asked.`,
      next ? `${next.holder}, the next in the queue, may get it.` : "Nobody waits for it.",
      "If the holder is still at work, only a check of the token by what it writes to keeps it from doing harm.",
    ],
    fields: [{ name: "reason", label: "Reason", required: true, hint: "It is kept in the history, and told to the holder." }],
    run: ({ hold }, { reason }) =>
      post("/force-release", { pool: hold.pool, holder: hold.holder, token: hold.token, reason }),
    done: ({ hold }) => `Hold ${hold.token} of ${hold.holder} was released by force.`,
  },
  drain: {
    label: "Drain",
    offered: (seen) => !seen.pool.removing && stateOf((seen.resource ?? seen.pool).condition) !== "drained",
    title: (seen) => `Drain ${whole(seen)}?`,
    what: (seen) => [`${holdersGoOn(seen)}Nothing new is granted of ${whole(seen)} until it is returned.${waitersWait(seen)}`],
    fields: [note(false)],
    run: (seen, { note }) => setCondition(seen, note ? { state: "drained", note } : { state: "drained" }),
    done: (seen) => `${thing(seen)} is drained.`,
  },
  quarantine: {
    label: "Quarantine",
    offered: (seen) => !seen.pool.removing && stateOf((seen.resource ?? seen.pool).condition) !== "quarantined",
    title: (seen) => `Quarantine ${whole(seen)}?`,
    what: (seen) => [
      `It is marked as suspected to be broken. ${holdersGoOn(seen)}Nothing new is granted of ${whole(seen)} until it is returned.${waitersWait(seen)}`,
    ],
    fields: [note(true)],
    run: (seen, { note }) => setCondition(seen, { state: "quarantined", note }),
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
};

/** Buttons for what can be done here. */
export function buttons(seen, names, { small = false } = {}) {
  return names
    .filter((name) => ACTIONS[name].offered(seen))
    .map((name) => {
      const action = ACTIONS[name];
      const about = seen.hold ? `${seen.hold.pool}, ${seen.hold.holder}, token ${seen.hold.token}` : thing(seen);
      return h(
        "button",
        {
          type: "button",
          class: `${small ? "small " : ""}${action.danger ? "danger" : ""}`,
          "data-action": name,
          "aria-label": `${action.label}: ${about}`,
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
  let state = { busy: false, error: null };
  const seenAt = Date.now();
  const draw = () => show(dialog, form());
  const act = async (event) => {
    event.preventDefault();
    if (state.busy) return;
    state = { busy: true, error: null };
    draw();
    try {
      await action.run(seen, given);
      dialog.close();
      say(action.done(seen, given), { shown: true });
    } catch (error) {
      state = { busy: false, error };
      draw();
    }
  };
  const form = () =>
    h(
      "form",
      { method: "dialog", onsubmit: act },
      h("h2", null, action.title(seen)),
      action.what(seen, given).map((text) => h("p", null, text)),
      action.fields.map((field) => input(field, given, draw)),
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
  dialog.showModal();
  (dialog.querySelector("input") ?? dialog.querySelector("button[type=submit]")).focus();
}

function input(field, given, draw) {
  return h(
    "label",
    { class: "field" },
    h("span", null, field.label),
    h("input", {
      name: field.name,
      type: field.type ?? "text",
      required: field.required,
      min: field.type === "number" ? "0" : null,
      max: field.type === "number" ? "2147483647" : null,
      maxlength: field.type === "number" ? null : "1000",
      autocomplete: "off",
      value: given[field.name],
      oninput: (event) => {
        given[field.name] = event.target.value;
        draw();
      },
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
  return h("p", { class: "refusal", role: "alert", "data-code": code }, h("b", null, lead), `${capital(message)}. ${capital(advice ?? "")}.`);
}

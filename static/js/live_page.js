// Keeps a page as a reload would show it: the server renders it again, and what differs in the
// parts that are marked `data-live` is taken over. The live feed only rings; it is never the
// source of what is shown. So nothing can be missed, doubled or shown in two ways.

import { LiveFeed, throttled } from "./live_feed.js";

const QUIET_MS = 15000; // between two spoken words of progress
const WAIT_MS = 2000;
const LEFT_ALONE = new Set(["INPUT", "SELECT", "TEXTAREA"]); // the reader's, once they are there
const OWN_ATTRIBUTES = new Set(["open", "data-own"]); // changed by the reader, not by the server

export class LivePage {
  // `data`: feedUrl, db, types, rings ("all": every event; "status": only changes of status);
  // `page`, the address that shows this page, where it is not the one of the answer to a form;
  // `status` of a page that says what went wrong.
  constructor(data, words) {
    Object.assign(this, { data, words, state: "connecting", lostAt: null, saidAt: -Infinity });
    this.address = () => this.place().href; // what is read again
    this.onEvent = () => {};
    this.onPage = () => {}; // is given the document that was read
  }

  start() {
    const ms = Number(this.data.ms ?? 500);
    this.ring = throttled(() => this.read(), ms);
    new LiveFeed({
      url: this.data.feedUrl,
      name: this.data.db,
      types: this.data.types.split(" "),
      onEvent: (event) => this.hear(event),
      onCatchUp: this.ring,
      onState: (state) => this.showState(state),
    }).start();
    this.waitFor();
  }

  place() {
    return new URL(this.data.page ?? "", location);
  }

  hear(event) {
    if (this.data.run && String(event.run_id) !== this.data.run && event.type !== "status") return;
    if (this.data.rings === "all" || event.type === "status") this.ring();
  }

  async read() {
    const answer = await fetch(this.address(), {
      headers: { Accept: "text/html" },
      redirect: "manual",
      signal: AbortSignal.timeout(20000),
    });
    if (answer.type === "opaqueredirect") return this.tell(this.words.login_ended);
    const isAsBefore = answer.status === Number(this.data.status ?? 200);
    if (answer.status === 404 && !isAsBefore) return this.tell(this.words.gone);
    if (!isAsBefore) throw new Error(`${answer.url}: ${answer.status}`);
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    localise(fresh);
    this.take(fresh);
    this.onPage(fresh);
  }

  take(fresh) {
    const before = this.sentences();
    for (const part of document.querySelectorAll("[data-live]")) {
      const news = fresh.getElementById(part.id);
      if (news) morph(part, document.importNode(news, true));
    }
    if (document.title !== fresh.title) document.title = fresh.title;
    this.speak(before);
    this.waitFor();
  }

  // Something that no event tells of, such as counting, is looked for again after a while.
  waitFor() {
    clearTimeout(this.timer);
    if (document.querySelector("[data-waits]")) this.timer = setTimeout(this.ring, WAIT_MS);
  }

  // What may be read out: each sentence by its place.
  sentences() {
    return new Map(
      [...document.querySelectorAll("[data-say]")].map((node) => [node.dataset.sayKey, node.dataset.say]),
    );
  }

  speak(before) {
    const now = performance.now();
    const changed = [];
    for (const node of document.querySelectorAll("[data-say]")) {
      const { say, sayKey, sayWhen } = node.dataset;
      const isNews = before.has(sayKey) && before.get(sayKey) !== say;
      if (sayWhen === "slow" ? now - this.saidAt > QUIET_MS && say !== this.lastSlow : isNews) changed.push(say);
      if (sayWhen === "slow" && changed.at(-1) === say) this.lastSlow = say;
    }
    if (!changed.length) return;
    this.saidAt = now;
    document.getElementById("said").textContent = changed.join(". ");
  }

  showState(state) {
    if (state === "lost") this.lostAt ??= new Date();
    if (state === "live") this.lostAt = null;
    // A page that was never live yet says nothing but that it connects.
    const isLost = state !== "live" && this.lostAt !== null;
    for (const node of document.querySelectorAll("[data-feed-state]")) {
      node.dataset.state = isLost ? "lost" : state;
      node.textContent = isLost ? this.words.lost : this.words[state];
    }
    const time = this.lostAt?.toLocaleTimeString(root().lang);
    if (!this.isOver) this.tell(isLost ? this.words.lost_since.replace("{time}", time) : "", false);
    if (isLost) this.ring(); // to learn whether it is the login that has ended
  }

  // A note on top of the page. With `isOver` nothing more will come, whatever the feed says.
  tell(text, isOver = true) {
    this.isOver ||= isOver;
    const note = document.getElementById("connection");
    const line = note.querySelector("p");
    note.hidden = !text;
    if (line.textContent !== text) line.textContent = text;
  }
}

const root = () => document.documentElement;

// Times in the reader's zone and language; hovering tells UTC, as logs and the API have it.
export function localise(tree) {
  const format = new Intl.DateTimeFormat(root().lang, { dateStyle: "medium", timeStyle: "medium" });
  const zone = new Intl.DateTimeFormat(root().lang, { timeZoneName: "short" });
  for (const node of tree.querySelectorAll("time[datetime]")) {
    const at = new Date(node.dateTime);
    node.title = `${node.dateTime.slice(0, 19).replace("T", " ")} UTC`;
    const name = zone.formatToParts(at).find((part) => part.type === "timeZoneName").value;
    const { form } = node.dataset;
    const whole = `${format.format(at)} ${name}`;
    if (form === "ago") node.title = `${whole}, ${node.title}`;
    node.textContent =
      form === "ago" ? agoText(at) : form === "clock" ? at.toLocaleTimeString(root().lang) : whole;
  }
}

const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];

function agoText(at) {
  const seconds = (at - Date.now()) / 1000;
  const [unit, size] = UNITS.find(([, size]) => Math.abs(seconds) >= size) ?? UNITS.at(-1);
  const format = new Intl.RelativeTimeFormat(root().lang, { numeric: "always", style: "short" });
  return format.format(Math.trunc(seconds / size), unit);
}

// Makes `old` equal to `fresh` and touches nothing that is equal already, so that focus,
// selection, scrolling and open menus stay. Children are known by id or `data-key`.
export function morph(old, fresh) {
  if (LEFT_ALONE.has(old.nodeName)) return;
  takeAttributes(old, fresh);
  const known = new Map();
  for (const child of old.children) if (keyOf(child)) known.set(keyOf(child), child);
  let place = old.firstChild;
  for (const child of [...fresh.childNodes]) {
    const key = keyOf(child);
    let match = key ? known.get(key) : isAlike(place, child) ? place : null;
    if (match) {
      if (match === place) place = place.nextSibling;
      else old.insertBefore(match, place);
      if (child.nodeType !== Node.ELEMENT_NODE) {
        if (match.data !== child.data) match.data = child.data;
      } else morph(match, child);
    } else {
      old.insertBefore(child, place);
    }
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

function isAlike(one, other) {
  return one && one.nodeName === other.nodeName && !keyOf(one) && !keyOf(other);
}

function keyOf(node) {
  return node.id || node.dataset?.key || "";
}

function takeAttributes(old, fresh) {
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value && !OWN_ATTRIBUTES.has(name)) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !OWN_ATTRIBUTES.has(name)) old.removeAttribute(name);
  }
}

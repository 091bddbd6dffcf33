// The live events of one database, for however many tabs show it.
//
// A browser opens six connections to a server and no more, so the tabs share one stream: the
// tab that holds the lock has the EventSource and passes each event on through a channel. The
// stream is live only. A tab that may have missed something (it was hidden, the stream was
// opened anew) is told to catch up, and reads what is stored.

const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 30000;

export class LiveFeed {
  // onEvent(event), onCatchUp(), onState("connecting" | "live" | "lost")
  constructor({ url, name, types, onEvent, onCatchUp, onState }) {
    Object.assign(this, { url, types, onEvent, onCatchUp, onState });
    this.name = `gligabao-feed-${name}`;
    this.visit = null;
  }

  start() {
    const follow = () => (document.hidden ? this.leave() : this.enter());
    document.addEventListener("visibilitychange", follow);
    window.addEventListener("pagehide", () => this.leave());
    window.addEventListener("pageshow", follow);
    follow();
  }

  // From the moment the page is seen.
  enter() {
    if (this.visit) return;
    const visit = { abort: new AbortController(), source: null, timer: 0, isLive: false };
    visit.channel = new BroadcastChannel(this.name);
    visit.channel.onmessage = ({ data }) => this.hear(visit, data);
    this.visit = visit;
    this.onState("connecting");
    visit.channel.postMessage({ kind: "hello" });
    this.wantToLead(visit);
  }

  // Until it is hidden or left. The lock goes to another tab.
  leave() {
    const visit = this.visit;
    if (!visit) return;
    this.visit = null;
    visit.abort.abort();
    visit.source?.close();
    clearTimeout(visit.timer);
    visit.channel.close();
  }

  async wantToLead(visit) {
    const over = new Promise((resolve) => visit.abort.signal.addEventListener("abort", resolve));
    const lead = () => {
      if (this.visit === visit) {
        visit.isLeader = true;
        this.open(visit, FIRST_PAUSE_MS);
      }
      return over;
    };
    // Browsers have locks on https and on this machine only. Elsewhere each seen tab leads.
    if (!navigator.locks) return lead();
    try {
      await navigator.locks.request(this.name, { signal: visit.abort.signal }, lead);
    } catch (error) {
      if (error.name !== "AbortError") throw error;
    }
  }

  open(visit, pause) {
    const source = new EventSource(this.url);
    visit.source = source;
    source.onopen = () => {
      pause = FIRST_PAUSE_MS;
      this.tell(visit, { kind: "open" });
    };
    source.onerror = () => {
      source.close();
      this.tell(visit, { kind: "lost" });
      visit.timer = setTimeout(() => this.open(visit, Math.min(pause * 2, LONGEST_PAUSE_MS)), pause);
    };
    for (const type of this.types) {
      source.addEventListener(type, (message) => {
        this.tell(visit, { kind: "event", event: JSON.parse(message.data) });
      });
    }
  }

  // To the other tabs and to our own page.
  tell(visit, data) {
    visit.channel.postMessage(data);
    this.hear(visit, data);
  }

  hear(visit, data) {
    if (this.visit !== visit) return;
    if (data.kind === "event") {
      this.onEvent(data.event);
    } else if (data.kind === "hello") {
      if (visit.isLeader && visit.isLive) visit.channel.postMessage({ kind: "live" });
    } else {
      // Whoever just came, and all when the stream is opened anew, may have missed something.
      const isNews = data.kind === "open" || (data.kind === "live" && !visit.isLive);
      visit.isLive = data.kind !== "lost";
      this.onState(visit.isLive ? "live" : "lost");
      if (isNews) this.onCatchUp();
    }
  }
}

// Calls `work` soon, at most once per `ms` and never twice at a time. What failed is tried
// again, later each time. Nothing is done while the page is hidden: once seen it catches up.
export function throttled(work, ms) {
  let timer = 0;
  let isBusy = false;
  let isWanted = false;
  let pause = ms;
  let endedAt = -Infinity;
  const plan = () => {
    timer ||= setTimeout(run, Math.max(0, endedAt + pause - performance.now()));
  };
  const run = async () => {
    timer = 0;
    if (document.hidden) return;
    isBusy = true;
    isWanted = false;
    try {
      await work();
      pause = ms;
    } catch (error) {
      console.warn(String(error));
      isWanted = true;
      pause = Math.min(pause * 2, LONGEST_PAUSE_MS);
    }
    isBusy = false;
    endedAt = performance.now();
    if (isWanted) plan();
  };
  return () => {
    isWanted = true;
    if (!isBusy) plan();
  };
}

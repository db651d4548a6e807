// The page's time. It passes as it does, and besides when `pass` or `sleep` says so.
const RealDate = Date;
const real = {
  now: RealDate.now,
  monotonic: performance.now.bind(performance),
  setTimeout: setTimeout.bind(window),
  clearTimeout: clearTimeout.bind(window),
};
/** Milliseconds by which timers and clocks are ahead, and those that a wall clock has gone on while all else slept. */
let [ahead, slept] = [0, 0];
const timers = new Map();
let lastId = 0;

const monotonic = () => real.monotonic() + ahead;
const wall = () => real.now() + ahead + slept;

function arm(timer) {
  real.clearTimeout(timer.handle);
  timer.handle = real.setTimeout(() => fire(timer), Math.max(0, timer.at - monotonic()));
}

function fire(timer) {
  real.clearTimeout(timer.handle);
  if (!timers.has(timer.id)) return;
  if (timer.every === undefined) timers.delete(timer.id);
  else {
    timer.at += timer.every;
    arm(timer);
  }
  timer.call();
}

function begin(call, ms, every) {
  lastId += 1;
  const timer = { id: lastId, call, at: monotonic() + ms, every };
  timers.set(timer.id, timer);
  arm(timer);
  return timer.id;
}

function end(id) {
  real.clearTimeout(timers.get(id)?.handle);
  timers.delete(id);
}

window.setTimeout = (call, ms = 0, ...given) => begin(() => call(...given), Number(ms) || 0);
window.setInterval = (call, ms = 0, ...given) => begin(() => call(...given), Number(ms) || 0, Math.max(4, Number(ms) || 0));
window.clearTimeout = window.clearInterval = end;
performance.now = monotonic;
window.Date = class extends RealDate {
  constructor(...given) {
    super(...(given.length === 0 ? [wall()] : given));
  }
  static now() {
    return wall();
  }
};
AbortSignal.timeout = (ms) => {
  const timeout = new AbortController();
  begin(() => timeout.abort(new DOMException("signal timed out", "TimeoutError")), ms);
  return timeout.signal;
};

function nextTimer(until) {
  const due = [...timers.values()].filter(({ at }) => at <= until);
  return due.length === 0 ? undefined : due.reduce((first, timer) => (timer.at < first.at ? timer : first));
}

/** What the browser's own clock says. */
export const now = real.now;

/** Lets so many milliseconds pass: every timer that is due meanwhile fires, one after the other. */
export async function pass(ms) {
  const until = monotonic() + ms;
  for (let timer = nextTimer(until); timer !== undefined; timer = nextTimer(until)) {
    ahead += Math.max(0, timer.at - monotonic());
    fire(timer);
    await new Promise((resolve) => real.setTimeout(resolve)); // what it has begun goes on
  }
  ahead += Math.max(0, until - monotonic());
  timers.forEach(arm);
}

/** The machine has slept for so long: its wall clock is later, and no timer has counted the time. */
export function sleep(ms) {
  slept += ms;
}

/** Resolves when `isSo`, or after `patienceMs`; whether it is so. Real milliseconds. */
export async function until(isSo, patienceMs) {
  const giveUpAt = real.monotonic() + patienceMs;
  while (!isSo() && real.monotonic() < giveUpAt) await new Promise((resolve) => real.setTimeout(resolve, 20));
  return isSo();
}

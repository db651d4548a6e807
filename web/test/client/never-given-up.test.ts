import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { ConnectOptions, TransportName } from "../../src/client/api.ts";
import { EvenflowClient } from "../../src/client/client.ts";
import { Asked, pass } from "./asked.ts";
import { FakeEventStream } from "./fake-event-stream.ts";
import { FakeNetwork, json, type Path, poll, refusal } from "./fake-network.ts";
import { FakePage } from "./fake-page.ts";

const RESPONSE = "GET /chat/message/rsp_1";
const EVENTS = "GET /chat/message/rsp_1/events";
const LADDERS: readonly TransportName[] = ["websocket", "sse", "long-poll"];

let network: FakeNetwork;
let page: FakePage;
/** What the server has of the answer: its last index. */
let written: number;

beforeEach(() => {
  vi.useFakeTimers();
  network = new FakeNetwork();
  network.random = () => 0.999;
  page = new FakePage();
  written = 0;
  network.onSocket = (socket) => {
    queueMicrotask(() => socket.ready());
    socket.onSend = ({ type, after = -1 }) => {
      if (type === "ping") queueMicrotask(() => network.path === "up" && socket.frame({ type: "pong" }));
      if (type !== "response.resume") return;
      queueMicrotask(() => {
        socket.start({ message_id: "id-1", next_index: (after as number) + 1 });
        for (let index = (after as number) + 1; index <= written; index += 1) socket.delta(index, `${index} `);
      });
    };
  };
  network.on("POST /chat/message", () => json(202, { response_id: "rsp_1", message_id: "id-1", status: "queued" }));
  network.on(RESPONSE, (call) => {
    const from = Number(new URL(call.path, "http://test").searchParams.get("from_index"));
    const news = Array.from({ length: Math.max(0, written + 1 - from) }, (_, index) => `${from + index} `);
    return poll(from, news.join(""), news.length, "streaming")();
  });
  network.on(EVENTS, (call) => {
    const stream = new FakeEventStream(call);
    const after = Number(new URL(call.path, "http://test").searchParams.get("after"));
    for (let index = after + 1; index <= written; index += 1) stream.delta(index, `${index} `);
    return stream.response;
  });
});

afterEach(() => {
  vi.useRealTimers();
});

function newClient(options: ConnectOptions = {}): EvenflowClient {
  return new EvenflowClient({ url: "http://test", ...options });
}

/** An answer of which the first words are there. */
async function reading(client = newClient()): Promise<Asked> {
  const asked = new Asked(client);
  await pass();
  const socket = network.sockets.at(-1);
  socket?.start();
  socket?.delta(0, "0 ");
  await pass(300);
  expect(asked.text).toBe("0 ");
  return asked;
}

/** The path is this from now on; connections end with it where that is told. */
function cut(path: Path): void {
  network.path = path;
  if (path === "refused") for (const socket of network.sockets) socket.drop();
}

/** The path is well again, and the server has more; returns how long it takes until that is there, in milliseconds. */
async function untilBack(asked: Asked): Promise<number> {
  network.path = "up";
  written += 1;
  const backAt = Date.now();
  while (!asked.text.endsWith(`${written} `) && Date.now() - backAt < 30_000) await pass(20);
  return Date.now() - backAt;
}

function tries(): number {
  return network.sockets.length + network.calls.length;
}

describe("an accepted answer is never given up", () => {
  it.each(["refused", "dark", "portal"] as const)("while the path is %s, for an hour", async (path) => {
    const asked = await reading();
    cut(path);
    if (path === "portal") network.socket.drop();
    await pass(3_600_000);
    expect([asked.ended, asked.error, asked.of("transport").length]).toEqual([false, undefined, 1]);
    expect(await untilBack(asked)).toBeLessThanOrEqual(14_000);
    expect(network.sockets.flatMap((socket) => socket.sentOf("chat.message"))).toHaveLength(1);
  });

  const OUTAGES_S = [1, 2, 5, 20, 60, 300];

  it.each(OUTAGES_S)("and is there again within 2 s of the path's return, after %i s of refusals", async (seconds) => {
    const asked = await reading();
    cut("refused");
    await pass(seconds * 1_000);
    expect(await untilBack(asked)).toBeLessThanOrEqual(2_020);
    expect(asked.of("transport")).toHaveLength(1);
  });

  it.each(OUTAGES_S.slice(2))("the same after %i s of a black hole, of which nothing comes back", async (seconds) => {
    const asked = await reading();
    cut("dark");
    await pass(seconds * 1_000);
    // Here nothing is sent again, as TCP does it: the try that hangs ends first.
    expect(await untilBack(asked)).toBeLessThanOrEqual(4_020);
  });

  it.each(LADDERS)("by %s as well", async (transport) => {
    const client = newClient({ transports: [transport] });
    const asked = new Asked(client);
    await pass();
    if (transport === "websocket") network.socket.start();
    await pass(300);
    cut("dark");
    for (const socket of network.sockets) socket.drop();
    await pass(100_000);
    expect(asked.ended).toBe(false);
    expect(await untilBack(asked)).toBeLessThanOrEqual(5_000);
  });

  it.each([5, 20, 60])(
    "by event streams within 2 s of the path's return after %i s, and not by polls",
    async (seconds) => {
      const asked = await reading(newClient({ transports: ["sse", "long-poll"] }));
      cut("dark");
      await pass(seconds * 1_000);
      expect(await untilBack(asked)).toBeLessThanOrEqual(2_020);
      expect(asked.of("transport")).toHaveLength(1);
    },
  );

  it("though the server refuses it for the moment again and again", async () => {
    const later = () => refusal(503, { type: "overloaded_error", code: "response_elsewhere" }, { "Retry-After": "1" });
    const asked = new Asked(newClient({ transports: ["long-poll"] }));
    await pass(100);
    network.on(RESPONSE, later);
    await pass(600_000);
    expect(asked.ended).toBe(false);
  });

  it("but for what the server refuses for good", async () => {
    const asked = new Asked(newClient({ transports: ["long-poll"] }));
    await pass(100);
    network.on(RESPONSE, () => refusal(410, { type: "not_found_error", code: "response_expired" }));
    await pass(1_000);
    expect(asked.error).toMatchObject({ kind: "refused", body: { code: "response_expired" } });
  });

  it("nor is a question that was never accepted: its reader may stop it", async () => {
    network.path = "refused";
    const asked = new Asked(newClient());
    await pass(600_000);
    expect([asked.ended, asked.of("reconnecting").length > 100]).toEqual([false, true]);
    void asked.answer.stop();
    await pass();
    expect(asked.answer.state).toBe("stopped");
  });
});

describe("handshakes that hang, whose connections Firefox keeps, leave some of its six for others", () => {
  const hanging = () => network.sockets.filter(({ hangs }) => hangs).length;

  it("in a black hole, after which the WebSocket is had again at once", async () => {
    const asked = await reading();
    cut("dark");
    await pass(60_000);
    expect(hanging()).toBe(2);
    expect(await untilBack(asked)).toBeLessThanOrEqual(2_020);
    expect(asked.of("transport")).toHaveLength(1);
  });

  it("also while a reader wakes it up again and again", async () => {
    const asked = await reading();
    cut("dark");
    for (let times = 0; times < 60; times += 1) {
      await pass(1_000);
      page.fire("focus");
    }
    expect(hanging()).toBe(3);
    await pass(1_300);
    network.path = "up";
    written = 1;
    page.connect(true);
    await pass(100);
    expect(asked.text).toBe("0 1 ");
  });

  it("but one is begun at once when the network may be back: HTTP has dead connections to find out about first", async () => {
    const asked = await reading();
    cut("dark");
    await pass(60_000);
    network.path = "up";
    network.on("GET /chat/message/none", () => new Promise(() => {}));
    written = 1;
    page.connect(true);
    await pass(100);
    expect(asked.text).toBe("0 1 ");
  });

  it("nor do calls to the same address wait for each other, as they would in a browser's cache", async () => {
    await reading();
    cut("dark");
    await pass(20_000);
    expect(new Set(network.calls.map(({ cache }) => cache))).toEqual(new Set(["no-store"]));
  });

  it("where a proxy swallows WebSockets alone", async () => {
    const asked = await reading();
    network.onSocket = () => {};
    network.socket.drop();
    for (; written < 250; written += 1) await pass(1_000);
    expect(hanging()).toBeLessThanOrEqual(4);
    expect(asked.of("transport").at(-1)).toMatchObject({ transport: "sse" });
  });
});

describe("the next transport", () => {
  it("is not used while nothing is reached, and is when HTTP is and the WebSocket is not", async () => {
    const asked = await reading();
    cut("refused");
    await pass(60_000);
    expect(asked.of("transport")).toHaveLength(1);
    network.takesWebSockets = false;
    expect(await untilBack(asked)).toBeLessThanOrEqual(2_600);
    expect(asked.of("transport").at(-1)).toEqual({ type: "transport", transport: "sse", fallback: true });
  });

  it("is left by itself once the WebSocket can be had", async () => {
    network.takesWebSockets = false;
    const asked = await reading(newClient({ transports: ["websocket", "long-poll"] }));
    network.takesWebSockets = true;
    for (let index = 0; index < 40; index += 1) {
      written += 1;
      await pass(250);
    }
    expect(asked.of("transport").map(({ transport }) => transport)).toEqual(["long-poll", "websocket"]);
  });

  it("is used where connections open and bring nothing, again and again", async () => {
    const asked = await reading();
    network.onSocket = (socket) => {
      queueMicrotask(() => socket.ready());
      socket.onSend = () => queueMicrotask(() => socket.drop());
    };
    network.socket.drop();
    written = 1;
    await pass(10_000);
    expect([asked.of("transport").map(({ transport }) => transport), asked.text]).toEqual([
      ["websocket", "sse"],
      "0 1 ",
    ]);
  });

  it("is not left again and again for connections that open and bring nothing", async () => {
    network.onSocket = (socket) => {
      queueMicrotask(() => socket.ready());
      socket.onSend = () => queueMicrotask(() => socket.drop());
    };
    const client = newClient({ transports: ["websocket", "long-poll"] });
    const asked = new Asked(client);
    for (let index = 0; index < 160; index += 1) {
      written += 1;
      await pass(250);
    }
    const ways = asked.of("transport").map(({ transport }) => transport);
    expect(ways).toEqual(["websocket", "long-poll", "websocket", "long-poll"]);
    void asked.answer.stop();
    await pass(4_000);
    const next = new Asked(client, "And then?");
    await pass(100);
    expect(next.of("transport")).toEqual([{ type: "transport", transport: "long-poll", fallback: true }]);
  });

  it("is not used for a question while nothing is reached", async () => {
    network.path = "dark";
    const asked = new Asked(newClient());
    await pass(30_000);
    expect(asked.of("transport")).toEqual([]);
  });
});

describe("a try is made at once", () => {
  it.each(["online", "focus", "pageshow", "change"])("on %s", async (event) => {
    const asked = await reading();
    cut("refused");
    await pass(3_600_000);
    network.path = "up";
    written = 1;
    const before = tries();
    page.fire(event);
    await pass(50);
    expect([tries() > before, asked.text]).toEqual([true, "0 1 "]);
  });

  it("when the reader comes back to the tab", async () => {
    const asked = await reading();
    page.show(false);
    cut("refused");
    await pass(60_000);
    network.path = "up";
    written = 1;
    page.show(true);
    await pass(50);
    expect(asked.text).toBe("0 1 ");
  });

  it("on reconnect()", async () => {
    const client = newClient();
    const asked = await reading(client);
    cut("refused");
    await pass(3_600_000);
    network.path = "up";
    written = 1;
    client.reconnect();
    await pass(50);
    expect(asked.text).toBe("0 1 ");
  });

  it("by reconnect() while nothing is asked, too", async () => {
    const client = newClient();
    network.path = "refused";
    await client.open();
    expect(client.connection).toBe("waiting");
    network.path = "up";
    client.reconnect();
    await pass(50);
    expect(client.connection).toBe("open");
  });

  it("also in the place of one that hangs in a black hole", async () => {
    const asked = await reading();
    cut("dark");
    await pass(10_200);
    network.path = "up";
    written = 1;
    page.connect(true);
    await pass(200);
    expect(asked.text).toBe("0 1 ");
  });

  it.each(LADDERS)("and beside a connection that may be dead, by %s", async (transport) => {
    const client = newClient({ transports: [transport] });
    const asked = new Asked(client);
    await pass();
    if (transport === "websocket") {
      network.socket.start();
      network.socket.delta(0, "0 ");
    }
    await pass(500);
    expect(asked.text).toBe("0 ");
    // Of what is open nothing comes any more.
    const [dead] = network.sockets;
    if (dead) dead.onSend = () => {};
    written = 1;
    page.connect(true);
    await pass(300);
    expect([asked.text, asked.of("reconnecting")]).toEqual(["0 1 ", []]);
  });

  it("but not where the connection answers", async () => {
    await reading();
    page.fire("focus");
    await pass(200);
    expect([network.sockets.length, network.socket.sentOf("ping").length]).toEqual([1, 1]);
  });

  it("nor before the time that the server has said", async () => {
    await reading();
    network.socket.frame({ type: "reconnect", reason: "drain", after_ms: 5_000 });
    network.socket.drop(1001);
    await pass();
    page.fire("focus");
    await pass(4_900);
    expect(network.sockets).toHaveLength(1);
  });
});

describe("what is out of reach is tried seldom", () => {
  /** The tries of a minute. */
  async function triesOfAMinute(): Promise<number> {
    const before = network.sockets.length;
    await pass(60_000);
    return network.sockets.length - before;
  }

  it("in a hidden tab, after a node that was lost would have been replaced", async () => {
    await reading();
    page.show(false);
    cut("refused");
    await pass(4_000);
    expect(network.sockets.length).toBeGreaterThanOrEqual(5);
    const tried = await triesOfAMinute();
    expect(tried).toBeGreaterThanOrEqual(5);
    expect(tried).toBeLessThanOrEqual(13);
  });

  it("where the browser says that there is no network, and not never: it may be wrong", async () => {
    const asked = await reading();
    page.isOnline = false;
    cut("refused");
    const tried = await triesOfAMinute();
    expect(tried).toBeGreaterThanOrEqual(5);
    expect(tried).toBeLessThanOrEqual(13);
    expect(await untilBack(asked)).toBeLessThanOrEqual(10_500);
  });

  it("after ten minutes, and often again once the reader is back", async () => {
    await reading();
    cut("refused");
    expect(await triesOfAMinute()).toBeGreaterThanOrEqual(29);
    await pass(600_000);
    expect(await triesOfAMinute()).toBeLessThanOrEqual(13);
    page.fire("focus");
    expect(await triesOfAMinute()).toBeGreaterThanOrEqual(29);
  });
});

describe("a login page in the server's place", () => {
  it.each(LADDERS)("is neither an answer nor a refusal, by %s", async (transport) => {
    const client = newClient({ transports: [transport] });
    const asked = new Asked(client);
    await pass(100);
    if (transport === "websocket") network.socket.start();
    await pass(300);
    network.path = "portal";
    for (const socket of network.sockets) socket.drop();
    await pass(60_000);
    expect([asked.ended, asked.error]).toEqual([false, undefined]);
    expect(await untilBack(asked)).toBeLessThanOrEqual(5_000);
  });

  it("does not keep a reader who wants to stop", async () => {
    const asked = await reading(newClient({ transports: ["long-poll"] }));
    network.path = "portal";
    void asked.answer.stop();
    await pass(3_100);
    expect(asked.answer.state).toBe("stopped");
  });

  it("makes no session", async () => {
    network.path = "portal";
    const asked = new Asked(newClient());
    await pass(60_000);
    expect(asked.ended).toBe(false);
  });
});

describe("a line that is slow is not taken for a dead one", () => {
  it("though what comes first takes long, connection after connection", async () => {
    const asked = await reading(newClient({ transports: ["websocket"] }));
    // 16 KB at 1 KB/s.
    network.onSocket = (socket) => {
      queueMicrotask(() => socket.ready());
      socket.onSend = ({ type }) => {
        if (type !== "response.resume") return;
        socket.start({ message_id: "id-1", next_index: 1 });
        setTimeout(() => socket.closedByClient || socket.delta(1, "1 "), 16_000);
      };
    };
    network.socket.drop();
    await pass(90_000);
    expect(asked.text).toBe("0 1 ");
  });

  it("and every third try has longer", async () => {
    const asked = await reading();
    cut("dark");
    await pass(20_000);
    network.path = "up";
    written = 1;
    const { onSocket } = network;
    network.onSocket = (socket) => setTimeout(() => socket.closedByClient || onSocket(socket), 3_500);
    network.on("GET /chat/message/none", async (call) => {
      await new Promise((resolve) => setTimeout(resolve, 3_400));
      if (call.signal?.aborted) throw call.signal.reason;
      return refusal(404, { type: "not_found_error", code: "response_not_found" });
    });
    await pass(30_000);
    expect(asked.text).toBe("0 1 ");
  });
});
